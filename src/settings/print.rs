//! Effective settings as a file again, with the origin of each value as a comment.

use std::fmt::Write as _;

use serde_json::{Value as Json, json};

use super::keys::{KEYS, SettingsKey};
use super::resolved::{Origin, Resolved};
use crate::yaml::written;

/// The column of comments, unless a value is longer.
const COMMENTS: usize = 48;

/// Prints all settings as YAML, which parses to the same settings.
///
/// `file` is the name of the settings file in the comments.
pub fn print(resolved: &Resolved, file: &str) -> String {
    let mut text = String::new();
    let mut open: Vec<&str> = Vec::new();
    for key in KEYS {
        let mut parts: Vec<&str> = key.path.split('.').collect();
        let Some(name) = parts.pop() else { continue };
        let common = open.iter().zip(&parts).take_while(|(a, b)| a == b).count();
        for (depth, group) in parts.iter().enumerate().skip(common) {
            let _ = writeln!(text, "{}{group}:", "  ".repeat(depth));
        }
        let depth = parts.len();
        open = parts;
        let line = format!("{}{name}: {}", "  ".repeat(depth), written(&(key.show)(&resolved.settings)));
        let mut comment = match resolved.origins.get(key.path).copied().unwrap_or_default() {
            Origin::Default => "default".to_owned(),
            origin => place(origin, file),
        };
        if let Some(hidden) = resolved.hidden.get(key.path) {
            comment.push_str(&format!("; {} has {}", place(hidden.origin, file), hidden.written()));
        }
        if let Some(waiting) = resolved.waiting.get(key.path) {
            let place = match waiting.origin {
                Origin::Default => "by default".to_owned(),
                origin => format!("by {}", place(origin, file)),
            };
            comment = format!("effective until a restart of the controller, then {} {place}", waiting.written());
        }
        let _ = writeln!(text, "{line:COMMENTS$} # {comment}");
    }
    text
}

/// Prints all settings as a JSON list with key, value, and origin.
pub fn print_json(resolved: &Resolved, file: &str) -> Json {
    let entry = |key: &SettingsKey| {
        let origin = match resolved.origins.get(key.path).copied().unwrap_or_default() {
            Origin::Default => "default".to_owned(),
            origin => place(origin, file),
        };
        json!({"key": key.path, "value": (key.show)(&resolved.settings), "origin": origin})
    };
    KEYS.iter().map(entry).collect()
}

/// Formats the origin of a value for people.
fn place(origin: Origin, file: &str) -> String {
    match origin {
        Origin::File(place) => format!("{file}:{}", place.line),
        other => other.within(file),
    }
}
