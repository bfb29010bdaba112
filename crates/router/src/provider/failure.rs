//! What an answer that is no success says about the world.

use super::endpoint::Endpoint;
use crate::http::{Body, HttpAnswer, TransportError, retry_after_ms};
use ::http::{HeaderMap, StatusCode, header};
use bytes::Bytes;
use portolan_core::{
    model::{ModelError, ModelFailure},
    time::Clock,
};
use serde_json::Value;
use std::fmt::Write;

/// The most characters that a message takes over from a provider.
const MAX_FOREIGN_CHARS: usize = 500;

/// The body of a success, or the failure that the exchange was.
pub(crate) fn success(
    endpoint: &Endpoint,
    clock: &dyn Clock,
    outcome: Result<HttpAnswer, TransportError>,
) -> Result<Bytes, ModelError> {
    let answer = outcome.map_err(|error| transport(endpoint, &error))?;
    if !answer.status.is_success() {
        return Err(refusal(endpoint, clock, &answer));
    }
    match answer.body {
        Body::Cut { reason, .. } => Err(in_doubt(endpoint, &format!("its answer was cut: {reason}"))),
        Body::TooLarge(_) => Err(malformed(endpoint, "it sent a larger answer than is accepted")),
        Body::Whole(_) if !is_json(&answer.headers) => Err(malformed(
            endpoint,
            "it answered with another content type than JSON",
        )),
        Body::Whole(bytes) if !is_framed(&answer.headers) && is_unfinished(&bytes) => {
            // Without a length the end of the connection is the end of the answer, so a cut looks like an end.
            Err(in_doubt(endpoint, "its answer was cut"))
        }
        Body::Whole(bytes) => Ok(bytes),
    }
}

/// A complete answer that is no answer.
pub(crate) fn malformed(endpoint: &Endpoint, what: &str) -> ModelError {
    say(endpoint, ModelFailure::Malformed, what)
}

/// The explanation in an error body, wherever compatible servers put it: OpenAI and OpenRouter in `error.message`, older
/// vLLM at the top, some gateways in a plain `error`.
pub(crate) fn foreign_message(body: &Value) -> Option<&str> {
    let error = &body["error"];
    error["message"]
        .as_str()
        .or_else(|| error.as_str())
        .or_else(|| body["message"].as_str())
        .filter(|text| !text.trim().is_empty())
}

fn in_doubt(endpoint: &Endpoint, what: &str) -> ModelError {
    say(endpoint, ModelFailure::InDoubt, what)
}

fn transport(endpoint: &Endpoint, error: &TransportError) -> ModelError {
    match error {
        TransportError::NotSent(what) => say(
            endpoint,
            ModelFailure::NotSent,
            &format!("it could not be reached: {what}"),
        ),
        TransportError::InDoubt(what) => in_doubt(endpoint, &format!("no answer arrived: {what}")),
    }
}

fn refusal(endpoint: &Endpoint, clock: &dyn Clock, answer: &HttpAnswer) -> ModelError {
    let body: Value = serde_json::from_slice(answer.body.bytes()).unwrap_or(Value::Null);
    let mut what = format!("it answered {}", answer.status.as_u16());
    if let Some(reason) = answer.status.canonical_reason() {
        let _infallible = write!(what, " {reason}");
    }
    if answer.status.is_redirection() {
        what.push_str(", and redirects are not followed; check its base URL");
    }
    if let Some(foreign) = foreign_message(&body) {
        what.push_str(": ");
        what.push_str(foreign);
    }
    ModelError {
        retry_after_ms: retry_after_ms(&answer.headers, || clock.now()),
        ..say(endpoint, class(answer.status, &body), &what)
    }
}

/// The class of a status. What is not known to be definite is in doubt.
fn class(status: StatusCode, body: &Value) -> ModelFailure {
    match status.as_u16() {
        // OpenAI reports a used-up credit as 429 too, under a code of its own; waiting does not refill an account.
        429 if body["error"]["code"] == "insufficient_quota" => ModelFailure::Account,
        429 => ModelFailure::RateLimited,
        401..=403 => ModelFailure::Account,
        408 => ModelFailure::InDoubt,
        500 | 503 | 529 => ModelFailure::Overloaded,
        501 | 505 => ModelFailure::Refused,
        502 | 504 | 506.. => ModelFailure::InDoubt,
        _ => ModelFailure::Refused,
    }
}

fn say(endpoint: &Endpoint, failure: ModelFailure, what: &str) -> ModelError {
    let message = format!(
        "provider {}: {}",
        endpoint.provider,
        readable(&endpoint.scrub(what))
    );
    ModelError::new(failure, message)
}

/// Foreign text in one bounded line, with whatever could steer a terminal or reorder a line made visible.
fn readable(text: &str) -> String {
    let mut line = String::new();
    for (count, character) in text.chars().enumerate() {
        if count == MAX_FOREIGN_CHARS {
            line.push('…');
            break;
        }
        let steers = character.is_control()
            || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}');
        if steers {
            line.extend(character.escape_default());
        } else {
            line.push(character);
        }
    }
    line
}

fn is_json(headers: &HeaderMap) -> bool {
    let content_type = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let essence = content_type
        .and_then(|value| value.split(';').next())
        .unwrap_or_default();
    let essence = essence.trim().to_ascii_lowercase();
    essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"))
}

fn is_framed(headers: &HeaderMap) -> bool {
    headers.contains_key(header::CONTENT_LENGTH) || headers.contains_key(header::TRANSFER_ENCODING)
}

fn is_unfinished(bytes: &[u8]) -> bool {
    serde_json::from_slice::<serde::de::IgnoredAny>(bytes).is_err_and(|error| error.is_eof())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_status_has_its_class() {
        for (status, expected) in [
            (300, ModelFailure::Refused),
            (307, ModelFailure::Refused),
            (400, ModelFailure::Refused),
            (401, ModelFailure::Account),
            (402, ModelFailure::Account),
            (403, ModelFailure::Account),
            (404, ModelFailure::Refused),
            (408, ModelFailure::InDoubt),
            (413, ModelFailure::Refused),
            (422, ModelFailure::Refused),
            (429, ModelFailure::RateLimited),
            (500, ModelFailure::Overloaded),
            (501, ModelFailure::Refused),
            (502, ModelFailure::InDoubt),
            (503, ModelFailure::Overloaded),
            (504, ModelFailure::InDoubt),
            (520, ModelFailure::InDoubt),
            (524, ModelFailure::InDoubt),
            (529, ModelFailure::Overloaded),
        ] {
            let status = StatusCode::from_u16(status).expect("a status");
            assert_eq!(class(status, &Value::Null), expected, "{status}");
        }
        let broke = json!({"error": {"code": "insufficient_quota"}});
        assert_eq!(
            class(StatusCode::TOO_MANY_REQUESTS, &broke),
            ModelFailure::Account
        );
    }

    #[test]
    fn messages_are_found_where_servers_put_them() {
        for (body, expected) in [
            (
                json!({"error": {"message": "no such model"}}),
                Some("no such model"),
            ),
            (json!({"error": "plain"}), Some("plain")),
            (json!({"object": "error", "message": "top"}), Some("top")),
            (json!({"error": {"message": " "}}), None),
            (json!("text"), None),
        ] {
            assert_eq!(foreign_message(&body), expected);
        }
    }

    #[test]
    fn foreign_text_is_one_bounded_line_without_control_characters() {
        assert_eq!(readable("a\u{1b}[31m\nb\u{202e}c"), "a\\u{1b}[31m\\nb\\u{202e}c");
        let long = readable(&"é".repeat(2_000));
        assert_eq!(long.chars().count(), MAX_FOREIGN_CHARS + 1);
    }

    #[test]
    fn only_json_types_are_json() {
        for (content_type, expected) in [
            ("application/json", true),
            ("Application/JSON; charset=utf-8", true),
            ("application/problem+json", true),
            ("text/html", false),
            ("text/event-stream", false),
            ("application/jsonlines", false),
        ] {
            let mut headers = HeaderMap::new();
            assert!(!is_json(&headers));
            headers.insert(header::CONTENT_TYPE, content_type.parse().expect("a header"));
            assert_eq!(is_json(&headers), expected, "{content_type}");
        }
    }
}
