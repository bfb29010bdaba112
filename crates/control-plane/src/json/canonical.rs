//! A form of JSON that does not depend on the order of members: what a request is recognised by.

use serde_json::Value;

/// Appends the value with the members of every object in the order of their names.
pub(crate) fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            serde_json::to_writer(out, value).expect("a scalar encodes");
        }
        Value::Array(items) => {
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write(item, out);
            }
            out.push(b']');
        }
        Value::Object(members) => {
            let mut sorted: Vec<_> = members.iter().collect();
            sorted.sort_unstable_by_key(|(name, _)| *name);
            out.push(b'{');
            for (index, (name, member)) in sorted.into_iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                serde_json::to_writer(&mut *out, name).expect("a string encodes");
                out.push(b':');
                write(member, out);
            }
            out.push(b'}');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_of_members_does_not_matter_and_order_of_items_does() {
        let form = |text: &str| {
            let mut out = Vec::new();
            write(&serde_json::from_str(text).expect("valid JSON"), &mut out);
            out
        };
        assert_eq!(
            form(r#"{"b":{"y":[1,2],"x":"\u0000"},"a":1}"#),
            br#"{"a":1,"b":{"x":"\u0000","y":[1,2]}}"#
        );
        assert_eq!(form(r#"{"a":1, "b":2}"#), form(r#"{"b":2,"a":1}"#));
        assert_ne!(form("[1,2]"), form("[2,1]"));
        assert_ne!(form(r#"{"a":"1"}"#), form(r#"{"a":1}"#));
    }
}
