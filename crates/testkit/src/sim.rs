//! The simulator: real hosts of the engine on simulated time, with a simulated database, providers, tools and clients, and
//! faults in all of them.
//!
//! Everything runs in one thread. A seed says which faults there are and how often, how many processes, tenants and runs;
//! it picks the task that goes on next; and time jumps to the next timer when no task can. So the same seed gives the same
//! history, event by event, and a seed that fails can be run again. At the end the faults stop, everything has to end, and
//! rules that know nothing of the engine judge the history.

mod campaign;
mod check;
mod database;
mod executor;
mod fate;
mod history;
mod process;
mod provider;
mod swarm;
mod time;
mod tools;
mod users;
mod world;

pub use campaign::{Campaign, Failure, Hunt, NOT_SIMULATED, Tally, campaign, hunt};
pub use check::Violation;
pub use history::Counts;
pub use swarm::Swarm;
pub use world::{Outcome, run};

#[cfg(test)]
mod tests;
