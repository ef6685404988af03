//! The fields of a JSON line of the access log, as the settings file writes them.

use super::foreign::nearest;
use super::{JSON_FIELDS, JsonField, format_string};

/// Parses a field: a known name, an operator such as `DURATION`, or `name=%OPERATOR%`. The error lists the allowed
/// values.
pub(super) fn field_of(text: &str) -> Result<JsonField, String> {
    let field = |name: &str, format: &str| JsonField { name: name.to_owned(), format: format.to_owned() };
    if let Some((name, format)) = text.split_once('=') {
        let plain = !name.is_empty() && !name.chars().any(char::is_control);
        return match format_string::check_of_log(format) {
            _ if !plain => Err("expected a name before =".to_owned()),
            Ok(()) if format.chars().any(char::is_control) => Err("expected one line after =".to_owned()),
            Ok(()) => Ok(field(name, format)),
            Err(why) => Err(why),
        };
    }
    if let Some((name, format, _)) = JSON_FIELDS.iter().find(|(name, ..)| *name == text) {
        return Ok(field(name, format));
    }
    let format = format!("%{text}%");
    let operator =
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_uppercase() || b"_0123456789".contains(&byte));
    if operator && format_string::check_of_log(&format).is_ok() {
        return Ok(field(text, &format));
    }
    let near = nearest(text, JSON_FIELDS.iter().map(|(name, ..)| *name));
    let hint = near.map(|name| format!("; did you mean {name}?")).unwrap_or_default();
    Err(format!("expected a known field, an operator such as DURATION, or name=%OPERATOR%{hint}"))
}

/// Returns the fields with a predefined name, for the reference.
pub(super) fn known_fields() -> impl Iterator<Item = (&'static str, &'static str)> {
    JSON_FIELDS.iter().map(|(name, format, _)| (*name, *format))
}
