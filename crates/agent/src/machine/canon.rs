//! One byte string for each JSON value, whatever the order of its keys: what request digests are made of.
//!
//! The encoding is internal to digests: tagged, length-prefixed and never parsed.

use portolan_core::{
    call::{Action, Arguments, Observation, ToolCall},
    digest::{Chain, Digest},
};
use serde_json::{Number, Value};

/// A buffer that is filled with material and then added to a chain. It is reused, so that hashing allocates little.
#[derive(Debug, Default)]
pub(crate) struct Canon(Vec<u8>);

impl Canon {
    /// Closes the material: the digest that follows `previous` when this material is added for a purpose.
    pub(crate) fn after(&mut self, previous: &Digest, purpose: &str) -> Digest {
        let mut chain = Chain::after(previous);
        let digest = chain.part(purpose.as_bytes()).part(&self.0).digest();
        self.0.clear();
        digest
    }

    pub(crate) fn tag(&mut self, tag: u8) -> &mut Self {
        self.0.push(tag);
        self
    }

    pub(crate) fn number(&mut self, number: u64) -> &mut Self {
        self.0.extend_from_slice(&number.to_le_bytes());
        self
    }

    pub(crate) fn text(&mut self, text: &str) -> &mut Self {
        self.number(text.len() as u64);
        self.0.extend_from_slice(text.as_bytes());
        self
    }

    pub(crate) fn optional_text(&mut self, text: Option<&str>) -> &mut Self {
        match text {
            None => self.tag(b'-'),
            Some(text) => self.tag(b'+').text(text),
        }
    }

    pub(crate) fn value(&mut self, value: &Value) -> &mut Self {
        match value {
            Value::Null => self.tag(b'n'),
            Value::Bool(false) => self.tag(b'f'),
            Value::Bool(true) => self.tag(b't'),
            Value::Number(number) => self.json_number(number),
            Value::String(text) => self.tag(b's').text(text),
            Value::Array(items) => {
                self.tag(b'a').number(items.len() as u64);
                for item in items {
                    self.value(item);
                }
                self
            }
            Value::Object(fields) => {
                self.tag(b'o').number(fields.len() as u64);
                let mut sorted: Vec<(&String, &Value)> = fields.iter().collect();
                sorted.sort_unstable_by_key(|(key, _)| key.as_str());
                for (key, field) in sorted {
                    self.text(key).value(field);
                }
                self
            }
        }
    }

    fn json_number(&mut self, number: &Number) -> &mut Self {
        if let Some(unsigned) = number.as_u64() {
            self.tag(b'u').number(unsigned)
        } else if let Some(signed) = number.as_i64() {
            self.tag(b'i').number(u64::from_le_bytes(signed.to_le_bytes()))
        } else {
            // Whatever is neither is a float: the value type holds nothing else.
            self.tag(b'd')
                .number(number.as_f64().unwrap_or(f64::NAN).to_bits())
        }
    }

    pub(crate) fn arguments(&mut self, arguments: &Arguments) -> &mut Self {
        match arguments {
            Arguments::Json(value) => self.tag(b'J').value(value),
            Arguments::Malformed { raw, reason } => self.tag(b'M').text(raw).text(reason),
        }
    }

    pub(crate) fn call(&mut self, call: &ToolCall) -> &mut Self {
        self.text(&call.id).text(&call.name).arguments(&call.arguments)
    }

    pub(crate) fn action(&mut self, action: &Action) -> &mut Self {
        match action {
            Action::Call(call) => self.tag(b'C').call(call),
            Action::Batch(calls) => {
                self.tag(b'B').number(calls.len() as u64);
                for call in calls {
                    self.call(call);
                }
                self
            }
            Action::Final(result) => self
                .tag(b'F')
                .optional_text(result.id.as_deref())
                .arguments(&result.value),
        }
    }

    pub(crate) fn observation(&mut self, observation: &Observation) -> &mut Self {
        match observation {
            Observation::Output(value) => self.tag(b'O').value(value),
            Observation::Error(error) => self.tag(b'E').text(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(json: &str) -> Digest {
        let value: Value = serde_json::from_str(json).unwrap();
        Canon::default().value(&value).after(&Digest([0; 32]), "test")
    }

    #[test]
    fn the_order_of_keys_does_not_matter() {
        assert_eq!(
            digest(r#"{"a": 1, "b": {"c": [], "d": null}}"#),
            digest(r#"{"b": {"d": null, "c": []}, "a": 1}"#)
        );
    }

    #[test]
    fn different_values_never_share_a_digest() {
        let all = [
            "null",
            "false",
            "true",
            "0",
            "0.0",
            "-0.0",
            "-1",
            "1",
            "1.0",
            "\"\"",
            "\"1\"",
            "[]",
            "[[]]",
            "[1,2]",
            "[2,1]",
            "[12]",
            "{}",
            r#"{"a":1}"#,
            r#"{"a":"1"}"#,
            r#"{"a":{"b":1}}"#,
            r#"{"a":{},"b":1}"#,
            "18446744073709551615",
            "-9223372036854775808",
            "1e300",
        ];
        for (i, a) in all.iter().enumerate() {
            for b in &all[i + 1..] {
                assert_ne!(digest(a), digest(b), "{a} and {b}");
            }
        }
    }

    #[test]
    fn a_value_that_was_written_and_read_back_has_the_same_digest() {
        for text in [
            "0.30000000000000004",
            "5e-324",
            "1.7976931348623157e308",
            "123456789.12345679",
        ] {
            let value: Value = serde_json::from_str(text).unwrap();
            assert_eq!(digest(text), digest(&value.to_string()));
        }
    }
}
