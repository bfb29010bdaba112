//! Tables: columns as wide as their content.

use crate::screen::{Screen, Style};

/// Rows of cells under a head.
#[derive(Debug)]
pub(crate) struct Table {
    head: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(head: impl IntoIterator<Item = &'static str>) -> Self {
        Self {
            head: head.into_iter().collect(),
            rows: Vec::new(),
        }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The lines, the head dimmed.
    pub(crate) fn lines(&self, screen: &Screen) -> Vec<String> {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            let longest = cells.map(|cell| cell.chars().count()).max().unwrap_or_default();
            longest.max(self.head[column].len())
        };
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        let line = |cells: &mut dyn Iterator<Item = &str>| {
            let padded = cells.zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
            let line: Vec<String> = padded.collect();
            line.join("  ").trim_end().to_owned()
        };
        let head = line(&mut self.head.iter().copied());
        let rows = self
            .rows
            .iter()
            .map(|row| line(&mut row.iter().map(String::as_str)));
        std::iter::once(screen.paint(Style::Dim, &head))
            .chain(rows)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(["A", "LONG", "C"]);
        table.row(["wide cell".to_owned(), "1".to_owned(), "é".to_owned()]);
        table.row(["x".to_owned(), "2".to_owned(), String::new()]);
        let lines = table.lines(&Screen::plain(80));
        assert_eq!(
            lines,
            ["A          LONG  C", "wide cell  1     é", "x          2"]
        );
    }
}
