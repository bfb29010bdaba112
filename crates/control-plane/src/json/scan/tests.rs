use super::*;
use proptest::prelude::*;

fn check(body: impl AsRef<[u8]>) -> Result<Top, ScanError> {
    scan(body.as_ref())
}

#[test]
fn json_is_told_from_what_only_looks_like_it() {
    for good in [
        "{}",
        " [ ] ",
        "null",
        "-0.5e-3",
        r#"{"a":[1,2,{"b":null}],"c":"\u0000\ud83d\ude00\n"}"#,
        r#"{"a":{"k":1},"b":{"k":1}}"#,
        "\"\u{7f}é\"",
        "[true,false]",
    ] {
        assert!(check(good).is_ok(), "{good}");
    }
    for bad in [
        "",
        " ",
        "{",
        "[",
        "\"",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1",
        "{\"a\":1,",
        "{\"a\":1,}",
        "[1,]",
        "[,]",
        "{,}",
        "{a:1}",
        "{'a':1}",
        "{\"a\" 1}",
        "{} {}",
        "{}x",
        "[1]]",
        "[1}",
        "{\"a\":1]",
        "// no\n{}",
        "01",
        "1.",
        ".5",
        "+1",
        "-",
        "1e",
        "1e+",
        "NaN",
        "Infinity",
        "-Infinity",
        "nul",
        "truee",
        "\"\\x\"",
        "\"\\u12g4\"",
        "\"\\u12",
        "\"a\u{0}b\"",
        "\"a\nb\"",
        "\u{feff}{}",
    ] {
        assert!(
            matches!(check(bad), Err(ScanError::Syntax(_))),
            "{bad:?}: {:?}",
            check(bad)
        );
    }
}

#[test]
fn each_fault_has_its_own_word() {
    assert_eq!(check(b"\"\xff\""), Err(ScanError::Utf8(1)));
    assert_eq!(check(b"\"\xc0\xaf\""), Err(ScanError::Utf8(1)), "overlong");
    assert_eq!(check(b"\"\xed\xa0\x80\""), Err(ScanError::Utf8(1)), "a surrogate");
    for lone in [
        r#""\ud800""#,
        r#""\udc00""#,
        r#""\ud800\u0041""#,
        r#""\ud800x""#,
        r#""\ud800\n""#,
    ] {
        assert!(matches!(check(lone), Err(ScanError::LoneSurrogate(_))), "{lone}");
    }
    for twice in [r#"{"a":1,"a":2}"#, r#"{"x":[{"a":1,"b":0,"\u0061":2}]}"#] {
        assert!(matches!(check(twice), Err(ScanError::DuplicateKey(_))), "{twice}");
    }
    let huge = format!("[{}]", "9".repeat(310));
    for number in ["1e400", "-1e400", huge.as_str()] {
        assert!(
            matches!(check(number), Err(ScanError::NumberOutOfRange(_))),
            "{number}"
        );
    }
    assert_eq!(check("1e-400"), Ok(Top::Other), "what is too small is zero");
}

#[test]
fn depth_is_bounded_without_recursion() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(check(nested(MAX_DEPTH)).is_ok());
    assert_eq!(check(nested(MAX_DEPTH + 1)), Err(ScanError::TooDeep(MAX_DEPTH)));
    assert_eq!(check(nested(100_000)), Err(ScanError::TooDeep(MAX_DEPTH)));
    let objects = r#"{"a":"#.repeat(100_000);
    assert!(matches!(check(objects), Err(ScanError::TooDeep(_))));
}

#[test]
fn many_names_are_compared_without_hashing() {
    let members: Vec<String> = (0..50_000).map(|n| format!("\"k{n}\":0")).collect();
    assert_eq!(check(format!("{{{}}}", members.join(","))), Ok(Top::Object));
    let twice = format!("{{{},\"k17\":0}}", members.join(","));
    assert!(matches!(check(twice), Err(ScanError::DuplicateKey(_))));
}

proptest! {
    /// Wherever the scanner says yes, the parser behind it says yes too; and it never says no to what a parser wrote.
    #[test]
    fn it_agrees_with_the_parser(text in r#"[\[\]{},:"a1e.\\ u0-9tfn+\-]{0,24}"#) {
        if check(&text).is_ok() {
            prop_assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
        } else if let Ok(value) = serde_json::from_str::<serde_json::Value>(&text) {
            // The parser keeps the last of two equal names; nothing else may part them.
            prop_assert!(matches!(check(&text), Err(ScanError::DuplicateKey(_))), "{}", value);
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let _ = check(bytes);
    }
}
