//! `GET /v1/runs/{id}/steps`.

use super::{journal::read_all, run_ref};
use crate::{
    api::Api,
    auth::{Authorized, RunsRead},
    page,
    problem::Problem,
    schema::{Problems, StepList},
};
use axum::{
    extract::{Path, State},
    response::Response,
};
use serde::Serialize;
use serde_json::value::RawValue;
use std::sync::Arc;

/// Shows the steps of a run with their attempts.
#[utoipa::path(
    get,
    path = "/v1/runs/{id}/steps",
    tag = "runs",
    operation_id = "listRunSteps",
    security(("bearer" = ["runs:read"])),
    params(("id" = String, Path, description = "The run")),
    responses((status = 200, description = "The steps, in the order in which they began", body = StepList), Problems)
)]
pub(crate) async fn steps(
    auth: Authorized<RunsRead>,
    State(api): State<Arc<Api>>,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    #[derive(Serialize)]
    struct Answer {
        data: Box<RawValue>,
    }
    let at = run_ref(auth.tenant(), &id)?;
    let records = read_all(&api, at).await?;
    let data = api
        .host
        .steps(at.run, &records)
        .map_err(|error| Problem::internal(&error))?;
    page::json(&Answer { data })
}
