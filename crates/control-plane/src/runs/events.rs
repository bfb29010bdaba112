//! `GET /v1/runs/{id}/events`: the journal of a run, as a stream or as a list.

use super::{frames::push_object, not_found, run_ref, tail::EventStream};
use crate::{
    api::Api,
    auth::{Authorized, RunsRead},
    json::media::{EventForm, event_form},
    page::{Page, limit_within},
    params::Params,
    problem::{Code, Problem},
    schema::{EventList, Problems},
};
use axum::{
    body::Body,
    extract::{Path, RawQuery, State},
    response::{IntoResponse, Response},
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use portolan_core::ids::Seq;
use portolan_journal::{RunRef, RunRow};
use std::sync::Arc;

/// Events of a list that does not say, and the most: a run has hundreds of them, not thousands.
const LIST_EVENTS: u32 = 1_000;
/// Events of a list that are read at once.
const BATCH_EVENTS: u32 = 64;

/// Shows the journal of a run: as server-sent events that go on until the run has ended, or as a list.
#[utoipa::path(
    get,
    path = "/v1/runs/{id}/events",
    tag = "runs",
    operation_id = "listRunEvents",
    security(("bearer" = ["runs:read"])),
    params(
        ("id" = String, Path, description = "The run"),
        ("after" = Option<u64>, Query, description = "Only events strictly after this sequence"),
        ("Last-Event-ID" = Option<u64>, Header, description = "The same, as browsers send it; it wins"),
        ("deltas" = Option<bool>, Query, description = "Also advisory token deltas, without an id"),
        ("limit" = Option<u32>, Query, description = "Events of a list, 1 to 1000")
    ),
    responses(
        (status = 200, description = "The journal", content(
            (String = "text/event-stream"),
            (EventList = "application/json")
        )),
        (status = 204, description = "The run has ended and has no event after that one"),
        Problems
    )
)]
pub(crate) async fn events(
    auth: Authorized<RunsRead>,
    State(api): State<Arc<Api>>,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let form = form(&headers)?;
    let params = Params::read(query.as_deref(), &["after", "deltas", "limit"])?;
    let limit = limit_within(&params, LIST_EVENTS, LIST_EVENTS)?;
    params.parse::<bool>("deltas", "true or false")?;
    let after = after(&headers, &params)?;
    let run = run_ref(auth.tenant(), &id)?;
    let row = api.journal.run(run).await?.ok_or_else(not_found)?;
    let is_at_end = judge(after, &row)?;
    match form {
        EventForm::List => list(&api, run, after, limit).await,
        EventForm::Stream if is_at_end => Ok(StatusCode::NO_CONTENT.into_response()),
        EventForm::Stream => {
            let stream = EventStream::new(api, run, auth.principal.secret_hash, after);
            Ok(answer(stream))
        }
    }
}

fn form(headers: &HeaderMap) -> Result<EventForm, Problem> {
    let accept = headers.get_all(header::ACCEPT).iter();
    event_form(accept.filter_map(|value| value.to_str().ok())).ok_or_else(|| {
        Problem::new(
            Code::NotAcceptable,
            "events are served as text/event-stream and as application/json",
        )
    })
}

/// The place that the client has seen: of the header, which a browser updates, before that of the address.
fn after(headers: &HeaderMap, params: &Params<'_>) -> Result<Seq, Problem> {
    let bad = || {
        Problem::new(
            Code::BadEventId,
            "an event id is the sequence number of an event: a whole number, not negative",
        )
    };
    let mut ids = headers.get_all("last-event-id").iter();
    let text = match (ids.next(), ids.next()) {
        (Some(_), Some(_)) => return Err(bad()),
        (Some(only), None) => Some(only.to_str().map_err(|_| bad())?),
        (None, _) => params.get("after"),
    };
    let Some(text) = text else {
        return Ok(Seq::ZERO);
    };
    // `parse` alone would take a plus sign.
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(bad());
    }
    text.parse().map(Seq).map_err(|_| bad())
}

/// Whether a run that has ended has nothing after the place. A place that a moving run has not reached is refused.
fn judge(after: Seq, row: &RunRow) -> Result<bool, Problem> {
    let ended = row.progress.status.is_terminal();
    if !ended && after > row.last_seq {
        let detail = format!("the last event of the run has the sequence {}", row.last_seq.0);
        return Err(Problem::new(Code::CursorAhead, detail).about(row.at.run));
    }
    Ok(ended && after >= row.last_seq)
}

fn answer(stream: EventStream) -> Response {
    const HEADERS: [(HeaderName, HeaderValue); 3] = [
        (
            header::CONTENT_TYPE,
            HeaderValue::from_static("text/event-stream"),
        ),
        (
            header::CACHE_CONTROL,
            HeaderValue::from_static("no-cache, no-transform"),
        ),
        (
            HeaderName::from_static("x-accel-buffering"),
            HeaderValue::from_static("no"),
        ),
    ];
    (HEADERS, Body::from_stream(stream.frames())).into_response()
}

async fn list(api: &Api, run: RunRef, mut after: Seq, limit: u32) -> Result<Response, Problem> {
    let mut page = Page::new();
    let mut left = limit;
    let mut object = Vec::new();
    loop {
        // One more than is wanted tells whether there is more.
        let max = (left + 1).min(BATCH_EVENTS);
        let events = api.journal.read(run, after, max).await?;
        let is_last_batch = u32::try_from(events.len()).is_ok_and(|count| count < max);
        for event in events {
            if left == 0 || page.is_large() {
                return Ok(page.end(Some(&after.0.to_string())));
            }
            object.clear();
            push_object(run.run, &event, &mut object);
            page.push_json(&object);
            after = event.seq;
            left -= 1;
        }
        if is_last_batch {
            return Ok(page.end(None));
        }
    }
}
