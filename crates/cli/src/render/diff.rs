//! Changes of a file, as a unified diff.

use crate::screen::{Screen, Style};
use similar::{ChangeTag, TextDiff};

/// The lines of a unified diff. `None` stands for a file that is not there; bytes that are no text are only named.
pub(crate) fn diff(screen: &Screen, path: &str, before: Option<&[u8]>, after: Option<&[u8]>) -> Vec<String> {
    let name = |side: &str, content: Option<&[u8]>| match content {
        Some(_) => format!("{side}/{path}"),
        None => "/dev/null".to_owned(),
    };
    let mut lines = vec![
        screen.paint(Style::Strong, &format!("--- {}", name("a", before))),
        screen.paint(Style::Strong, &format!("+++ {}", name("b", after))),
    ];
    let text = |content: Option<&[u8]>| std::str::from_utf8(content.unwrap_or_default()).map(str::to_owned);
    let (Ok(before), Ok(after)) = (text(before), text(after)) else {
        lines.push("(not text)".to_owned());
        return lines;
    };
    let changes = TextDiff::from_lines(&before, &after);
    for hunk in changes.unified_diff().context_radius(2).iter_hunks() {
        lines.push(screen.paint(Style::Dim, hunk.header().to_string().trim_end()));
        for change in hunk.iter_changes() {
            let line = change.to_string_lossy();
            let line = shown(line.trim_end_matches('\n'));
            lines.push(match change.tag() {
                ChangeTag::Equal => format!(" {line}"),
                ChangeTag::Delete => screen.paint(Style::Bad, &format!("-{line}")),
                ChangeTag::Insert => screen.paint(Style::Good, &format!("+{line}")),
            });
        }
    }
    lines
}

/// A line of a stranger's file, unable to steer the terminal.
fn shown(line: &str) -> String {
    let safe = line
        .chars()
        .map(|c| if c.is_control() && c != '\t' { '·' } else { c });
    safe.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_shows_its_surroundings() {
        let screen = Screen::plain(80);
        let lines = diff(
            &screen,
            "x.sh",
            Some(b"1\n2\n3\n4\n5\n"),
            Some(b"1\n2\nthree\n4\n5\n"),
        );
        assert_eq!(
            lines,
            [
                "--- a/x.sh",
                "+++ b/x.sh",
                "@@ -1,5 +1,5 @@",
                " 1",
                " 2",
                "-3",
                "+three",
                " 4",
                " 5"
            ]
        );
        assert_eq!(
            diff(&screen, "new", None, Some(b"a\x1b\n"))[..2],
            ["--- /dev/null", "+++ b/new"]
        );
        assert_eq!(diff(&screen, "new", None, Some(b"a\x1b\n"))[3], "+a·");
        assert_eq!(diff(&screen, "raw", Some(b"\xff"), None)[2], "(not text)");
    }
}
