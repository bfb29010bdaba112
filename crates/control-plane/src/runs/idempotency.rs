//! Idempotency keys: how a client spells one, and what its request is recognised by.

use super::create::RunRequest;
use crate::{
    api::Api,
    json::canonical,
    problem::{Code, Problem},
};
use axum::extract::FromRequestParts;
use http::request::Parts;
use portolan_core::digest::{Chain, Digest};
use std::sync::Arc;

/// The longest key.
const LONGEST: usize = 255;

/// The `Idempotency-Key` of a request, if it has one.
#[derive(Debug)]
pub(crate) struct IdempotencyKey(pub(crate) Option<String>);

impl FromRequestParts<Arc<Api>> for IdempotencyKey {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _api: &Arc<Api>) -> Result<Self, Problem> {
        let mut all = parts.headers.get_all("idempotency-key").iter();
        let Some(value) = all.next() else {
            return Ok(Self(None));
        };
        let bad = || {
            let detail = "send one Idempotency-Key of 1 to 255 visible ASCII characters, quoted or bare";
            Problem::new(Code::BadIdempotencyKey, detail)
        };
        if all.next().is_some() {
            return Err(bad());
        }
        value
            .to_str()
            .ok()
            .and_then(parse)
            .map(|key| Self(Some(key)))
            .ok_or_else(bad)
    }
}

/// The key itself: a quoted string of structured fields, or bare characters.
fn parse(text: &str) -> Option<String> {
    let text = text.trim();
    let key = match text.strip_prefix('"') {
        None => text.to_owned(),
        Some(rest) => {
            let mut key = String::with_capacity(rest.len());
            let mut characters = rest.strip_suffix('"')?.chars();
            while let Some(character) = characters.next() {
                match character {
                    '\\' => key.push(characters.next().filter(|next| matches!(next, '"' | '\\'))?),
                    '"' => return None,
                    plain => key.push(plain),
                }
            }
            key
        }
    };
    let visible = key.bytes().all(|b| b.is_ascii_graphic());
    (visible && (1..=LONGEST).contains(&key.len())).then_some(key)
}

/// The digest of what a request asks for. Order of members and whitespace do not change it.
pub(crate) fn fingerprint(request: &RunRequest) -> Digest {
    let mut chain = Chain::new("POST /v1/runs");
    let mut buffer = Vec::with_capacity(256);
    canonical::write(&request.input, &mut buffer);
    chain.part(request.agent_name.as_bytes()).part(&buffer);
    buffer.clear();
    // Maps of these are ordered, so their encoding is canonical.
    serde_json::to_writer(
        &mut buffer,
        &(
            &request.files,
            &request.limits.0,
            &request.metadata,
            &request.tags,
        ),
    )
    .expect("strings and numbers encode");
    chain.part(&buffer);
    chain.digest()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::decode_text;

    #[test]
    fn keys_are_quoted_or_bare() {
        for (text, key) in [
            ("abc", "abc"),
            ("\"abc\"", "abc"),
            ("\"a\\\"b\\\\\"", "a\"b\\"),
            (" abc ", "abc"),
            ("a:b/c~", "a:b/c~"),
        ] {
            assert_eq!(parse(text).as_deref(), Some(key), "{text}");
        }
        let longest = "k".repeat(LONGEST);
        assert_eq!(parse(&longest).as_deref(), Some(longest.as_str()));
        let too_long = "k".repeat(LONGEST + 1);
        for bad in [
            "",
            "\"\"",
            "\"",
            "\"abc",
            "a b",
            "\"a b\"",
            "\"a\\b\"",
            "\"a\"b\"",
            "é",
            too_long.as_str(),
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_request_is_recognised_by_what_it_asks_for() {
        let print = |text: &str| fingerprint(&decode_text(text).expect("a request"));
        let one = print(r#"{"agentName":"a","input":{"x":1,"y":[2]},"metadata":{"k":"v","j":"w"}}"#);
        let same =
            print(r#"{ "metadata":{"j":"w","k":"v"}, "input":{"y":[2],"x":1}, "tags":[], "agentName":"a"}"#);
        assert_eq!(one, same);
        for other in [
            r#"{"agentName":"b","input":{"x":1,"y":[2]},"metadata":{"k":"v","j":"w"}}"#,
            r#"{"agentName":"a","input":{"x":1,"y":[3]},"metadata":{"k":"v","j":"w"}}"#,
            r#"{"agentName":"a","input":{"x":1,"y":[2]},"metadata":{"k":"v"}}"#,
            r#"{"agentName":"a","input":{"x":1,"y":[2]},"metadata":{"k":"v","j":"w"},"limits":{"toolCalls":0}}"#,
        ] {
            assert_ne!(one, print(other), "{other}");
        }
    }
}
