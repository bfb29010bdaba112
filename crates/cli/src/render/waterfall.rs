//! The waterfall: what a run did when, and for how long, as bars on one time line.

use super::units::{fit, span};
use crate::{
    client::text,
    screen::{Screen, Style},
};
use portolan_core::time::Timestamp;
use serde_json::Value;

const NAME_WIDTH: usize = 22;
const SPAN_WIDTH: usize = 9;
const LEAST_BAR: usize = 10;
/// Eighths of a column, from none to all but full.
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// The lines of a waterfall over steps as the API shows them. A step that has not ended reaches to `now`.
pub(crate) fn waterfall(screen: &Screen, steps: &[Value], now: Timestamp) -> Vec<String> {
    let time = |step: &Value, member: &str| text(step, member).parse::<Timestamp>().ok();
    let starts = steps.iter().filter_map(|step| time(step, "startedAt"));
    let Some(origin) = starts.min() else {
        return Vec::new();
    };
    let ends = steps.iter().map(|step| time(step, "finishedAt").unwrap_or(now));
    let end = ends.max().unwrap_or(now).max(origin);
    let total_ms = end.ms_since(origin).max(1);
    let fixed = 9 + NAME_WIDTH + 1 + SPAN_WIDTH + 2;
    let width = screen.width().saturating_sub(fixed + 14).clamp(LEAST_BAR, 120);
    let mut lines = Vec::new();
    for step in steps {
        let began = time(step, "startedAt").unwrap_or(origin);
        let ended = time(step, "finishedAt").unwrap_or(now).max(began);
        let bar = bar(began.ms_since(origin), ended.ms_since(began), total_ms, width);
        let (mark, style) = mark(text(step, "status"));
        let name = fit(text(step, "name"), NAME_WIDTH);
        let duration = span(ended.ms_since(began));
        let note = note(step);
        let line = format!(
            "{:<8} {name:<NAME_WIDTH$} {} {duration:>SPAN_WIDTH$} {}{note}",
            text(step, "stepId"),
            screen.paint(style, &bar),
            screen.paint(style, mark),
        );
        lines.push(line.trim_end().to_owned());
    }
    let axis = format!(
        "{:<8} {:<NAME_WIDTH$} └{:─<rest$} {:>SPAN_WIDTH$}",
        "",
        "",
        "",
        span(total_ms),
        rest = width - 1
    );
    lines.push(screen.paint(Style::Dim, &axis));
    lines
}

fn mark(status: &str) -> (&str, Style) {
    match status {
        "completed" => ("✓", Style::Good),
        "failed" => ("✗", Style::Bad),
        "ambiguous" => ("?", Style::Warn),
        "started" => ("…", Style::Warn),
        other => (other, Style::Strong),
    }
}

/// Attempts beyond the first, an unusual outcome, the cost.
fn note(step: &Value) -> String {
    let mut note = String::new();
    let attempts = step.get("attempts").and_then(Value::as_array).map_or(0, Vec::len);
    if attempts > 1 {
        note.push_str(&format!(" ×{attempts}"));
    }
    let outcome = text(step, "outcome");
    if !matches!(outcome, "" | "ok") {
        note.push_str(&format!(" {outcome}"));
    }
    if let Some(cost) = step.get("costUsd").and_then(Value::as_str) {
        note.push_str(&format!(" ${cost}"));
    }
    note
}

/// A bar in eighths of a column. Whatever happened is seen: no bar is empty.
fn bar(offset_ms: u64, length_ms: u64, total_ms: u64, width: usize) -> String {
    let eighths = width as u128 * 8;
    let at = |ms: u64| (u128::from(ms.min(total_ms)) * eighths / u128::from(total_ms)).min(eighths);
    // Bars begin at whole columns, so that only their ends need parts of one.
    let start = usize::try_from(at(offset_ms) / 8).unwrap_or(width).min(width - 1);
    let end = usize::try_from(at(offset_ms.saturating_add(length_ms))).unwrap_or_default();
    let filled = end.saturating_sub(start * 8).max(1);
    let (full, part) = (filled / 8, filled % 8);
    let text = format!("{}{}{}", " ".repeat(start), "█".repeat(full), EIGHTHS[part]);
    format!("{text:<width$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn bars_lie_where_and_as_long_as_their_time() {
        assert_eq!(bar(0, 100, 100, 4), "████");
        assert_eq!(bar(50, 25, 100, 4), "  █ ");
        assert_eq!(bar(0, 0, 100, 4), "▏   ");
        assert_eq!(bar(100, 0, 100, 4), "   █");
        assert_eq!(bar(25, 40, 100, 4), " █▌ ");
        for (offset, length) in [(0, u64::MAX), (u64::MAX, u64::MAX), (99, 1)] {
            assert_eq!(
                bar(offset, length, 100, 7).chars().count(),
                7,
                "{offset} {length}"
            );
        }
    }

    #[test]
    fn a_waterfall_fits_the_width_and_marks_what_went_wrong() {
        let steps = [
            json!({"stepId": "llm-1", "name": "demo/fixer", "status": "completed", "outcome": "ok",
                   "startedAt": "2026-01-01T00:00:00.000Z", "finishedAt": "2026-01-01T00:00:01.000Z",
                   "attempts": [{}, {}], "costUsd": "0.001"}),
            json!({"stepId": "tool-1", "name": "shell", "status": "ambiguous", "outcome": "unknown",
                   "startedAt": "2026-01-01T00:00:01.000Z", "finishedAt": null, "attempts": [{}]}),
        ];
        let now = "2026-01-01T00:00:04.000Z".parse().expect("a moment");
        let lines = waterfall(&Screen::plain(80), &steps, now);
        assert_eq!(lines.len(), 3);
        assert!(lines[0].starts_with("llm-1    demo/fixer "), "{}", lines[0]);
        assert!(lines[0].ends_with("1.0 s ✓ ×2 $0.001"), "{}", lines[0]);
        assert!(lines[1].ends_with("3.0 s ? unknown"), "{}", lines[1]);
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:#?}");
        assert!(waterfall(&Screen::plain(80), &[], now).is_empty());
    }
}
