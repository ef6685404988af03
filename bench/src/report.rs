//! Tables of what was measured.

mod targets;

use std::fmt::{self, Write};

use crate::cases::CASES;
use crate::peer::Server;

/// A unit. Less is better in all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Milliseconds.
    Ms,
    /// Microseconds.
    Us,
    /// A number of things.
    Count,
    /// Bytes.
    Bytes,
    /// 1024 bytes.
    KiB,
    /// 1024 KiB.
    MiB,
}

/// What was measured, or why it was not.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A number.
    Number(f64, Unit),
    /// Words.
    Note(String),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Number(value, unit) => {
                let unit = match unit {
                    Unit::Ms => " ms",
                    Unit::Us => " µs",
                    Unit::Count => "",
                    Unit::Bytes => " B",
                    Unit::KiB => " KiB",
                    Unit::MiB => " MiB",
                };
                write!(f, "{}{unit}", three_digits(*value))
            }
            Value::Note(note) => f.write_str(note),
        }
    }
}

/// Three significant digits, without an exponent.
fn three_digits(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        size if size < 0.0995 => format!("{value:.3}"),
        size if size < 9.95 => format!("{value:.2}"),
        size if size < 99.5 => format!("{value:.1}"),
        _ => {
            let digits = format!("{:.0}", value.abs());
            let mut grouped = String::new();
            for (place, digit) in digits.chars().enumerate() {
                if place > 0 && (digits.len() - place).is_multiple_of(3) {
                    grouped.push(',');
                }
                grouped.push(digit);
            }
            grouped
        }
    }
}

/// One figure of one server.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Variant, R and N.
    pub setting: String,
    /// What is measured.
    pub metric: &'static str,
    /// The figure.
    pub value: Value,
}

/// All that was measured.
#[derive(Debug, Default)]
pub struct Report {
    rows: Vec<(String, Server, Row)>,
}

impl Report {
    /// Takes the rows of the benchmark `id` on `server`.
    pub fn add(&mut self, id: &str, server: Server, rows: Vec<Row>) {
        self.rows.extend(rows.into_iter().map(|row| (id.to_owned(), server, row)));
    }

    fn value(&self, id: &str, server: Server, setting: &str, metric: &str) -> Option<&Value> {
        let of = |(own, by, row): &&(String, Server, Row)| {
            own == id && *by == server && row.setting == setting && row.metric == metric
        };
        self.rows.iter().find(of).map(|(_, _, row)| &row.value)
    }

    fn number(&self, id: &str, server: Server, setting: &str, metric: &str) -> Option<f64> {
        match self.value(id, server, setting, metric)? {
            Value::Number(value, _) => Some(*value),
            Value::Note(_) => None,
        }
    }

    /// The lower of the other servers' figures.
    fn better(&self, id: &str, setting: &str, metric: &str) -> Option<f64> {
        let others = [Server::Linear, Server::Snapshot].map(|server| self.number(id, server, setting, metric));
        others.into_iter().flatten().min_by(f64::total_cmp)
    }

    /// Settings and metrics of a benchmark, each once, in the order in which they came.
    fn lines(&self, id: &str) -> Vec<(&str, &'static str)> {
        let mut lines = Vec::new();
        for (_, _, row) in self.rows.iter().filter(|(own, ..)| own == id) {
            if !lines.contains(&(row.setting.as_str(), row.metric)) {
                lines.push((row.setting.as_str(), row.metric));
            }
        }
        // What failed on one server only stands with what the others have of the same setting.
        let first = |setting: &str| lines.iter().position(|(own, _)| *own == setting);
        let mut sorted = lines.clone();
        sorted.sort_by_key(|(setting, _)| first(setting));
        sorted
    }

    /// The table of the benchmark `id`, in Markdown; empty if it was not run.
    pub fn table(&self, id: &str) -> String {
        let lines = self.lines(id);
        if lines.is_empty() {
            return String::new();
        }
        let head =
            ["", "", "Lockgate", "linear cache", "snapshot cache", "linear ÷ ours", "snapshot ÷ ours", "better ÷ ours"];
        let mut table = vec![head.map(str::to_owned)];
        let mut last = "";
        for (setting, metric) in lines {
            let shown = |server| self.value(id, server, setting, metric).map_or("–".into(), Value::to_string);
            let own = self.number(id, Server::Lockgate, setting, metric);
            let ratio = |other: Option<f64>| ratio(own, other);
            let of = |server| ratio(self.number(id, server, setting, metric));
            table.push([
                if setting == last { String::new() } else { setting.to_owned() },
                metric.to_owned(),
                shown(Server::Lockgate),
                shown(Server::Linear),
                shown(Server::Snapshot),
                of(Server::Linear),
                of(Server::Snapshot),
                ratio(self.better(id, setting, metric)),
            ]);
            last = setting;
        }
        markdown(&table, 2)
    }

    /// The targets, what was reached, and whether they are met.
    pub fn targets(&self) -> String {
        let mut table = vec![["benchmark", "target", "reached", "better peer", "met"].map(str::to_owned)];
        table.extend(targets::TARGETS.iter().map(|target| target.row(self)));
        markdown(&table, 4)
    }

    /// Figures in which one of the other caches is better, by more than noise.
    pub fn behind(&self) -> String {
        let mut list = String::new();
        for (id, ..) in CASES {
            for (setting, metric) in self.lines(id) {
                let own = self.number(id, Server::Lockgate, setting, metric);
                if let (Some(own), Some(other)) = (own, self.better(id, setting, metric))
                    && own > other * 1.05
                    && own - other > 0.05
                {
                    let _ = writeln!(
                        list,
                        "- {id}, {setting}: {metric} {} against {}",
                        three_digits(own),
                        three_digits(other)
                    );
                }
            }
        }
        if list.is_empty() { "Nowhere.\n".into() } else { list }
    }

    /// The whole page.
    pub fn page(&self, machine: &str) -> String {
        let mut page = String::from(include_str!("report/head.md"));
        let _ = write!(page, "\n## The machine\n\n{machine}\n## Targets\n\n{}", self.targets());
        let _ = write!(page, "\n## Where the other server is better\n\n{}", self.behind());
        for (id, title, about) in CASES {
            let table = self.table(id);
            if !table.is_empty() {
                let _ = write!(page, "\n## {id}: {title}\n\n{}\n\n{table}", wrapped(about));
            }
        }
        page
    }
}

/// How many times `own` the other figure is.
pub(crate) fn ratio(own: Option<f64>, other: Option<f64>) -> String {
    match (own, other) {
        (Some(own), Some(other)) if own > 0.0 => format!("{}×", three_digits(other / own)),
        (Some(_), Some(other)) if other > 0.0 => "∞".into(),
        (Some(_), Some(_)) => "1×".into(),
        _ => "–".into(),
    }
}

/// A Markdown table whose columns are aligned; those from number `right` on to the right.
pub(crate) fn markdown(table: &[impl AsRef<[String]>], right: usize) -> String {
    let columns = table.first().map_or(0, |row| row.as_ref().len());
    let width = |column: usize| table.iter().map(|row| row.as_ref()[column].chars().count()).max().unwrap_or(0).max(3);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for (number, row) in table.iter().enumerate() {
        for (column, (cell, &width)) in row.as_ref().iter().zip(&widths).enumerate() {
            let _ = if column < right { write!(text, "| {cell:<width$} ") } else { write!(text, "| {cell:>width$} ") };
        }
        text.push_str("|\n");
        if number == 0 {
            for (column, &width) in widths.iter().enumerate() {
                let (line, end) = if column < right { ("-".repeat(width), " ") } else { ("-".repeat(width - 1), ": ") };
                let _ = write!(text, "| {line}{end}");
            }
            text.push_str("|\n");
        }
    }
    text
}

/// Lines of at most 120 characters.
pub(crate) fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + word.chars().count() < 120 => {
                line.push_str(if line.is_empty() { "" } else { " " });
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        let shown = [0.0, 0.0123, 1.234, 12.34, 123.4, 1234.5, 1_234_567.0].map(three_digits);
        assert_eq!(shown, ["0", "0.012", "1.23", "12.3", "123", "1,234", "1,234,567"]);
    }

    #[test]
    fn a_ratio_says_how_many_times_more_the_other_takes() {
        let row = |value| Row { setting: "R=1".into(), metric: "p99", value: Value::Number(value, Unit::Ms) };
        let mut report = Report::default();
        report.add("B2", Server::Lockgate, vec![row(2.0)]);
        report.add("B2", Server::Linear, vec![row(10.0)]);
        report.add("B2", Server::Snapshot, vec![row(1.0)]);
        let table = report.table("B2");
        assert!(table.contains("5.00×") && table.contains("0.50×"), "{table}");
        assert_eq!(report.behind(), "- B2, R=1: p99 2.00 against 1.00\n");
    }
}
