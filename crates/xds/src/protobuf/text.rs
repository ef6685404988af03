//! Text proto, printed and parsed, with expanded `Any`. Map entries are sorted by key, so equal messages have equal
//! texts.

use prost::Message;
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MapKey, ReflectMessage, Value};

use super::types::MAX_DEPTH;
use super::{canonical, known_type_url, pool};

/// Prints the encoded `message` of type `full_name` as text proto. Malformed messages are empty, and unknown fields are
/// omitted.
pub fn to_text(full_name: &str, message: &[u8]) -> String {
    let descriptor = pool().get_message_by_name(full_name);
    let mut text = String::new();
    if let Some(message) = descriptor.and_then(|descriptor| DynamicMessage::decode(descriptor, message).ok()) {
        Printer { text: &mut text }.print_message(&message, 0);
    }
    text
}

/// Parses text proto of type `full_name`. Returns the canonical encoding, or the fault.
pub fn from_text(full_name: &str, text: &str) -> Result<Vec<u8>, String> {
    let descriptor = pool().get_message_by_name(full_name).ok_or_else(|| format!("unknown type {full_name:?}"))?;
    let message = DynamicMessage::parse_text_format(descriptor, text).map_err(|error| error.to_string())?;
    Ok(canonical(full_name, &message.encode_to_vec()))
}

struct Printer<'a> {
    text: &'a mut String,
}

impl Printer<'_> {
    /// Prints each field of `message` on a separate line.
    fn print_message(&mut self, message: &DynamicMessage, depth: usize) {
        if message.descriptor().full_name() == "google.protobuf.Any"
            && depth < MAX_DEPTH
            && let Some((url, content)) = expanded(message)
        {
            return self.print_block(&format!("[{url}]"), depth, |this| this.print_message(&content, depth + 1));
        }
        for (field, value) in message.fields() {
            match value {
                Value::List(items) => items.iter().for_each(|item| self.print_field(&field, item, depth)),
                Value::Map(entries) => self.print_map(&field, entries, depth),
                value => self.print_field(&field, value, depth),
            }
        }
    }

    fn print_field(&mut self, field: &FieldDescriptor, value: &Value, depth: usize) {
        match value {
            Value::Message(message) => {
                self.print_block(field.name(), depth, |this| this.print_message(message, depth + 1))
            }
            value => self.print_line(depth, &format!("{}: {}", field.name(), scalar(&field.kind(), value))),
        }
    }

    fn print_map(&mut self, field: &FieldDescriptor, entries: &std::collections::HashMap<MapKey, Value>, depth: usize) {
        let kind = match field.kind() {
            Kind::Message(entry) => entry.map_entry_value_field(),
            _ => return,
        };
        let mut entries: Vec<_> = entries.iter().map(|(key, value)| (map_key(key), value)).collect();
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        for (key, value) in entries {
            self.print_block(field.name(), depth, |this| {
                this.print_line(depth + 1, &format!("key: {key}"));
                this.print_field(&kind, value, depth + 1);
            });
        }
    }

    fn print_block(&mut self, name: &str, depth: usize, fill: impl FnOnce(&mut Self)) {
        self.print_line(depth, &format!("{name} {{"));
        fill(self);
        self.print_line(depth, "}");
    }

    fn print_line(&mut self, depth: usize, text: &str) {
        (0..depth).for_each(|_| self.text.push_str("  "));
        self.text.push_str(text);
        self.text.push('\n');
    }
}

/// Returns the URL and the content of an `Any` of a known type.
fn expanded(any: &DynamicMessage) -> Option<(String, DynamicMessage)> {
    let url = any.get_field_by_number(1)?.as_str()?.to_owned();
    let content = any.get_field_by_number(2)?.as_bytes()?.clone();
    let name = known_type_url(&url)?.rsplit('/').next()?;
    let content = DynamicMessage::decode(pool().get_message_by_name(name)?, content).ok()?;
    Some((url, content))
}

fn scalar(kind: &Kind, value: &Value) -> String {
    match value {
        Value::Bool(value) => value.to_string(),
        Value::I32(number) => number.to_string(),
        Value::I64(number) => number.to_string(),
        Value::U32(number) => number.to_string(),
        Value::U64(number) => number.to_string(),
        Value::F32(number) => float(f64::from(*number), number.to_string()),
        Value::F64(number) => float(*number, number.to_string()),
        Value::String(text) => quoted(text.as_bytes()),
        Value::Bytes(bytes) => quoted(bytes),
        Value::EnumNumber(number) => match kind.as_enum().and_then(|kind| kind.get_value(*number)) {
            Some(value) => value.name().to_owned(),
            None => number.to_string(),
        },
        Value::Message(_) | Value::List(_) | Value::Map(_) => String::new(),
    }
}

fn float(number: f64, digits: String) -> String {
    match number {
        n if n.is_nan() => "nan".to_owned(),
        f64::INFINITY => "inf".to_owned(),
        f64::NEG_INFINITY => "-inf".to_owned(),
        _ => digits,
    }
}

fn map_key(key: &MapKey) -> String {
    match key {
        MapKey::Bool(key) => key.to_string(),
        MapKey::I32(key) => key.to_string(),
        MapKey::I64(key) => key.to_string(),
        MapKey::U32(key) => key.to_string(),
        MapKey::U64(key) => key.to_string(),
        MapKey::String(key) => quoted(key.as_bytes()),
    }
}

/// Quotes bytes. Bytes other than printable ASCII are written as octal numbers, which all parsers accept.
fn quoted(bytes: &[u8]) -> String {
    let mut text = String::from("\"");
    for byte in bytes {
        match byte {
            b'"' => text.push_str("\\\""),
            b'\\' => text.push_str("\\\\"),
            b'\n' => text.push_str("\\n"),
            b' '..=b'~' => text.push((*byte).into()),
            byte => text.push_str(&format!("\\{byte:03o}")),
        }
    }
    text.push('"');
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;
    use crate::protobuf::from_json;

    const LISTENER: &str = "envoy.config.listener.v3.Listener";

    #[test]
    fn text_proto_and_json_have_equal_content() {
        let json = json!({
            "@type": format!("type.googleapis.com/{LISTENER}"), "name": "a\"\\\n\u{1}ä",
            "address": {"socket_address": {"address": "::", "port_value": 80, "protocol": "UDP"}},
            "per_connection_buffer_limit_bytes": 5, "bind_to_port": false, "listener_filters_timeout": "1.5s",
            "metadata": {"filter_metadata": {"b": {"x": 1.5, "y": [true, null]}, "a": {}, "c": {"z": "on"}}},
            "filter_chains": [{"filters": [{"name": "tcp", "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
                "stat_prefix": "s", "cluster": "c",
            }}]}, {}],
        });
        let message = from_json(&json).unwrap().message;
        let text = to_text(LISTENER, &message);
        assert_eq!(from_text(LISTENER, &text).unwrap(), message, "{text}");
        for line in [
            r#"name: "a\"\\\n\001\303\244""#,
            "protocol: UDP",
            "[type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy] {",
            "filter_chains {\n}",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        let places = ["\"a\"", "\"b\"", "\"c\""].map(|key| text.find(&format!("key: {key}")).unwrap());
        assert!(places.is_sorted(), "{text}");
    }

    #[test]
    fn invalid_text_proto_is_rejected_with_the_fault() {
        assert!(from_text(LISTENER, "name {").unwrap_err().contains("expected"));
        assert!(from_text("a.b.C", "").unwrap_err().contains("unknown type"));
    }
}
