//! What surrounds the engine in a scenario: a provider and a harness that outlive the process, and who watches them.

use super::world::RUN;
use crate::{
    conformance::stage::{ScriptModel, locked},
    kill::KillSwitch,
};
use portolan_agent::scripted::RecordedRequest;
use portolan_core::{
    Fut,
    cancel::CancelToken,
    ids::{IdempotencyKey, Seq},
    model::{Model, ModelError, ModelReply, ModelRequest},
    time::Timestamp,
    tool::{Tool, ToolClass, ToolError, ToolInvocation, ToolSpec},
};
use portolan_engine::{LedgerAnswer, ToolLedger};
use portolan_journal::{Command, JournalStore};
use serde_json::Value;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

type Outcome = Result<Value, ToolError>;

/// What every part of a scenario's surroundings shares.
pub(super) struct Steering {
    pub(super) journal: Arc<dyn JournalStore>,
    pub(super) switch: KillSwitch,
    pub(super) cancel: CancelToken,
    pub(super) workspace_outlives: bool,
    outcomes: Mutex<HashMap<String, Outcome>>,
    violations: Mutex<Vec<String>>,
    last_end: Mutex<String>,
}

impl Steering {
    pub(super) fn new(
        journal: Arc<dyn JournalStore>,
        switch: KillSwitch,
        cancel: CancelToken,
        workspace_outlives: bool,
    ) -> Arc<Self> {
        Arc::new(Self {
            journal,
            switch,
            cancel,
            workspace_outlives,
            outcomes: Mutex::default(),
            violations: Mutex::default(),
            last_end: Mutex::default(),
        })
    }

    /// A cancel of the script becomes a durable command.
    pub(super) async fn relay_cancel(&self) {
        if self.cancel.is_cancelled() {
            // A run that has ended meanwhile refuses it, which is as good.
            let _ = self.journal.command(RUN, Command::Cancel, Timestamp(0)).await;
        }
    }

    /// A step that the journal has answered must never be dispatched again.
    async fn check_dispatch(&self, key: Option<&IdempotencyKey>) {
        let Some(key) = key else {
            locked(&self.violations).push("a dispatch without a key".to_owned());
            return;
        };
        let records = self
            .journal
            .read(RUN, Seq::ZERO, u32::MAX)
            .await
            .unwrap_or_default();
        let answered = records.iter().any(|record| {
            let of = record
                .step
                .zip(record.attempt)
                .map(|(step, attempt)| IdempotencyKey::new(RUN.run, step, attempt));
            record.kind == "step_completed" && of.as_ref() == Some(key)
        });
        let intended = records.iter().any(|record| {
            let of = record
                .step
                .zip(record.attempt)
                .map(|(step, attempt)| IdempotencyKey::new(RUN.run, step, attempt));
            record.kind == "step_started" && of.as_ref() == Some(key)
        });
        if answered {
            locked(&self.violations).push(format!("{key} was dispatched after its answer was durable"));
        }
        if !intended {
            locked(&self.violations).push(format!("{key} was dispatched before its intent was durable"));
        }
    }

    pub(super) fn violations(&self) -> Vec<String> {
        locked(&self.violations).clone()
    }

    pub(super) fn note_end(&self, end: &str) {
        end.clone_into(&mut locked(&self.last_end));
    }

    pub(super) fn last_end(&self) -> String {
        locked(&self.last_end).clone()
    }

    /// The first send of each key. A repeated send has to be the same request.
    pub(super) fn first_sends(&self, sends: Vec<RecordedRequest>) -> Vec<RecordedRequest> {
        let mut first: Vec<RecordedRequest> = Vec::new();
        for send in sends {
            if !first.iter().any(|earlier| earlier.key == send.key) {
                first.push(send);
            }
        }
        first
    }
}

/// The provider of a scenario: it outlives the process.
pub(super) struct FakeProvider {
    pub(super) script: ScriptModel,
    pub(super) steering: Arc<Steering>,
}

impl Model for FakeProvider {
    fn call<'a>(
        &'a self,
        key: Option<&'a IdempotencyKey>,
        request: ModelRequest<'a>,
    ) -> Fut<'a, Result<ModelReply, ModelError>> {
        Box::pin(async move {
            self.steering.switch.point().await;
            self.steering.check_dispatch(key).await;
            let reply = self.script.call(key, request).await;
            self.steering.relay_cancel().await;
            self.steering.switch.point().await;
            reply
        })
    }

    fn honours_idempotency_keys(&self) -> bool {
        true
    }
}

/// A tool in a harness that outlives the process and remembers what it ran.
pub(super) struct HarnessedTool {
    pub(super) tool: Arc<dyn Tool>,
    pub(super) steering: Arc<Steering>,
}

impl Tool for HarnessedTool {
    fn spec(&self) -> ToolSpec {
        self.tool.spec()
    }

    fn class(&self, arguments: &Value) -> ToolClass {
        self.tool.class(arguments)
    }

    fn call<'a>(&'a self, invocation: ToolInvocation<'a>) -> Fut<'a, Outcome> {
        Box::pin(async move {
            self.steering.switch.point().await;
            self.steering.check_dispatch(invocation.key).await;
            let key = invocation.key.map(ToString::to_string).unwrap_or_default();
            let is_once = self.tool.class(invocation.arguments) == ToolClass::Once;
            if is_once && locked(&self.steering.outcomes).contains_key(&key) {
                locked(&self.steering.violations).push(format!("{key} ran twice"));
            }
            let outcome = self.tool.call(invocation).await;
            locked(&self.steering.outcomes).insert(key, outcome.clone());
            self.steering.relay_cancel().await;
            self.steering.switch.point().await;
            outcome
        })
    }
}

/// The harness's ledger.
pub(super) struct HarnessLedger(pub(super) Arc<Steering>);

impl ToolLedger for HarnessLedger {
    fn outcome<'a>(&'a self, key: &'a IdempotencyKey) -> Fut<'a, LedgerAnswer> {
        let known = locked(&self.0.outcomes).get(key.as_str()).cloned();
        let answer = known.map_or(LedgerAnswer::NeverRan, |outcome| LedgerAnswer::Ran {
            outcome,
            workspace_kept: self.0.workspace_outlives,
        });
        Box::pin(std::future::ready(answer))
    }
}
