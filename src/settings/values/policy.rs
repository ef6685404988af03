//! Headers, fields of the access log, tags of spans, and runtime flags.

use std::collections::BTreeMap;

use lockgate_route::model::{self, FRAMING};
use serde_json::{Value as Json, json};

use super::names::is_token;
use super::{Scalar, ValueFormat, found, quoted};
use crate::settings::access_log::field_of;
use crate::settings::{JsonField, TagValue, format_string};
use crate::yaml::{Field, Node, NodeContent, Wrong};

/// The maximum length that Envoy accepts. Source: Envoy `HeaderValue.value`.
const LONGEST_VALUE: usize = 16384;

/// The name of a header that may be set or removed; in lower case.
pub struct HeaderName;

impl Scalar for HeaderName {
    type Value = String;
    const NAME: &'static str = "header name";

    fn parse(text: &str) -> Result<String, String> {
        let name = text.to_ascii_lowercase();
        // Envoy also frames and routes by them.
        match name == "host" || FRAMING.contains(&&*name) {
            _ if !is_token(text) => Err("expected letters, digits and any of !#$&'*+-.^_`|~".to_owned()),
            true => Err("Envoy sets it itself".to_owned()),
            false => Ok(name),
        }
    }

    fn show(value: &String) -> Json {
        value.as_str().into()
    }

    fn schema() -> Json {
        json!({"type": "string", "pattern": "^[A-Za-z0-9!#$&'*+.^_`|~-]+$"})
    }
}

/// The name of a header with the prefix of Envoy's headers, which Envoy itself does not use.
pub struct EnvoyHeader;

impl Scalar for EnvoyHeader {
    type Value = model::HeaderName;
    const NAME: &'static str = "header name";

    fn parse(text: &str) -> Result<model::HeaderName, String> {
        model::HeaderName::parse_like_envoys(text)
    }

    fn show(value: &model::HeaderName) -> Json {
        value.as_str().into()
    }

    fn schema() -> Json {
        json!({"type": "string", "pattern": "^[Xx]-[Ee][Nn][Vv][Oo][Yy]-[A-Za-z0-9!#$%&'*+.^_`|~-]+$"})
    }
}

/// Values of headers by name, sorted.
pub struct Headers;

impl ValueFormat for Headers {
    type Value = Vec<(String, String)>;

    fn describe() -> String {
        "object of header names and values".to_owned()
    }

    fn read(node: &Node, wrong: &mut Vec<Wrong>) -> Option<Self::Value> {
        let fields = object(node, "an object of header names and values", wrong)?;
        let faults = wrong.len();
        let mut headers = BTreeMap::new();
        for Field { place, key, value } in fields {
            let name = HeaderName::parse(key);
            let name = name
                .map_err(|why| wrong.push(place.wrong(format!("{} is not a valid header name: {why}", quoted(key)))));
            let Some(text) = text(value, wrong) else { continue };
            let checked = match text.len() > LONGEST_VALUE || text.chars().any(|c| c.is_control() && c != '\t') {
                true => Err(format!("expected at most {LONGEST_VALUE} bytes, and no control characters")),
                false => format_string::check(text),
            };
            if let Err(why) = checked {
                wrong.push(value.place.wrong(format!("{} is not a valid header value: {why}", quoted(text))));
            }
            if let Ok(name) = name
                && headers.insert(name, text.to_owned()).is_some()
            {
                wrong.push(place.wrong(format!("{} is given twice", quoted(key))));
            }
        }
        (wrong.len() == faults).then(|| headers.into_iter().collect())
    }

    fn show(value: &Self::Value) -> Json {
        value.iter().map(|(name, value)| (name.clone(), Json::from(value.as_str()))).collect()
    }

    fn schema() -> Json {
        json!({"type": "object", "additionalProperties": {"type": "string"}})
    }
}

/// A line of the access log. A line feed is added if it is missing.
pub struct LogLine;

impl Scalar for LogLine {
    type Value = String;
    const NAME: &'static str = "format string";

    fn parse(text: &str) -> Result<String, String> {
        format_string::check_of_log(text)?;
        match text.trim_end_matches('\n') {
            "" => Err("expected at least one character; accessLog.format: off disables the log".to_owned()),
            line if line.chars().any(|c| c.is_control() && c != '\t') => Err("expected one line".to_owned()),
            line => Ok(format!("{line}\n")),
        }
    }

    fn show(value: &String) -> Json {
        value.as_str().into()
    }

    fn schema() -> Json {
        json!({"type": "string", "minLength": 1})
    }
}

/// The target of the access log: a path in Envoy's file system.
pub struct LogFile;

impl Scalar for LogFile {
    type Value = String;
    const NAME: &'static str = "path";

    fn parse(text: &str) -> Result<String, String> {
        match text {
            "" => Err("expected a path; accessLog.format: off disables the log".to_owned()),
            path if !path.starts_with('/') => Err("expected an absolute path, such as /dev/stdout".to_owned()),
            path if path.ends_with('/') => Err("expected a file, not a directory".to_owned()),
            path if path.chars().any(char::is_control) => Err("expected a path without control characters".to_owned()),
            path => Ok(path.to_owned()),
        }
    }

    fn show(value: &String) -> Json {
        value.as_str().into()
    }

    fn schema() -> Json {
        json!({"type": "string", "pattern": "^/.*[^/]$"})
    }
}

/// A field of a JSON line: a known name, an operator such as `DURATION`, or `name=%OPERATOR%`.
pub struct LogField;

impl Scalar for LogField {
    type Value = JsonField;
    const NAME: &'static str = "field of the access log";

    fn parse(text: &str) -> Result<JsonField, String> {
        field_of(text)
    }

    fn show(field: &JsonField) -> Json {
        match field_of(&field.name) {
            Ok(known) if known == *field => field.name.as_str().into(),
            _ => format!("{}={}", field.name, field.format).into(),
        }
    }

    fn schema() -> Json {
        json!({"type": "string", "minLength": 1})
    }
}

/// Tags of spans: a list of objects, each with `name` and either `literal` or `requestHeader`.
pub struct Tags;

impl ValueFormat for Tags {
    type Value = Vec<(String, TagValue)>;

    fn describe() -> String {
        "list of `{name, literal}` or `{name, requestHeader}`".to_owned()
    }

    fn read(node: &Node, wrong: &mut Vec<Wrong>) -> Option<Self::Value> {
        let NodeContent::List(items) = &node.content else {
            wrong.push(node.place.wrong(format!("expected a list of tags, found {}", found(&node.content))));
            return None;
        };
        let faults = wrong.len();
        let mut tags: Vec<(String, TagValue)> = Vec::new();
        for item in items {
            let Some((name, value)) = tag(item, wrong) else { continue };
            if tags.iter().any(|(known, _)| *known == name) {
                wrong.push(item.place.wrong(format!("tag {} is given twice", quoted(&name))));
            }
            tags.push((name, value));
        }
        (wrong.len() == faults).then_some(tags)
    }

    fn show(value: &Self::Value) -> Json {
        let tag = |(name, value): &(String, TagValue)| match value {
            TagValue::Literal(text) => json!({"name": name, "literal": text}),
            TagValue::RequestHeader(header) => json!({"name": name, "requestHeader": header}),
        };
        value.iter().map(tag).collect()
    }

    fn schema() -> Json {
        let text = json!({"type": "string", "minLength": 1});
        json!({"type": "array", "items": {
            "type": "object",
            "properties": {"name": text, "literal": text, "requestHeader": text},
            "required": ["name"],
            "additionalProperties": false,
        }})
    }
}

/// One tag.
fn tag(node: &Node, wrong: &mut Vec<Wrong>) -> Option<(String, TagValue)> {
    const EXPECTED: &str = "expected an object with `name`, and either `literal` or `requestHeader`";
    let fields = object(node, "an object with `name`, and either `literal` or `requestHeader`", wrong)?;
    let (mut name, mut values) = (None, Vec::new());
    let faults = wrong.len();
    for Field { place, key, value } in fields {
        match &**key {
            "name" | "literal" | "requestHeader" => {}
            _ => {
                wrong.push(place.wrong(format!("{} is not known here: {EXPECTED}", quoted(key))));
                continue;
            }
        }
        let Some(text) = text(value, wrong) else { continue };
        if text.is_empty() || text.chars().any(char::is_control) {
            wrong.push(value.place.wrong("expected at least one character, and no control characters"));
        }
        match &**key {
            "name" => name = Some(text.to_owned()),
            "literal" => values.push(TagValue::Literal(text.to_owned())),
            _ if is_token(text.strip_prefix(':').unwrap_or(text)) => {
                values.push(TagValue::RequestHeader(text.to_ascii_lowercase()));
            }
            _ => wrong.push(value.place.wrong(format!("{} is not a valid header name", quoted(text)))),
        }
    }
    match (name, values.pop(), values.is_empty()) {
        _ if wrong.len() > faults => None,
        (Some(name), Some(value), true) => Some((name, value)),
        _ => {
            wrong.push(node.place.wrong(EXPECTED));
            None
        }
    }
}

/// Runtime flags of Envoy, by their keys.
pub struct Runtime;

impl ValueFormat for Runtime {
    type Value = BTreeMap<String, Json>;

    fn describe() -> String {
        "object of runtime keys and values".to_owned()
    }

    fn read(node: &Node, wrong: &mut Vec<Wrong>) -> Option<Self::Value> {
        let fields = object(node, "an object of runtime keys and values", wrong)?;
        let faults = wrong.len();
        let mut flags = BTreeMap::new();
        for Field { place, key, value } in fields {
            if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte)) {
                wrong.push(place.wrong(format!("{} is not a valid runtime key of Envoy", quoted(key))));
            }
            if let Some((_, setting)) = DECIDED.iter().find(|(decided, _)| key.starts_with(decided)) {
                wrong.push(place.wrong(format!("{} is determined by {setting}: set that instead", quoted(key))));
            }
            let Some(text) = text(value, wrong) else { continue };
            // Numbers and booleans are recognized despite quotes.
            let json = serde_json::from_str(text).ok().filter(|json: &Json| json.is_number() || json.is_boolean());
            flags.insert(key.clone(), json.unwrap_or_else(|| text.into()));
        }
        (wrong.len() == faults).then_some(flags)
    }

    fn show(value: &Self::Value) -> Json {
        value.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    fn schema() -> Json {
        json!({"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}})
    }
}

/// Prefixes of runtime keys that other settings control.
const DECIDED: [(&str, &str); 2] = [
    ("http.max_requests_per_io_cycle", "http.maxRequestsPerIoCycle"),
    ("envoy.resource_limits.listener.", "listeners.maxConnections"),
];

/// Returns the fields of an object.
pub fn object<'a>(node: &'a Node, expected: &str, wrong: &mut Vec<Wrong>) -> Option<&'a [Field]> {
    match &node.content {
        NodeContent::Object(fields) => Some(fields),
        other => {
            wrong.push(node.place.wrong(format!("expected {expected}, found {}", found(other))));
            None
        }
    }
}

/// Returns the text of a scalar; an empty value is an empty text.
pub fn text<'a>(node: &'a Node, wrong: &mut Vec<Wrong>) -> Option<&'a str> {
    match &node.content {
        NodeContent::Text(text) => Some(text),
        NodeContent::Null => Some(""),
        other => {
            wrong.push(node.place.wrong(format!("expected text, found {}", found(other))));
            None
        }
    }
}
