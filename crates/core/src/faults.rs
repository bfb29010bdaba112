//! Places where tests let the product fail, and bugs that they plant in it.
//!
//! A [`Point`] marks a place between two durable facts. A test arms points by a [`Plan`]: the n-th time that the product comes
//! by, it dies, waits, is held, or hears an error that did not happen. A [`Plant`] is a known bug behind a switch: the tests
//! are worth what they find when it is on.
//!
//! Everything here is there only with the feature `faults` and debug assertions. In any other build the enums are bare, the
//! functions are empty, and neither a name nor a branch is left. This module itself touches nothing of the world: whoever arms
//! points brings the [`Hook`] that does.

mod plant;
mod point;

#[cfg(all(feature = "faults", debug_assertions))]
mod armed;
#[cfg(all(feature = "faults", debug_assertions))]
mod plan;
#[cfg(all(feature = "faults", debug_assertions))]
mod planted;

#[cfg(all(feature = "faults", debug_assertions))]
pub use armed::{Gate, Scope, arm_process, arm_process_by, arm_thread, at, at_blocking, hits, is_armed};
#[cfg(all(feature = "faults", debug_assertions))]
pub use plan::{Action, Plan, PlanError, Trigger};
pub use plant::Plant;
#[cfg(all(feature = "faults", debug_assertions))]
pub use planted::{Planted, plant, plant_in_process, planted};
pub use point::Point;

use crate::Fut;
use std::fmt;

/// Whether this build has failpoints and planted bugs.
pub const ENABLED: bool = cfg!(all(feature = "faults", debug_assertions));

/// What of a fault touches the world.
pub trait Hook: Send + Sync + fmt::Debug {
    /// Waits.
    fn sleep_ms(&self, ms: u64) -> Fut<'static, ()>;

    /// Waits on a thread that may block.
    fn sleep_ms_blocking(&self, ms: u64);

    /// Hears that something is about to happen at the point of that name.
    fn fired(&self, point: &'static str);

    /// Ends the process without anything else. Returns only if somebody else will end it.
    fn die(&self);
}

/// What the code at a point is asked to pretend. Dying, waiting and holding need nobody's help.
#[cfg(all(feature = "faults", debug_assertions))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// What comes next fails, and did not happen.
    Error,
    /// What comes next, or came before, happened; nobody hears so.
    OutcomeUnknown,
    /// Only a part of what comes next is written.
    ShortWrite,
    /// The connection ends.
    DropConnection,
}

/// What the code at a point is asked to pretend: nothing, in this build.
#[cfg(not(all(feature = "faults", debug_assertions)))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {}

impl Fault {
    /// Whether what comes next fails without having happened.
    pub const fn is_error(self) -> bool {
        #[cfg(all(feature = "faults", debug_assertions))]
        return matches!(self, Self::Error);
        #[cfg(not(all(feature = "faults", debug_assertions)))]
        match self {}
    }
}

#[cfg(not(all(feature = "faults", debug_assertions)))]
mod off {
    use super::{Fault, Hook, Plant, Point};
    use std::{
        future::{Ready, ready},
        sync::Arc,
    };

    /// Comes by a point: nothing, in this build.
    pub fn at(_point: Point) -> Ready<Option<Fault>> {
        ready(None)
    }

    /// Comes by a point on a thread that may block: nothing, in this build.
    pub const fn at_blocking(_point: Point) -> Option<Fault> {
        None
    }

    /// Whether the next one that comes by may notice: never, in this build.
    pub const fn is_armed(_point: Point) -> bool {
        false
    }

    /// Arms the points of the whole process: refused, in this build.
    pub fn arm_process_by(_rules: &str, _bugs: &str, _hook: Arc<dyn Hook>) -> Result<(), String> {
        Err("this build cannot pretend anything".to_owned())
    }

    /// Whether a bug is planted: never, in this build.
    pub const fn planted(_plant: Plant) -> bool {
        false
    }
}
#[cfg(not(all(feature = "faults", debug_assertions)))]
pub use off::{arm_process_by, at, at_blocking, is_armed, planted};

#[cfg(all(test, feature = "faults", debug_assertions))]
mod tests;
