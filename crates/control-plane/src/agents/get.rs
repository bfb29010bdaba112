//! `GET /v1/agents/{name}`.

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

/// Shows the newest version of an agent that is not retired.
#[utoipa::path(
    get,
    path = "/v1/agents/{name}",
    tag = "agents",
    operation_id = "getAgent",
    security(("bearer" = ["agents:read"])),
    params(("name" = String, Path, description = "The agent")),
    responses((status = 200, description = "The newest version", body = AgentEnvelope), Problems)
)]
pub(crate) async fn get(
    auth: Authorized<AgentsRead>,
    State(api): State<Arc<Api>>,
    Path(name): Path<String>,
) -> Result<Response, Problem> {
    let name = name.parse().map_err(|_| agent_not_found())?;
    let agent = api.agents.agent(auth.tenant(), name, None).await?;
    let agent = agent.filter(|agent| !agent.retired).ok_or_else(agent_not_found)?;
    envelope(&agent)
}
