//! Converts messages to JSON.

use std::collections::HashSet;
use std::sync::LazyLock;

use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, ReflectMessage, Value};
use serde_json::{Value as Json, json};

use super::read::{is_special, is_wrapper};
use super::scalar::base64;
use crate::protobuf::types::MAX_DEPTH;
use crate::protobuf::{known_type_url, pool};

/// The replacement of a redacted value.
const REDACTED: &str = "[redacted]";

/// Converts `message`, an encoded message of type `full_name`, to JSON with the field names of the proto. The content
/// of an `Any` gets `@type`. An `Any` of unknown type keeps its bytes as base64 in `value`, and so does a malformed
/// message.
pub fn to_json(full_name: &str, message: &[u8]) -> Json {
    Printer { redact: false }
        .encoded(full_name, message, Place::default())
        .unwrap_or_else(|| json!({ "value": base64(message) }))
}

/// Like [`to_json`], but redacts all strings and numbers in sensitive fields and in messages of unknown type. Field
/// names stay.
pub fn to_json_redacted(full_name: &str, message: &[u8]) -> Json {
    Printer { redact: true }
        .encoded(full_name, message, Place::default())
        .unwrap_or_else(|| json!({ "value": REDACTED }))
}

/// Returns the full names of all fields that the protos mark as sensitive.
fn sensitive() -> &'static HashSet<String> {
    static SENSITIVE: LazyLock<HashSet<String>> = LazyLock::new(|| {
        let Some(mark) = pool().get_extension_by_name("udpa.annotations.sensitive") else { return HashSet::new() };
        let fields = pool().all_messages().flat_map(|message| message.fields().collect::<Vec<_>>());
        let marked = fields.filter(|field| field.options().get_extension(&mark).as_bool() == Some(true));
        marked.map(|field| field.full_name().to_owned()).collect()
    });
    &SENSITIVE
}

struct Printer {
    redact: bool,
}

/// The context of a value.
#[derive(Clone, Copy, Default)]
struct Place {
    /// Whether an enclosing field is sensitive.
    hidden: bool,
    depth: usize,
}

impl Printer {
    fn encoded(&self, full_name: &str, message: &[u8], place: Place) -> Option<Json> {
        let descriptor = pool().get_message_by_name(full_name)?;
        let message = DynamicMessage::decode(descriptor, message).ok().filter(|_| place.depth <= MAX_DEPTH)?;
        Some(self.message(&message, Place { depth: place.depth + 1, ..place }))
    }

    fn message(&self, message: &DynamicMessage, place: Place) -> Json {
        let descriptor: MessageDescriptor = message.descriptor();
        match descriptor.full_name() {
            "google.protobuf.Any" => self.any(message, place),
            "google.protobuf.Duration" if !place.hidden => duration(message),
            name if is_special(name) && place.hidden => REDACTED.into(),
            name if is_wrapper(name) => match descriptor.get_field(1) {
                Some(field) => self.single(&field.kind(), &message.get_field(&field), place),
                None => Json::Null,
            },
            name if is_special(name) => serde_json::to_value(message).map_or(Json::Null, whole_numbers),
            _ => {
                let fields = message.fields().filter_map(|(field, value)| {
                    let hidden = place.hidden || self.redact && sensitive().contains(field.full_name());
                    Some((field.name().to_owned(), self.field(&field, value, Place { hidden, ..place })?))
                });
                Json::Object(fields.collect())
            }
        }
    }

    /// Returns `None` for a redacted number, which has no replacement.
    fn field(&self, field: &FieldDescriptor, value: &Value, place: Place) -> Option<Json> {
        let kind = field.kind();
        if place.hidden && !matches!(kind, Kind::Message(_) | Kind::String | Kind::Bytes) {
            return None;
        }
        Some(match value {
            Value::List(items) => items.iter().map(|item| self.single(&kind, item, place)).collect(),
            Value::Map(entries) => {
                let kind = kind.as_message().map(|entry| entry.map_entry_value_field().kind());
                let entries = entries
                    .iter()
                    .filter_map(|(key, value)| Some((map_key(key), self.single(kind.as_ref()?, value, place))));
                Json::Object(entries.collect())
            }
            value => self.single(&kind, value, place),
        })
    }

    fn single(&self, kind: &Kind, value: &Value, place: Place) -> Json {
        match value {
            Value::Message(message) => self.message(message, place),
            _ if place.hidden => REDACTED.into(),
            Value::Bool(value) => (*value).into(),
            Value::I32(number) => (*number).into(),
            Value::U32(number) => (*number).into(),
            // A string, because a JSON number has only 53 bits.
            Value::I64(number) => number.to_string().into(),
            Value::U64(number) => number.to_string().into(),
            // The shortest digits of this 32-bit float, not of its conversion to 64 bits.
            Value::F32(number) => float(number.to_string().parse().unwrap_or(f64::from(*number))),
            Value::F64(number) => float(*number),
            Value::String(text) => text.clone().into(),
            Value::Bytes(bytes) => base64(bytes).into(),
            Value::EnumNumber(number) => match kind.as_enum().and_then(|kind| kind.get_value(*number)) {
                Some(value) => value.name().into(),
                None => (*number).into(),
            },
            Value::List(_) | Value::Map(_) => Json::Null,
        }
    }

    fn any(&self, any: &DynamicMessage, place: Place) -> Json {
        let (url, content) = (any.get_field_by_number(1), any.get_field_by_number(2));
        let url = url.as_deref().and_then(Value::as_str).unwrap_or_default();
        let content = content.as_deref().and_then(Value::as_bytes).map(|bytes| &**bytes).unwrap_or_default();
        if url.is_empty() && content.is_empty() {
            return json!({});
        }
        let name = known_type_url(url).and_then(|url| url.rsplit('/').next());
        let known = name.and_then(|name| Some((name, self.encoded(name, content, place)?)));
        match known {
            Some((name, Json::Object(mut fields))) if !is_special(name) => {
                fields.insert("@type".to_owned(), url.into());
                Json::Object(fields)
            }
            Some((_, value)) => json!({ "@type": url, "value": value }),
            None if place.hidden || self.redact => json!({ "@type": url, "value": REDACTED }),
            None => json!({ "@type": url, "value": base64(content) }),
        }
    }
}

/// Formats a duration, for example `1.5s`.
fn duration(message: &DynamicMessage) -> Json {
    let number = |field| {
        message.get_field_by_number(field).map(|value| match *value {
            Value::I64(seconds) => seconds,
            Value::I32(nanos) => i64::from(nanos),
            _ => 0,
        })
    };
    let (seconds, nanos) = (number(1).unwrap_or_default(), number(2).unwrap_or_default());
    let sign = if seconds < 0 || nanos < 0 { "-" } else { "" };
    let digits = format!("{:09}", nanos.unsigned_abs());
    match digits.trim_end_matches('0') {
        "" => format!("{sign}{}s", seconds.unsigned_abs()),
        digits => format!("{sign}{}.{digits}s", seconds.unsigned_abs()),
    }
    .into()
}

fn float(number: f64) -> Json {
    match number {
        n if n.is_nan() => "NaN".into(),
        f64::INFINITY => "Infinity".into(),
        f64::NEG_INFINITY => "-Infinity".into(),
        n => whole_number(n).map_or_else(|| n.into(), Json::from),
    }
}

/// Replaces `5.0` by `5` in `json` at any depth, because all numbers of a `Struct` are floats.
fn whole_numbers(json: Json) -> Json {
    match json {
        Json::Number(number) if number.is_f64() => number.as_f64().map_or(Json::Null, float),
        Json::Array(items) => items.into_iter().map(whole_numbers).collect(),
        Json::Object(fields) => fields.into_iter().map(|(name, value)| (name, whole_numbers(value))).collect(),
        other => other,
    }
}

/// Returns `number` as an integer. YAML distinguishes `5` from `5.0`, and Envoy rejects the latter for an integer.
fn whole_number(number: f64) -> Option<i64> {
    /// Up to this limit, floats represent all integers exactly.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let negative_zero = number == 0.0 && number.is_sign_negative();
    (number.fract() == 0.0 && number.abs() < EXACT && !negative_zero).then_some(number as i64)
}

fn map_key(key: &MapKey) -> String {
    match key {
        MapKey::Bool(key) => key.to_string(),
        MapKey::I32(key) => key.to_string(),
        MapKey::I64(key) => key.to_string(),
        MapKey::U32(key) => key.to_string(),
        MapKey::U64(key) => key.to_string(),
        MapKey::String(key) => key.clone(),
    }
}
