//! The table of fault points: for each either a place in the code, or the part of the design that will bring one.
//!
//! It compares itself with the points that the code has, so that neither can grow without the other.

use portolan_core::faults::Point;

/// What stands behind a fault point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ground {
    /// Places in the code.
    Points(&'static [Point]),
    /// Nothing yet: the part of the design that brings it.
    Later(&'static str),
}

/// A row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The number of the fault point.
    pub number: u8,
    /// What happened before the fault.
    pub after: &'static str,
    /// What did not happen.
    pub before: &'static str,
    /// What stands behind it.
    pub ground: Ground,
}

const fn row(number: u8, after: &'static str, before: &'static str, points: &'static [Point]) -> Row {
    Row {
        number,
        after,
        before,
        ground: Ground::Points(points),
    }
}

const fn later(number: u8, after: &'static str, before: &'static str, part: &'static str) -> Row {
    Row {
        number,
        after,
        before,
        ground: Ground::Later(part),
    }
}

/// The microVM manager and the harness in its guests.
const RUNTIME: &str = "runtime: tools in microVMs";
/// The stream between a control plane and a data plane.
const DATA_PLANE: &str = "data plane: runs in the network of somebody else";

/// The whole table, in order.
pub const ROWS: &[Row] = &[
    row(
        1,
        "a request is parsed",
        "its admission begins",
        &[Point::AdmitParsed],
    ),
    row(
        2,
        "the run is written",
        "its money is, in one transaction",
        &[Point::AdmitHalf],
    ),
    row(
        3,
        "the admission is committed",
        "it is answered",
        &[Point::AdmitCommitted],
    ),
    row(
        4,
        "a half of the answer is written",
        "the rest is",
        &[Point::AnswerHalf],
    ),
    row(5, "the run is launched", "its drive begins", &[Point::Launched]),
    row(
        6,
        "a claim is committed",
        "anything is done with it",
        &[Point::ClaimCommitted],
    ),
    row(7, "the journal is read", "it is decoded", &[Point::JournalRead]),
    row(
        8,
        "limits are checked",
        "the intent is durable",
        &[Point::ModelBeforeIntent],
    ),
    row(
        9,
        "the row of the run is written",
        "its events are, in one transaction",
        &[Point::AppendHalf],
    ),
    row(
        10,
        "the intent is durable",
        "the first byte leaves",
        &[Point::ModelIntended],
    ),
    row(
        11,
        "a request is sent",
        "the head of its answer is here",
        &[Point::ModelSent],
    ),
    row(
        12,
        "the head of an answer is here",
        "the rest is",
        &[Point::ModelMidAnswer],
    ),
    row(13, "an answer is here", "it is durable", &[Point::ModelAnswered]),
    row(
        14,
        "an append is committed",
        "its owner knows",
        &[Point::AppendCommitted],
    ),
    later(
        15,
        "the router timed out",
        "the direct chain is asked",
        "model router: chains of providers",
    ),
    row(
        16,
        "a failure is worth a retry",
        "that is durable",
        &[Point::RetryDecided],
    ),
    row(
        17,
        "a failed attempt is durable",
        "the next is waited for",
        &[Point::RetryCommitted],
    ),
    row(
        18,
        "the intent of a tool is durable",
        "it begins",
        &[Point::ToolIntended],
    ),
    later(19, "a manager received a call", "the harness has it", RUNTIME),
    later(
        20,
        "the harness began a tool",
        "its result is stored there",
        RUNTIME,
    ),
    later(
        21,
        "a result is stored in the harness",
        "the reply is sent",
        RUNTIME,
    ),
    row(
        22,
        "a tool has answered",
        "that is durable",
        &[Point::ToolAnswered],
    ),
    row(
        23,
        "a tool of a batch is done",
        "the next is intended",
        &[Point::ToolBeforeIntent],
    ),
    row(
        24,
        "a result is refused",
        "that is durable",
        &[Point::ResultRefused],
    ),
    row(
        25,
        "a run has its end",
        "it is durable",
        &[Point::EndBeforeCommit],
    ),
    row(
        26,
        "the end is committed",
        "readers are woken",
        &[Point::EndUnannounced],
    ),
    row(
        27,
        "the end is committed",
        "the workspace is taken away",
        &[Point::EndBeforeDiscard],
    ),
    row(
        28,
        "a cancel is committed",
        "the owner hears of it",
        &[Point::CancelCommitted],
    ),
    row(29, "a call is given up", "that is durable", &[Point::CallAborted]),
    row(
        30,
        "a cancel is asked for",
        "it is committed, beside the end",
        &[Point::CancelBeforeCommit],
    ),
    row(31, "leases are due", "they are renewed", &[Point::LeaseDue]),
    row(32, "a lease is lost", "its worker stops", &[Point::LeaseLost]),
    row(
        33,
        "free runs are looked for",
        "they are claimed",
        &[Point::SweepBeforeClaim],
    ),
    row(
        34,
        "one of several claimed runs is started",
        "the others are",
        &[Point::SweepHalf],
    ),
    row(
        35,
        "an event is committed",
        "its frame is written",
        &[Point::FrameBefore],
    ),
    row(
        36,
        "a half of a frame is written",
        "the rest is",
        &[Point::FrameHalf],
    ),
    row(
        37,
        "everything stored is read",
        "the reader waits for more",
        &[Point::StreamSeam],
    ),
    later(38, "an assignment is sent", "it is acknowledged", DATA_PLANE),
    later(
        39,
        "a plane executed a step",
        "its event is delivered",
        DATA_PLANE,
    ),
    later(
        40,
        "a mirrored event is committed",
        "it is acknowledged",
        DATA_PLANE,
    ),
    later(41, "a microVM is made", "the run knows it", RUNTIME),
    later(42, "a microVM is started", "it has its token", RUNTIME),
    later(43, "a snapshot is restored", "it is seeded anew", RUNTIME),
    later(
        44,
        "a key is wrapped anew",
        "the old version is retired",
        "secrets: keys of providers in the database",
    ),
    later(
        45,
        "a day of usage ends",
        "the first admission of the next",
        "budgets: windows of their own",
    ),
    row(
        46,
        "a step of a migration is committed",
        "the next begins",
        &[Point::MigrateBetween],
    ),
    row(47, "a server drains", "it is done", &[Point::DrainBegun]),
    row(
        48,
        "an idempotency key is written",
        "its admission is committed",
        &[Point::KeyKept],
    ),
    row(49, "a connection comes", "it is accepted", &[Point::Accept]),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_table_has_each_fault_point_once_in_order() {
        assert!(ROWS.iter().map(|row| row.number).eq(1..=49));
    }

    #[test]
    fn the_table_and_the_code_have_the_same_points() {
        let mut listed = BTreeSet::new();
        for row in ROWS {
            match row.ground {
                Ground::Points(points) => {
                    assert!(!points.is_empty(), "FP-{:02} has no place", row.number);
                    for point in points {
                        assert_eq!(point.fault_point(), row.number, "{}", point.name());
                        assert!(listed.insert(*point), "{} is listed twice", point.name());
                    }
                }
                Ground::Later(part) => assert!(!part.is_empty(), "FP-{:02}", row.number),
            }
        }
        assert!(listed.iter().eq(Point::ALL.iter().collect::<BTreeSet<_>>()));
    }
}
