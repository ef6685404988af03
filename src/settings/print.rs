//! Effective settings as a file again, with the origin of each value as a comment.

use std::fmt::Write as _;

use serde_json::Value as Json;

use super::file::{Origin, Resolved};
use super::keys::KEYS;

/// Column at which comments begin, unless a value is longer.
const COMMENTS: usize = 48;

/// All settings as YAML. Read again, it gives the same settings.
///
/// `file` is the name that stands for the settings file in the comments.
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
        let origin = match resolved.origins.get(key.path).copied().unwrap_or_default() {
            Origin::Default => "default".to_owned(),
            Origin::File(place) => format!("{file}:{}", place.line),
            Origin::Flag(flag) => flag.to_owned(),
        };
        let _ = writeln!(text, "{line:COMMENTS$} # {origin}");
    }
    text
}

/// A value in one line: YAML that means the same to every reader of YAML, whatever its version.
pub fn written(value: &Json) -> String {
    match value {
        Json::String(text) if is_plain(text) => text.clone(),
        Json::Array(items) => format!("[{}]", items.iter().map(written).collect::<Vec<_>>().join(", ")),
        Json::Object(fields) => {
            let fields =
                fields.iter().map(|(key, value)| format!("{}: {}", written(&key.as_str().into()), written(value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// Whether no reader of YAML takes `text` for anything but itself, in brackets or not.
fn is_plain(text: &str) -> bool {
    let word = ["true", "false", "yes", "no", "on", "y", "n", "null", "nan", "inf"];
    let safe = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.bytes().all(safe)
        && !word.contains(&&*text.to_ascii_lowercase())
        && text.parse::<f64>().is_err()
        && !text.starts_with("0x")
}
