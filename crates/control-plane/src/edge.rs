//! The outermost layer: request ids, framing rules, panics, the form of errors, one log line for each request.

use crate::{
    api::Api,
    problem::{Code, Problem},
};
use axum::{
    body::Body,
    extract::{MatchedPath, Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use futures::FutureExt;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, Version, header};
use std::{fmt::Write as _, panic::AssertUnwindSafe, sync::Arc};

const REQUEST_ID: &str = "x-request-id";

/// Marks a request whose head says in two ways where its body ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AmbiguousFraming;

/// Wraps every route and the fallbacks.
pub(crate) async fn edge(State(api): State<Arc<Api>>, request: Request, next: Next) -> Response {
    let began = api.clock.monotonic_us();
    let id = request_id(request.headers(), &api);
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let route = request.extensions().get::<MatchedPath>().cloned();
    let trace = trace_id(request.headers()).map(str::to_owned);

    let mut response = match framing(&request, &api) {
        Err(problem) => problem.into_response(),
        Ok(()) => AssertUnwindSafe(next.run(request))
            .catch_unwind()
            .await
            .unwrap_or_else(|_| Problem::internal(&"a handler panicked").into_response()),
    };
    method_rules(&method, &mut response);
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        problem.render(&mut response, id.to_str().unwrap_or_default(), uri.path());
    }
    if api.host.is_draining() || api.shutdown.is_cancelled() {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
    }
    tracing::info!(
        target: "portolan::http",
        request = id.to_str().unwrap_or_default(),
        trace,
        method = method.as_str(),
        route = route.as_ref().map(MatchedPath::as_str).unwrap_or_default(),
        status = response.status().as_u16(),
        micros = api.clock.monotonic_us().saturating_sub(began),
    );
    response.headers_mut().insert(REQUEST_ID, id);
    response
}

/// The client's id if it is a decent one, or a fresh one.
fn request_id(headers: &HeaderMap, api: &Api) -> HeaderValue {
    let decent = |value: &&HeaderValue| {
        let bytes = value.as_bytes();
        (1..=128).contains(&bytes.len())
            && bytes.iter().all(|b| {
                b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b':' | b'/' | b'+' | b'=')
            })
    };
    if let Some(value) = headers.get(REQUEST_ID).filter(decent) {
        return value.clone();
    }
    let mut random = [0_u8; 16];
    api.entropy.fill(&mut random);
    let mut text = String::with_capacity(4 + 32);
    text.push_str("req_");
    let _ = write!(text, "{:032x}", u128::from_be_bytes(random));
    HeaderValue::from_str(&text).expect("hexadecimal digits are visible ASCII")
}

/// The trace id of a W3C `traceparent`.
fn trace_id(headers: &HeaderMap) -> Option<&str> {
    let mut parts = headers.get("traceparent")?.to_str().ok()?.split('-');
    let (_version, trace, _span, _flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let hex = |text: &str| {
        text.bytes()
            .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    };
    (trace.len() == 32 && hex(trace) && trace.bytes().any(|b| b != b'0')).then_some(trace)
}

/// What is wrong with a request before anybody looks at what it asks for.
fn framing(request: &Request, api: &Api) -> Result<(), Problem> {
    let bad = |detail: &'static str| Err(Problem::new(Code::BadRequest, detail).closing());
    if request.method() == Method::CONNECT {
        return Err(Problem::new(Code::MethodNotAllowed, "this server is no proxy").closing());
    }
    if request.extensions().get::<AmbiguousFraming>().is_some() {
        return bad("send either Content-Length or Transfer-Encoding");
    }
    let (uri, headers) = (request.uri(), request.headers());
    let target = uri.path_and_query().map_or(0, |target| target.as_str().len());
    if target > api.config.max_uri_bytes {
        let detail = format!("a request target has at most {} bytes", api.config.max_uri_bytes);
        return Err(Problem::new(Code::UriTooLong, detail).closing());
    }
    let size: usize = headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len() + 4)
        .sum();
    if size > api.config.max_header_bytes || headers.len() > api.config.max_headers {
        let detail = format!(
            "a request has at most {} header fields with {} bytes",
            api.config.max_headers, api.config.max_header_bytes
        );
        return Err(Problem::new(Code::HeadersTooLarge, detail).closing());
    }
    if !host_fits(request.version(), uri, headers) {
        return bad("send one Host header, that of the request target");
    }
    if !percent_encoding_is_valid(uri.path()) {
        return bad("the path holds an invalid percent-encoding");
    }
    Ok(())
}

/// One `Host`, and no request target that names another one.
fn host_fits(version: Version, uri: &Uri, headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    let (host, second) = (hosts.next(), hosts.next());
    match (host, second, uri.authority()) {
        (_, Some(_), _) => false,
        (None, None, _) => version < Version::HTTP_11,
        (Some(host), None, Some(target)) => host.as_bytes().eq_ignore_ascii_case(target.as_str().as_bytes()),
        (Some(_), None, None) => true,
    }
}

/// Whether every escape of a path is two hexadecimal digits, and all of them together are UTF-8.
fn percent_encoding_is_valid(path: &str) -> bool {
    if !path.contains('%') {
        return true;
    }
    let mut decoded = Vec::with_capacity(path.len());
    let mut bytes = path.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let mut digit = || char::from(bytes.next()?).to_digit(16);
        let (Some(high), Some(low)) = (digit(), digit()) else {
            return false;
        };
        decoded.push(u8::try_from(high * 16 + low).unwrap_or_default());
    }
    std::str::from_utf8(&decoded).is_ok()
}

/// `OPTIONS` names what a path takes; a method that it does not take is a problem that does the same.
fn method_rules(method: &Method, response: &mut Response) {
    if response.status() != StatusCode::METHOD_NOT_ALLOWED || response.extensions().get::<Problem>().is_some()
    {
        return;
    }
    let allow = response.headers_mut().remove(header::ALLOW);
    *response = if method == Method::OPTIONS {
        let mut answer = Response::new(Body::empty());
        *answer.status_mut() = StatusCode::NO_CONTENT;
        answer
    } else {
        Problem::new(
            Code::MethodNotAllowed,
            "the Allow header names the methods of this path",
        )
        .into_response()
    };
    if let Some(allow) = allow {
        response.headers_mut().insert(header::ALLOW, allow);
    }
}

/// What is at no route.
pub(crate) async fn unknown_path() -> Problem {
    Problem::new(
        Code::UnknownPath,
        "see /openapi.json for the paths of this server",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_of_a_path_are_judged_as_one_text() {
        for good in ["/v1/runs/run_1", "/a%20b", "/%00", "/%2e%2e%2f", "/%c3%a9"] {
            assert!(percent_encoding_is_valid(good), "{good}");
        }
        for bad in ["/%", "/%2", "/%zz", "/%+1", "/%ff", "/%c3", "/%ed%a0%80"] {
            assert!(!percent_encoding_is_valid(bad), "{bad}");
        }
    }

    #[test]
    fn a_trace_id_is_taken_from_a_well_formed_parent_only() {
        let trace = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert("traceparent", HeaderValue::from_static(value));
            trace_id(&headers).map(str::to_owned)
        };
        let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        assert_eq!(trace(good).as_deref(), Some("4bf92f3577b34da6a3ce929d0e0e4736"));
        assert_eq!(
            trace("00-00000000000000000000000000000000-00f067aa0ba902b7-01"),
            None
        );
        assert_eq!(trace("nonsense"), None);
    }
}
