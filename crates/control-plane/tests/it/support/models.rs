//! Models that answer by their name, and workspaces in memory.

use portolan_agent::workspace::{MemoryWorkspace, Policy};
use portolan_core::{
    Fut,
    agent::WorkspaceSource,
    call::{Action, Arguments, FinalResult, ToolCall},
    ids::IdempotencyKey,
    model::{Model, ModelError, ModelReply, ModelRequest},
    workspace::{Permission, Workspace, WorkspaceError},
};
use portolan_engine::{ModelSource, UnknownModel, WorkspaceHost};
use portolan_journal::RunRef;
use serde_json::{Value, json};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

#[derive(Debug, Default)]
pub(crate) struct FakeModels {
    pub(crate) calls: Arc<AtomicUsize>,
}

impl ModelSource for FakeModels {
    fn model(&self, name: &str) -> Result<Arc<dyn Model>, UnknownModel> {
        let behaviour = match name {
            "fake/echo" | "fake/priced" => Behaviour::Echo,
            "fake/stuck" => Behaviour::Stuck,
            "fake/editor" => Behaviour::Editor,
            _ => return Err(UnknownModel(format!("no model is named {name}"))),
        };
        Ok(Arc::new(FakeModel {
            behaviour,
            calls: Arc::clone(&self.calls),
        }))
    }
}

#[derive(Clone, Copy)]
enum Behaviour {
    /// The result is the input.
    Echo,
    /// No answer ever comes.
    Stuck,
    /// Writes a file, then ends.
    Editor,
}

struct FakeModel {
    behaviour: Behaviour,
    calls: Arc<AtomicUsize>,
}

impl Model for FakeModel {
    fn call<'a>(
        &'a self,
        _key: Option<&'a IdempotencyKey>,
        request: ModelRequest<'a>,
    ) -> Fut<'a, Result<ModelReply, ModelError>> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let input = request.context["input"].clone();
        match self.behaviour {
            Behaviour::Stuck => Box::pin(std::future::pending()),
            Behaviour::Editor if request.history.is_empty() => {
                let arguments =
                    json!({"operation": "write", "path": "notes/a b.txt", "content": "caf\u{e9}\u{0}"});
                let call = ToolCall {
                    id: "c1".to_owned(),
                    name: "editor".to_owned(),
                    arguments: Arguments::Json(arguments),
                };
                Box::pin(std::future::ready(Ok(ModelReply::new(Action::Call(call)))))
            }
            Behaviour::Echo | Behaviour::Editor => Box::pin(std::future::ready(Ok(end(input)))),
        }
    }
}

fn end(value: Value) -> ModelReply {
    ModelReply::new(Action::Final(FinalResult {
        id: None,
        value: Arguments::Json(value),
    }))
}

#[derive(Debug)]
pub(crate) struct FakeWorkspaces;

impl WorkspaceHost for FakeWorkspaces {
    fn open(&self, _run: RunRef, source: &WorkspaceSource) -> Result<Arc<dyn Workspace>, WorkspaceError> {
        let allow = source.allow.clone().unwrap_or_else(|| {
            vec![
                Permission::List,
                Permission::Read,
                Permission::Create,
                Permission::Edit,
            ]
        });
        let policy = Policy::new(allow, &source.deny_globs).expect("a valid policy");
        Ok(Arc::new(MemoryWorkspace::new([], policy).expect("no files")))
    }

    fn discard(&self, _run: RunRef) {}
}
