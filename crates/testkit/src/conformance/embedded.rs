//! The embedded drivers as a backend.

use super::{
    Backend,
    observed::Observed,
    scenario::InstructionPart,
    stage::{Effects, Stage},
};
use portolan_agent::{Agent, agent};

/// Which driver runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The calling thread.
    Blocking,
    /// A task of an async runtime.
    Async,
}

/// Runs scenarios with an embedded driver.
#[derive(Debug, Clone, Copy)]
pub struct Embedded(pub Mode);

impl Backend for Embedded {
    fn name(&self) -> String {
        match self.0 {
            Mode::Blocking => "blocking".to_owned(),
            Mode::Async => "async".to_owned(),
        }
    }

    fn run(&self, stage: &Stage) -> Observed {
        match self.attempt(stage) {
            Ok(observed) => stage.complete(observed),
            Err(refusal) => stage.complete(Observed::unconfigured(refusal)),
        }
    }
}

impl Embedded {
    fn attempt(self, stage: &Stage) -> Result<Observed, String> {
        let equipment = stage.layout.equip(stage)?;
        let model = stage.model();
        let clock = &stage.clock;
        let mut call = agent(stage.scenario.task.as_str())
            .model(&model)
            .context(&stage.scenario.context)
            .limits(stage.limits()?)
            .cancel(stage.cancel.clone())
            .clock(clock)
            .at_boundary(|boundary, _| stage.before_boundary(boundary))
            .tools(equipment.tools.iter().cloned());
        for part in &stage.scenario.instructions {
            call = instruct(call, part, stage);
        }
        for (name, resource) in &equipment.resources {
            call = call.resource(name, std::sync::Arc::clone(resource));
        }
        if let Some(workspace) = &equipment.workspace {
            call = call.workspace(&**workspace);
        }
        let call = call.returns_schema(stage.scenario.result_schema.clone());
        let ended = match self.0 {
            Mode::Blocking => call.run(),
            Mode::Async => {
                let runtime = tokio::runtime::Builder::new_current_thread().build();
                let runtime = runtime.map_err(|error| format!("no runtime: {error}"))?;
                runtime.block_on(call.run_async())
            }
        };
        let mut observed = Observed::of_execution(ended);
        observed.workspace_after = equipment.files_after();
        Ok(observed)
    }
}

fn instruct<'a>(call: Agent<'a>, part: &'a InstructionPart, stage: &'a Stage) -> Agent<'a> {
    match part {
        InstructionPart::Text(text) => call.instruction(text.as_str()),
        InstructionPart::File { file } => call.instruction_file(stage.layout.instruction_path(file)),
        InstructionPart::Custom { custom } => {
            let effects: Effects = stage.effects();
            call.instruction_fn(move || {
                effects.happen(false, custom.advance_clock_ms);
                match (&custom.text, &custom.error) {
                    (_, Some(error)) => Err(error.clone()),
                    (Some(text), None) => Ok(text.clone()),
                    (None, None) => Err("the scenario gives neither text nor error".to_owned()),
                }
            })
        }
    }
}
