//! The journal's events: the versioned form in which a run is kept.
//!
//! An event is a kind and a JSON payload in camelCase, which is also what the API shows. Kinds and members are only ever
//! added. A kind that this build does not know is preserved and shown, never dropped.

use crate::{
    agent::{AgentName, FileContent, RunLimits},
    artifact::Artifact,
    digest::Digest,
    failure::RunFailure,
    ids::{Attempt, Epoch, RunId, StepId, StepKind},
    manifest::ManifestChange,
    money::NanoUsd,
    time::Timestamp,
    usage::TokenUsage,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};
use std::{borrow::Cow, collections::BTreeMap};

/// Declares the kinds once: the enum, their names and the decoder.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal : $body:ty;)*) => {
        /// One event, decoded.
        #[derive(Debug, Clone)]
        pub enum Event {
            $($(#[$doc])* $kind($body),)*
            /// A kind of a later build, kept as it is.
            Unknown {
                /// Its name.
                kind: String,
                /// Its payload.
                payload: Vec<u8>,
            },
        }

        impl Event {
            /// The name of the kind.
            pub fn kind(&self) -> &str {
                match self {
                    $(Self::$kind(_) => $name,)*
                    Self::Unknown { kind, .. } => kind,
                }
            }

            /// The name of the kind, without a copy if this build knows it.
            pub fn kind_name(&self) -> Cow<'static, str> {
                match self {
                    $(Self::$kind(_) => Cow::Borrowed($name),)*
                    Self::Unknown { kind, .. } => Cow::Owned(kind.clone()),
                }
            }

            /// The payload as it is kept.
            pub fn encode(&self) -> Result<Vec<u8>, EventError> {
                match self {
                    $(Self::$kind(body) => serde_json::to_vec(body).map_err(|source| EventError { kind: $name.to_owned(), source }),)*
                    Self::Unknown { payload, .. } => Ok(payload.clone()),
                }
            }

            /// Reads what was kept.
            pub fn decode(kind: &str, payload: &[u8]) -> Result<Self, EventError> {
                match kind {
                    $($name => serde_json::from_slice(payload)
                        .map(Self::$kind)
                        .map_err(|source| EventError { kind: kind.to_owned(), source }),)*
                    _ => Ok(Self::Unknown { kind: kind.to_owned(), payload: payload.to_vec() }),
                }
            }
        }

        /// The names of all kinds that this build writes.
        pub const KINDS: &[&str] = &[$($name),*];
    };
}

kinds! {
    /// The run was admitted.
    RunQueued = "run_queued": Box<RunQueued>;
    /// The configuration is fixed.
    RunStarted = "run_started": Box<RunStarted>;
    /// Another owner goes on from the journal.
    RunRecovered = "run_recovered": RunRecovered;
    /// The run waits, holding no worker.
    RunWaiting = "run_waiting": RunWaiting;
    /// The run goes on.
    RunResumed = "run_resumed": RunResumed;
    /// Somebody asked to cancel.
    RunCancelRequested = "run_cancel_requested": RunCancelRequested;
    /// A step is about to be dispatched.
    StepStarted = "step_started": StepStarted;
    /// A step is answered.
    StepCompleted = "step_completed": StepCompleted;
    /// An attempt of a step ended without an answer.
    StepFailed = "step_failed": StepFailed;
    /// Nobody knows whether a step was executed.
    StepAmbiguous = "step_ambiguous": StepAmbiguous;
    /// A submitted result was refused.
    ResultRejected = "result_rejected": ResultRejected;
    /// A file is new.
    ArtifactCreated = "artifact_created": Artifact;
    /// A file differs.
    ArtifactModified = "artifact_modified": Artifact;
    /// A file is gone.
    ArtifactDeleted = "artifact_deleted": Artifact;
    /// The run ended with a value.
    RunSucceeded = "run_succeeded": RunSucceeded;
    /// The run ended without one.
    RunFailed = "run_failed": RunEnded;
    /// The run was cancelled.
    RunCancelled = "run_cancelled": RunEnded;
}

/// A payload that does not fit its kind.
#[derive(Debug, thiserror::Error)]
#[error("the payload of a {kind} event cannot be read or written")]
pub struct EventError {
    /// The kind.
    pub kind: String,
    /// Why.
    #[source]
    pub source: serde_json::Error,
}

/// See [`Event::RunQueued`]. It holds the whole request, so that the journal alone is enough.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the fields are those of POST /v1/runs")]
pub struct RunQueued {
    pub agent_name: AgentName,
    pub agent_version: u32,
    pub input: Value,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, FileContent>,
    #[serde(default)]
    pub limits: RunLimits,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<RunId>,
}

/// See [`Event::RunStarted`]. Replay and recovery read the configuration here and nowhere else.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunStarted {
    /// The loop's configuration, as the agent crate serialises it.
    pub configured: Box<RawValue>,
    /// The model that the run asks, `provider/model`.
    pub model: String,
    /// Digest of the blob that holds the workspace's first manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<Digest>,
    /// When the configuration phase began, for the deadline and the trace.
    pub began_at: Timestamp,
}

/// See [`Event::RunRecovered`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunRecovered {
    /// The new owner's generation.
    pub epoch: Epoch,
    /// How often the run was re-driven so far.
    pub recoveries: u32,
}

/// Why a run waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitReason {
    /// A provider asked to come back later.
    Timer,
    /// A budget is used up.
    Budget,
    /// A person decides.
    Approval,
}

/// See [`Event::RunWaiting`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunWaiting {
    /// Why.
    pub reason: WaitReason,
    /// Until when, if time ends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// See [`Event::RunResumed`].
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunResumed {}

/// See [`Event::RunCancelRequested`].
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunCancelRequested {
    /// When it was asked for.
    pub requested_at: Timestamp,
}

/// See [`Event::StepStarted`]. It is durable before the first byte leaves.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StepStarted {
    /// What the step does.
    pub kind: StepKind,
    /// The model or the tool.
    pub name: String,
    /// The chained digest of what is asked. The key that is sent is not kept: run, step and attempt of the row make it.
    pub request_hash: Digest,
    /// What was reserved for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_usd: Option<NanoUsd>,
}

/// How a step was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    /// With an output.
    Ok,
    /// It ran and failed.
    Error,
    /// A policy forbade it.
    Denied,
    /// It could not be run where it has to.
    Unavailable,
    /// It was started, and nobody knows how it ended.
    Unknown,
}

/// See [`Event::StepCompleted`]. Such a step is never dispatched again.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StepCompleted {
    /// How.
    pub status: StepStatus,
    /// The output: a tool's value, or a model's reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Box<RawValue>>,
    /// Why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The model that answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What the call consumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<TokenUsage>,
    /// What it cost; absent: the price is unknown, or it is a tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<NanoUsd>,
    /// Whether the cost is what was reserved, because nobody knows the bill.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cost_is_estimate: bool,
    /// What changed in the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<ManifestChange>,
}

/// Why an attempt ended without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepFailure {
    /// The provider failed.
    Provider,
    /// Cancel or time ended the call in flight.
    Aborted,
    /// It could not be run where it has to.
    Unavailable,
}

/// See [`Event::StepFailed`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StepFailed {
    /// Why.
    pub reason: StepFailure,
    /// In words.
    pub message: String,
    /// Whether another attempt follows, under a new key.
    pub retryable: bool,
    /// Not before that moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    /// What the attempt cost, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<NanoUsd>,
    /// Whether that is what was reserved.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cost_is_estimate: bool,
}

/// See [`Event::StepAmbiguous`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StepAmbiguous {
    /// What is not known, and what is done about it.
    pub message: String,
}

/// See [`Event::ResultRejected`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResultRejected {
    /// The call that carried the result.
    pub call_id: String,
    /// Every violation.
    pub error: String,
}

/// See [`Event::RunSucceeded`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunSucceeded {
    /// The value.
    pub output: Box<RawValue>,
    /// Why the changed files are not known, if they are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifacts_unknown: Option<String>,
}

/// See [`Event::RunFailed`] and [`Event::RunCancelled`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunEnded {
    /// Why.
    pub error: RunFailure,
    /// Why the changed files are not known, if they are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifacts_unknown: Option<String>,
}

impl Event {
    /// Whether a run ends with this event.
    pub const fn is_terminal(&self) -> bool {
        matches!(
            self,
            Self::RunSucceeded(_) | Self::RunFailed(_) | Self::RunCancelled(_)
        )
    }
}

/// Whether a run ends with an event of this kind.
pub fn is_terminal_kind(kind: &str) -> bool {
    matches!(kind, "run_succeeded" | "run_failed" | "run_cancelled")
}

/// One row of the journal.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// Its place.
    pub seq: crate::ids::Seq,
    /// When it was appended.
    pub at: Timestamp,
    /// The step that it belongs to.
    pub step: Option<StepId>,
    /// The attempt of that step.
    pub attempt: Option<Attempt>,
    /// The name of the kind.
    pub kind: String,
    /// The payload as it is kept.
    pub payload: Vec<u8>,
}

impl Recorded {
    /// Decodes the payload.
    pub fn event(&self) -> Result<Event, EventError> {
        Event::decode(&self.kind, &self.payload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_survive_and_unknown_kinds_are_kept() {
        let raw = RawValue::from_string(r#"{"z":"\u0000 é","a":1}"#.to_owned()).expect("valid JSON");
        let event = Event::RunSucceeded(RunSucceeded {
            output: raw,
            artifacts_unknown: None,
        });
        let payload = event.encode().expect("encodes");
        assert_eq!(payload, r#"{"output":{"z":"\u0000 é","a":1}}"#.as_bytes());
        let Event::RunSucceeded(back) = Event::decode("run_succeeded", &payload).expect("decodes") else {
            panic!("another kind");
        };
        assert_eq!(back.output.get(), r#"{"z":"\u0000 é","a":1}"#);
        let later = Event::decode("run_teleported", b"\x00\xff").expect("kept");
        assert_eq!(
            (later.kind(), later.encode().expect("kept")),
            ("run_teleported", b"\x00\xff".to_vec())
        );
    }

    #[test]
    fn a_payload_of_the_wrong_shape_is_an_error() {
        let error = Event::decode("step_started", b"{}").expect_err("refused");
        assert_eq!(error.kind, "step_started");
    }
}
