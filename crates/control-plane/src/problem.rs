//! Errors as the API shows them: RFC 9457 problem details. This is the one place where an error becomes a status.
//!
//! A handler returns a [`Problem`]; the edge adds the request id and the path and writes the body. Nothing of an internal
//! error is shown: it is logged under the request id.

mod codes;

pub use codes::Code;

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use http::{HeaderValue, header};
use portolan_core::{ids::RunId, key::AdminStoreError};
use portolan_journal::{JournalError, blob::BlobError};
use serde::Serialize;
use std::{borrow::Cow, fmt};
use utoipa::ToSchema;

/// The media type of problem details.
pub const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

/// Paths longer than this are not repeated in an answer.
const LONGEST_INSTANCE: usize = 1_024;

/// One field that cannot be accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct FieldError {
    /// JSON Pointer into the body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    /// Name of the query parameter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameter: Option<&'static str>,
    /// A machine word for what is wrong with it.
    pub code: &'static str,
    /// What is wrong with it.
    pub message: String,
}

impl FieldError {
    /// A member of the body that breaks a rule.
    pub fn body(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            pointer: Some(pointer.into()),
            parameter: None,
            code: Code::InvalidField.name(),
            message: message.into(),
        }
    }

    /// A query parameter that breaks a rule.
    pub fn query(parameter: &'static str, message: impl Into<String>) -> Self {
        Self {
            pointer: None,
            parameter: Some(parameter),
            code: Code::InvalidField.name(),
            message: message.into(),
        }
    }
}

/// An error on its way to the client.
#[derive(Clone)]
pub struct Problem(Box<Parts>);

#[derive(Debug, Clone)]
struct Parts {
    code: Code,
    detail: Cow<'static, str>,
    errors: Vec<FieldError>,
    run_id: Option<RunId>,
    limit: Option<String>,
    retry_after_ms: Option<u64>,
    close: bool,
}

impl fmt::Debug for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The body of an error answer.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProblemBody<'a> {
    /// A stable URI whose page says what to do.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// What a person reads first.
    pub title: &'static str,
    /// The status of the answer.
    pub status: u16,
    /// What happened this time.
    pub detail: &'a str,
    /// The path that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance: Option<&'a str>,
    /// A stable machine word.
    pub code: &'static str,
    /// The id of the request, as in the header `X-Request-Id`.
    pub request_id: &'a str,
    /// The fields that cannot be accepted.
    #[serde(skip_serializing_if = "<[FieldError]>::is_empty")]
    pub errors: &'a [FieldError],
    /// The run that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub run_id: Option<RunId>,
    /// The bound that was reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<&'a str>,
    /// When to try again, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

impl Problem {
    /// A problem with its public explanation.
    pub fn new(code: Code, detail: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Parts {
            code,
            detail: detail.into(),
            errors: Vec::new(),
            run_id: None,
            limit: None,
            retry_after_ms: None,
            close: false,
        }))
    }

    /// Fields that break rules.
    pub fn fields(errors: Vec<FieldError>) -> Self {
        let mut codes = errors.iter().map(|error| error.code);
        let first = codes.next().and_then(Code::from_name);
        let same = first.filter(|code| codes.all(|other| other == code.name()));
        let code = same
            .filter(|code| code.status() == Code::InvalidField.status())
            .unwrap_or(Code::InvalidField);
        let detail = match errors.as_slice() {
            [only] => only.message.clone(),
            several => format!("{} fields cannot be accepted", several.len()),
        };
        let mut problem = Self::new(code, detail);
        problem.0.errors = errors;
        problem
    }

    /// An error of the server itself. The cause goes to the log and never to the client.
    pub fn internal(cause: &dyn fmt::Display) -> Self {
        tracing::error!(%cause, "a request failed");
        Self::new(
            Code::Internal,
            "the server could not answer; its log has the reason under this request id",
        )
    }

    /// The same about a run.
    #[must_use]
    pub fn about(mut self, run: RunId) -> Self {
        self.0.run_id = Some(run);
        self
    }

    /// The same with the bound that was reached.
    #[must_use]
    pub fn with_limit(mut self, limit: impl Into<String>) -> Self {
        self.0.limit = Some(limit.into());
        self
    }

    /// The same with the time after which to try again.
    #[must_use]
    pub fn retry_after_ms(mut self, ms: u64) -> Self {
        self.0.retry_after_ms = Some(ms);
        self
    }

    /// The same, after which the connection is closed.
    #[must_use]
    pub fn closing(mut self) -> Self {
        self.0.close = true;
        self
    }

    /// The code.
    pub const fn code(&self) -> Code {
        self.0.code
    }

    /// Writes the body into the answer that this problem came in.
    pub(crate) fn render(&self, response: &mut Response, request_id: &str, path: &str) {
        let parts = &*self.0;
        let body = ProblemBody {
            kind: parts.code.uri(),
            title: parts.code.title(),
            status: parts.code.status().as_u16(),
            detail: &parts.detail,
            instance: Some(path).filter(|path| path.len() <= LONGEST_INSTANCE && !path.is_empty()),
            code: parts.code.name(),
            request_id,
            errors: &parts.errors,
            run_id: parts.run_id,
            limit: parts.limit.as_deref(),
            retry_after_ms: parts.retry_after_ms,
        };
        let bytes = serde_json::to_vec(&body).expect("strings and numbers encode");
        *response.body_mut() = Body::from(bytes);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, PROBLEM_JSON);
        headers.remove(header::CONTENT_LENGTH);
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = self.0.code.status();
        let headers = response.headers_mut();
        if self.0.code == Code::Unauthenticated {
            let challenge = HeaderValue::from_static("Bearer realm=\"portolan\"");
            headers.insert(header::WWW_AUTHENTICATE, challenge);
        }
        if let Some(ms) = self.0.retry_after_ms {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(ms.div_ceil(1_000)));
        }
        if self.0.close {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response.extensions_mut().insert(self);
        response
    }
}

/// How long a client waits before it asks an unreachable store again.
const STORE_RETRY_MS: u64 = 1_000;

impl From<JournalError> for Problem {
    fn from(error: JournalError) -> Self {
        match error {
            JournalError::NotCommitted(_) | JournalError::Unknown(_) => {
                tracing::warn!(%error, "the store did not answer");
                Self::new(
                    Code::StoreUnavailable,
                    "the store did not answer; try again, with the same idempotency key if there was one",
                )
                .retry_after_ms(STORE_RETRY_MS)
            }
            JournalError::Corrupt(_) => Self::internal(&error),
        }
    }
}

impl From<AdminStoreError> for Problem {
    fn from(error: AdminStoreError) -> Self {
        tracing::warn!(%error, "the store did not answer");
        Self::new(Code::StoreUnavailable, "the store did not answer; try again")
            .retry_after_ms(STORE_RETRY_MS)
    }
}

impl From<BlobError> for Problem {
    fn from(error: BlobError) -> Self {
        match error {
            BlobError::Missing(_) | BlobError::Damaged(_) => Self::internal(&error),
            BlobError::Unusable(_) => {
                tracing::warn!(%error, "the blob store did not answer");
                Self::new(Code::StoreUnavailable, "the blob store did not answer; try again")
                    .retry_after_ms(STORE_RETRY_MS)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_page_that_begins_with_its_name() {
        let pages = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors");
        for code in Code::ALL {
            let path = format!("{pages}/{}.md", code.name());
            #[expect(
                clippy::disallowed_methods,
                reason = "the test reads the repository's own pages"
            )]
            let page = std::fs::read_to_string(&path).unwrap_or_default();
            let heading = format!("# `{}`", code.name());
            assert!(
                page.starts_with(&heading),
                "{path} is missing or has another heading"
            );
            let status = format!("HTTP {}", code.status().as_u16());
            assert!(page.contains(&status), "{path} does not name {status}");
            assert_eq!(Code::from_name(code.name()), Some(*code));
        }
    }

    #[test]
    fn fields_that_share_a_code_give_it_to_the_problem() {
        let price = FieldError {
            code: "price_unknown",
            ..FieldError::body("/model", "no price")
        };
        assert_eq!(Problem::fields(vec![price.clone()]).code(), Code::PriceUnknown);
        let mixed = Problem::fields(vec![price, FieldError::body("/input", "no")]);
        assert_eq!(mixed.code(), Code::InvalidField);
        let foreign = FieldError {
            code: "internal",
            ..FieldError::body("/input", "no")
        };
        assert_eq!(Problem::fields(vec![foreign]).code(), Code::InvalidField);
    }
}
