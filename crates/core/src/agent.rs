//! Agent definitions: one document, the same in a TOML or YAML file, over HTTP and in the store.

use crate::{
    Fut,
    ids::{AgentId, TenantId},
    key::AdminStoreError,
    money::NanoUsd,
    time::Timestamp,
    tool::ToolClass,
    workspace::Permission,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{collections::BTreeMap, fmt, str::FromStr};

/// The name of an agent: 1 to 128 of `a-z A-Z 0-9 - _ .`, starting with a letter or a digit.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AgentName(String);

/// A name that no agent can have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("an agent name has 1 to 128 of the characters a-z A-Z 0-9 - _ . and starts with a letter or a digit")]
pub struct AgentNameError;

impl AgentName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for AgentName {
    type Err = AgentNameError;

    fn from_str(text: &str) -> Result<Self, AgentNameError> {
        let plain = text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
        let starts = text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
        if plain && starts && text.len() <= 128 {
            Ok(Self(text.to_owned()))
        } else {
            Err(AgentNameError)
        }
    }
}

impl TryFrom<String> for AgentName {
    type Error = AgentNameError;

    fn try_from(text: String) -> Result<Self, AgentNameError> {
        text.parse()
    }
}

impl From<AgentName> for String {
    fn from(name: AgentName) -> Self {
        name.0
    }
}

impl fmt::Display for AgentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An agent as it is defined.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentDefinition {
    /// Its name.
    pub name: AgentName,
    /// What a person reads about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// `provider/model`; exactly one of this and `capability`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What the operator resolves to a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capability: Option<String>,
    /// The task; absent: it comes with the run's input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Standing instructions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instructions: Vec<InstructionSource>,
    /// Tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolSource>,
    /// Read-only material, each a tool `resource_NAME`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resources: BTreeMap<String, ResourceSource>,
    /// What waits for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    /// The files that a run works on; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<WorkspaceSource>,
    /// Where tools run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<RuntimeNeeds>,
    /// Bounds of a run.
    #[serde(default)]
    pub limits: RunLimits,
    /// How model calls are tried again.
    #[serde(default)]
    pub retries: RetryPolicy,
    /// JSON Schema of a run's input; absent: anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<Value>,
    /// JSON Schema of a run's output.
    pub result_schema: Value,
}

/// One standing instruction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum InstructionSource {
    /// The text itself.
    Text(String),
    /// A file that the command line inlines before it sends the definition.
    File {
        /// Where, relative to the definition.
        file: String,
    },
}

/// One tool of a definition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum ToolSource {
    /// A built-in tool by its name: `editor`.
    Named(String),
    /// The shell tool with its commands.
    Shell {
        /// Its configuration.
        shell: ShellSource,
    },
    /// Tools of an MCP server.
    Mcp {
        /// Its configuration.
        mcp: McpSource,
    },
}

/// Configuration of the shell tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ShellSource {
    /// Command aliases, each a program with its fixed arguments.
    pub commands: BTreeMap<String, Vec<String>>,
    /// Time for one command, in milliseconds. Default 30,000.
    #[serde(default = "default_shell_timeout_ms")]
    pub timeout_ms: u64,
    /// Most characters of each output stream that are kept. Default 20,000.
    #[serde(default = "default_shell_output_chars")]
    pub max_output_chars: u64,
    /// The whole environment of the commands, beside a default `PATH`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
}

const fn default_shell_timeout_ms() -> u64 {
    30_000
}

const fn default_shell_output_chars() -> u64 {
    20_000
}

/// Configuration of an MCP server's tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct McpSource {
    /// Prefix of its tools.
    pub name: String,
    /// Where it listens.
    pub url: String,
    /// Which of its tools are offered.
    #[serde(default)]
    pub tools: Vec<String>,
    /// How an interrupted call is treated.
    #[serde(default = "default_class")]
    pub class: ToolClass,
}

const fn default_class() -> ToolClass {
    ToolClass::Once
}

/// Content of a file inside a definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum FileContent {
    /// UTF-8 text.
    Text(String),
    /// Bytes.
    Base64 {
        /// Standard alphabet, padded.
        base64: String,
    },
}

impl FileContent {
    /// The bytes, or `None` if the base64 is no base64.
    pub fn bytes(&self) -> Option<Vec<u8>> {
        use base64::Engine as _;
        match self {
            Self::Text(text) => Some(text.clone().into_bytes()),
            Self::Base64 { base64 } => base64::engine::general_purpose::STANDARD.decode(base64).ok(),
        }
    }
}

/// Read-only material.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResourceSource {
    /// A directory of the host that the server allows, or that the command line inlines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// The files themselves.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, FileContent>,
    /// Default: list and read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<Permission>>,
    /// What is hidden.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deny_globs: Vec<String>,
}

/// The kind of a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkspaceKind {
    /// Files in memory: no commands.
    Memory,
    /// A directory, fresh for each run.
    Directory,
}

/// The files that a run works on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkspaceSource {
    /// The kind.
    pub kind: WorkspaceKind,
    /// A directory that the command line inlines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The files themselves.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, FileContent>,
    /// Default: list, read, create, edit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<Permission>>,
    /// What is hidden and untouchable.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deny_globs: Vec<String>,
}

/// What waits for a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Approval {
    /// Tools whose calls wait.
    #[serde(default)]
    pub tools: Vec<String>,
    /// How long they wait, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// What a used-up budget does.
    #[serde(default)]
    pub on_budget: OnBudget,
}

/// What a used-up budget does to a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnBudget {
    /// It ends.
    #[default]
    Fail,
    /// It waits.
    Ask,
    /// It takes a cheaper target.
    Downgrade,
}

/// A floor of isolation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// In the server's own process, or as its child.
    None,
    /// In a process sandbox.
    Process,
    /// In a microVM.
    Microvm,
}

/// Where tools run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RuntimeNeeds {
    /// The floor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Isolation>,
    /// Memory of the sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<u32>,
    /// Processors of the sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vcpus: Option<u32>,
    /// Hosts that tools may reach.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub egress: Vec<String>,
}

/// Bounds of a run, each optional: an absent one falls back to the agent's, then to the default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[expect(
    missing_docs,
    reason = "the fields are those of Limits and SpendLimits, documented there"
)]
pub struct RunLimits {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_calls: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_retries: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall_time_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<NanoUsd>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u32>,
}

/// How model calls are tried again. The engine owns retries; nobody below it retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RetryPolicy {
    /// Sends of one step under one owner. Default 4.
    pub max_attempts: u32,
    /// First delay. Default 500.
    pub initial_ms: u64,
    /// Longest delay of ours; a provider may ask for more. Default 30,000.
    pub max_ms: u64,
    /// Time for one attempt. Default 120,000.
    pub timeout_ms: u64,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_attempts: 4,
            initial_ms: 500,
            max_ms: 30_000,
            timeout_ms: 120_000,
        }
    }
}

/// One immutable version of a stored agent.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentVersion {
    /// The agent.
    pub id: AgentId,
    /// From 1.
    pub version: u32,
    /// The definition.
    pub definition: AgentDefinition,
    /// When this version was made.
    pub created_at: Timestamp,
    /// Whether the agent is retired: no new runs.
    pub retired: bool,
}

/// Where agent definitions are kept.
pub trait AgentStore: Send + Sync {
    /// Makes the next version; the same definition again is the version that is there. Revives a retired agent.
    fn put_agent(
        &self,
        tenant: TenantId,
        fresh_id: AgentId,
        definition: AgentDefinition,
        at: Timestamp,
    ) -> Fut<'_, Result<AgentVersion, AdminStoreError>>;

    /// A version, or the newest.
    fn agent(
        &self,
        tenant: TenantId,
        name: AgentName,
        version: Option<u32>,
    ) -> Fut<'_, Result<Option<AgentVersion>, AdminStoreError>>;

    /// The newest versions of the agents that are not retired, ordered by name, strictly after a name.
    fn agents(
        &self,
        tenant: TenantId,
        after: Option<AgentName>,
        limit: u32,
    ) -> Fut<'_, Result<Vec<AgentVersion>, AdminStoreError>>;

    /// Retires an agent. False if there is none.
    fn retire_agent(&self, tenant: TenantId, name: AgentName) -> Fut<'_, Result<bool, AdminStoreError>>;
}
