//! What a seed turns on: each seed has a few kinds of faults, so that none hides behind the others.

use crate::random::Random;
use serde::Serialize;

/// The configuration of one simulation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Swarm {
    /// Processes that host runs.
    pub processes: u64,
    /// Tenants.
    pub tenants: u64,
    /// Runs.
    pub runs: u64,
    /// Clients that start them.
    pub users: u64,
    /// Readers of each hundred runs.
    pub readers_percent: u64,
    /// Cancels of each hundred runs.
    pub cancels_percent: u64,
    /// Places of a process.
    pub places: u64,
    /// The budget of each tenant in calls of a model; 0: none.
    pub budget_calls: u64,
    /// Whether providers honour keys.
    pub honours_keys: bool,
    /// The mean time between two deaths of a process, in milliseconds; 0: none dies.
    pub kill_every_ms: u64,
    /// The mean time between two pauses of a process, in milliseconds; 0: none.
    pub pause_every_ms: u64,
    /// The mean time between two drains of a process, in milliseconds; 0: none.
    pub drain_every_ms: u64,
    /// The mean time between two crashes of the database, in milliseconds; 0: none.
    pub crash_every_ms: u64,
    /// The mean time between two phases in which the database refuses to write, in milliseconds; 0: none.
    pub refuse_every_ms: u64,
    /// Requests to the database, of a thousand, that fail before they are sent.
    pub refused_permille: u64,
    /// Requests, of a thousand, whose answer is lost after the commit.
    pub lost_permille: u64,
    /// Requests, of a thousand, that take longer than their caller waits and land late.
    pub stalled_permille: u64,
    /// Hints between processes, of a thousand, that are lost.
    pub hints_lost_permille: u64,
    /// Calls of a model, of a thousand, that charge and are cut.
    pub cut_permille: u64,
    /// Calls that charge and never answer.
    pub hung_permille: u64,
    /// Calls that are refused by a definite failure.
    pub failed_permille: u64,
    /// Calls that fail before anything is sent.
    pub unsent_permille: u64,
    /// Results of a model, of a thousand, that its schema refuses, and other nonsense.
    pub nonsense_permille: u64,
    /// How far wall clocks are apart, in milliseconds.
    pub skew_ms: u64,
}

impl Swarm {
    /// What the seed says.
    pub fn of(seed: u64) -> Self {
        let random = Random::new(seed ^ 0x7377_6172_6d00_0000);
        // A fault is there in two of three seeds, and then more or less often.
        let maybe = |range: std::ops::Range<u64>| {
            if random.percent(66) {
                random.within(range)
            } else {
                0
            }
        };
        let runs = match random.within(0..10) {
            0 => random.within(60..200),
            1..4 => random.within(20..60),
            _ => random.within(5..20),
        };
        Self {
            processes: random.within(1..6),
            tenants: random.within(1..5),
            runs,
            users: random.within(1..9),
            readers_percent: random.within(0..101),
            cancels_percent: maybe(1..40),
            places: random.within(1..17),
            budget_calls: if random.percent(30) {
                random.within(5..200)
            } else {
                0
            },
            honours_keys: random.percent(75),
            kill_every_ms: maybe(1_500..20_000),
            pause_every_ms: maybe(5_000..60_000),
            drain_every_ms: maybe(5_000..60_000),
            crash_every_ms: maybe(3_000..40_000),
            refuse_every_ms: maybe(5_000..60_000),
            refused_permille: maybe(1..60),
            lost_permille: maybe(1..60),
            stalled_permille: maybe(1..15),
            hints_lost_permille: maybe(1..1_001),
            cut_permille: maybe(1..100),
            hung_permille: maybe(1..40),
            failed_permille: maybe(1..150),
            unsent_permille: maybe(1..100),
            nonsense_permille: maybe(1..150),
            skew_ms: maybe(1..1_500),
        }
    }

    /// The same with one kind of faults less, each in its turn: what a failing seed is shrunk with.
    pub fn smaller(&self) -> Vec<(&'static str, Self)> {
        let mut smaller = Vec::new();
        macro_rules! without {
            ($($field:ident),*) => {$(
                if self.$field != 0 {
                    smaller.push((stringify!($field), Self { $field: 0, ..self.clone() }));
                }
            )*};
        }
        without!(
            kill_every_ms,
            pause_every_ms,
            drain_every_ms,
            crash_every_ms,
            refuse_every_ms,
            refused_permille,
            lost_permille,
            stalled_permille,
            hints_lost_permille,
            cut_permille,
            hung_permille,
            failed_permille,
            unsent_permille,
            nonsense_permille,
            skew_ms,
            cancels_percent,
            readers_percent,
            budget_calls
        );
        for (name, value, least) in [
            ("runs", self.runs, 1),
            ("processes", self.processes, 1),
            ("users", self.users, 1),
        ] {
            if value > least {
                let half = value / 2;
                let less = match name {
                    "runs" => Self {
                        runs: half,
                        ..self.clone()
                    },
                    "processes" => Self {
                        processes: half,
                        ..self.clone()
                    },
                    _ => Self {
                        users: half,
                        ..self.clone()
                    },
                };
                smaller.push((name, less));
            }
        }
        smaller
    }
}
