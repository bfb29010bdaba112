//! `PUT /v1/agents/{name}`.

use super::view::envelope;
use crate::{
    api::Api,
    auth::{AgentsWrite, Authorized},
    json::{JsonObject, decode_text, decode_value},
    problem::{FieldError, Problem},
    schema::{AgentDefinition as AgentDefinitionSchema, AgentEnvelope, Problems},
};
use axum::{
    extract::{Path, State},
    response::Response,
};
use http::{HeaderValue, StatusCode, header};
use portolan_core::agent::{AgentDefinition, AgentName, AgentNameError};
use serde_json::{Map, Value};
use std::sync::Arc;

/// Members that are objects. The decoder alone would also take a list of their fields.
const OBJECTS: &[&str] = &[
    "resources",
    "approval",
    "workspace",
    "runtime",
    "limits",
    "retries",
];

/// Makes a new version of an agent; the same definition again is the version that is there.
#[utoipa::path(
    put,
    path = "/v1/agents/{name}",
    tag = "agents",
    operation_id = "putAgent",
    security(("bearer" = ["agents:write"])),
    params(("name" = String, Path, description = "The agent")),
    request_body = AgentDefinitionSchema,
    responses(
        (status = 200, description = "The version that was there", body = AgentEnvelope),
        (status = 201, description = "The new version", body = AgentEnvelope),
        Problems
    )
)]
pub(crate) async fn put(
    auth: Authorized<AgentsWrite>,
    State(api): State<Arc<Api>>,
    Path(name): Path<String>,
    body: JsonObject,
) -> Result<Response, Problem> {
    let definition = definition(&name, &body)?;
    let violations = api.host.check_definition(&definition);
    if !violations.is_empty() {
        return Err(Problem::fields(
            violations.into_iter().map(FieldError::from).collect(),
        ));
    }
    let at = api.clock.now();
    let name = definition.name.clone();
    let stored = api
        .agents
        .put_agent(auth.tenant(), api.entropy.agent_id(at), definition, at)
        .await;
    // Also after an error: the version may have been made.
    api.agent_cache.forget(auth.tenant(), &name);
    let agent = stored?;
    let mut response = envelope(&agent)?;
    if agent.created_at == at {
        *response.status_mut() = StatusCode::CREATED;
        let location = format!("/v1/agents/{name}/versions/{}", agent.version);
        let location = HeaderValue::from_str(&location).expect("agent names are visible ASCII");
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

/// Reads the definition. Its name is that of the path, and need not be said twice.
fn definition(name: &str, body: &JsonObject) -> Result<AgentDefinition, Problem> {
    let refused = |message: String| Problem::fields(vec![FieldError::body("/name", message)]);
    let name: AgentName = name
        .parse()
        .map_err(|error: AgentNameError| refused(error.to_string()))?;
    let mut members: Map<String, Value> = decode_text(body.text())?;
    let lists: Vec<FieldError> = OBJECTS
        .iter()
        .filter(|member| members.get(**member).is_some_and(Value::is_array))
        .map(|member| FieldError::body(format!("/{member}"), "expected an object"))
        .collect();
    if !lists.is_empty() {
        return Err(Problem::fields(lists));
    }
    members
        .entry("name")
        .or_insert_with(|| Value::String(name.as_str().to_owned()));
    let definition: AgentDefinition = decode_value(&Value::Object(members))?;
    if definition.name != name {
        return Err(refused(format!("the path names the agent {name}")));
    }
    Ok(definition)
}
