//! Strict JSON: what a model wrote is read exactly, or not at all.

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Number, Value};
use std::fmt;

/// Reads one JSON text. Unlike `serde_json::from_str` it refuses an object that names a key twice, because two readers
/// may disagree on which of the two counts. Depth is bounded by the parser (128).
pub(crate) fn parse_strictly(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str::<Strict>(text).map(|strict| strict.0)
}

struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Strict)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value)
            .map(Value::Number)
            .ok_or_else(|| E::custom("a number is out of range"))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(Strict(value)) = items.next_element()? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if object.contains_key(&key) {
                return Err(A::Error::custom(format_args!("the key {key:?} appears twice")));
            }
            let Strict(value) = entries.next_value()?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_json_is_read_like_serde_json_reads_it() {
        for text in [
            r#"{"b":1,"a":[null,true,-2,3.5,"x\u00e9",{"k":{}}]}"#,
            "18446744073709551615",
            r#""text""#,
            "null",
        ] {
            let expected: Value = serde_json::from_str(text).expect("the sample is JSON");
            assert_eq!(parse_strictly(text).expect("strict JSON"), expected);
        }
        assert_eq!(
            parse_strictly(" [1] ").expect("blanks around are JSON"),
            json!([1])
        );
    }

    #[test]
    fn what_is_not_exactly_one_json_text_is_refused() {
        for bad in [
            "",
            "  ",
            "{",
            "{}{}",
            "{'a':1}",
            "{\"a\":1,}",
            "NaN",
            "1e999",
            "// x\n1",
            "\u{feff}1",
        ] {
            assert!(parse_strictly(bad).is_err(), "{bad:?} was accepted");
        }
        let deep = "[".repeat(5_000);
        assert!(parse_strictly(&deep).is_err());
    }

    #[test]
    fn a_key_named_twice_is_refused_at_any_depth() {
        for bad in [
            r#"{"a":1,"a":1}"#,
            r#"[{"x":{"a":1,"b":2,"a":3}}]"#,
            r#"{"a":1,"\u0061":2}"#,
        ] {
            let error = parse_strictly(bad).expect_err("a duplicate key").to_string();
            assert!(error.contains("\"a\" appears twice"), "{error}");
        }
    }
}
