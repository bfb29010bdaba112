//! Reading a body within its bounds of size and time.

use crate::{
    api::Api,
    problem::{Code, Problem},
};
use axum::body::Body;
use bytes::{Bytes, BytesMut};
use futures::future::{Either, select};
use http::{HeaderMap, header};
use http_body_util::BodyExt;
use std::pin::pin;

/// Reads a whole body, or says why it is not accepted.
pub(crate) async fn read(headers: &HeaderMap, body: Body, api: &Api) -> Result<Bytes, Problem> {
    let limit = api.config.max_body_bytes;
    let declared = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if declared.is_some_and(|length| length > u64::try_from(limit).unwrap_or(u64::MAX)) {
        return Err(too_large(limit));
    }
    let reading = pin!(collect(body, limit));
    // The timer is made only when the body is not there yet: most bodies arrive with their head.
    let mut reading = reading;
    if let Some(done) = futures::FutureExt::now_or_never(&mut reading) {
        return done;
    }
    let timer = api.clock.sleep_ms(api.config.body_timeout_ms);
    match select(reading, timer).await {
        Either::Left((done, _)) => done,
        Either::Right(((), _)) => Err(Problem::new(
            Code::BodyTimeout,
            format!("the body did not arrive within {} ms", api.config.body_timeout_ms),
        )
        .closing()),
    }
}

async fn collect(mut body: Body, limit: usize) -> Result<Bytes, Problem> {
    let mut first = Bytes::new();
    let mut whole: Option<BytesMut> = None;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            tracing::debug!(%error, "a body could not be read");
            Problem::new(Code::IncompleteBody, "the body ended early or is framed wrongly").closing()
        })?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        let so_far = whole.as_ref().map_or(first.len(), BytesMut::len);
        if data.len() > limit - so_far {
            return Err(too_large(limit));
        }
        match &mut whole {
            Some(whole) => whole.extend_from_slice(&data),
            None if first.is_empty() => first = data,
            None => {
                let mut joined = BytesMut::with_capacity((first.len() + data.len()) * 2);
                joined.extend_from_slice(&first);
                joined.extend_from_slice(&data);
                whole = Some(joined);
            }
        }
    }
    Ok(whole.map_or(first, BytesMut::freeze))
}

fn too_large(limit: usize) -> Problem {
    Problem::new(Code::BodyTooLarge, format!("a body has at most {limit} bytes"))
        .with_limit(limit.to_string())
        .closing()
}
