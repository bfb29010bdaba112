//! Prepares the run of a scenario.

use super::steering::{HarnessedTool, Steering};
use crate::conformance::{
    files::Equipment as StageEquipment,
    scenario::{FileContent, InstructionPart},
    stage::{Stage, locked},
};
use portolan_agent::{machine::Configured, tools::ResourceTool};
use portolan_core::{
    agent::{AgentVersion, RetryPolicy},
    event::RunQueued,
    failure::{FailureKind, RunFailure},
    limits::SpendLimits,
    tool::Tool,
};
use portolan_engine::{Configuration, Equipment, Preparer, ports::Seed};
use portolan_journal::RunRef;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

/// Prepares what the stage of a scenario holds, anew for each life of the process.
pub(super) struct StagePreparer {
    stage: Stage,
    steering: Arc<Steering>,
    last: Mutex<Option<StageEquipment>>,
}

impl StagePreparer {
    pub(super) fn new(stage: &Stage, steering: Arc<Steering>) -> Self {
        Self {
            stage: stage.share(),
            steering,
            last: Mutex::default(),
        }
    }

    /// The files of the last life's workspace in memory.
    pub(super) fn files_after(&self) -> Option<BTreeMap<String, FileContent>> {
        locked(&self.last).as_ref().and_then(StageEquipment::files_after)
    }

    fn instructions(&self) -> Result<Vec<String>, String> {
        let parts = self.stage.scenario.instructions.iter();
        let texts = parts.map(|part| match part {
            InstructionPart::Text(text) => Ok(text.clone()),
            InstructionPart::File { file } => {
                let path = self.stage.layout.instruction_path(file);
                std::fs::read_to_string(path).map_err(|error| format!("{file}: {error}"))
            }
            InstructionPart::Custom { custom } => {
                self.stage.effects().happen(false, custom.advance_clock_ms);
                match (&custom.text, &custom.error) {
                    (_, Some(error)) => Err(error.clone()),
                    (Some(text), None) => Ok(text.clone()),
                    (None, None) => Err("the scenario gives neither text nor error".to_owned()),
                }
            }
        });
        texts.collect()
    }
}

fn refused(message: impl Into<String>) -> RunFailure {
    RunFailure::new(FailureKind::Configuration, message)
}

impl Preparer for StagePreparer {
    fn configure(
        &self,
        run: RunRef,
        _agent: &AgentVersion,
        _queued: &RunQueued,
        tools: &[Arc<dyn Tool>],
    ) -> Result<Configuration, RunFailure> {
        let scenario = &self.stage.scenario;
        let configured = Configured {
            execution_id: run.run.into(),
            task: scenario.task.clone(),
            context: scenario.context.clone(),
            instructions: self.instructions().map_err(refused)?,
            tools: tools.iter().map(|tool| tool.spec()).collect(),
            result_schema: scenario.result_schema.clone(),
            limits: self.stage.limits().map_err(refused)?,
            max_output_tokens: None,
        };
        configured.check().map_err(|error| refused(error.to_string()))?;
        Ok(Configuration {
            configured,
            model: "script/model".to_owned(),
            spend: SpendLimits::default(),
            // The recorded runs never ask a second time.
            retries: RetryPolicy {
                max_attempts: 1,
                ..RetryPolicy::default()
            },
        })
    }

    fn equip(
        &self,
        _run: RunRef,
        _agent: &AgentVersion,
        _queued: &RunQueued,
    ) -> Result<Equipment, RunFailure> {
        let opened = self.stage.layout.equip(&self.stage).map_err(refused)?;
        let mut tools: Vec<Arc<dyn Tool>> = opened.tools.clone();
        for (name, resource) in &opened.resources {
            tools.push(Arc::new(ResourceTool::new(name, Arc::clone(resource))));
        }
        let harnessed = tools.into_iter().map(|tool| {
            Arc::new(HarnessedTool {
                tool,
                steering: Arc::clone(&self.steering),
            }) as Arc<dyn Tool>
        });
        let equipment = Equipment {
            tools: harnessed.collect(),
            workspace: opened.workspace.clone(),
        };
        *locked(&self.last) = Some(opened);
        Ok(equipment)
    }

    fn seed(&self, _agent: &AgentVersion, _queued: &RunQueued) -> Result<Option<Seed>, RunFailure> {
        // The stage has laid out the files already.
        Ok(None)
    }

    fn discard(&self, _run: RunRef) {}
}
