//! The shape of an agent definition in the OpenAPI document.

use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use utoipa::ToSchema;

macro_rules! inputs {
    ($($(#[$meta:meta])* $name:ident { $($(#[$field_meta:meta])* $field:ident: $type:ty,)* })*) => {$(
        $(#[$meta])*
        #[derive(Deserialize, ToSchema)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        #[expect(dead_code, reason = "describes what another crate reads and writes")]
        pub(crate) struct $name { $($(#[$field_meta])* $field: $type,)* }
    )*};
}

inputs! {
    /// An agent as it is defined.
    AgentDefinition {
        /// Its name, the same as in the path.
        #[schema(required = false)]
        name: String,
        /// What a person reads about it.
        #[schema(required = false)]
        description: Option<String>,
        /// `provider/model`; exactly one of this and `capability`.
        #[schema(required = false, example = "openai/gpt-4.1-mini")]
        model: Option<String>,
        /// What the operator resolves to a model.
        #[schema(required = false)]
        capability: Option<String>,
        /// The task; absent: it comes with the input of the run.
        #[schema(required = false)]
        task: Option<String>,
        /// Standing instructions.
        #[schema(required = false)]
        instructions: Vec<Instruction>,
        /// Tools.
        #[schema(required = false)]
        tools: Vec<Tool>,
        /// Read-only material, each a tool `resource_NAME`.
        #[schema(required = false)]
        resources: BTreeMap<String, Resource>,
        /// What waits for a person.
        #[schema(required = false)]
        approval: Option<Approval>,
        /// The files that a run works on; absent: none.
        #[schema(required = false)]
        workspace: Option<Workspace>,
        /// Where tools run.
        #[schema(required = false)]
        runtime: Option<Runtime>,
        /// Bounds of a run.
        #[schema(required = false)]
        limits: RunLimits,
        /// How model calls are tried again.
        #[schema(required = false)]
        retries: Retries,
        /// JSON Schema of the input of a run; absent: anything.
        #[schema(required = false)]
        input_schema: Option<Value>,
        /// JSON Schema of the output of a run.
        result_schema: Value,
    }

    /// A file that the command line inlines.
    InstructionFile {
        /// Where, relative to the definition.
        file: String,
    }

    /// The shell tool.
    ShellTool {
        shell: Shell,
    }

    /// The commands of the shell tool.
    Shell {
        /// Aliases, each a program with its fixed arguments.
        commands: BTreeMap<String, Vec<String>>,
        /// Time for one command.
        #[schema(required = false, default = 30_000)]
        timeout_ms: u64,
        /// Most characters of each output that are kept.
        #[schema(required = false, default = 20_000)]
        max_output_chars: u64,
        /// The environment of the commands.
        #[schema(required = false)]
        environment: BTreeMap<String, String>,
    }

    /// The tools of an MCP server.
    McpTool {
        mcp: Mcp,
    }

    /// An MCP server.
    Mcp {
        /// Prefix of its tools.
        name: String,
        /// Where it listens.
        url: String,
        /// Which of its tools are offered.
        #[schema(required = false)]
        tools: Vec<String>,
        /// How an interrupted call is treated.
        #[schema(required = false)]
        class: ToolClass,
    }

    /// Bytes of a file.
    Base64Content {
        /// Standard alphabet, padded.
        base64: String,
    }

    /// Read-only material.
    Resource {
        /// A directory of the host that the server allows.
        #[schema(required = false)]
        directory: Option<String>,
        /// The files themselves.
        #[schema(required = false)]
        files: BTreeMap<String, FileContent>,
        /// Default: list and read.
        #[schema(required = false)]
        allow: Option<Vec<Permission>>,
        /// What is hidden.
        #[schema(required = false)]
        deny_globs: Vec<String>,
    }

    /// The files that a run works on.
    Workspace {
        kind: WorkspaceKind,
        /// A directory that the command line inlines.
        #[schema(required = false)]
        from: Option<String>,
        /// The files themselves.
        #[schema(required = false)]
        files: BTreeMap<String, FileContent>,
        /// Default: list, read, create and edit.
        #[schema(required = false)]
        allow: Option<Vec<Permission>>,
        /// What is hidden and untouchable.
        #[schema(required = false)]
        deny_globs: Vec<String>,
    }

    /// What waits for a person.
    Approval {
        /// Tools whose calls wait.
        #[schema(required = false)]
        tools: Vec<String>,
        /// How long they wait.
        #[schema(required = false)]
        timeout_ms: Option<u64>,
        /// What a used-up budget does.
        #[schema(required = false)]
        on_budget: OnBudget,
    }

    /// Where tools run.
    Runtime {
        /// The floor.
        #[schema(required = false)]
        isolation: Option<Isolation>,
        #[schema(required = false)]
        memory_mib: Option<u32>,
        #[schema(required = false)]
        vcpus: Option<u32>,
        /// Hosts that tools may reach.
        #[schema(required = false)]
        egress: Vec<String>,
    }

    /// How model calls are tried again.
    Retries {
        /// Sends of one step under one owner.
        #[schema(required = false, default = 4, minimum = 1)]
        max_attempts: u32,
        /// First delay.
        #[schema(required = false, default = 500)]
        initial_ms: u64,
        /// Longest delay; a provider may ask for more.
        #[schema(required = false, default = 30_000)]
        max_ms: u64,
        /// Time for one attempt.
        #[schema(required = false, default = 120_000, minimum = 1)]
        timeout_ms: u64,
    }

    /// Bounds of a run.
    RunLimits {
        /// Provider answers.
        #[schema(required = false, nullable = false, minimum = 1)]
        model_calls: Option<u32>,
        /// Tool invocations; 0 is a task for the model alone.
        #[schema(required = false, nullable = false)]
        tool_calls: Option<u32>,
        /// Corrected submissions after a first invalid result.
        #[schema(required = false, nullable = false)]
        result_retries: Option<u32>,
        /// Active time.
        #[schema(required = false, nullable = false, minimum = 1)]
        wall_time_ms: Option<u64>,
        /// Dollars for the whole run.
        #[schema(required = false, nullable = false, example = "0.50", pattern = r"^[0-9]+(\.[0-9]{1,9})?$")]
        max_cost_usd: Option<String>,
        /// Tokens for the whole run.
        #[schema(required = false, nullable = false)]
        max_tokens: Option<u64>,
        /// Output tokens of one call.
        #[schema(required = false, nullable = false, minimum = 1)]
        max_output_tokens: Option<u32>,
    }
}

macro_rules! choices {
    ($($(#[$meta:meta])* $name:ident { $($choice:ident($type:ty),)* })*) => {$(
        $(#[$meta])*
        #[derive(Deserialize, ToSchema)]
        #[serde(untagged)]
        #[expect(dead_code, reason = "describes what another crate reads and writes")]
        pub(crate) enum $name { $($choice($type),)* }
    )*};
}

choices! {
    /// One standing instruction.
    Instruction {
        Text(String),
        File(InstructionFile),
    }
    /// One tool.
    Tool {
        Named(String),
        Shell(ShellTool),
        Mcp(McpTool),
    }
    /// Content of a file: text, or bytes.
    FileContent {
        Text(String),
        Bytes(Base64Content),
    }
}

macro_rules! words {
    ($($(#[$meta:meta])* $name:ident { $($word:ident)* })*) => {$(
        $(#[$meta])*
        #[derive(Deserialize, ToSchema)]
        #[serde(rename_all = "snake_case")]
        pub(crate) enum $name { $($word,)* }
    )*};
}

words! {
    /// How an interrupted call is treated.
    ToolClass { Pure Idempotent Once }
    /// What may be done with files.
    Permission { List Read Create Edit Delete Execute }
    /// The kind of a workspace.
    WorkspaceKind { Memory Directory }
    /// What a used-up budget does.
    OnBudget { Fail Ask Downgrade }
    /// A floor of isolation.
    Isolation { None Process Microvm }
}
