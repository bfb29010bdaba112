//! The inline host: the engine in this very process.

use crate::host::{Launched, Place, ProjectionError, RunHost, Violation};
use portolan_core::{
    agent::{AgentDefinition, RunLimits},
    artifact::Artifact,
    event::{Recorded, RunQueued},
    ids::RunId,
};
use portolan_engine::{
    definition::{self, HostAbilities},
    host::{Host, Launch},
    prepare, project,
};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use std::{error::Error, fmt, sync::Arc};

/// Hands runs to an engine in this process.
pub struct InlineHost {
    host: Arc<Host>,
    abilities: HostAbilities,
}

impl InlineHost {
    /// Wraps a host; its own ports say which models and prices there are.
    pub const fn new(host: Arc<Host>, abilities: HostAbilities) -> Self {
        Self { host, abilities }
    }
}

impl fmt::Debug for InlineHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InlineHost")
            .field("abilities", &self.abilities)
            .finish_non_exhaustive()
    }
}

impl RunHost for InlineHost {
    fn reserve(&self) -> Option<Place> {
        let slot = self.host.reserve()?;
        let host = Arc::clone(&self.host);
        Some(Place {
            claim: slot.claim(),
            launch: Box::new(move |launched: Launched| {
                let Launched {
                    run,
                    epoch,
                    queued,
                    agent,
                    at,
                } = launched;
                let launch = Launch {
                    run,
                    epoch,
                    queued,
                    agent,
                    at,
                };
                host.launch(slot, launch);
            }),
        })
    }

    fn poke(&self) {
        self.host.poke();
    }

    fn first_sweep_done(&self) -> bool {
        self.host.first_sweep_done()
    }

    fn is_draining(&self) -> bool {
        self.host.is_draining()
    }

    fn check_definition(&self, definition: &AgentDefinition) -> Vec<Violation> {
        let models = &*self.host.deps().models;
        shown(definition::check(definition, &self.abilities, models))
    }

    fn check_run(&self, definition: &AgentDefinition, request: &RunQueued) -> Vec<Violation> {
        let deps = self.host.deps();
        shown(definition::check_run(
            definition,
            request,
            &*deps.models,
            &*deps.prices,
        ))
    }

    fn effective_limits(&self, agent: &RunLimits, run: &RunLimits) -> RunLimits {
        let (of_loop, spend) = prepare::effective_limits(agent, run);
        RunLimits {
            model_calls: Some(of_loop.model_calls),
            tool_calls: Some(of_loop.tool_calls),
            result_retries: Some(of_loop.result_retries),
            wall_time_ms: of_loop.wall_time_ms,
            max_cost_usd: spend.max_cost_usd,
            max_tokens: spend.max_tokens,
            max_output_tokens: spend.max_output_tokens,
        }
    }

    fn steps(&self, run: RunId, records: &[Recorded]) -> Result<Box<RawValue>, ProjectionError> {
        project::steps(run, records)
            .map_err(|error| refused(&error))
            .and_then(|steps| list(&steps))
    }

    fn trace(&self, records: &[Recorded]) -> Result<Box<RawValue>, ProjectionError> {
        project::trace(records)
            .map_err(|error| refused(&error))
            .and_then(|events| list(&events))
    }

    fn artifacts(&self, records: &[Recorded]) -> Result<Vec<Artifact>, ProjectionError> {
        project::artifacts(records).map_err(|error| refused(&error))
    }
}

fn shown(violations: Vec<definition::Violation>) -> Vec<Violation> {
    violations
        .into_iter()
        .map(|violation| Violation {
            pointer: violation.pointer,
            code: violation.code,
            message: violation.message,
        })
        .collect()
}

fn list(items: &impl Serialize) -> Result<Box<RawValue>, ProjectionError> {
    to_raw_value(items).map_err(|error| refused(&error))
}

/// The whole chain of causes, for the log.
fn refused(error: &dyn Error) -> ProjectionError {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    ProjectionError(text)
}
