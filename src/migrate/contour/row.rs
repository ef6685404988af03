//! The rows of the report: one for each object, key, and default, with a verdict.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::check::Finding;
use crate::check::output::Colors;
use crate::telemetry::printable;

/// The comparison of an object or a key with Contour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It differs, or has no counterpart, and needs a decision.
    Attention,
    /// Lockgate serves more of it, or serves it more safely.
    Better,
    /// It has the same effect.
    Same,
}

impl Verdict {
    /// Returns the word, as in the report.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Attention => "attention",
            Self::Better => "better",
            Self::Same => "same",
        }
    }
}

/// A row of the report.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReportRow {
    /// The file as the user named it; `-` is standard input. Empty for a default of Contour, and for an object of a Kubernetes cluster.
    pub file: String,
    /// The line, from 1. 0 if there is none.
    pub line: usize,
    /// The kind of the object, empty for a configuration file.
    pub kind: String,
    /// The namespace of the object, empty if there is none.
    pub namespace: String,
    /// The name of the object, empty if there is none.
    pub name: String,
    /// The field or the key. Empty if the row is about a whole object.
    pub field: String,
    /// The comparison.
    pub verdict: Verdict,
    /// The facts: lower case, no full stop.
    pub message: String,
    /// The remedy: sentences. Empty if no action is needed.
    pub remedy: String,
}

impl ReportRow {
    /// Creates a row about the object and the field of a finding.
    pub fn of_finding(finding: &Finding, verdict: Verdict, message: String, remedy: &str) -> Self {
        let Finding { file, line, kind, namespace, name, field, .. } = finding.clone();
        Self { file: file.to_string(), line, kind, namespace, name, field, verdict, message, remedy: remedy.to_owned() }
    }

    fn line(&self, colors: Colors) -> String {
        let Self { file, line, kind, namespace, name, field, verdict, message, remedy } = self;
        let paint = |code: &str, text: &str| match colors {
            Colors::On => format!("\x1b[{code}m{text}\x1b[0m"),
            Colors::Off => text.to_owned(),
        };
        let shown = match (file.as_str(), kind.as_str()) {
            ("", "") => "(default)",
            ("", _) => "(cluster)",
            (file, _) => file,
        };
        let place = if *line > 0 { format!("{}:{line}:", printable(shown)) } else { format!("{}:", printable(shown)) };
        let color = match verdict {
            Verdict::Attention => "1;33",
            Verdict::Better => "1;32",
            Verdict::Same => "1;36",
        };
        let object = match (kind.as_str(), namespace.as_str(), name.as_str()) {
            ("", ..) => String::new(),
            (kind, "", "") => kind.to_owned(),
            (kind, "", name) => format!("{kind} {name}"),
            (kind, namespace, name) => format!("{kind} {namespace}/{name}"),
        };
        let about: Vec<&str> = [object.as_str(), field].into_iter().filter(|text| !text.is_empty()).collect();
        let about = if about.is_empty() { String::new() } else { format!(" {}:", printable(&about.join(" "))) };
        let message = printable(&format!("{message}."));
        let remedy = match remedy.as_str() {
            "" => String::new(),
            remedy => format!(" {} {}", paint("2", "Remedy:"), printable(remedy)),
        };
        format!("{} {}{about} {message}{remedy}", paint("1", &place), paint(color, &format!("{}:", verdict.as_str())))
    }
}

/// Returns a line for each row: `FILE:LINE: attention: HTTPProxy shop/cart FIELD: MESSAGE. Remedy: …`.
pub fn text(rows: &[ReportRow], colors: Colors) -> String {
    let mut text = String::new();
    for row in rows {
        let _ = writeln!(text, "{}", row.line(colors));
    }
    text
}

/// Returns the rows as a JSON array. docs/migrate.md documents the fields.
pub fn json(rows: &[ReportRow]) -> Value {
    rows.iter().map(object).collect()
}

fn object(row: &ReportRow) -> Value {
    let ReportRow { file, line, kind, namespace, name, field, verdict, message, remedy } = row;
    let text = |text: &str| if text.is_empty() { Value::Null } else { json!(text) };
    json!({
        "file": text(file),
        "line": if *line > 0 { json!(line) } else { Value::Null },
        "verdict": verdict.as_str(),
        "kind": text(kind),
        "namespace": text(namespace),
        "name": text(name),
        "field": text(field),
        "message": message,
        "remedy": text(remedy),
    })
}

/// Counts the rows of each verdict: `2 attention, 1 better, 14 same`.
pub fn counted(rows: &[ReportRow]) -> String {
    let mut counts = BTreeMap::<Verdict, usize>::new();
    rows.iter().for_each(|row| *counts.entry(row.verdict).or_default() += 1);
    let counts: Vec<String> = counts.iter().map(|(verdict, count)| format!("{count} {}", verdict.as_str())).collect();
    if counts.is_empty() { "nothing to compare".to_owned() } else { counts.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> ReportRow {
        ReportRow {
            file: "shop.yaml".to_owned(),
            line: 7,
            kind: "HTTPProxy".to_owned(),
            namespace: "shop".to_owned(),
            name: "cart".to_owned(),
            field: "spec.routes[0]".to_owned(),
            verdict: Verdict::Attention,
            message: "it differs".to_owned(),
            remedy: "Change it.".to_owned(),
        }
    }

    #[test]
    fn a_row_is_one_line() {
        let line = "shop.yaml:7: attention: HTTPProxy shop/cart spec.routes[0]: it differs. Remedy: Change it.\n";
        assert_eq!(text(&[row()], Colors::Off), line);
        let default = ReportRow { file: String::new(), line: 0, kind: String::new(), remedy: String::new(), ..row() };
        assert_eq!(text(&[default], Colors::Off), "(default): attention: spec.routes[0]: it differs.\n");
        let forged = ReportRow { name: "a\nb".to_owned(), ..row() };
        assert_eq!(text(&[forged], Colors::Off).lines().count(), 1);
    }

    #[test]
    fn the_counts_start_with_what_needs_attention() {
        let same = ReportRow { verdict: Verdict::Same, ..row() };
        assert_eq!(counted(&[same.clone(), row(), same]), "1 attention, 2 same");
    }
}
