//! `GET /v1/runs/{id}`, which may wait for the end of the run.

use super::{not_found, run_ref, view::Loaded};
use crate::{
    api::Api,
    auth::{Authorized, RunsRead},
    page::json_bytes,
    params::Params,
    problem::{FieldError, Problem},
    schema::{Problems, RunEnvelope},
};
use axum::{
    extract::{Path, RawQuery, State},
    response::Response,
};
use portolan_journal::{Glance, RunRef};
use std::sync::Arc;

/// The longest wait.
const LONGEST_WAIT_MS: u64 = 60_000;

/// Shows a run.
#[utoipa::path(
    get,
    path = "/v1/runs/{id}",
    tag = "runs",
    operation_id = "getRun",
    security(("bearer" = ["runs:read"])),
    params(
        ("id" = String, Path, description = "The run"),
        ("waitMs" = Option<u64>, Query, description = "Waits so long at most, up to 60000, for the run to end")
    ),
    responses((status = 200, description = "The run", body = RunEnvelope), Problems)
)]
pub(crate) async fn get(
    auth: Authorized<RunsRead>,
    State(api): State<Arc<Api>>,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let wait_ms = wait_ms(query.as_deref())?;
    let run = run_ref(auth.tenant(), &id)?;
    let glance = if wait_ms == 0 {
        api.journal.glance(run).await?.ok_or_else(not_found)?
    } else {
        end_of(&api, run, wait_ms).await?
    };
    let loaded = Loaded::glanced(&api, glance).await?;
    Ok(json_bytes(loaded.envelope(api.clock.now())?))
}

fn wait_ms(query: Option<&str>) -> Result<u64, Problem> {
    let params = Params::read(query, &["waitMs"])?;
    let Some(text) = params.get("waitMs") else {
        return Ok(0);
    };
    text.parse()
        .ok()
        .filter(|ms| *ms <= LONGEST_WAIT_MS)
        .ok_or_else(|| {
            let message = format!("waitMs is a number of milliseconds from 0 to {LONGEST_WAIT_MS}");
            Problem::fields(vec![FieldError::query("waitMs", message)])
        })
}

/// A run when it has ended, or when the time is up. The signal wakes at once; a look at the store stands behind it.
async fn end_of(api: &Api, run: RunRef, wait_ms: u64) -> Result<Glance, Problem> {
    // Followed before the first look, so that no end falls between the two.
    let mut signal = api.journal.hub().follow(run);
    let deadline = api.clock.monotonic_us().saturating_add(wait_ms * 1_000);
    loop {
        let glance = api.journal.glance(run).await?.ok_or_else(not_found)?;
        let left_us = deadline.saturating_sub(api.clock.monotonic_us());
        if glance.row.progress.status.is_terminal() || left_us == 0 || api.shutdown.is_cancelled() {
            return Ok(glance);
        }
        let pause_ms = left_us.div_ceil(1_000).min(api.config.poll_ms);
        let ended = async {
            if signal.wait_for(|signal| signal.ended).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = ended => {}
            () = api.clock.sleep_ms(pause_ms) => {}
            () = api.shutdown.cancelled() => {}
        }
    }
}
