//! Bodies: read within bounds, judged strictly, decoded with the place of the fault.

pub(crate) mod body;
pub(crate) mod canonical;
mod decode;
pub(crate) mod media;
pub(crate) mod scan;

pub(crate) use decode::{decode_text, decode_value, object, present};

use crate::{
    api::Api,
    problem::{Code, Problem},
};
use axum::extract::{FromRequest, Request};
use bytes::Bytes;
use http::{HeaderMap, header};
use scan::{ScanError, Top};
use serde::de::DeserializeOwned;
use std::sync::Arc;

impl From<ScanError> for Problem {
    fn from(error: ScanError) -> Self {
        let code = match error {
            ScanError::Syntax(_) => Code::JsonSyntax,
            ScanError::Utf8(_) => Code::InvalidUtf8,
            ScanError::DuplicateKey(_) => Code::DuplicateKey,
            ScanError::TooDeep(_) => Code::TooDeep,
            ScanError::LoneSurrogate(_) => Code::LoneSurrogate,
            ScanError::NumberOutOfRange(_) => Code::NumberOutOfRange,
        };
        Self::new(code, error.to_string())
    }
}

/// A JSON object that passed every rule that does not depend on its type.
#[derive(Debug)]
pub(crate) struct JsonObject(Bytes);

impl JsonObject {
    /// The text.
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.0).expect("the scanner accepts UTF-8 only")
    }
}

impl FromRequest<Arc<Api>> for JsonObject {
    type Rejection = Problem;

    async fn from_request(request: Request, api: &Arc<Api>) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        expect_json(&parts.headers)?;
        let bytes = body::read(&parts.headers, body, api).await?;
        match scan::scan(&bytes)? {
            Top::Object => Ok(Self(bytes)),
            Top::Other => Err(Problem::fields(vec![crate::problem::FieldError::body(
                "",
                "the body must be an object",
            )])),
        }
    }
}

/// A body of a certain type.
#[derive(Debug)]
pub(crate) struct StrictJson<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Arc<Api>> for StrictJson<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, api: &Arc<Api>) -> Result<Self, Problem> {
        let object = JsonObject::from_request(request, api).await?;
        decode_text(object.text()).map(Self)
    }
}

fn expect_json(headers: &HeaderMap) -> Result<(), Problem> {
    let refused = |detail: &'static str| Err(Problem::new(Code::UnsupportedMediaType, detail));
    let mut types = headers.get_all(header::CONTENT_TYPE).iter();
    let (Some(only), None) = (types.next(), types.next()) else {
        return refused("send one Content-Type, application/json");
    };
    if !only.to_str().is_ok_and(media::is_json) {
        return refused("send Content-Type: application/json, in UTF-8");
    }
    let plain = |value: &http::HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"identity");
    if !headers.get_all(header::CONTENT_ENCODING).iter().all(plain) {
        return refused("send the body without a Content-Encoding");
    }
    Ok(())
}
