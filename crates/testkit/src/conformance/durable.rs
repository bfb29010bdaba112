//! The durable engine as a backend, undisturbed or killed at every commit and every call.

mod prepare;
mod process;
mod steering;
mod world;

use super::{Backend, Scenario, observed::Observed, stage::Stage};
use crate::kill::KillSwitch;
use process::live_until_the_end;
use world::World;

/// Runs scenarios with the durable engine on a journal in memory.
#[derive(Debug, Clone, Copy)]
pub struct Durable {
    /// Kills the process at every point, one run of the scenario for each.
    pub kill_everywhere: bool,
}

impl Backend for Durable {
    fn name(&self) -> String {
        if self.kill_everywhere {
            "durable, killed everywhere".to_owned()
        } else {
            "durable".to_owned()
        }
    }

    fn run(&self, stage: &Stage) -> Observed {
        attempt(stage, 0).0
    }

    fn runs(&self, stage: &Stage) -> Vec<Observed> {
        let (undisturbed, points) = attempt(stage, 0);
        let mut all = vec![undisturbed];
        if self.kill_everywhere {
            for kill_at in 1..=points {
                all.push(match Stage::new(stage.scenario.clone()) {
                    Ok(stage) => killed(&stage, kill_at),
                    Err(error) => Observed::unconfigured(format!("its files cannot be laid out: {error}")),
                });
            }
        }
        all
    }
}

fn killed(stage: &Stage, kill_at: u64) -> Observed {
    let (observed, _) = attempt(stage, kill_at);
    Observed {
        variant: Some(format!("killed at point {kill_at}")),
        only_outcome: notices_differently(&stage.scenario),
        ..observed
    }
}

/// Whether a death may change more than how the run came to its end.
///
/// A cancel is durable the moment it is asked for, so the next owner may notice it at an earlier boundary than the first
/// would have. A workspace that cannot be looked at has no manifest to be restored from.
fn notices_differently(scenario: &Scenario) -> bool {
    scenario.cancels() || scenario.workspace.fault.is_some()
}

/// One run of a scenario; how many points were passed at which a process could have died.
fn attempt(stage: &Stage, kill_at: u64) -> (Observed, u64) {
    let switch = KillSwitch::at(kill_at);
    let runtime = match tokio::runtime::Builder::new_current_thread().build() {
        Ok(runtime) => runtime,
        Err(error) => return (Observed::unconfigured(format!("no runtime: {error}")), 0),
    };
    let world = World::new(stage, &switch);
    let observed = runtime.block_on(live_until_the_end(stage, &world, &switch));
    (observed, switch.passed())
}
