//! `GET /v1/agents`.

use super::view::AgentView;
use crate::{
    api::Api,
    auth::{AgentsRead, Authorized},
    page::{self, Page},
    params::Params,
    problem::{Code, Problem},
    schema::{AgentList, Problems},
};
use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use portolan_core::agent::AgentName;
use std::sync::Arc;

/// Lists the newest versions of the agents that are not retired, by name.
#[utoipa::path(
    get,
    path = "/v1/agents",
    tag = "agents",
    operation_id = "listAgents",
    security(("bearer" = ["agents:read"])),
    params(
        ("limit" = Option<u32>, Query, description = "Items of a page, 1 to 200; 50 if absent"),
        ("cursor" = Option<String>, Query, description = "nextCursor of the page before")
    ),
    responses((status = 200, description = "A page of agents", body = AgentList), Problems)
)]
pub(crate) async fn list(
    auth: Authorized<AgentsRead>,
    State(api): State<Arc<Api>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let tenant = auth.tenant();
    let params = Params::read(query.as_deref(), &["limit", "cursor"])?;
    let limit = page::limit(&params)?;
    let after = match page::after(&params, &api.hash_key, "agents", tenant)? {
        None => None,
        Some(bytes) => Some(name_of(bytes)?),
    };
    let agents = api.agents.agents(tenant, after, limit + 1).await?;
    let wanted = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut page = Page::new();
    for (index, agent) in agents.iter().enumerate().take(wanted) {
        page.push(&AgentView::from(agent))?;
        let is_last = index + 1 == wanted || page.is_large();
        if is_last && index + 1 < agents.len() {
            let name = agent.definition.name.as_str();
            let cursor = page::cursor(&api.hash_key, "agents", tenant, name.as_bytes());
            return Ok(page.end(Some(&cursor)));
        }
    }
    Ok(page.end(None))
}

fn name_of(bytes: Vec<u8>) -> Result<AgentName, Problem> {
    String::from_utf8(bytes)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| Problem::new(Code::BadCursor, "the cursor names no agent"))
}
