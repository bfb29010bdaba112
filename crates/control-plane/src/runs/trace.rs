//! `GET /v1/runs/{id}/trace`.

use super::{journal::read_all, run_ref};
use crate::{
    api::Api,
    auth::{Authorized, RunsRead},
    page,
    problem::Problem,
    schema::{Problems, Trace},
};
use axum::{
    extract::{Path, State},
    response::Response,
};
use portolan_core::ids::ExecutionId;
use serde::Serialize;
use serde_json::value::RawValue;
use std::sync::Arc;

/// Shows the trace of the bounded loop: the same as that of an embedded execution.
#[utoipa::path(
    get,
    path = "/v1/runs/{id}/trace",
    tag = "runs",
    operation_id = "getRunTrace",
    security(("bearer" = ["runs:read"])),
    params(("id" = String, Path, description = "The run")),
    responses((status = 200, description = "The trace so far", body = Trace), Problems)
)]
pub(crate) async fn trace(
    auth: Authorized<RunsRead>,
    State(api): State<Arc<Api>>,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Answer {
        execution_id: ExecutionId,
        events: Box<RawValue>,
    }
    let run = run_ref(auth.tenant(), &id)?;
    let records = read_all(&api, run).await?;
    let events = api
        .host
        .trace(&records)
        .map_err(|error| Problem::internal(&error))?;
    page::json(&Answer {
        execution_id: run.run.into(),
        events,
    })
}
