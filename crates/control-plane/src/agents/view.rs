//! An agent as the API shows it.

use crate::{page, problem::Problem};
use axum::response::Response;
use portolan_core::{
    agent::{AgentDefinition, AgentVersion},
    ids::AgentId,
    time::Timestamp,
};
use serde::Serialize;
use utoipa::ToSchema;

/// A version of an agent.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Agent)]
pub(crate) struct AgentView<'a> {
    /// The id of the agent, the same for all of its versions.
    #[schema(value_type = String, example = "agt_01981f8a6c3b7f5e8d2a4c6b8e0f1a2b")]
    id: AgentId,
    /// Its name.
    name: &'a str,
    /// The version, from 1.
    version: u32,
    /// Whether the agent takes no new runs.
    retired: bool,
    /// When this version was made.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// What it is.
    #[schema(value_type = crate::schema::AgentDefinition)]
    definition: &'a AgentDefinition,
}

impl<'a> From<&'a AgentVersion> for AgentView<'a> {
    fn from(agent: &'a AgentVersion) -> Self {
        Self {
            id: agent.id,
            name: agent.definition.name.as_str(),
            version: agent.version,
            retired: agent.retired,
            created_at: agent.created_at,
            definition: &agent.definition,
        }
    }
}

/// `{"agent": …}`.
pub(crate) fn envelope(agent: &AgentVersion) -> Result<Response, Problem> {
    #[derive(Serialize)]
    struct Envelope<'a> {
        agent: AgentView<'a>,
    }
    page::json(&Envelope { agent: agent.into() })
}
