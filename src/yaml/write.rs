//! Formats values as YAML in one line.

use serde_json::Value;

/// Formats a value in one line, as YAML that all versions of YAML parse alike.
pub fn written(value: &Value) -> String {
    match value {
        Value::String(text) if is_plain(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(written).collect::<Vec<_>>().join(", ")),
        Value::Object(fields) => {
            let fields =
                fields.iter().map(|(key, value)| format!("{}: {}", written(&key.as_str().into()), written(value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// Returns whether every YAML parser reads the plain `text` as this string, inside a flow collection or not.
fn is_plain(text: &str) -> bool {
    let word = ["true", "false", "yes", "no", "on", "y", "n", "null", "nan", "inf"];
    let safe = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.bytes().all(safe)
        && !word.contains(&&*text.to_ascii_lowercase())
        && text.parse::<f64>().is_err()
        && !text.starts_with("0x")
}
