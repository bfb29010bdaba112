//! What is to happen at which points, as text and as a value.

use super::{Fault, Gate, Point};
use std::{str::FromStr, sync::Arc};

/// What happens at a point.
#[derive(Debug, Clone)]
pub enum Action {
    /// The code there pretends.
    Pretend(Fault),
    /// It goes on later.
    Delay {
        /// In milliseconds.
        ms: u64,
    },
    /// It goes on when the gate is opened.
    Hold(Arc<Gate>),
    /// The process dies.
    Die,
}

/// When it happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// The n-th time that somebody comes by, from 1, and never again.
    Nth(u64),
    /// Whenever somebody comes by.
    Always,
    /// By chance of a seed, in a thousand.
    Chance {
        /// What decides, together with how often the point was passed.
        seed: u64,
        /// How many of a thousand.
        per_mille: u16,
    },
}

impl Trigger {
    /// Whether it is time at that hit, counted from 1.
    pub(super) fn fires(self, hit: u64, point: Point) -> bool {
        match self {
            Self::Nth(nth) => nth == hit,
            Self::Always => true,
            Self::Chance { seed, per_mille } => {
                let mixed = mix(seed ^ mix(hit) ^ mix(u64::from(point as u8) << 32));
                mixed % 1_000 < u64::from(per_mille)
            }
        }
    }
}

/// A step of SplitMix64.
const fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// What is to happen.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    pub(super) rules: Vec<(Point, Trigger, Action)>,
}

impl Plan {
    /// Nothing happens; passes are counted.
    pub const fn new() -> Self {
        Self { rules: Vec::new() }
    }

    /// Adds a rule.
    #[must_use]
    pub fn with(mut self, point: Point, trigger: Trigger, action: Action) -> Self {
        self.rules.push((point, trigger, action));
        self
    }
}

/// Why a plan cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no rule of the form point@n=action or point=action")]
pub struct PlanError(String);

impl FromStr for Plan {
    type Err = PlanError;

    /// Reads `model.intended@2=die;claim.committed=delay:50`: rules that are parted by semicolons. Without a number the rule
    /// holds at every pass.
    fn from_str(text: &str) -> Result<Self, PlanError> {
        let mut plan = Self::new();
        for rule in text.split(';').map(str::trim).filter(|rule| !rule.is_empty()) {
            let read = read(rule).ok_or_else(|| PlanError(rule.to_owned()))?;
            plan.rules.push(read);
        }
        Ok(plan)
    }
}

fn read(rule: &str) -> Option<(Point, Trigger, Action)> {
    let (place, action) = rule.split_once('=')?;
    let (name, trigger) = match place.split_once('@') {
        None => (place, Trigger::Always),
        Some((name, nth)) => (name, Trigger::Nth(nth.parse().ok().filter(|nth| *nth > 0)?)),
    };
    let action = match action.split_once(':') {
        Some(("delay", ms)) => Action::Delay { ms: ms.parse().ok()? },
        Some(_) => return None,
        None => match action {
            "die" => Action::Die,
            "error" => Action::Pretend(Fault::Error),
            "unknown" => Action::Pretend(Fault::OutcomeUnknown),
            "short-write" => Action::Pretend(Fault::ShortWrite),
            "drop" => Action::Pretend(Fault::DropConnection),
            _ => return None,
        },
    };
    Some((Point::named(name)?, trigger, action))
}
