//! `POST /v1/runs/{id}/cancel`.

use super::{not_found, run_ref, view::Loaded};
use crate::{
    api::Api,
    auth::{Authorized, RunsExecute},
    page::JSON,
    problem::{Code, Problem},
    schema::{Problems, RunEnvelope},
};
use axum::{
    body::Body,
    extract::{Path, State},
    response::{IntoResponse, Response},
};
use http::{StatusCode, header};
use portolan_core::faults::Point;
use portolan_journal::{Command, Commanded, faulty};
use std::sync::Arc;

/// Asks a run to end. The answer means that the request is durable.
#[utoipa::path(
    post,
    path = "/v1/runs/{id}/cancel",
    tag = "runs",
    operation_id = "cancelRun",
    security(("bearer" = ["runs:execute"])),
    params(("id" = String, Path, description = "The run")),
    responses((status = 202, description = "The run will end", body = RunEnvelope), Problems)
)]
pub(crate) async fn cancel(
    auth: Authorized<RunsExecute>,
    State(api): State<Arc<Api>>,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let run = run_ref(auth.tenant(), &id)?;
    let asked = faulty::between(
        Point::CancelBeforeCommit,
        Point::CancelCommitted,
        api.journal.command(run, Command::Cancel, api.clock.now()),
    );
    match asked.await? {
        Commanded::Accepted => {}
        Commanded::NotFound => return Err(not_found()),
        Commanded::AlreadyTerminal => {
            return Err(Problem::new(
                Code::AlreadyTerminal,
                "the run has ended; there is nothing to cancel",
            )
            .about(run.run));
        }
    }
    api.host.poke();
    let body = Loaded::read(&api, run).await?.envelope(api.clock.now())?;
    Ok((
        StatusCode::ACCEPTED,
        [(header::CONTENT_TYPE, JSON)],
        Body::from(body),
    )
        .into_response())
}
