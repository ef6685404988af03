//! The meaning of scalars: text, or a value by the rules of YAML 1.1 as kubectl's library applies them.

use granit_parser::{ScalarStyle, Tag};
use serde_json::Number;

use super::node::NodeContent;

/// The rule for scalars.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scalars {
    /// A scalar is its text; a plain null is empty.
    Text,
    /// Plain scalars are values of YAML 1.1.
    Yaml11,
}

impl Scalars {
    /// Returns the value of a scalar.
    pub(super) fn value(self, text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<NodeContent, String> {
        let is_plain = style == ScalarStyle::Plain;
        match (self, tag.map(Tag::core_suffix)) {
            (Self::Text, _) if is_plain && is_null(text) => Ok(NodeContent::Null),
            (Self::Yaml11, None) if is_plain => plain(text),
            (Self::Yaml11, Some(Some(suffix))) => tagged(suffix, text),
            _ => Ok(NodeContent::Text(text.to_owned())),
        }
    }
}

fn is_null(text: &str) -> bool {
    ["", "~", "null", "Null", "NULL"].contains(&text)
}

/// Returns the value of a plain scalar without a tag.
fn plain(text: &str) -> Result<NodeContent, String> {
    match text {
        _ if is_null(text) => return Ok(NodeContent::Null),
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return Ok(NodeContent::Bool(true));
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Ok(NodeContent::Bool(false));
        }
        ".nan" | ".NaN" | ".NAN" | ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" | "-.inf" | "-.Inf"
        | "-.INF" => return Err(format!("{text:?} has no meaning in JSON")),
        _ => {}
    }
    if !text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.')) {
        return Ok(NodeContent::Text(text.to_owned()));
    }
    let digits = text.replace('_', "");
    let float = || is_float(&digits).then(|| digits.parse::<f64>().ok().and_then(Number::from_f64))?;
    Ok(integer(&digits).or_else(float).map_or_else(|| NodeContent::Text(text.to_owned()), NodeContent::Number))
}

/// Returns the value of a scalar with a standard tag. `suffix` is `int` for `!!int`.
fn tagged(suffix: &str, text: &str) -> Result<NodeContent, String> {
    let value = plain(text)?;
    let is_of_type = match (suffix, &value) {
        ("null", value) => *value == NodeContent::Null,
        ("bool", value) => matches!(value, NodeContent::Bool(_)),
        ("int", value) => matches!(value, NodeContent::Number(number) if !number.is_f64()),
        ("float", value) => matches!(value, NodeContent::Number(_)),
        ("binary", _) => return Err("binary data has no meaning in JSON: quote the base64 text instead".to_owned()),
        _ => return Ok(NodeContent::Text(text.to_owned())),
    };
    if is_of_type { Ok(value) } else { Err(format!("{text:?} is no {suffix}")) }
}

fn integer(text: &str) -> Option<Number> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'o' | b'O', ..] => (8, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, radix).ok()?;
    if negative { 0i64.checked_sub_unsigned(magnitude).map(Number::from) } else { Some(magnitude.into()) }
}

/// Matches `^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`.
fn is_float(text: &str) -> bool {
    let unsigned = |text: &str| text.strip_prefix(['+', '-']).unwrap_or(text).to_owned();
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let text = unsigned(text);
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(unsigned(exponent))),
        None => (&*text, None),
    };
    let (whole, fraction) = mantissa.split_once('.').map_or((mantissa, None), |(w, f)| (w, Some(f)));
    let some_digit = !whole.is_empty() || fraction.is_some_and(|fraction| !fraction.is_empty());
    some_digit
        && digits(whole)
        && digits(fraction.unwrap_or_default())
        && exponent.is_none_or(|exponent| !exponent.is_empty() && digits(&exponent))
}
