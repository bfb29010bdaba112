//! The table of promises P1 to P33: the bug that breaks each, and what finds it.

use portolan_core::faults::Plant;

#[cfg(test)]
mod tests;

/// What is known of a planted bug, or of its absence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// The simulator finds the bug, and says after how many seeds.
    Simulator(Plant),
    /// A check of the battery of the stores finds it.
    Battery(Plant, &'static str),
    /// A test of that name finds it.
    Test(Plant, &'static str),
    /// No test meets a bug against the promise yet: what is missing.
    Missing(&'static str),
    /// The promise is about a part that is not there yet.
    NotYet(&'static str),
}

use Standing::{Battery, Missing, NotYet, Simulator, Test};

/// Each promise with what breaks it.
pub const TABLE: &[(u8, Standing)] = &[
    (1, Simulator(Plant::AckBeforeCommit)),
    (2, Simulator(Plant::SecondTerminal)),
    (
        3,
        Battery(Plant::TimerForgotten, "waiting_runs_are_claimed_when_due"),
    ),
    (4, Simulator(Plant::KeyIgnored)),
    (
        5,
        Battery(Plant::TakenOverUnraised, "a_claim_fences_the_owner_before"),
    ),
    (6, Simulator(Plant::QueuedNotSwept)),
    (7, Simulator(Plant::CompletedDispatchedAgain)),
    (8, Simulator(Plant::AttemptRaisedByCrash)),
    (9, Simulator(Plant::KeyChangesOnResend)),
    (10, Simulator(Plant::EffectBeforeIntent)),
    (
        11,
        Test(
            Plant::DivergenceIgnored,
            "a_planted_indifference_to_divergence_is_noticed",
        ),
    ),
    (12, Simulator(Plant::OnceToolRunsAgain)),
    (
        13,
        Missing("batch-out-of-order has a name and no place in the code"),
    ),
    (14, Simulator(Plant::CountsResetByCrash)),
    (15, Simulator(Plant::SeqWithGaps)),
    (16, Simulator(Plant::StatusWithoutEvent)),
    (17, Simulator(Plant::EpochUnchecked)),
    (18, Battery(Plant::NulStripped, "any_bytes_survive")),
    (19, Missing("no plant drops the kinds that a build does not know")),
    (20, Simulator(Plant::UsageOnlyOfSuccess)),
    (21, Battery(Plant::SettledTwice, "a_settlement_moves_the_books")),
    (22, Simulator(Plant::GateWithoutReserve)),
    (23, Simulator(Plant::TopUpIgnored)),
    (24, Test(Plant::CostWraps, "a_planted_cost_that_wraps_is_noticed")),
    (25, Simulator(Plant::ReservationLeaks)),
    (
        26,
        Battery(Plant::RefusalKeepsKey, "a_full_scope_refuses_and_leaves_no_trace"),
    ),
    (27, Missing("no plant books usage on the day of the end")),
    (28, Simulator(Plant::GapAtTheSeam)),
    (
        29,
        Battery(Plant::ToldBeforeCommit, "a_stale_generation_changes_nothing"),
    ),
    (30, Simulator(Plant::EndsByStatus)),
    (
        31,
        Battery(Plant::PageUnbounded, "a_page_is_no_heavier_than_its_reader_bears"),
    ),
    (32, Test(Plant::SilenceUntold, "a_planted_silence_is_noticed")),
    (33, NotYet("the data plane brings the mirror of journals")),
];

/// Bugs that have a name and no place in the code yet.
pub const UNPLACED: &[Plant] = &[Plant::BatchOutOfOrder];
