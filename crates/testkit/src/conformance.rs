//! The runner of recorded scenarios of the bounded loop.
//!
//! A scenario is a file: a script for the model, tools, files and bounds, and what must come out. The runner puts it on a
//! [`Stage`], lets a [`Backend`] run it, and compares what was observed with what the scenario expects. It knows nothing
//! about how a backend executes, so the embedded drivers and the durable engine are judged alike.

mod compare;
mod deviations;
mod durable;
mod embedded;
mod files;
mod observed;
mod pattern;
mod report;
mod scenario;
mod stage;
mod tools;

#[cfg(test)]
mod tests;

pub use compare::compare;
pub use durable::Durable;
pub use embedded::{Embedded, Mode};
pub use files::{Equipment, Layout};
pub use observed::{Observed, Outcome};
pub use report::{LoadError, Report, Verdict, load, run_with};
pub use scenario::{Expectation, Scenario};
pub use stage::{ScriptModel, Stage, expect_panics};

/// What runs scenarios.
pub trait Backend {
    /// Names the backend in reports.
    fn name(&self) -> String;

    /// Runs a scenario that was put on a stage.
    fn run(&self, stage: &Stage) -> Observed;

    /// Runs it in every way that has to come out alike. The stage is for the first one.
    fn runs(&self, stage: &Stage) -> Vec<Observed> {
        vec![self.run(stage)]
    }
}
