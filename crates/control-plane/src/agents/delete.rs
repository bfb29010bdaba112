//! `DELETE /v1/agents/{name}`.

use crate::{
    api::Api,
    auth::{AgentsWrite, Authorized},
    problem::Problem,
    runs::agent_not_found,
    schema::Problems,
};
use axum::extract::{Path, State};
use http::StatusCode;
use portolan_core::agent::AgentName;
use std::sync::Arc;

/// Retires an agent: it takes no new runs, and its running ones go on.
#[utoipa::path(
    delete,
    path = "/v1/agents/{name}",
    tag = "agents",
    operation_id = "retireAgent",
    security(("bearer" = ["agents:write"])),
    params(("name" = String, Path, description = "The agent")),
    responses((status = 204, description = "It takes no new runs"), Problems)
)]
pub(crate) async fn delete(
    auth: Authorized<AgentsWrite>,
    State(api): State<Arc<Api>>,
    Path(name): Path<String>,
) -> Result<StatusCode, Problem> {
    let name: AgentName = name.parse().map_err(|_| agent_not_found())?;
    let there = api.agents.agent(auth.tenant(), name.clone(), None).await?;
    there.filter(|agent| !agent.retired).ok_or_else(agent_not_found)?;
    let retired = api.agents.retire_agent(auth.tenant(), name.clone()).await;
    api.agent_cache.forget(auth.tenant(), &name);
    if retired? {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(agent_not_found())
    }
}
