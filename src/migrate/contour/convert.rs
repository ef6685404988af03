//! The conversion of values of Contour's configuration into values of settings.

use serde_json::{Map, Value, json};

use super::durations::time;
use super::operators::escaped;
use crate::settings;

/// How a value is converted.
#[derive(Debug, Clone, Copy)]
pub enum How {
    /// A text, as it is. An empty text stands for the default.
    Text,
    /// Texts, each with its counterpart. Other texts are not valid.
    Words(&'static [(&'static str, &'static str)]),
    /// A boolean.
    Flag,
    /// A boolean with the opposite meaning.
    Not,
    /// A number.
    Count,
    /// A number. 0 stands for the default.
    Positive,
    /// A number of bytes.
    Bytes,
    /// A percentage. Contour reads 0 as 100.
    Percent,
    /// A duration. 0 stands for the default.
    Time,
    /// A duration, or `infinity` for no limit. 0 stands for the default.
    Limit,
    /// A list of texts.
    Texts,
    /// A text that becomes a list of one item.
    One,
    /// A list of HTTP versions.
    Versions,
    /// The compression algorithm.
    Algorithm,
    /// Names and texts.
    Map,
    /// Names and values of headers, whose operators follow the rules of Contour.
    Headers,
    /// A list of fields of the access log.
    Fields,
    /// A list of tags of spans.
    Tags,
    /// A list of patterns of header names.
    Names,
}

/// A converted value.
#[derive(Debug, PartialEq)]
pub struct Converted {
    /// The value of the setting. `None`: the value stands for the default.
    pub value: Option<Value>,
    /// Parts of the value that are left out, or that differ.
    pub notes: Vec<String>,
}

/// The fields of the access log with other names.
const FIELDS: [(&str, &str); 2] = [("ts", "ts=%START_TIME%"), ("x_trace_id", "x_trace_id=%REQ(X-TRACE-ID)%")];

/// Converts `value` for the setting `path`. Parts that the setting does not accept are left out.
///
/// Errors: the fault of the whole value.
pub fn convert(how: How, path: &str, value: &Value) -> Result<Converted, String> {
    let mut notes = Vec::new();
    let converted = match how {
        How::Text => Some(text(value)?).filter(|text| !text.is_empty()).map(Value::from),
        How::Words(words) => Some(Value::from(word(&text(value)?, words)?)),
        How::Flag => Some(Value::from(flag(value)?)),
        How::Not => Some(Value::from(!flag(value)?)),
        How::Count => Some(Value::from(count(value)?)),
        How::Positive => Some(count(value)?).filter(|count| *count > 0).map(Value::from),
        How::Bytes => Some(Value::from(format!("{}B", count(value)?))),
        How::Percent => {
            let text = text(value)?;
            if text.parse() == Ok(0.0) {
                notes.push("Contour reads 0 as 100 %, and Lockgate as 0 %".to_owned());
            }
            Some(Value::from(text))
        }
        How::Time => time(&text(value)?)?.map(Value::from),
        How::Limit => match text(value)?.as_str() {
            "infinity" | "infinite" => Some(Value::from("off")),
            other => time(other)?.map(Value::from),
        },
        How::Texts => kept(path, texts(value)?, &mut notes),
        How::One => Some(text(value)?).filter(|text| !text.is_empty()).map(|text| json!([text])),
        How::Versions => {
            let versions =
                texts(value)?.into_iter().map(|text| Value::from(text.as_str().unwrap_or("").to_uppercase()));
            kept(path, versions.collect(), &mut notes)
        }
        How::Algorithm => match text(value)?.as_str() {
            "" => None,
            "disabled" => Some(json!([])),
            other => Some(json!([other])),
        },
        How::Map => entries(path, value, &mut notes, |text| text)?,
        How::Headers => entries(path, value, &mut notes, |text| escaped(&text))?,
        How::Fields => {
            let field = |field: Value| {
                let known = FIELDS.iter().find(|(name, _)| field == **name);
                known.map_or(field, |(_, counterpart)| Value::from(*counterpart))
            };
            kept(path, texts(value)?.into_iter().map(field).collect(), &mut notes)
        }
        How::Tags => kept(path, list(value)?.iter().map(tag).collect(), &mut notes),
        How::Names => {
            let mut names = Vec::new();
            for pattern in list(value)? {
                let exact = pattern.get("exact").and_then(Value::as_str).filter(|name| !name.is_empty());
                match exact {
                    Some(name) => names.push(Value::from(name.to_lowercase())),
                    None => notes.push(format!("the pattern {pattern} is left out: the setting has full names")),
                }
            }
            kept(path, names, &mut notes)
        }
    };
    if let Some(value) = &converted {
        settings::check_json(path, value)?;
    }
    Ok(Converted { value: converted, notes })
}

/// Returns the items that the setting accepts. Without any, the default stays.
fn kept(path: &str, items: Vec<Value>, notes: &mut Vec<String>) -> Option<Value> {
    let mut kept = Vec::new();
    for item in items {
        match settings::check_json(path, &json!([item])) {
            Ok(()) => kept.push(item),
            Err(why) => notes.push(format!("{item} is left out: {why}")),
        }
    }
    (!kept.is_empty()).then_some(Value::Array(kept))
}

/// Returns the entries that the setting accepts. Without any, the default stays.
fn entries(
    path: &str,
    value: &Value,
    notes: &mut Vec<String>,
    convert: impl Fn(String) -> String,
) -> Result<Option<Value>, String> {
    let Value::Object(fields) = value else { return Err(format!("{value} is not an object with names and texts")) };
    let mut kept = Map::new();
    for (name, value) in fields {
        let value = Value::from(convert(text(value)?));
        match settings::check_json(path, &json!({ name: value })) {
            Ok(()) => {
                kept.insert(name.clone(), value);
            }
            Err(why) => notes.push(format!("{name:?} is left out: {why}")),
        }
    }
    Ok((!kept.is_empty()).then_some(Value::Object(kept)))
}

/// Returns the text of a scalar.
pub fn text(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(_) | Value::Bool(_) => Ok(value.to_string()),
        Value::Null => Ok(String::new()),
        Value::Array(_) | Value::Object(_) => Err(format!("{value} is not a text")),
    }
}

/// Returns a boolean.
pub fn flag(value: &Value) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| format!("{value} is not true or false"))
}

fn count(value: &Value) -> Result<u64, String> {
    value.as_u64().ok_or_else(|| format!("{value} is not a whole number"))
}

fn list(value: &Value) -> Result<&Vec<Value>, String> {
    value.as_array().ok_or_else(|| format!("{value} is not a list"))
}

fn texts(value: &Value) -> Result<Vec<Value>, String> {
    list(value)?.iter().map(|item| text(item).map(Value::from)).collect()
}

fn word(text: &str, words: &[(&str, &'static str)]) -> Result<&'static str, String> {
    let found = words.iter().find(|(word, _)| *word == text);
    found.map(|(_, counterpart)| *counterpart).ok_or_else(|| {
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).filter(|word| !word.is_empty()).collect();
        format!("{text:?} is not one of {}", known.join(", "))
    })
}

/// Returns a tag of spans in the form of the settings.
fn tag(tag: &Value) -> Value {
    let mut converted = Map::new();
    for (from, to) in [("tagName", "name"), ("literal", "literal"), ("requestHeaderName", "requestHeader")] {
        if let Some(text) = tag.get(from).and_then(Value::as_str).filter(|text| !text.is_empty()) {
            converted.insert(to.to_owned(), text.into());
        }
    }
    Value::Object(converted)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn invalid_items_are_left_out_with_a_note() {
        let suites = json!(["ECDHE-RSA-AES256-GCM-SHA384", "RC4"]);
        let Converted { value, notes } = convert(How::Texts, "tls.cipherSuites", &suites).unwrap();
        assert_eq!(value, Some(json!(["ECDHE-RSA-AES256-GCM-SHA384"])));
        assert_eq!(notes.len(), 1);
        assert!(convert(How::Flag, "http.mergeSlashes", &json!("yes")).is_err());
        assert!(convert(How::Text, "tls.minimumVersion", &json!("1.1")).is_err());
    }
}
