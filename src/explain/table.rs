//! Text in columns, for terminals.

use crate::telemetry::printable;

/// The style of printed text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Without colors.
    Plain,
    /// With colors, for a terminal.
    Colors,
}

impl Style {
    /// Returns text in bold.
    pub fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    /// Returns text in a dim color.
    pub fn dim(self, text: &str) -> String {
        self.with("2", text)
    }

    /// Returns text in green, or in yellow if it needs attention.
    pub fn judged(self, is_good: bool, text: &str) -> String {
        self.with(if is_good { "32" } else { "33" }, text)
    }

    fn with(self, code: &str, text: &str) -> String {
        match self {
            Self::Plain => text.to_owned(),
            Self::Colors => format!("\x1b[{code}m{text}\x1b[0m"),
        }
    }
}

/// Formats rows in columns, each row on a line after `indent` spaces. The first row is the header.
pub fn columns(rows: &[Vec<String>], indent: usize, style: Style) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or_default();
    let cell = |row: &[String], at: usize| row.get(at).map(|text| printable(text)).unwrap_or_default();
    let width = |at: usize| rows.iter().map(|row| cell(row, at).chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..count).map(width).collect();
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        let cells = widths.iter().enumerate().map(|(at, width)| format!("{:width$}", cell(row, at)));
        let line = cells.collect::<Vec<_>>().join("  ");
        let line = line.trim_end();
        let line = if number == 0 { style.dim(line) } else { line.to_owned() };
        text.push_str(&format!("{:indent$}{line}\n", ""));
    }
    text
}
