//! `GET /v1/agents/{name}/versions/{version}`.

use super::view::envelope;
use crate::{
    api::Api,
    auth::{AgentsRead, Authorized},
    problem::Problem,
    runs::agent_not_found,
    schema::{AgentEnvelope, Problems},
};
use axum::{
    extract::{Path, State},
    response::Response,
};
use std::sync::Arc;

/// Shows a version of an agent, also of a retired one: its runs are pinned to it.
#[utoipa::path(
    get,
    path = "/v1/agents/{name}/versions/{version}",
    tag = "agents",
    operation_id = "getAgentVersion",
    security(("bearer" = ["agents:read"])),
    params(
        ("name" = String, Path, description = "The agent"),
        ("version" = u32, Path, description = "The version, from 1")
    ),
    responses((status = 200, description = "The version", body = AgentEnvelope), Problems)
)]
pub(crate) async fn version(
    auth: Authorized<AgentsRead>,
    State(api): State<Arc<Api>>,
    Path((name, version)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let name = name.parse().map_err(|_| agent_not_found())?;
    let version: u32 = version.parse().map_err(|_| agent_not_found())?;
    let agent = api.agents.agent(auth.tenant(), name, Some(version)).await?;
    envelope(&agent.ok_or_else(agent_not_found)?)
}
