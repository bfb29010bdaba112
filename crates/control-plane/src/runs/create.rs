//! `POST /v1/runs`.

use super::{
    idempotency::{IdempotencyKey, fingerprint},
    view::Loaded,
};
use crate::{
    api::Api,
    auth::{Authorized, RunsExecute},
    host::Launched,
    json::{StrictJson, object, present},
    page::JSON,
    problem::{Code, FieldError, Problem},
    schema::{Problems, RunEnvelope},
};
use axum::{
    body::Body,
    extract::State,
    response::{IntoResponse, Response},
};
use http::{HeaderValue, StatusCode, header};
use portolan_core::{
    agent::{AgentName, AgentVersion, FileContent, RunLimits},
    event::{Event, RunQueued},
    faults::Point,
    ids::{Seq, TenantId},
    money::NanoUsd,
    time::Timestamp,
};
use portolan_journal::{
    Admission, Admitted, Claim, IdempotencyClaim, JournalError, NewEvent, Progress, RunRef, RunRow, ScopeKey,
    faulty,
};
use serde::Deserialize;
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc};
use utoipa::ToSchema;

const MOST_TAGS: usize = 32;
const MOST_METADATA: usize = 64;
const LONGEST_NAME: usize = 128;
const LONGEST_METADATA: usize = 2_048;
/// How long a client waits before it asks a draining server again: by then another one answers.
const DRAIN_RETRY_MS: u64 = 1_000;

/// What a new run is asked to do.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RunRequest {
    /// The agent; its newest version is taken.
    #[schema(example = "fixer")]
    pub(crate) agent_name: String,
    /// What it is given.
    pub(crate) input: Value,
    /// Initial files of the workspace: path to text or `{base64}`.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, crate::schema::FileContent>)]
    pub(crate) files: BTreeMap<String, FileContent>,
    /// Bounds, which can only be tighter than those of the agent.
    #[serde(default, deserialize_with = "object")]
    #[schema(value_type = crate::schema::RunLimits)]
    pub(crate) limits: AskedLimits,
    /// Notes for whoever reads the run.
    #[serde(default)]
    pub(crate) metadata: BTreeMap<String, String>,
    /// Tags, for lists.
    #[serde(default)]
    pub(crate) tags: Vec<String>,
}

/// Limits of which none may be null.
#[derive(Debug, Default, Deserialize)]
#[serde(from = "AskedLimitFields")]
pub(crate) struct AskedLimits(pub(crate) RunLimits);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AskedLimitFields {
    #[serde(default, deserialize_with = "present")]
    model_calls: Option<u32>,
    #[serde(default, deserialize_with = "present")]
    tool_calls: Option<u32>,
    #[serde(default, deserialize_with = "present")]
    result_retries: Option<u32>,
    #[serde(default, deserialize_with = "present")]
    wall_time_ms: Option<u64>,
    #[serde(default, deserialize_with = "present")]
    max_cost_usd: Option<NanoUsd>,
    #[serde(default, deserialize_with = "present")]
    max_tokens: Option<u64>,
    #[serde(default, deserialize_with = "present")]
    max_output_tokens: Option<u32>,
}

impl From<AskedLimitFields> for AskedLimits {
    fn from(fields: AskedLimitFields) -> Self {
        Self(RunLimits {
            model_calls: fields.model_calls,
            tool_calls: fields.tool_calls,
            result_retries: fields.result_retries,
            wall_time_ms: fields.wall_time_ms,
            max_cost_usd: fields.max_cost_usd,
            max_tokens: fields.max_tokens,
            max_output_tokens: fields.max_output_tokens,
        })
    }
}

/// Creates a run.
#[utoipa::path(
    post,
    path = "/v1/runs",
    tag = "runs",
    operation_id = "createRun",
    security(("bearer" = ["runs:execute"])),
    params(("Idempotency-Key" = Option<String>, Header, description = "1 to 255 visible ASCII characters: the same key and body is the same run")),
    request_body = RunRequest,
    responses((status = 201, description = "The run is durable", body = RunEnvelope, headers(("Location" = String, description = "Where the run is"))), Problems)
)]
pub(crate) async fn create(
    auth: Authorized<RunsExecute>,
    State(api): State<Arc<Api>>,
    IdempotencyKey(key): IdempotencyKey,
    StrictJson(request): StrictJson<RunRequest>,
) -> Result<Response, Problem> {
    if api.host.is_draining() || api.shutdown.is_cancelled() {
        return Err(
            Problem::new(Code::Draining, "the server takes no new runs; try again")
                .retry_after_ms(DRAIN_RETRY_MS)
                .closing(),
        );
    }
    check_labels(&request)?;
    let at = api.clock.now();
    let claim = key.map(|key| IdempotencyClaim {
        key,
        fingerprint: fingerprint(&request),
        expires_at: at.plus_ms(api.config.idempotency_ttl_ms),
    });
    match prepare(&api, auth.tenant(), request).await {
        Ok((agent, queued)) => admit(&api, auth.tenant(), agent, queued, claim, at).await,
        // The agent may have changed since the key was used: its run is still the answer.
        Err(problem) => match earlier(&api, auth.tenant(), claim.as_ref(), at).await? {
            Some(run) => replayed(&api, run).await,
            None => Err(problem),
        },
    }
}

/// Finds the agent and judges the request against it.
async fn prepare(
    api: &Api,
    tenant: TenantId,
    request: RunRequest,
) -> Result<(Arc<AgentVersion>, RunQueued), Problem> {
    let name = agent_name(&request.agent_name)?;
    let agent = api
        .agent_cache
        .newest(tenant, name.clone(), api)
        .await?
        .filter(|agent| !agent.retired)
        .ok_or_else(agent_not_found)?;
    let mut queued = RunQueued {
        agent_name: name,
        agent_version: agent.version,
        input: request.input,
        files: request.files,
        limits: request.limits.0,
        tags: request.tags,
        metadata: request.metadata,
        parent_run_id: None,
    };
    let violations = api.host.check_run(&agent.definition, &queued);
    if !violations.is_empty() {
        return Err(Problem::fields(
            violations.into_iter().map(FieldError::from).collect(),
        ));
    }
    queued.limits = api
        .host
        .effective_limits(&agent.definition.limits, &queued.limits);
    Ok((agent, queued))
}

async fn admit(
    api: &Api,
    tenant: TenantId,
    agent: Arc<AgentVersion>,
    queued: RunQueued,
    idempotency: Option<IdempotencyClaim>,
    at: Timestamp,
) -> Result<Response, Problem> {
    let run = RunRef {
        tenant,
        run: api.entropy.run_id(at),
    };
    let queued = Box::new(queued);
    let event = Event::RunQueued(queued);
    let first = NewEvent::encode(&event, None).map_err(|error| Problem::internal(&error))?;
    let Event::RunQueued(queued) = event else {
        return Err(Problem::internal(&"an event changed its kind"));
    };
    let payload = first.payload.clone();
    let place = api.host.reserve();
    let admission = Admission {
        run,
        agent: queued.agent_name.clone(),
        agent_version: agent.version,
        tags: queued.tags.clone(),
        queued: first,
        reserve: NanoUsd::ZERO,
        idempotency,
        claim: place.as_ref().map(|place| place.claim),
        at,
    };
    let claim = admission.claim;
    let admitting = faulty::between(
        Point::AdmitParsed,
        Point::AdmitCommitted,
        api.journal.admit(admission),
    );
    let admitted = match admitting.await {
        Err(JournalError::Unknown(cause)) => read_back(api, run, claim, cause).await?,
        answer => answer?,
    };
    let epoch = match admitted {
        Admitted::Created { epoch } => epoch,
        Admitted::Replayed(run) => return replayed(api, RunRef { tenant, run }).await,
        Admitted::KeyReused => return Err(key_reused()),
        Admitted::OverBudget { scope } => return Err(over_budget(&scope)),
    };
    let row = fresh_row(run, &queued, claim, at);
    let body = Loaded::fresh(row, payload.into()).envelope(at)?;
    match (place, epoch) {
        (Some(place), Some(epoch)) => (place.launch)(Launched {
            run,
            epoch,
            queued: *queued,
            agent,
            at,
        }),
        (Some(_) | None, None) | (None, Some(_)) => api.host.poke(),
    }
    Ok(created(run, body))
}

/// Nobody knows whether the admission was committed: the store is asked what it has.
async fn read_back(api: &Api, run: RunRef, claim: Option<Claim>, cause: String) -> Result<Admitted, Problem> {
    match api.journal.run(run).await? {
        Some(row) => Ok(Admitted::Created {
            epoch: claim
                .filter(|claim| row.owner == Some(claim.owner))
                .map(|_| row.epoch),
        }),
        None => Err(JournalError::Unknown(cause).into()),
    }
}

/// The run that the key made earlier, for requests that could not make one today.
async fn earlier(
    api: &Api,
    tenant: TenantId,
    claim: Option<&IdempotencyClaim>,
    at: Timestamp,
) -> Result<Option<RunRef>, Problem> {
    let Some(claim) = claim else {
        return Ok(None);
    };
    match api.journal.idempotent(tenant, claim.key.clone(), at).await? {
        None => Ok(None),
        Some((fingerprint, run)) if fingerprint == claim.fingerprint => Ok(Some(RunRef { tenant, run })),
        Some(_) => Err(key_reused()),
    }
}

async fn replayed(api: &Api, run: RunRef) -> Result<Response, Problem> {
    let loaded = Loaded::read(api, run).await?;
    let mut response = created(run, loaded.envelope(api.clock.now())?);
    let replayed = HeaderValue::from_static("true");
    response.headers_mut().insert("idempotent-replayed", replayed);
    Ok(response)
}

fn created(run: RunRef, body: Vec<u8>) -> Response {
    let location = HeaderValue::from_str(&format!("/v1/runs/{}", run.run)).expect("ids are visible ASCII");
    let headers = [(header::CONTENT_TYPE, JSON), (header::LOCATION, location)];
    (StatusCode::CREATED, headers, Body::from(body)).into_response()
}

/// The row that the store made, without asking for it.
fn fresh_row(run: RunRef, queued: &RunQueued, claim: Option<Claim>, at: Timestamp) -> RunRow {
    RunRow {
        at: run,
        agent: queued.agent_name.clone(),
        agent_version: queued.agent_version,
        tags: queued.tags.clone(),
        created_at: at,
        progress: Progress::default(),
        last_seq: Seq(1),
        epoch: portolan_core::ids::Epoch(u64::from(claim.is_some())),
        owner: claim.map(|claim| claim.owner),
        lease_until: claim.map(|claim| claim.lease_until),
        wake_at: None,
        redrives: 0,
        active_ms: 0,
        reserved: NanoUsd::ZERO,
        settled: NanoUsd::ZERO,
        cancel_requested_at: None,
    }
}

/// Reads the name of an agent. A decent name in another script is a name that no agent has.
fn agent_name(text: &str) -> Result<AgentName, Problem> {
    text.parse()
        .map_err(|error: portolan_core::agent::AgentNameError| {
            let foreign = |c: char| c.is_alphanumeric() || matches!(c, '\u{300}'..='\u{36f}');
            let usual = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            let is_decent = !text.is_empty()
                && text.chars().count() <= LONGEST_NAME
                && text.chars().all(|c| usual(c) || (!c.is_ascii() && foreign(c)))
                && !text.is_ascii();
            if is_decent {
                agent_not_found()
            } else {
                Problem::fields(vec![FieldError::body("/agentName", error.to_string())])
            }
        })
}

/// The same for an agent that never existed, a retired one and one of another tenant.
pub(crate) fn agent_not_found() -> Problem {
    Problem::new(Code::AgentNotFound, "no agent of this tenant has that name")
}

fn key_reused() -> Problem {
    Problem::new(
        Code::IdempotencyKeyReused,
        "this idempotency key was used for another request; take a new one",
    )
}

fn over_budget(scope: &ScopeKey) -> Problem {
    let (limit, detail) = match scope {
        ScopeKey::Tenant => (
            "tenant".to_owned(),
            "the budget of the tenant has no room".to_owned(),
        ),
        ScopeKey::Agent(name) => (
            format!("agent:{name}"),
            format!("the budget of the agent {name} has no room"),
        ),
    };
    Problem::new(Code::BudgetExhausted, detail).with_limit(limit)
}

/// Judges tags and metadata.
fn check_labels(request: &RunRequest) -> Result<(), Problem> {
    let mut errors = Vec::new();
    let too_many = |pointer: &str, most: usize| FieldError::body(pointer, format!("at most {most} are kept"));
    if request.tags.len() > MOST_TAGS {
        errors.push(too_many("/tags", MOST_TAGS));
    }
    if request.metadata.len() > MOST_METADATA {
        errors.push(too_many("/metadata", MOST_METADATA));
    }
    for (index, tag) in request.tags.iter().enumerate().take(MOST_TAGS) {
        if !is_label(tag) {
            let message = "a tag has 1 to 128 characters, none of them a control character";
            errors.push(FieldError::body(format!("/tags/{index}"), message));
        }
    }
    for (name, value) in request.metadata.iter().take(MOST_METADATA) {
        if !is_label(name) || value.chars().count() > LONGEST_METADATA {
            let place = format!("/metadata/{}", name.replace('~', "~0").replace('/', "~1"));
            let message =
                "a name has 1 to 128 characters, none of them a control character, a value at most 2048";
            errors.push(FieldError::body(place, message));
        }
    }
    if errors.is_empty() {
        Ok(())
    } else {
        Err(Problem::fields(errors))
    }
}

pub(super) fn is_label(text: &str) -> bool {
    (1..=LONGEST_NAME).contains(&text.chars().count()) && !text.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_refused_or_unknown() {
        let code = |text: &str| agent_name(text).map_err(|problem| problem.code());
        assert!(code("fixer-2.b_c").is_ok());
        for unknown in ["caf\u{e9}", "cafe\u{301}", "エージェント"] {
            assert_eq!(code(unknown), Err(Code::AgentNotFound), "{unknown}");
        }
        let long = "a".repeat(257);
        let long_foreign = "é".repeat(257);
        for bad in [
            "",
            "a/b",
            "..",
            "a\u{0}b",
            "a\u{202e}b",
            "é/b",
            "é\u{202e}",
            "a b",
            &long,
            &long_foreign,
        ] {
            assert_eq!(code(bad), Err(Code::InvalidField), "{bad:?}");
        }
    }

    #[test]
    fn limits_are_numbers_of_their_type_and_never_null() {
        for bad in [
            "null",
            "[5]",
            "{\"modelCalls\":-1}",
            "{\"modelCalls\":9223372036854775808}",
            "{\"modelCalls\":1e3}",
            "{\"modelCalls\":1.5}",
            "{\"modelCalls\":\"8\"}",
            "{\"modelCalls\":true}",
            "{\"modelCalls\":null}",
            "{\"wallTimeMs\":\"2m\"}",
            "{\"wallTimeMs\":-1}",
            "{\"maxCostUsd\":0.5}",
            "{\"maxCostUsd\":\"-0\"}",
            "{\"maxCostUsd\":\"0.0000000001\"}",
            "{\"maxCostUsd\":\"-1\"}",
            "{\"steps\":1}",
        ] {
            let body = format!(r#"{{"agentName":"a","input":1,"limits":{bad}}}"#);
            let problem = crate::json::decode_text::<RunRequest>(&body).expect_err(bad);
            assert_eq!(problem.code().status(), StatusCode::UNPROCESSABLE_ENTITY, "{bad}");
        }
    }
}
