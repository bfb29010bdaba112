//! Runs over HTTP.

mod artifacts;
mod cancel;
mod create;
mod events;
mod export;
mod frames;
mod get;
mod idempotency;
mod journal;
mod list;
mod steps;
mod tail;
mod trace;
mod view;

pub(crate) use artifacts::{__path_artifact, artifact};
pub(crate) use create::agent_not_found;
pub use frames::frame as event_frame;
pub(crate) use view::RunView;

use crate::{
    api::Api,
    problem::{Code, Problem},
};
use portolan_core::ids::TenantId;
use portolan_journal::RunRef;
use std::sync::Arc;
use utoipa_axum::{router::OpenApiRouter, routes};

/// The routes of runs, without the bytes of artifacts, whose path has more than one segment.
pub(crate) fn routes() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::new()
        .routes(routes!(create::create, list::list))
        .routes(routes!(get::get))
        .routes(routes!(events::events))
        .routes(routes!(steps::steps))
        .routes(routes!(trace::trace))
        .routes(routes!(artifacts::artifacts))
        .routes(routes!(export::export))
        .routes(routes!(cancel::cancel))
}

/// The run that a path names. What is no run id is a run that never existed.
fn run_ref(tenant: TenantId, id: &str) -> Result<RunRef, Problem> {
    let run = id.parse().map_err(|_| not_found())?;
    Ok(RunRef { tenant, run })
}

/// The same for a run that never existed and for one of another tenant.
fn not_found() -> Problem {
    Problem::new(Code::RunNotFound, "no run of this tenant has that id")
}
