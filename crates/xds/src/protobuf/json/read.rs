//! Converts JSON to messages.

use std::collections::HashMap;

use prost::Message;
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, Value};
use prost_types::value::Kind as AnyKind;
use serde_json::{Map, Value as Json};

use super::scalar::{expected, map_key, scalar, text};
use super::{EncodedMessage, JsonError};
use crate::protobuf::types::MAX_DEPTH;
use crate::protobuf::{canonical, known_type_url, pool};

/// The key of the type URL in a JSON object.
const TYPE: &str = "@type";

/// The maximum protobuf duration in seconds, about 10,000 years.
const MAX_SECONDS: i64 = 315_576_000_000;

/// Parses `json`, an object whose `@type` names a type of the pool. Field names are the names in the proto, or in
/// `lowerCamelCase`. The value of a field of type `Any` is an object with `@type`.
pub fn from_json(json: &Json) -> Result<EncodedMessage, JsonError> {
    typed(json, 0)
}

/// Parses an object with `@type`.
fn typed(json: &Json, depth: usize) -> Result<EncodedMessage, JsonError> {
    let fields = json.as_object().ok_or_else(|| expected("an object with \"@type\"", json))?;
    let url = fields.get(TYPE).ok_or_else(|| JsonError::new("\"@type\" is missing"))?;
    let url = text("a type URL", url).map_err(|error| error.in_field(TYPE))?;
    let unknown = || match url.contains('/') {
        true => JsonError::new(format!("unknown type {url:?}")).in_field(TYPE),
        false => {
            JsonError::new(format!("{url:?} is not a type URL: \"type.googleapis.com/\" is missing")).in_field(TYPE)
        }
    };
    let type_url = known_type_url(url).ok_or_else(unknown)?;
    let name = type_url.rsplit('/').next().unwrap_or_default();
    let descriptor = pool().get_message_by_name(name).ok_or_else(unknown)?;
    let message = match (fields.get("value"), is_special(name)) {
        (Some(value), true) => {
            if let Some(other) = fields.keys().find(|key| *key != TYPE && *key != "value") {
                return Err(JsonError::new("only \"value\" is allowed beside this \"@type\"").in_field(other));
            }
            message(&descriptor, value, depth + 1).map_err(|error| error.in_field("value"))?
        }
        (None, true) if name != "google.protobuf.Empty" => return Err(JsonError::new("\"value\" is missing")),
        _ => object(&descriptor, fields, depth + 1)?,
    };
    let bytes = canonical(descriptor.full_name(), &message.encode_to_vec());
    Ok(EncodedMessage { type_url, message: bytes, name: resource_name(&message) })
}

/// Returns the name of the encoded `message` of type `type_url`: its field `name` or `cluster_name`. Returns `None` if
/// both are absent or empty.
pub fn name_of(type_url: &str, message: &[u8]) -> Option<String> {
    let descriptor = pool().get_message_by_name(type_url.rsplit('/').next()?)?;
    resource_name(&DynamicMessage::decode(descriptor, message).ok()?)
}

fn resource_name(message: &DynamicMessage) -> Option<String> {
    let text = |field: &str| match message.get_field_by_name(field).as_deref() {
        Some(Value::String(text)) if !text.is_empty() => Some(text.clone()),
        _ => None,
    };
    text("name").or_else(|| text("cluster_name"))
}

/// Returns whether messages of this type have a special JSON form instead of an object of their fields.
pub(super) fn is_special(full_name: &str) -> bool {
    full_name.strip_prefix("google.protobuf.").is_some_and(|name| {
        matches!(name, "Any" | "Duration" | "Timestamp" | "FieldMask" | "Struct" | "Value" | "ListValue" | "Empty")
            || is_wrapper(full_name)
    })
}

/// Returns whether the message is a wrapper, written in JSON as its single value.
pub(super) fn is_wrapper(full_name: &str) -> bool {
    full_name.strip_prefix("google.protobuf.").and_then(|name| name.strip_suffix("Value")).is_some_and(|name| {
        matches!(name, "Bool" | "String" | "Bytes" | "Int32" | "Int64" | "UInt32" | "UInt64" | "Float" | "Double")
    })
}

fn message(descriptor: &MessageDescriptor, json: &Json, depth: usize) -> Result<DynamicMessage, JsonError> {
    if depth > MAX_DEPTH {
        return Err(JsonError::new("nested too deep"));
    }
    let name = descriptor.full_name();
    match name {
        "google.protobuf.Any" => {
            if json.as_object().is_some_and(Map::is_empty) {
                return Ok(DynamicMessage::new(descriptor.clone()));
            }
            let EncodedMessage { type_url, message, .. } = typed(json, depth)?;
            same(descriptor, &prost_types::Any { type_url: type_url.to_owned(), value: message })
        }
        "google.protobuf.Duration" => {
            let refused = || expected("a duration such as \"1.5s\"", json);
            let duration: prost_types::Duration =
                json.as_str().and_then(|text| text.parse().ok()).ok_or_else(refused)?;
            if duration.seconds.abs() > MAX_SECONDS {
                return Err(refused());
            }
            same(descriptor, &duration)
        }
        "google.protobuf.Timestamp" => {
            let time: Option<prost_types::Timestamp> = json.as_str().and_then(|text| text.parse().ok());
            same(descriptor, &time.ok_or_else(|| expected("a time such as \"2026-01-01T00:00:00Z\"", json))?)
        }
        "google.protobuf.FieldMask" => {
            let paths = text("field names with commas between", json)?.split(',').filter(|path| !path.is_empty());
            same(descriptor, &prost_types::FieldMask { paths: paths.map(snake_case).collect() })
        }
        "google.protobuf.Struct" => {
            let fields = json.as_object().ok_or_else(|| expected("an object", json))?;
            same(descriptor, &structure(fields, depth)?)
        }
        "google.protobuf.ListValue" => {
            let values = json.as_array().ok_or_else(|| expected("a list", json))?;
            same(descriptor, &list(values, depth)?)
        }
        "google.protobuf.Value" => same(descriptor, &value(json, depth)?),
        _ if is_wrapper(name) => {
            let mut message = DynamicMessage::new(descriptor.clone());
            if let Some(field) = descriptor.get_field(1) {
                message.set_field(&field, scalar(&field.kind(), json)?);
            }
            Ok(message)
        }
        _ => {
            let fields = json.as_object().ok_or_else(|| expected("an object", json))?;
            if fields.contains_key(TYPE) {
                return Err(JsonError::new(format!("the type is always {name}: leave it out")).in_field(TYPE));
            }
            object(descriptor, fields, depth)
        }
    }
}

/// Parses a message from its fields, ignoring `@type`.
fn object(
    descriptor: &MessageDescriptor,
    fields: &Map<String, Json>,
    depth: usize,
) -> Result<DynamicMessage, JsonError> {
    let mut message = DynamicMessage::new(descriptor.clone());
    let mut given: HashMap<u32, &str> = HashMap::new();
    for (key, json) in fields.iter().filter(|(key, _)| *key != TYPE) {
        let field = descriptor.get_field_by_name(key).or_else(|| descriptor.get_field_by_json_name(key));
        let field = field.ok_or_else(|| unknown_field(descriptor, key).in_field(key))?;
        let null_counts = matches!(field.kind(), Kind::Message(kind) if kind.full_name() == "google.protobuf.Value");
        if json.is_null() && !(null_counts && !field.is_list() && !field.is_map()) {
            continue;
        }
        if let Some(other) = given.insert(field.number(), key) {
            return Err(JsonError::new(format!("the same field is already set as {other:?}")).in_field(key));
        }
        let rivals = field.containing_oneof();
        let mut rivals = rivals.iter().flat_map(|oneof| oneof.fields()).filter(|rival| *rival != field);
        if let Some(other) = rivals.find_map(|rival| given.get(&rival.number()).copied()) {
            return Err(JsonError::new(format!("only one of {other:?} and {key:?} may be given")).in_field(key));
        }
        let value = field_value(&field, json, depth).map_err(|error| error.in_field(key))?;
        message.set_field(&field, value);
    }
    Ok(message)
}

fn field_value(field: &FieldDescriptor, json: &Json, depth: usize) -> Result<Value, JsonError> {
    let kind = field.kind();
    if field.is_list() {
        let items = json.as_array().ok_or_else(|| expected("a list", json))?;
        let items = items.iter().enumerate();
        let items = items.map(|(index, json)| single(&kind, json, depth).map_err(|error| error.in_item(index)));
        return Ok(Value::List(items.collect::<Result<_, _>>()?));
    }
    if let (true, Kind::Message(entry)) = (field.is_map(), &kind) {
        let entries = json.as_object().ok_or_else(|| expected("an object", json))?;
        let (key_kind, value_kind) = (entry.map_entry_key_field().kind(), entry.map_entry_value_field().kind());
        let entries = entries.iter().map(|(key, json)| -> Result<(MapKey, Value), JsonError> {
            let value = single(&value_kind, json, depth).map_err(|error| error.in_entry(key))?;
            Ok((map_key(&key_kind, key)?, value))
        });
        return Ok(Value::Map(entries.collect::<Result<_, _>>()?));
    }
    single(&kind, json, depth)
}

fn single(kind: &Kind, json: &Json, depth: usize) -> Result<Value, JsonError> {
    match kind {
        Kind::Message(descriptor) => Ok(Value::Message(message(descriptor, json, depth + 1)?)),
        Kind::Enum(kind) if kind.full_name() == "google.protobuf.NullValue" => Ok(Value::EnumNumber(0)),
        kind => scalar(kind, json),
    }
}

/// Converts `message` to a message of the pool with the same type.
fn same<M: Message>(descriptor: &MessageDescriptor, message: &M) -> Result<DynamicMessage, JsonError> {
    DynamicMessage::decode(descriptor.clone(), &*message.encode_to_vec())
        .map_err(|error| JsonError::new(format!("cannot be encoded: {error}")))
}

fn structure(fields: &Map<String, Json>, depth: usize) -> Result<prost_types::Struct, JsonError> {
    let fields = fields.iter().map(|(key, json)| {
        let value = value(json, depth + 1).map_err(|error| error.in_field(key))?;
        Ok((key.clone(), value))
    });
    Ok(prost_types::Struct { fields: fields.collect::<Result<_, _>>()? })
}

fn list(values: &[Json], depth: usize) -> Result<prost_types::ListValue, JsonError> {
    let values = values.iter().enumerate();
    let values = values.map(|(index, json)| value(json, depth + 1).map_err(|error| error.in_item(index)));
    Ok(prost_types::ListValue { values: values.collect::<Result<_, _>>()? })
}

fn value(json: &Json, depth: usize) -> Result<prost_types::Value, JsonError> {
    if depth > MAX_DEPTH {
        return Err(JsonError::new("nested too deep"));
    }
    let kind = match json {
        Json::Null => AnyKind::NullValue(0),
        Json::Bool(value) => AnyKind::BoolValue(*value),
        Json::Number(number) => AnyKind::NumberValue(number.as_f64().unwrap_or_default()),
        Json::String(text) => AnyKind::StringValue(text.clone()),
        Json::Array(values) => AnyKind::ListValue(list(values, depth)?),
        Json::Object(fields) => AnyKind::StructValue(structure(fields, depth)?),
    };
    Ok(prost_types::Value { kind: Some(kind) })
}

/// Converts `connectTimeout.fooBar` to `connect_timeout.foo_bar`.
fn snake_case(path: &str) -> String {
    path.chars().fold(String::new(), |mut path, c| {
        if c.is_ascii_uppercase() {
            path.push('_');
        }
        path.push(c.to_ascii_lowercase());
        path
    })
}

/// Returns the error for an unknown field `key`, with a suggestion.
fn unknown_field(descriptor: &MessageDescriptor, key: &str) -> JsonError {
    let name = descriptor.full_name();
    let key = snake_case(key);
    let nearest = descriptor.fields().map(|field| (distance(field.name(), &key), field.name().to_owned())).min();
    JsonError::new(match nearest {
        Some((distance, meant)) if distance <= 2 && distance < meant.len() / 2 => {
            format!("{name} has no such field; perhaps {meant:?} is meant")
        }
        _ => format!("{name} has no such field"),
    })
}

/// Returns the edit distance between `a` and `b`.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, to) in b.iter().enumerate() {
            let changed = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
