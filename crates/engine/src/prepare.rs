//! Turns agent definitions and requests into configurations, tools and workspaces.

use crate::{
    Configuration,
    configuration::{DEFAULT_MAX_OUTPUT_TOKENS, DEFAULT_WALL_TIME_MS},
    ports::{Equipment, Preparer, Seed, WorkspaceHost},
};
use portolan_agent::{
    codec::SchemaCodec,
    machine::{Configured, ResultCodec},
    tools::{Editor, MemoryResource, ResourceTool, Shell, ShellOptions},
    workspace::Policy,
};
use portolan_core::{
    agent::{
        AgentDefinition, AgentVersion, FileContent, InstructionSource, ResourceSource, RunLimits, ToolSource,
    },
    digest::{Chain, Digest},
    event::RunQueued,
    failure::{FailureKind, RunFailure},
    limits::{Limits, SpendLimits},
    manifest::Entry,
    tool::Tool,
    workspace::Permission,
};
use portolan_journal::RunRef;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

/// Compiled schemas that are kept at once. A schema compiles in the time of many steps.
const CODECS_KEPT: usize = 256;

static CODECS: LazyLock<Mutex<HashMap<Digest, Arc<SchemaCodec>>>> = LazyLock::new(Mutex::default);

/// The judge of results against a schema, compiled once.
pub(crate) fn codec(schema: &Value) -> Result<Arc<dyn ResultCodec>, RunFailure> {
    let key = Chain::new("result schema")
        .part(schema.to_string().as_bytes())
        .digest();
    let kept = CODECS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .get(&key)
        .cloned();
    if let Some(codec) = kept {
        return Ok(codec);
    }
    let codec = SchemaCodec::new(schema.clone())
        .map(Arc::new)
        .map_err(|error| configuration_failure(&format!("the result schema cannot be used: {error}")))?;
    let mut codecs = CODECS.lock().unwrap_or_else(PoisonError::into_inner);
    if codecs.len() >= CODECS_KEPT {
        codecs.clear();
    }
    codecs.insert(key, Arc::clone(&codec));
    Ok(codec)
}

fn configuration_failure(message: &str) -> RunFailure {
    RunFailure::new(FailureKind::Configuration, message)
}

/// Prepares runs of stored definitions.
pub struct DefinitionPreparer {
    workspaces: Arc<dyn WorkspaceHost>,
}

impl std::fmt::Debug for DefinitionPreparer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DefinitionPreparer").finish_non_exhaustive()
    }
}

impl DefinitionPreparer {
    /// Opens workspaces on that host.
    pub fn new(workspaces: Arc<dyn WorkspaceHost>) -> Self {
        Self { workspaces }
    }
}

impl Preparer for DefinitionPreparer {
    fn configure(
        &self,
        run: RunRef,
        agent: &AgentVersion,
        queued: &RunQueued,
        tools: &[Arc<dyn Tool>],
    ) -> Result<Configuration, RunFailure> {
        let definition = &agent.definition;
        let (limits, spend) = effective_limits(&definition.limits, &queued.limits);
        let task = task_of(definition, &queued.input)
            .ok_or_else(|| configuration_failure("neither the agent nor the input says what the task is"))?;
        let configured = Configured {
            execution_id: run.run.into(),
            task,
            context: json!({ "input": queued.input }),
            instructions: instructions(definition)?,
            tools: tools.iter().map(|tool| tool.spec()).collect(),
            result_schema: definition.result_schema.clone(),
            limits,
            max_output_tokens: spend.max_output_tokens,
        };
        configured
            .check()
            .map_err(|error| configuration_failure(&error.to_string()))?;
        let model = definition
            .model
            .clone()
            .ok_or_else(|| configuration_failure("the agent names no model that this server can resolve"))?;
        Ok(Configuration {
            configured,
            model,
            spend,
            retries: definition.retries,
        })
    }

    fn equip(&self, run: RunRef, agent: &AgentVersion, _queued: &RunQueued) -> Result<Equipment, RunFailure> {
        let tools = tools(&agent.definition).map_err(|refused| configuration_failure(&refused.message))?;
        let workspace = match &agent.definition.workspace {
            None => None,
            Some(source) => {
                let opened = self.workspaces.open(run, source);
                Some(opened.map_err(|error| {
                    configuration_failure(&format!("the workspace cannot be opened: {error}"))
                })?)
            }
        };
        Ok(Equipment { tools, workspace })
    }

    fn seed(&self, agent: &AgentVersion, queued: &RunQueued) -> Result<Option<Seed>, RunFailure> {
        let Some(source) = &agent.definition.workspace else {
            return Ok(None);
        };
        let mut files: BTreeMap<&str, &FileContent> = BTreeMap::new();
        files.extend(
            source
                .files
                .iter()
                .map(|(path, content)| (path.as_str(), content)),
        );
        files.extend(
            queued
                .files
                .iter()
                .map(|(path, content)| (path.as_str(), content)),
        );
        let mut seed = Seed::default();
        for (path, content) in files {
            let content = content
                .bytes()
                .ok_or_else(|| configuration_failure(&format!("the content of {path:?} is no base64")))?;
            for (end, _) in path.match_indices('/') {
                seed.manifest
                    .entries
                    .insert(path[..end].to_owned(), Entry::Directory);
            }
            let (digest, size) = (Digest::of(&content), content.len() as u64);
            seed.manifest.entries.insert(
                path.to_owned(),
                Entry::File {
                    digest,
                    size,
                    executable: false,
                },
            );
            seed.contents.push(content);
        }
        Ok(Some(seed))
    }

    fn discard(&self, run: RunRef) {
        self.workspaces.discard(run);
    }
}

/// The task of a run: the agent's, else the input if it is a text, else its member `task`.
pub fn task_of(definition: &AgentDefinition, input: &Value) -> Option<String> {
    let from_input = || {
        input
            .as_str()
            .or_else(|| input.get("task").and_then(Value::as_str))
            .map(str::to_owned)
    };
    definition
        .task
        .clone()
        .or_else(from_input)
        .filter(|task| !task.trim().is_empty())
}

/// The agent's limits, tightened by the run's, over the defaults.
pub fn effective_limits(agent: &RunLimits, run: &RunLimits) -> (Limits, SpendLimits) {
    fn tighter<T: Ord + Copy>(agent: Option<T>, run: Option<T>) -> Option<T> {
        match (agent, run) {
            (Some(agent), Some(run)) => Some(agent.min(run)),
            (agent, run) => run.or(agent),
        }
    }
    let base = Limits::default();
    let limits = Limits {
        model_calls: tighter(
            Some(agent.model_calls.unwrap_or(base.model_calls)),
            run.model_calls,
        )
        .unwrap_or_default(),
        tool_calls: tighter(Some(agent.tool_calls.unwrap_or(base.tool_calls)), run.tool_calls)
            .unwrap_or_default(),
        result_retries: tighter(
            Some(agent.result_retries.unwrap_or(base.result_retries)),
            run.result_retries,
        )
        .unwrap_or_default(),
        wall_time_ms: tighter(
            Some(agent.wall_time_ms.unwrap_or(DEFAULT_WALL_TIME_MS)),
            run.wall_time_ms,
        ),
    };
    let spend = SpendLimits {
        max_cost_usd: tighter(agent.max_cost_usd, run.max_cost_usd),
        max_tokens: tighter(agent.max_tokens, run.max_tokens),
        max_output_tokens: tighter(
            Some(agent.max_output_tokens.unwrap_or(DEFAULT_MAX_OUTPUT_TOKENS)),
            run.max_output_tokens,
        ),
    };
    (limits, spend)
}

fn instructions(definition: &AgentDefinition) -> Result<Vec<String>, RunFailure> {
    definition
        .instructions
        .iter()
        .map(|source| match source {
            InstructionSource::Text(text) => Ok(text.clone()),
            InstructionSource::File { file } => Err(configuration_failure(&format!(
                "the instruction file {file:?} was not inlined"
            ))),
        })
        .collect()
}

/// A part of a definition from which nothing can be built.
#[derive(Debug)]
pub(crate) struct Refused {
    /// Where in the definition, as a JSON pointer.
    pub(crate) pointer: String,
    /// Why.
    pub(crate) message: String,
}

/// The tools of a definition, explicit ones first, resources after them by name.
pub(crate) fn tools(definition: &AgentDefinition) -> Result<Vec<Arc<dyn Tool>>, Refused> {
    let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
    for (place, source) in definition.tools.iter().enumerate() {
        let refused = |message: String| Refused {
            pointer: format!("/tools/{place}"),
            message,
        };
        match source {
            ToolSource::Named(name) if name == "editor" => tools.push(Arc::new(Editor)),
            ToolSource::Named(name) => {
                return Err(refused(format!(
                    "there is no built-in tool {name:?}; there is \"editor\""
                )));
            }
            ToolSource::Shell { shell } => {
                let options = ShellOptions {
                    commands: shell.commands.clone(),
                    timeout_ms: shell.timeout_ms,
                    max_output_chars: shell.max_output_chars,
                    environment: shell.environment.clone(),
                };
                tools.push(Arc::new(
                    Shell::new(options).map_err(|error| refused(error.to_string()))?,
                ));
            }
            ToolSource::Mcp { .. } => {
                return Err(refused("this server does not offer MCP tools yet".to_owned()));
            }
        }
    }
    for (name, source) in &definition.resources {
        let resource = resource(source).map_err(|message| Refused {
            pointer: format!("/resources/{}", name.replace('~', "~0").replace('/', "~1")),
            message,
        })?;
        tools.push(Arc::new(ResourceTool::new(name, resource)));
    }
    Ok(tools)
}

fn resource(source: &ResourceSource) -> Result<MemoryResource, String> {
    if source.directory.is_some() {
        return Err("directories of the server are not offered as resources; inline the files".to_owned());
    }
    let allow = source
        .allow
        .clone()
        .unwrap_or_else(|| vec![Permission::List, Permission::Read]);
    let policy = Policy::new(allow, &source.deny_globs).map_err(|error| error.to_string())?;
    let mut files = Vec::new();
    for (path, content) in &source.files {
        let bytes = content
            .bytes()
            .ok_or_else(|| format!("the content of {path:?} is no base64"))?;
        files.push((path.clone(), bytes));
    }
    MemoryResource::new(files, policy).map_err(|error| error.to_string())
}
