//! `cargo xtask test`: sets itself up, runs every lane and says how long each took.
//!
//! The output of the lanes is left as it is. A lane that fails does not keep the others from running, unless they could not
//! mean anything without it; the table at the end shows them all.

mod lanes;
mod table;

use std::time::Instant;

use clap::Args;

pub(crate) use self::lanes::FEATURES;
use self::{
    lanes::{LANES, Lane},
    table::{Outcome, Row},
};
use crate::{failure::Failure, repo::Repo};

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Which lanes; all of them if absent.
    lanes: Vec<String>,
}

/// Runs the chosen lanes in their order.
pub(crate) fn run(repo: &Repo, arguments: &Arguments) -> Result<(), Failure> {
    let lanes = chosen(&arguments.lanes)?;
    let mut rows = Vec::with_capacity(lanes.len());
    let mut stopped = false;
    for (index, lane) in lanes.iter().enumerate() {
        if stopped {
            rows.push(Row {
                name: lane.name,
                outcome: Outcome::NotRun,
                seconds: 0,
            });
            continue;
        }
        println!("== [{}/{}] {}: {}", index + 1, lanes.len(), lane.name, lane.about);
        let began = Instant::now();
        let outcome = match (lane.run)(repo) {
            Ok(()) => Outcome::Passed,
            Err(failure) => {
                failure.print();
                stopped = lane.others_need_it;
                Outcome::Failed
            }
        };
        rows.push(Row {
            name: lane.name,
            outcome,
            seconds: began.elapsed().as_secs(),
        });
    }
    print!("{}", table::render(&rows));
    verdict(&rows)
}

fn verdict(rows: &[Row]) -> Result<(), Failure> {
    let names: Vec<_> = rows
        .iter()
        .filter(|row| row.outcome != Outcome::Passed)
        .map(|row| row.name)
        .collect();
    if names.is_empty() {
        return Ok(());
    }
    Err(Failure::Several {
        parts: "lanes",
        failed: names.len(),
        of: rows.len(),
        names,
    })
}

fn chosen(names: &[String]) -> Result<Vec<&'static Lane>, Failure> {
    for name in names {
        if !LANES.iter().any(|lane| lane.name == name) {
            let names = LANES.iter().map(|lane| lane.name).collect();
            return Err(Failure::Unknown {
                kind: "lane",
                name: name.clone(),
                names,
            });
        }
    }
    let wanted = |lane: &&Lane| names.is_empty() || names.iter().any(|name| name == lane.name);
    Ok(LANES.iter().filter(wanted).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(lanes: &[&Lane]) -> Vec<&'static str> {
        lanes.iter().map(|lane| lane.name).collect()
    }

    #[test]
    fn lanes_keep_their_order() {
        assert_eq!(chosen(&[]).expect("all").len(), LANES.len());
        let some = chosen(&["doc-tests".to_owned(), "tests".to_owned()]).expect("both exist");
        assert_eq!(names(&some), ["tests", "doc-tests"]);
        assert!(matches!(
            chosen(&["nothing".to_owned()]),
            Err(Failure::Unknown { .. })
        ));
    }

    #[test]
    fn what_did_not_run_did_not_pass() {
        let row = |outcome| Row {
            name: "lane",
            outcome,
            seconds: 1,
        };
        assert!(verdict(&[row(Outcome::Passed), row(Outcome::Passed)]).is_ok());
        for outcome in [Outcome::Failed, Outcome::NotRun] {
            assert!(matches!(
                verdict(&[row(Outcome::Passed), row(outcome)]),
                Err(Failure::Several { failed: 1, of: 2, .. })
            ));
        }
    }
}
