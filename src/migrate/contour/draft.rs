//! The settings file: values with comments, and the rows that report them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

use super::chart::{self, Values};
use super::row::{ReportRow, Verdict};
use crate::settings::{self, Resolved};

/// The settings so far.
#[derive(Debug, Default)]
pub struct Draft {
    entries: BTreeMap<&'static str, DraftSetting>,
    rows: Vec<ReportRow>,
    /// The beginnings of settings that are not written, because the endpoint of their service is unknown.
    closed: Vec<&'static str>,
}

/// A setting.
#[derive(Debug)]
pub struct DraftSetting {
    /// The value.
    pub value: Value,
    /// The comment behind the value.
    pub comment: String,
    /// The position of the row that reports the value.
    pub row: usize,
}

/// The written settings.
#[derive(Debug)]
pub struct Finished {
    /// The text of the settings file.
    pub settings: String,
    /// The values file of the chart with the same settings.
    pub values: Values,
    /// The settings.
    pub resolved: Resolved,
    /// The rows of the report.
    pub rows: Vec<ReportRow>,
}

/// The remedy for a value that no setting accepts.
const REMEDY: &str = "Choose a value of docs/settings.md, and add it to the settings file.";

impl Draft {
    /// Sets a value. `row` is about the key or the default behind it; it gets the value as its message.
    pub fn set(&mut self, path: &'static str, value: Value, comment: &str, mut row: ReportRow) {
        if self.closed.iter().any(|group| path.starts_with(group)) {
            row.message = format!("{path} is not written, because the endpoint of the service is unknown");
            row.remedy = "Set it with the endpoint.".to_owned();
            row.verdict = Verdict::Attention;
            return self.rows.push(row);
        }
        let shown = format!("setting {path}: {}", written(&value));
        row.message = if row.message.is_empty() { shown } else { format!("{shown}; {}", row.message) };
        // A key takes the place of a default, whose row would contradict it.
        if let Some(entry) = self.entries.remove(path)
            && let Some(before) = self.rows.get_mut(entry.row)
        {
            match before.file.is_empty() {
                true => before.message.clear(),
                false if entry.value != value => before.message = format!("no effect: {} precedes", row.field),
                false => {}
            }
        }
        self.entries.insert(path, DraftSetting { value, comment: comment.to_owned(), row: self.rows.len() });
        self.rows.push(row);
    }

    /// Adds a row that sets nothing.
    pub fn report(&mut self, row: ReportRow) {
        self.rows.push(row);
    }

    /// Does not write the settings that begin with `group`.
    pub fn close(&mut self, group: &'static str) {
        self.closed.push(group);
    }

    /// Returns whether a value is set.
    pub fn has(&self, path: &str) -> bool {
        self.entries.contains_key(path)
    }

    /// Writes the files. Values that contradict others are left out and reported.
    pub fn finish(mut self, heading: &str) -> Finished {
        loop {
            let text = format!("{heading}{}", lines(self.entries.iter().map(|(path, entry)| (*path, entry)), 0));
            let faults = match settings::resolve("", &text, &[]) {
                Ok(resolved) => return self.finished(text, resolved),
                Err(faults) => faults.faults,
            };
            let fault = faults.into_iter().next();
            let at = |key: &str| self.entries.keys().find(|path| **path == key).copied();
            // Each round removes a value, so the loop ends, at the latest without any value.
            let key = fault.as_ref().and_then(|fault| at(&fault.key)).or_else(|| self.entries.keys().next().copied());
            let Some(entry) = key.and_then(|key| self.entries.remove(key)) else {
                return self.finished(String::new(), Resolved::default());
            };
            if let (Some(row), Some(fault)) = (self.rows.get_mut(entry.row), fault) {
                row.verdict = Verdict::Attention;
                row.message = format!("{} is not written: {}", key.unwrap_or_default(), fault.message);
                row.remedy = REMEDY.to_owned();
            }
        }
    }

    fn finished(mut self, settings: String, resolved: Resolved) -> Finished {
        let values = chart::values(&self.entries, &self.rows);
        self.rows.retain(|row| !row.message.is_empty());
        Finished { settings, values, resolved, rows: self.rows }
    }
}

/// Returns a line for each setting, below the lines of its groups, indented by `depth` groups.
pub fn lines<'a>(entries: impl Iterator<Item = (&'a str, &'a DraftSetting)>, depth: usize) -> String {
    let mut text = String::new();
    let mut open: Vec<&str> = Vec::new();
    for (path, DraftSetting { value, comment, .. }) in entries {
        let parts: Vec<&str> = path.split('.').collect();
        let Some((name, groups)) = parts.split_last() else { continue };
        let shared = open.iter().zip(groups).take_while(|(one, other)| one == other).count();
        for (inner, group) in groups.iter().enumerate().skip(shared) {
            let _ = writeln!(text, "{:indent$}{group}:", "", indent = 2 * (depth + inner));
        }
        let comment = if comment.is_empty() { String::new() } else { format!(" # {comment}") };
        let indent = 2 * (depth + groups.len());
        let _ = writeln!(text, "{:indent$}{name}: {}{comment}", "", written(value));
        open = groups.to_vec();
    }
    text
}

/// Returns a value in YAML on one line: plain if that is possible, otherwise as JSON, which is YAML.
pub fn written(value: &Value) -> String {
    match value {
        Value::String(text) => {
            let is_plain = |text: &str| {
                text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '/')
                    && text.chars().all(|c| c.is_ascii_alphanumeric() || "._/-".contains(c))
            };
            let means_another = text.parse::<f64>().is_ok()
                || ["null", "true", "false", "off", "on", "yes", "no"].contains(&text.as_str());
            if is_plain(text) && !means_another { text.clone() } else { value.to_string() }
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(written).collect();
            format!("[{}]", items.join(", "))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    fn row() -> ReportRow {
        ReportRow {
            file: "contour.yaml".to_owned(),
            line: 1,
            kind: String::new(),
            namespace: String::new(),
            name: String::new(),
            field: "key".to_owned(),
            verdict: Verdict::Same,
            message: String::new(),
            remedy: String::new(),
        }
    }

    #[test]
    fn values_stand_below_their_groups() {
        let mut draft = Draft::default();
        draft.set("timeouts.response", json!("15s"), "Why.", row());
        draft.set("tls.minimumVersion", json!("1.3"), "", row());
        draft.set("tls.fingerprints.ja3", json!(true), "", row());
        let Finished { settings: text, resolved, rows, .. } = draft.finish("# Head\n");
        let expected = "# Head\ntimeouts:\n  response: 15s # Why.\ntls:\n  fingerprints:\n    ja3: true\n  \
                        minimumVersion: \"1.3\"\n";
        assert_eq!(text, expected);
        assert!(resolved.settings.route.tls.ja3);
        assert_eq!(rows[0].message, "setting timeouts.response: 15s");
    }

    #[test]
    fn contradictions_are_left_out_and_reported() {
        let mut draft = Draft::default();
        draft.set("tls.minimumVersion", json!("1.3"), "", row());
        draft.set("tls.maximumVersion", json!("1.2"), "", row());
        let Finished { settings: text, rows, .. } = draft.finish("");
        assert!(settings::resolve("", &text, &[]).is_ok());
        assert_eq!(rows.iter().filter(|row| row.verdict == Verdict::Attention).count(), 1);
    }
}
