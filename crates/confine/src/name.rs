//! A lossless form of file names as text.
//!
//! Names on disk are bytes, and models, manifests and globs speak text. A name that is valid UTF-8 stands for itself. A
//! byte that is not is written `\xHH`, and a backslash that would read as such an escape is written `\x5C`, so that
//! every name has exactly one form and every form exactly one name. Without that, one file could be reached under two
//! spellings, of which a deny glob knows only one.

use std::borrow::Cow;

/// The text form of a name or path.
pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    encode_into(bytes, &mut text);
    text
}

/// Appends the text form of a name.
pub(crate) fn encode_into(bytes: &[u8], text: &mut String) {
    // Nearly every name needs no escape, and scans encode every name they see.
    if let Ok(valid) = std::str::from_utf8(bytes)
        && !bytes.contains(&b'\\')
    {
        text.push_str(valid);
        return;
    }
    for chunk in bytes.utf8_chunks() {
        encode_valid(chunk.valid(), text);
        for byte in chunk.invalid() {
            push_escape(*byte, text);
        }
    }
}

/// The bytes of a text form. Any text has some; `encode(&decode(text))` is its canonical spelling.
pub(crate) fn decode(text: &str) -> Cow<'_, [u8]> {
    let bytes = text.as_bytes();
    if !text.contains("\\x") {
        return Cow::Borrowed(bytes);
    }
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match escape_at(bytes, at) {
            Some(escaped) => {
                decoded.push(escaped);
                at += 4;
            }
            None => {
                decoded.push(*byte);
                at += 1;
            }
        }
    }
    Cow::Owned(decoded)
}

fn encode_valid(valid: &str, text: &mut String) {
    let mut rest = valid;
    while let Some(at) = rest.find("\\x") {
        let (before, from) = rest.split_at(at);
        text.push_str(before);
        if escape_at(from.as_bytes(), 0).is_some() {
            push_escape(b'\\', text);
        } else {
            text.push('\\');
        }
        rest = from.get(1..).unwrap_or_default();
    }
    text.push_str(rest);
}

fn push_escape(byte: u8, text: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    text.push_str("\\x");
    for nibble in [byte >> 4, byte & 15] {
        text.push(char::from(DIGITS[usize::from(nibble)]));
    }
}

/// The byte that the four characters at a position stand for. Only bytes that need an escape have one.
fn escape_at(bytes: &[u8], at: usize) -> Option<u8> {
    let [b'\\', b'x', high, low] = *bytes.get(at..at + 4)? else {
        return None;
    };
    let byte = (digit(high)? << 4) | digit(low)?;
    (byte >= 0x80 || byte == b'\\').then_some(byte)
}

const fn digit(character: u8) -> Option<u8> {
    match character {
        b'0'..=b'9' => Some(character - b'0'),
        b'A'..=b'F' => Some(character - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{decode, encode};
    use proptest::prelude::*;

    #[test]
    fn names_keep_their_bytes() {
        for (bytes, text) in [
            (&b"plain.txt"[..], "plain.txt"),
            ("\u{e9}\n\u{202e}".as_bytes(), "\u{e9}\n\u{202e}"),
            (b"a\xffb", "a\\xFFb"),
            (b"\\xFF", "\\x5CxFF"),
            (b"\\x5C", "\\x5Cx5C"),
            (b"\\x41\\xff\\", "\\x41\\xff\\"),
            (b"\\\xff", "\\\\xFF"),
            (b"\\x8\xff", "\\x8\\xFF"),
        ] {
            assert_eq!(encode(bytes), text);
            assert_eq!(&*decode(text), bytes);
        }
    }

    proptest! {
        #[test]
        fn every_name_round_trips(bytes in proptest::collection::vec(prop_oneof![
            Just(b'\\'), Just(b'x'), Just(b'5'), Just(b'C'), Just(b'F'), any::<u8>()
        ], 0..24)) {
            prop_assert_eq!(decode(&encode(&bytes)).into_owned(), bytes);
        }
    }
}
