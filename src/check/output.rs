//! The forms in which findings are printed.

mod sarif;
mod text;

use std::collections::BTreeMap;

use serde_json::{Value, json};

pub use sarif::sarif;
pub use text::{Colors, text};

use super::finding::{Finding, Level};
use super::manifests::ManifestCounts;

/// Returns the findings as a JSON array. docs/check.md documents the fields.
pub fn json(findings: &[Finding]) -> Value {
    findings.iter().map(object).collect()
}

fn object(finding: &Finding) -> Value {
    let Finding { file, line, level, rule, kind, namespace, name, field, message, consequence, remedy } = finding;
    let text = |text: &str| if text.is_empty() { Value::Null } else { json!(text) };
    json!({
        "file": text(file),
        "line": if *line > 0 { json!(line) } else { Value::Null },
        "level": level.as_str(),
        "rule": rule.as_str(),
        "kind": text(kind),
        "namespace": text(namespace),
        "name": text(name),
        "field": text(field),
        "message": message,
        "consequence": consequence,
        "remedy": remedy,
    })
}

/// Summarizes the check in one line: `2 errors and 1 note in 3 files; checked 12 objects`.
pub fn summary(findings: &[Finding], counts: ManifestCounts) -> String {
    let mut levels = BTreeMap::<Level, usize>::new();
    findings.iter().for_each(|finding| *levels.entry(finding.level).or_default() += 1);
    let levels: Vec<String> = levels.iter().map(|(level, count)| counted(*count, level.as_str())).collect();
    let found = match levels.as_slice() {
        [] => "no findings".to_owned(),
        [one] => one.clone(),
        [others @ .., last] => format!("{} and {last}", others.join(", ")),
    };
    let ManifestCounts { files, objects, others } = counts;
    let others = match others {
        0 => String::new(),
        others => format!(", {} of other kinds not read", counted(others, "object")),
    };
    format!("{found} in {}; checked {}{others}", counted(files, "file"), counted(objects, "object"))
}

/// Returns `1 file` or `2 files`.
fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_counts_what_was_checked() {
        let counts = ManifestCounts { files: 1, objects: 2, others: 1 };
        assert_eq!(summary(&[], counts), "no findings in 1 file; checked 2 objects, 1 object of other kinds not read");
        let [error, note] = [Level::Error, Level::Note].map(|level| Finding { level, ..super::text::tests::finding() });
        let findings = [error.clone(), error, note];
        let counts = ManifestCounts { others: 0, ..counts };
        assert_eq!(summary(&findings, counts), "2 errors and 1 note in 1 file; checked 2 objects");
    }

    #[test]
    fn absent_texts_are_null_in_json() {
        let finding = Finding { line: 0, field: String::new(), ..super::text::tests::finding() };
        let value = &json(&[finding])[0];
        assert_eq!(
            (&value["line"], &value["field"], &value["file"]),
            (&Value::Null, &Value::Null, &json!("shop.yaml"))
        );
    }
}
