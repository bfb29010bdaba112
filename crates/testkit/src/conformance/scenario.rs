//! The format of a scenario file.

use portolan_core::{trace::Boundary, workspace::Permission};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// One scenario. Fields that only inform people are read and kept, so that a misspelt field is an error.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    pub name: String,
    pub group: String,
    #[serde(default)]
    pub why: String,
    #[serde(default)]
    pub source: Value,
    #[serde(default)]
    pub requires: Vec<String>,
    pub task: String,
    pub context: Value,
    #[serde(default)]
    pub instructions: Vec<InstructionPart>,
    #[serde(default)]
    pub instruction_files: BTreeMap<String, FileContent>,
    pub limits: RawLimits,
    pub result_schema: Value,
    pub workspace: WorkspacePart,
    #[serde(default)]
    pub resources: Map<String, Value>,
    #[serde(default)]
    pub outside: BTreeMap<String, FileContent>,
    #[serde(default)]
    pub tools: Vec<ToolPart>,
    pub script: Vec<ScriptStep>,
    #[serde(default)]
    pub cancel_before_start: bool,
    #[serde(default)]
    pub boundary_hooks: Vec<BoundaryHook>,
    pub expect: Expectation,
    #[serde(default)]
    pub seed_overrides: bool,
    #[serde(default)]
    pub disagreement: Option<String>,
    #[serde(default)]
    pub pilota_actual: Value,
    #[serde(default)]
    pub weak_spot: Option<String>,
}

impl Scenario {
    /// Whether the run is cancelled, by whatever.
    pub(super) fn cancels(&self) -> bool {
        let by_tool = |tool: &ToolPart| matches!(tool, ToolPart::Scripted(part) if part.cancel);
        self.cancel_before_start
            || self.boundary_hooks.iter().any(|hook| hook.cancel)
            || self.script.iter().any(|step| step.cancel)
            || self.tools.iter().any(by_tool)
    }
}

/// An instruction.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum InstructionPart {
    /// A text.
    Text(String),
    /// A file of `instruction_files`; missing if it is not there.
    File {
        /// Its name.
        file: String,
    },
    /// An instruction of the embedding program.
    Custom {
        /// What it does.
        custom: CustomInstruction,
    },
}

/// What an instruction of the embedding program does.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CustomInstruction {
    #[serde(default)]
    pub text: Option<String>,
    #[serde(default)]
    pub error: Option<String>,
    #[serde(default)]
    pub advance_clock_ms: u64,
}

/// Limits as they are written, also impossible ones.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawLimits {
    pub model_calls: i64,
    pub tool_calls: i64,
    #[serde(default = "two")]
    pub result_retries: i64,
    #[serde(default)]
    pub wall_time_ms: Option<i64>,
}

const fn two() -> i64 {
    2
}

/// The content of a file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum FileContent {
    /// UTF-8.
    Text(String),
    /// Bytes.
    Bytes {
        /// Standard alphabet, padded.
        base64: String,
    },
    /// A link.
    Link {
        /// Its target.
        symlink: String,
    },
    /// A directory.
    Directory {
        /// True.
        directory: bool,
    },
}

/// The kind of a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkspaceKind {
    Memory,
    Directory,
    None,
}

/// What fails in a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// The first look.
    Snapshot,
    /// The comparison with it.
    Artifacts,
}

/// The workspace.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkspacePart {
    pub kind: WorkspaceKind,
    #[serde(default)]
    pub files: BTreeMap<String, FileContent>,
    #[serde(default)]
    pub allow: Option<Vec<Permission>>,
    #[serde(default)]
    pub deny_globs: Vec<String>,
    #[serde(default)]
    pub fault: Option<Fault>,
}

/// A resource.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ResourcePart {
    pub(super) kind: ResourceKind,
    #[serde(default)]
    pub(super) files: BTreeMap<String, FileContent>,
    #[serde(default)]
    pub(super) allow: Option<Vec<Permission>>,
    #[serde(default)]
    pub(super) deny_globs: Vec<String>,
}

/// The kind of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ResourceKind {
    Directory,
}

/// A tool.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum ToolPart {
    /// A built-in tool.
    Named(String),
    /// The shell.
    Shell {
        /// Its options.
        shell: ShellPart,
    },
    /// A tool that follows a script.
    Scripted(ScriptedToolPart),
}

/// Options of the shell.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShellPart {
    pub commands: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    pub timeout_ms: Option<u64>,
    #[serde(default)]
    pub max_output_chars: Option<u64>,
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
}

/// A tool that follows a script.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedToolPart {
    pub name: String,
    pub behavior: Behavior,
    #[serde(default)]
    pub value: Value,
    #[serde(default)]
    pub message: String,
    #[serde(default)]
    pub cancel: bool,
    #[serde(default)]
    pub advance_clock_ms: u64,
}

/// What a scripted tool does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Behavior {
    Echo,
    Return,
    Fail,
    Deny,
    Panic,
}

/// A step of the model's script.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptStep {
    #[serde(default)]
    pub tool_call: Option<CallPart>,
    #[serde(default)]
    pub batch: Option<Vec<CallPart>>,
    #[serde(default, rename = "final")]
    pub result: Option<FinalPart>,
    #[serde(default)]
    pub provider_error: Option<String>,
    #[serde(default)]
    pub provider_panic: Option<String>,
    #[serde(default)]
    pub cancel: bool,
    #[serde(default)]
    pub advance_clock_ms: u64,
}

/// A call.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallPart {
    pub id: String,
    pub name: String,
    pub arguments: Value,
}

/// A submitted result.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FinalPart {
    pub value: Value,
    #[serde(default)]
    pub id: Option<String>,
}

/// Something that happens just before a boundary is checked.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BoundaryHook {
    pub boundary: Boundary,
    pub occurrence: u64,
    #[serde(default)]
    pub cancel: bool,
    #[serde(default)]
    pub advance_clock_ms: u64,
}

/// What must come out.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    pub outcome: ExpectedOutcome,
    #[serde(default)]
    pub error_kind: Option<String>,
    #[serde(default)]
    pub error_message_contains: Option<String>,
    /// Present and null is a value too.
    #[serde(default, deserialize_with = "present")]
    pub value: Option<Value>,
    #[serde(default)]
    pub usage: Option<ExpectedUsage>,
    #[serde(default)]
    pub trace_kinds: Option<Vec<(String, Map<String, Value>)>>,
    #[serde(default)]
    pub trace_mode: TraceMode,
    #[serde(default)]
    pub artifacts: Option<Vec<Map<String, Value>>>,
    /// Whether the result must say that the changed files could not be determined; not part of the recorded format.
    #[serde(default)]
    pub artifacts_unknown: bool,
    #[serde(default)]
    pub evidence: bool,
    #[serde(default)]
    pub requests: Option<Vec<ExpectedRequest>>,
    #[serde(default)]
    pub workspace_after: Option<BTreeMap<String, FileContent>>,
    #[serde(default)]
    pub outside_after: Option<BTreeMap<String, FileContent>>,
}

fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// Whether there must be a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExpectedOutcome {
    Succeeded,
    Error,
}

/// Counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectedUsage {
    pub model_calls: u32,
    pub tool_calls: u32,
}

/// How a trace is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TraceMode {
    /// The whole trace.
    #[default]
    Exact,
    /// In this order, others may stand between.
    Subsequence,
}

/// One model request.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectedRequest {
    pub tools: Vec<String>,
    pub instructions: Vec<String>,
    pub tool_calls_count: usize,
    pub observations: Vec<ExpectedObservation>,
}

/// One observation.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectedObservation {
    pub call_id: Option<String>,
    pub tool_name: String,
    #[serde(default, deserialize_with = "present")]
    pub output: Option<Value>,
    #[serde(default)]
    pub error_contains: Option<String>,
}
