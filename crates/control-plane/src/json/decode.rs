//! From JSON that passed the scanner to a type, with a pointer to what does not fit.

use crate::problem::{Code, FieldError, Problem};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, MapAccess, Visitor, value::MapAccessDeserializer},
};
use serde_json::Value;
use std::{fmt, marker::PhantomData};

/// Decodes a text. The place of a fault is only looked for when there is one.
pub(crate) fn decode_text<T: DeserializeOwned>(text: &str) -> Result<T, Problem> {
    serde_json::from_str(text).or_else(|_| {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        serde_path_to_error::deserialize(&mut deserializer)
            .map_err(|error| Problem::fields(vec![place(&error)]))
    })
}

/// Decodes a value.
pub(crate) fn decode_value<T: DeserializeOwned>(value: &Value) -> Result<T, Problem> {
    serde_path_to_error::deserialize(value).map_err(|error| Problem::fields(vec![place(&error)]))
}

fn place(error: &serde_path_to_error::Error<serde_json::Error>) -> FieldError {
    use serde_path_to_error::Segment;
    let mut pointer = String::new();
    for segment in error.path() {
        let _ = match segment {
            Segment::Seq { index } => fmt::Write::write_fmt(&mut pointer, format_args!("/{index}")),
            Segment::Map { key } => {
                pointer.push('/');
                push_escaped(&mut pointer, key);
                Ok(())
            }
            Segment::Enum { .. } | Segment::Unknown => Ok(()),
        };
    }
    let full = error.inner().to_string();
    // The parser's line and column are of no use beside a pointer.
    let message = full.split(" at line ").next().unwrap_or_default().to_owned();
    let named = |prefix: &str| message.strip_prefix(prefix)?.split('`').next();
    let unknown = named("unknown field `");
    if let Some(name) = unknown.or_else(|| named("missing field `")) {
        let ends_with_name =
            matches!(error.path().iter().next_back(), Some(Segment::Map { key }) if key == name);
        if !ends_with_name {
            pointer.push('/');
            push_escaped(&mut pointer, name);
        }
    }
    let code = if unknown.is_some() {
        Code::UnknownField
    } else {
        Code::InvalidField
    };
    FieldError {
        code: code.name(),
        ..FieldError::body(pointer, message)
    }
}

/// Appends a reference token of a JSON Pointer.
fn push_escaped(pointer: &mut String, name: &str) {
    for character in name.chars() {
        match character {
            '~' => pointer.push_str("~0"),
            '/' => pointer.push_str("~1"),
            other => pointer.push(other),
        }
    }
}

/// Reads an optional member that must not be null where it is given.
pub(crate) fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}

/// Reads a member that must be an object: without this, a list in the order of the fields would do.
pub(crate) fn object<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct Object<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for Object<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
            T::deserialize(MapAccessDeserializer::new(map))
        }
    }

    deserializer.deserialize_map(Object(PhantomData))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Outer {
        #[serde(deserialize_with = "object")]
        inner: Inner,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        #[serde(default, deserialize_with = "present")]
        n: Option<u32>,
        #[serde(default, rename = "a/b")]
        list: Vec<u8>,
    }

    #[test]
    fn a_fault_is_pointed_at() {
        let fault = |text: &str| {
            let problem = decode_text::<Outer>(text).expect_err("does not fit");
            let text = format!("{problem:?}");
            let pointer = text
                .split("pointer: Some(\"")
                .nth(1)
                .and_then(|rest| rest.split('"').next());
            (problem.code(), pointer.unwrap_or("none").to_owned())
        };
        let is = |code, pointer: &str| (code, pointer.to_owned());
        assert_eq!(fault("{}"), is(Code::InvalidField, "/inner"));
        assert_eq!(fault(r#"{"inner":{},"x":1}"#), is(Code::UnknownField, "/x"));
        assert_eq!(fault(r#"{"inner":{"y":1}}"#), is(Code::UnknownField, "/inner/y"));
        assert_eq!(
            fault(r#"{"inner":{"n":null}}"#),
            is(Code::InvalidField, "/inner/n")
        );
        assert_eq!(
            fault(r#"{"inner":{"n":1.5}}"#),
            is(Code::InvalidField, "/inner/n")
        );
        assert_eq!(
            fault(r#"{"inner":{"a/b":[1,"x"]}}"#),
            is(Code::InvalidField, "/inner/a~1b/1")
        );
        assert_eq!(fault(r#"{"inner":[1]}"#), is(Code::InvalidField, "/inner"));
        let fine: Outer = decode_text(r#"{"inner":{"n":3,"a/b":[1]}}"#).expect("fits");
        assert_eq!((fine.inner.n, fine.inner.list), (Some(3), vec![1]));
    }
}
