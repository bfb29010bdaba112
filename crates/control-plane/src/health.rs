//! What orchestrators ask: is the process alive, and may traffic come.

use crate::{
    api::Api,
    page,
    problem::{Code, Problem},
    schema::Problems,
};
use axum::{extract::State, response::Response};
use portolan_core::ids::{RunId, TenantId};
use portolan_journal::RunRef;
use serde::Serialize;
use std::sync::Arc;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

/// How long a client waits before it asks again.
const RETRY_MS: u64 = 1_000;

/// The routes of health.
pub(crate) fn routes() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::new()
        .routes(routes!(healthz))
        .routes(routes!(readyz))
}

/// How the server is.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Health {
    /// `ok` or `ready`.
    status: &'static str,
}

/// Says that the process is alive.
#[utoipa::path(
    get,
    path = "/healthz",
    tag = "operation",
    operation_id = "healthz",
    responses((status = 200, description = "Alive", body = Health), Problems)
)]
pub(crate) async fn healthz() -> Result<Response, Problem> {
    page::json(&Health { status: "ok" })
}

/// Says that the store can be reached and that the first look for runs is done. The store proved its schema when it was opened.
#[utoipa::path(
    get,
    path = "/readyz",
    tag = "operation",
    operation_id = "readyz",
    responses((status = 200, description = "Ready for traffic", body = Health), Problems)
)]
pub(crate) async fn readyz(State(api): State<Arc<Api>>) -> Result<Response, Problem> {
    let not_yet = |detail: &'static str| Problem::new(Code::NotReady, detail).retry_after_ms(RETRY_MS);
    if api.host.is_draining() || api.shutdown.is_cancelled() {
        return Err(not_yet("the server is shutting down"));
    }
    if !api.host.first_sweep_done() {
        return Err(not_yet("the first look for interrupted runs is not done"));
    }
    let nobodys = RunRef {
        tenant: TenantId::from_bytes([0; 16]),
        run: RunId::from_bytes([0; 16]),
    };
    api.journal.run(nobodys).await?;
    page::json(&Health { status: "ready" })
}
