//! Shapes of the OpenAPI document whose values are written by other crates or byte by byte.
//!
//! A test compares the members of each with what is really written.

mod agent;

pub(crate) use agent::{AgentDefinition, FileContent, RunLimits};

use crate::{agents::view::AgentView, problem::ProblemBody, runs::RunView};
use serde_json::Value;
use utoipa::{IntoResponses, ToSchema};

macro_rules! shapes {
    ($($(#[$meta:meta])* $name:ident { $($(#[$field_meta:meta])* $field:ident: $type:ty,)* })*) => {$(
        $(#[$meta])*
        #[derive(ToSchema)]
        #[schema(rename_all = "camelCase")]
        #[expect(dead_code, reason = "describes what is written elsewhere")]
        pub(crate) struct $name { $($(#[$field_meta])* $field: $type,)* }
    )*};
}

/// Every error has this form.
#[derive(IntoResponses)]
#[response(
    status = "default",
    description = "What went wrong; `code` is a stable word with a page of its own",
    content_type = "application/problem+json"
)]
#[expect(dead_code, reason = "describes what the edge writes")]
pub(crate) struct Problems(ProblemBody<'static>);

shapes! {
    /// A run under its name.
    RunEnvelope {
        run: RunView<'static>,
    }

    /// A page of runs, newest first.
    RunList {
        data: Vec<RunView<'static>>,
        /// Whether there is a next page.
        has_more: bool,
        /// The cursor of the next page.
        next_cursor: Option<String>,
    }

    /// Why a run did not succeed.
    RunError {
        kind: FailureKind,
        /// What happened.
        message: String,
        /// The limit that was used up.
        #[schema(required = false)]
        limit: Option<Limit>,
        /// The boundary at which the run was ended.
        #[schema(required = false)]
        boundary: Option<Boundary>,
        /// Which boundary it was, counted from 1.
        #[schema(required = false)]
        ordinal: Option<u64>,
        /// The step that it happened in.
        #[schema(required = false)]
        step_id: Option<String>,
    }

    /// A part of the journal of a run, oldest first.
    EventList {
        data: Vec<Event>,
        /// Whether there is more.
        has_more: bool,
        /// What to pass as `after` to go on.
        next_cursor: Option<String>,
    }

    /// One event of a journal.
    Event {
        /// Its place, dense from 1.
        seq: u64,
        /// What happened.
        #[schema(example = "step_completed")]
        kind: String,
        /// The step that it belongs to.
        #[schema(required = false)]
        step_id: Option<String>,
        /// The attempt of that step.
        #[schema(required = false)]
        attempt: Option<u32>,
        /// When it was written.
        #[schema(format = DateTime)]
        at: String,
        /// What there is to know, by kind.
        data: Value,
    }

    /// The steps of a run.
    StepList {
        data: Vec<Step>,
    }

    /// A model request or a tool invocation.
    Step {
        #[schema(example = "llm-1")]
        step_id: String,
        kind: StepKind,
        /// The model or the tool.
        name: String,
        status: StepStatus,
        attempts: Vec<StepAttempt>,
        #[schema(format = DateTime)]
        started_at: String,
        #[schema(format = DateTime)]
        finished_at: Option<String>,
        /// How it was answered.
        #[schema(required = false)]
        outcome: Option<StepOutcome>,
        #[schema(required = false)]
        model: Option<String>,
        #[schema(required = false)]
        usage: Option<TokenUsage>,
        #[schema(required = false)]
        cost_usd: Option<String>,
        #[schema(required = false)]
        cost_is_estimate: Option<bool>,
    }

    /// One try of a step.
    StepAttempt {
        /// From 1.
        attempt: u32,
        /// The key that the provider or the tool saw.
        idempotency_key: String,
        status: StepStatus,
        #[schema(format = DateTime)]
        started_at: String,
        #[schema(format = DateTime)]
        finished_at: Option<String>,
        #[schema(required = false)]
        error: Option<String>,
    }

    /// Tokens of a call, in disjoint buckets.
    TokenUsage {
        tokens_in: u64,
        tokens_out: u64,
        tokens_cached: u64,
        tokens_reasoning: u64,
    }

    /// The trace of the bounded loop.
    Trace {
        execution_id: String,
        events: Vec<TraceEvent>,
    }

    /// One thing that happened in the loop.
    TraceEvent {
        #[schema(example = "model.requested")]
        kind: String,
        #[schema(format = DateTime)]
        at: String,
        data: Value,
    }

    /// The files that a run changed.
    ArtifactList {
        data: Vec<Artifact>,
    }

    /// A file that a run changed.
    Artifact {
        path: String,
        operation: Operation,
        /// In bytes; absent for a deleted file.
        #[schema(required = false)]
        size: Option<u64>,
        /// BLAKE3 of the content.
        #[schema(required = false)]
        digest: Option<String>,
    }

    /// A version of an agent under its name.
    AgentEnvelope {
        agent: AgentView<'static>,
    }

    /// A page of agents, by name.
    AgentList {
        data: Vec<AgentView<'static>>,
        /// Whether there is a next page.
        has_more: bool,
        /// The cursor of the next page.
        next_cursor: Option<String>,
    }
}

macro_rules! words {
    ($($(#[$meta:meta])* $name:ident as $case:literal { $($word:ident)* })*) => {$(
        $(#[$meta])*
        #[derive(ToSchema)]
        #[schema(rename_all = $case)]
        #[expect(dead_code, reason = "describes what is written elsewhere")]
        pub(crate) enum $name { $($word,)* }
    )*};
}

words! {
    /// The kind of a failed run.
    FailureKind as "snake_case" {
        Configuration Provider LimitExhausted ResultContract ToolUnavailable BudgetExhausted ReplayDiverged Quarantined
        Cancelled Internal
    }
    /// The limits of a run.
    Limit as "camelCase" { ModelCalls ToolCalls ResultRetries WallTime MaxCostUsd MaxTokens }
    /// Where cancel and wall time are judged.
    Boundary as "snake_case" { BeforeModel AfterModel BeforeTool AfterTool AfterResultValidation AfterLoop }
    /// What a step does.
    StepKind as "snake_case" { Llm Tool }
    /// How a step stands.
    StepStatus as "snake_case" { Started Completed Failed Ambiguous }
    /// How a step was answered.
    StepOutcome as "snake_case" { Ok Error Denied Unavailable Unknown }
    /// What happened to a file.
    Operation as "snake_case" { Created Modified Deleted }
}
