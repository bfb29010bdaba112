//! The closing table of a test run.

use std::fmt::Write;

/// How a lane ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Passed,
    Failed,
    /// A lane before it failed that it could not do without.
    NotRun,
}

/// One lane of the table.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) outcome: Outcome,
    pub(super) seconds: u64,
}

/// Lays out the table, with the sum and a closing count.
pub(super) fn render(rows: &[Row]) -> String {
    let width = rows
        .iter()
        .map(|row| row.name.len())
        .max()
        .unwrap_or(0)
        .max("all".len());
    let mut text = format!("\n{:width$}  {:7}  {:>7}\n", "lane", "outcome", "min:sec");
    for row in rows {
        let outcome = match row.outcome {
            Outcome::Passed => "passed",
            Outcome::Failed => "FAILED",
            Outcome::NotRun => "not run",
        };
        line(&mut text, width, row.name, outcome, row.seconds);
    }
    line(
        &mut text,
        width,
        "all",
        "",
        rows.iter().map(|row| row.seconds).sum(),
    );
    let count = |outcome| rows.iter().filter(|row| row.outcome == outcome).count();
    let (passed, failed) = (count(Outcome::Passed), count(Outcome::Failed));
    let _ = writeln!(
        text,
        "\nlanes: {passed} passed, {failed} failed, {} skipped",
        count(Outcome::NotRun)
    );
    text
}

fn line(text: &mut String, width: usize, name: &str, outcome: &str, seconds: u64) {
    let time = format!("{}:{:02}", seconds / 60, seconds % 60);
    let _ = writeln!(text, "{name:width$}  {outcome:7}  {time:>7}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_shows_every_lane_and_the_sum() {
        let rows = [
            Row {
                name: "build",
                outcome: Outcome::Passed,
                seconds: 185,
            },
            Row {
                name: "tests",
                outcome: Outcome::Failed,
                seconds: 59,
            },
            Row {
                name: "doc-tests",
                outcome: Outcome::NotRun,
                seconds: 0,
            },
        ];
        let expected = "
lane       outcome  min:sec
build      passed      3:05
tests      FAILED      0:59
doc-tests  not run     0:00
all                    4:04

lanes: 1 passed, 1 failed, 1 skipped
";
        assert_eq!(render(&rows), expected);
    }
}
