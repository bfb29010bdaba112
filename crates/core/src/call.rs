//! What a model asks for, and what it is told.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The id of a tool call, as the provider gave it or as the loop made it.
pub type CallId = String;

/// The arguments of a call. Only strictly parsed ones are ever executed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Arguments {
    /// JSON of any kind, also one that is no object.
    Json(Value),
    /// Text that is no JSON, kept as it came. It becomes an observation, never a call with defaults.
    Malformed {
        /// The text.
        raw: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// A tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Its id; unique enough for the provider to match the observation.
    pub id: CallId,
    /// The tool's name, known or not.
    pub name: String,
    /// The arguments.
    pub arguments: Arguments,
}

/// A submitted result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FinalResult {
    /// The id of the call that carried it, if the provider gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<CallId>,
    /// The value.
    pub value: Arguments,
}

/// What a model wants to happen next.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Action {
    /// One call.
    Call(ToolCall),
    /// Several calls, executed one after the other.
    Batch(Vec<ToolCall>),
    /// The result.
    Final(FinalResult),
}

/// What the model is told about one call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Observation {
    /// The tool's output; `null` is one.
    Output(Value),
    /// Why there is no output.
    Error(String),
}

/// One answered call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Exchange {
    /// What the model asked for. A rejected result is a call of `final_result`.
    pub call: ToolCall,
    /// What it was told.
    pub observation: Observation,
}

/// One provider answer with all that followed from it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Turn {
    /// Text that came with the calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// What the provider wants back unchanged (reasoning items, signatures). Opaque to everyone but its adapter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub echo: Option<Value>,
    /// The answered calls, in the order in which they were answered.
    pub exchanges: Vec<Exchange>,
}
