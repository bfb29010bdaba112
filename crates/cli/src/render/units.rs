//! Durations, times and texts of a bounded width.

use portolan_core::time::Timestamp;

/// A duration for people: three digits and a unit.
pub(crate) fn span(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        60_000..3_600_000 => format!("{} m {:02} s", ms / 60_000, ms % 60_000 / 1_000),
        _ => format!("{} h {:02} m", ms / 3_600_000, ms % 3_600_000 / 60_000),
    }
}

/// The time of day of a moment, UTC, with milliseconds.
pub(crate) fn clock_time(at: Timestamp) -> String {
    at.to_string().get(11..23).unwrap_or_default().to_owned()
}

/// A text on one line within a width; what is cut shows that it was. Control characters are shown as spaces.
pub(crate) fn fit(text: &str, width: usize) -> String {
    let mut line: String = text
        .chars()
        .take(width + 1)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if line.chars().count() > width {
        line = line.chars().take(width.saturating_sub(1)).collect();
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_the_unit_of_their_size() {
        for (ms, text) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1_250, "1.2 s"),
            (61_000, "1 m 01 s"),
            (3_720_000, "1 h 02 m"),
        ] {
            assert_eq!(span(ms), text);
        }
    }

    #[test]
    fn texts_fit_and_cannot_steer_the_terminal() {
        assert_eq!(fit("short", 10), "short");
        assert_eq!(fit("exactly-10", 10), "exactly-10");
        assert_eq!(fit("more-than-10", 10), "more-than…");
        assert_eq!(fit("a\n\u{1b}[31mb", 20), "a  [31mb");
    }
}
