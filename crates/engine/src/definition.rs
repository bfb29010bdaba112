//! Judges definitions and requests before anything is stored: what cannot run is refused with its place.

use crate::{
    ports::ModelSource,
    prepare::{effective_limits, task_of, tools},
};
use portolan_agent::{codec::SchemaCodec, machine::Configured, workspace::Policy};
use portolan_core::{
    agent::{AgentDefinition, FileContent, InstructionSource, Isolation, OnBudget, RunLimits, ToolSource},
    event::RunQueued,
    ids::ExecutionId,
    price::Prices,
    workspace::Permission,
};
use serde_json::Value;
use std::collections::BTreeMap;

/// What this host can do.
#[derive(Debug, Clone, Copy, Default)]
pub struct HostAbilities {
    /// Commands may run without isolation.
    pub allow_host_shell: bool,
}

/// One thing that is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// A JSON pointer into the document.
    pub pointer: String,
    /// A stable word.
    pub code: &'static str,
    /// What is wrong, and what to do.
    pub message: String,
}

fn violation(pointer: impl Into<String>, code: &'static str, message: impl Into<String>) -> Violation {
    Violation {
        pointer: pointer.into(),
        code,
        message: message.into(),
    }
}

/// Judges a definition at `PUT`: whatever would fail every run is refused here.
pub fn check(definition: &AgentDefinition, host: &HostAbilities, models: &dyn ModelSource) -> Vec<Violation> {
    let mut found = Vec::new();
    check_model(definition, models, &mut found);
    check_instructions(definition, &mut found);
    check_tools(definition, host, &mut found);
    check_limits(&definition.limits, &mut found);
    check_workspace(definition, &mut found);
    if definition.retries.max_attempts == 0 {
        found.push(violation(
            "/retries/maxAttempts",
            "out_of_range",
            "at least one attempt is needed",
        ));
    }
    if definition.retries.timeout_ms == 0 {
        found.push(violation(
            "/retries/timeoutMs",
            "out_of_range",
            "an attempt needs at least 1 ms",
        ));
    }
    if let Err(error) = SchemaCodec::new(definition.result_schema.clone()) {
        found.push(violation("/resultSchema", "invalid_schema", error.to_string()));
    }
    if let Some(schema) = &definition.input_schema
        && let Err(error) = SchemaCodec::new(schema.clone())
    {
        found.push(violation("/inputSchema", "invalid_schema", error.to_string()));
    }
    found
}

fn check_model(definition: &AgentDefinition, models: &dyn ModelSource, found: &mut Vec<Violation>) {
    match (&definition.model, &definition.capability) {
        (Some(_), Some(_)) => {
            found.push(violation(
                "/capability",
                "conflict",
                "an agent names a model or a capability, not both",
            ));
        }
        (None, None) => found.push(violation("/model", "required", "name a model as provider/model")),
        (None, Some(name)) => {
            let message =
                format!("the capability {name:?} is not known: this server does not route capabilities yet");
            found.push(violation("/capability", "unknown_capability", message));
        }
        (Some(name), None) => {
            if let Err(error) = models.model(name) {
                found.push(violation("/model", "unknown_model", error.to_string()));
            }
        }
    }
}

fn check_instructions(definition: &AgentDefinition, found: &mut Vec<Violation>) {
    for (place, source) in definition.instructions.iter().enumerate() {
        if let InstructionSource::File { file } = source {
            let message = format!("over HTTP an instruction is its text; `agents apply` inlines {file:?}");
            found.push(violation(
                format!("/instructions/{place}"),
                "not_inlined",
                message,
            ));
        }
    }
}

fn check_tools(definition: &AgentDefinition, host: &HostAbilities, found: &mut Vec<Violation>) {
    let has_shell = definition
        .tools
        .iter()
        .any(|tool| matches!(tool, ToolSource::Shell { .. }));
    let asked = definition.runtime.as_ref().and_then(|runtime| runtime.isolation);
    let floor = asked.unwrap_or(if has_shell {
        Isolation::Process
    } else {
        Isolation::None
    });
    match floor {
        Isolation::None if has_shell && !host.allow_host_shell => found.push(violation(
            "/runtime/isolation",
            "host_shell_refused",
            "the shell tool without isolation is refused unless the server is started with --allow-host-shell",
        )),
        Isolation::None => {}
        Isolation::Process | Isolation::Microvm => {
            let message = "this server offers no process or microVM isolation yet; state isolation = \"none\" if \
                           commands may run on the host";
            found.push(violation("/runtime/isolation", "isolation_unavailable", message));
        }
    }
    if let Some(runtime) = &definition.runtime {
        let unsupported = [
            (runtime.memory_mib.is_some(), "memoryMib"),
            (runtime.vcpus.is_some(), "vcpus"),
            (!runtime.egress.is_empty(), "egress"),
        ];
        for (_, member) in unsupported.iter().filter(|(is_set, _)| *is_set) {
            let message = format!("{member} needs an isolation that this server does not offer yet");
            found.push(violation(
                format!("/runtime/{member}"),
                "isolation_unavailable",
                message,
            ));
        }
    }
    if let Some(approval) = &definition.approval {
        if !approval.tools.is_empty() || approval.timeout_ms.is_some() {
            let message = "this server does not offer approvals yet";
            found.push(violation("/approval", "approval_unavailable", message));
        }
        if approval.on_budget != OnBudget::Fail {
            let message = "this server only offers onBudget = \"fail\" yet";
            found.push(violation("/approval/onBudget", "approval_unavailable", message));
        }
    }
    match tools(definition) {
        Err(refused) => found.push(violation(refused.pointer, "unknown_tool", refused.message)),
        Ok(tools) => {
            let probe = Configured {
                execution_id: ExecutionId::from_bytes([0; 16]),
                task: String::new(),
                context: Value::Null,
                instructions: Vec::new(),
                tools: tools.iter().map(|tool| tool.spec()).collect(),
                result_schema: definition.result_schema.clone(),
                limits: portolan_core::limits::Limits::default(),
                max_output_tokens: None,
            };
            if let Err(error) = probe.check() {
                found.push(violation("/tools", "invalid_tool", error.to_string()));
            }
        }
    }
}

fn check_limits(limits: &RunLimits, found: &mut Vec<Violation>) {
    let at_least_one = [
        (limits.model_calls == Some(0), "modelCalls"),
        (limits.wall_time_ms == Some(0), "wallTimeMs"),
        (limits.max_output_tokens == Some(0), "maxOutputTokens"),
    ];
    for (_, member) in at_least_one.iter().filter(|(is_zero, _)| *is_zero) {
        found.push(violation(
            format!("/limits/{member}"),
            "out_of_range",
            format!("{member} must be at least 1"),
        ));
    }
    if limits.wall_time_ms.is_some_and(|ms| ms > MAX_WALL_TIME_MS) {
        let message = format!("wallTimeMs must be at most {MAX_WALL_TIME_MS} (30 days)");
        found.push(violation("/limits/wallTimeMs", "out_of_range", message));
    }
}

/// The longest active time of a run: 30 days.
pub const MAX_WALL_TIME_MS: u64 = 30 * 86_400_000;

fn check_workspace(definition: &AgentDefinition, found: &mut Vec<Violation>) {
    let Some(workspace) = &definition.workspace else {
        return;
    };
    if workspace.from.is_some() {
        let message = "over HTTP a workspace carries its files; `agents apply` inlines the folder";
        found.push(violation("/workspace/from", "not_inlined", message));
    }
    let allow = workspace.allow.clone().unwrap_or_default();
    if let Err(error) = Policy::new(allow, &workspace.deny_globs) {
        found.push(violation(
            "/workspace/denyGlobs",
            "invalid_glob",
            error.to_string(),
        ));
    }
    let has_shell = definition
        .tools
        .iter()
        .any(|tool| matches!(tool, ToolSource::Shell { .. }));
    let may_execute = workspace
        .allow
        .as_ref()
        .is_some_and(|allow| allow.contains(&Permission::Execute));
    if has_shell && !may_execute {
        let message = "the shell tool needs \"execute\" among what the workspace allows";
        found.push(violation("/workspace/allow", "execute_not_allowed", message));
    }
    check_files(&workspace.files, "/workspace/files", found);
}

fn check_files(files: &BTreeMap<String, FileContent>, pointer: &str, found: &mut Vec<Violation>) {
    let place = |path: &str| format!("{pointer}/{}", path.replace('~', "~0").replace('/', "~1"));
    for (path, content) in files {
        let is_plain = !path.is_empty()
            && path
                .split('/')
                .all(|part| !part.is_empty() && part != "." && part != "..")
            && !path.contains('\0')
            && path.len() <= 4_096;
        if !is_plain {
            let message = "a file path is relative, with `/`, without empty, `.` or `..` parts";
            found.push(violation(place(path), "invalid_path", message));
        }
        if path
            .match_indices('/')
            .any(|(end, _)| files.contains_key(&path[..end]))
        {
            found.push(violation(
                place(path),
                "invalid_path",
                "a part of this path is a file itself",
            ));
        }
        if content.bytes().is_none() {
            found.push(violation(
                place(path),
                "invalid_base64",
                "the content is no base64",
            ));
        }
    }
}

/// Judges a request at `POST /v1/runs` against its agent.
pub fn check_run(
    definition: &AgentDefinition,
    request: &RunQueued,
    models: &dyn ModelSource,
    prices: &dyn Prices,
) -> Vec<Violation> {
    let mut found = Vec::new();
    if let Some(schema) = &definition.input_schema {
        match crate::prepare::codec(schema) {
            Ok(codec) => {
                for wrong in codec.check(&request.input).err().unwrap_or_default() {
                    found.push(violation(
                        format!("/input{}", wrong.path),
                        "input_invalid",
                        wrong.message,
                    ));
                }
            }
            Err(failure) => found.push(violation("/input", "input_invalid", failure.message)),
        }
    }
    if task_of(definition, &request.input).is_none() {
        let message = "the agent has no task: give it as the input, or as its member \"task\"";
        found.push(violation("/input", "task_missing", message));
    }
    check_limits(&request.limits, &mut found);
    check_tightening(&definition.limits, &request.limits, &mut found);
    check_files(&request.files, "/files", &mut found);
    if !request.files.is_empty() && definition.workspace.is_none() {
        found.push(violation(
            "/files",
            "no_workspace",
            "the agent has no workspace for these files",
        ));
    }
    let (_, spend) = effective_limits(&definition.limits, &request.limits);
    if let Some(model) = &definition.model {
        if let Err(error) = models.model(model) {
            found.push(violation("/agentName", "unknown_model", error.to_string()));
        } else if spend.max_cost_usd.is_some() && prices.price(model).is_none() {
            let message = format!(
                "the run is bounded in cost, and the price of {model} is not known: state it as [prices.\"{model}\"] \
                 in the configuration of the server"
            );
            found.push(violation("/limits/maxCostUsd", "price_unknown", message));
        }
    }
    found
}

/// A run may only tighten what its agent says.
fn check_tightening(agent: &RunLimits, run: &RunLimits, found: &mut Vec<Violation>) {
    let (agent_loop, agent_spend) = effective_limits(agent, &RunLimits::default());
    let mut judge = |member: &str, is_looser: bool| {
        if is_looser {
            let message = format!("{member} is looser than the agent's; a run may only tighten it");
            found.push(violation(
                format!("/limits/{member}"),
                "looser_than_agent",
                message,
            ));
        }
    };
    judge(
        "modelCalls",
        run.model_calls.is_some_and(|n| n > agent_loop.model_calls),
    );
    judge(
        "toolCalls",
        run.tool_calls.is_some_and(|n| n > agent_loop.tool_calls),
    );
    judge(
        "resultRetries",
        run.result_retries.is_some_and(|n| n > agent_loop.result_retries),
    );
    judge("wallTimeMs", exceeds(run.wall_time_ms, agent_loop.wall_time_ms));
    judge("maxCostUsd", exceeds(run.max_cost_usd, agent_spend.max_cost_usd));
    judge("maxTokens", exceeds(run.max_tokens, agent_spend.max_tokens));
    judge(
        "maxOutputTokens",
        exceeds(run.max_output_tokens, agent_spend.max_output_tokens),
    );
}

fn exceeds<T: Ord>(run: Option<T>, agent: Option<T>) -> bool {
    run.zip(agent).is_some_and(|(run, agent)| run > agent)
}
