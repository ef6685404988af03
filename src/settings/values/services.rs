//! Data for the services that Envoy calls for each request.

use std::collections::BTreeMap;

use lockgate_route::re2;
use serde_json::{Value as Json, json};

use super::names::is_token;
use super::policy::{object, text};
use super::{Bool, Scalar, ValueFormat, found, quoted};
use crate::settings::{EntryHeader, HeaderCondition, RateLimitEntry};
use crate::yaml::{Field, Node, NodeContent, Wrong};

/// Texts by key.
pub struct TextMap;

impl ValueFormat for TextMap {
    type Value = BTreeMap<String, String>;

    fn describe() -> String {
        "object of keys and texts".to_owned()
    }

    fn read(node: &Node, wrong: &mut Vec<Wrong>) -> Option<Self::Value> {
        let faults = wrong.len();
        let mut texts = BTreeMap::new();
        for Field { place, key, value } in object(node, "an object of keys and texts", wrong)? {
            if key.is_empty() {
                wrong.push(place.wrong("expected a key of at least one character"));
            }
            texts.insert(key.clone(), text(value, wrong).unwrap_or_default().to_owned());
        }
        (wrong.len() == faults).then_some(texts)
    }

    fn show(value: &Self::Value) -> Json {
        value.iter().map(|(key, value)| (key.clone(), Json::from(value.as_str()))).collect()
    }

    fn schema() -> Json {
        json!({"type": "object", "additionalProperties": {"type": "string"}})
    }
}

/// A path prefix.
pub struct PathPrefix;

impl Scalar for PathPrefix {
    type Value = String;
    const NAME: &'static str = "beginning of a path";

    fn parse(text: &str) -> Result<String, String> {
        let plain = |byte: u8| byte.is_ascii_graphic() && !b"?#".contains(&byte);
        match text.starts_with('/') && text.bytes().all(plain) {
            true => Ok(text.to_owned()),
            false => Err("expected a path such as /check, without a query".to_owned()),
        }
    }

    fn show(value: &String) -> Json {
        value.as_str().into()
    }

    fn schema() -> Json {
        json!({"type": "string", "pattern": "^/[^?# ]*$"})
    }
}

/// Descriptors of rate limits: a list of objects, each with its `entries`.
pub struct Descriptors;

impl ValueFormat for Descriptors {
    type Value = Vec<Vec<RateLimitEntry>>;

    fn describe() -> String {
        "list of `{entries}`, each a list of `{genericKey}`, `{requestHeader}`, `{requestHeaderValueMatch}` or \
         `{remoteAddress}`"
            .to_owned()
    }

    fn read(node: &Node, wrong: &mut Vec<Wrong>) -> Option<Self::Value> {
        let faults = wrong.len();
        let descriptors: Vec<_> =
            list(node, "descriptors", wrong)?.iter().filter_map(|one| descriptor(one, wrong)).collect();
        (wrong.len() == faults).then_some(descriptors)
    }

    fn show(value: &Self::Value) -> Json {
        value.iter().map(|entries| json!({"entries": entries.iter().map(shown).collect::<Vec<_>>()})).collect()
    }

    fn schema() -> Json {
        let (text, flag) = (json!({"type": "string", "minLength": 1}), json!({"type": "boolean"}));
        let object = |properties: Json, required: &[&str]| {
            json!({
                "type": "object", "properties": properties, "required": required, "additionalProperties": false,
            })
        };
        let header = json!({
            "name": text, "present": {"const": true}, "notpresent": {"const": true}, "exact": text, "notexact": text,
            "contains": text, "notcontains": text, "regex": text, "ignoreCase": flag, "treatMissingAsEmpty": flag,
        });
        let headers = json!({"type": "array", "items": object(header, &["name"]), "minItems": 1});
        let entry = json!({
            "genericKey": object(json!({"key": text, "value": text}), &["value"]),
            "requestHeader":
                object(json!({"headerName": text, "descriptorKey": text}), &["headerName", "descriptorKey"]),
            "requestHeaderValueMatch":
                object(json!({"headers": headers, "expectMatch": flag, "value": text}), &["headers", "value"]),
            "remoteAddress": {"type": ["object", "null"], "maxProperties": 0},
        });
        let entry = json!({
            "type": "object", "properties": entry, "minProperties": 1, "maxProperties": 1, "additionalProperties": false,
        });
        let entries = json!({"entries": {"type": "array", "items": entry, "minItems": 1}});
        json!({"type": "array", "items": object(entries, &["entries"])})
    }
}

/// Returns an entry in the format of the file.
fn shown(entry: &RateLimitEntry) -> Json {
    match entry {
        RateLimitEntry::GenericKey { key: Some(key), value } => json!({"genericKey": {"key": key, "value": value}}),
        RateLimitEntry::GenericKey { key: None, value } => json!({"genericKey": {"value": value}}),
        RateLimitEntry::RequestHeader { header_name, descriptor_key } => {
            json!({"requestHeader": {"headerName": header_name, "descriptorKey": descriptor_key}})
        }
        RateLimitEntry::RequestHeaderValueMatch { headers, expect_match, value } => {
            let headers: Vec<Json> = headers.iter().map(shown_match).collect();
            json!({"requestHeaderValueMatch": {"headers": headers, "expectMatch": expect_match, "value": value}})
        }
        RateLimitEntry::RemoteAddress => json!({"remoteAddress": {}}),
    }
}

fn shown_match(header: &EntryHeader) -> Json {
    let EntryHeader { name, condition, ignore_case, treat_missing_as_empty } = header;
    let (form, value) = match condition {
        HeaderCondition::Present => ("present", true.into()),
        HeaderCondition::NotPresent => ("notpresent", true.into()),
        HeaderCondition::Exact(text) => ("exact", Json::from(text.as_str())),
        HeaderCondition::NotExact(text) => ("notexact", text.as_str().into()),
        HeaderCondition::Contains(text) => ("contains", text.as_str().into()),
        HeaderCondition::NotContains(text) => ("notcontains", text.as_str().into()),
        HeaderCondition::Regex(pattern) => ("regex", pattern.as_str().into()),
    };
    let flags = [("ignoreCase", ignore_case), ("treatMissingAsEmpty", treat_missing_as_empty)];
    let flags = flags.into_iter().filter(|(_, set)| **set).map(|(flag, _)| (flag.to_owned(), true.into()));
    [("name".to_owned(), name.as_str().into()), (form.to_owned(), value)].into_iter().chain(flags).collect()
}

/// Parses the entries of one descriptor.
fn descriptor(node: &Node, wrong: &mut Vec<Wrong>) -> Option<Vec<RateLimitEntry>> {
    let fields = Fields::of(node, &["entries"], wrong)?;
    let entries = fields.required("entries", wrong)?;
    let items = list(entries, "entries", wrong)?;
    if items.is_empty() {
        wrong.push(entries.place.wrong("expected at least one entry"));
    }
    Some(items.iter().filter_map(|item| entry(item, wrong)).collect())
}

/// Parses one entry.
fn entry(node: &Node, wrong: &mut Vec<Wrong>) -> Option<RateLimitEntry> {
    const KINDS: [&str; 4] = ["genericKey", "requestHeader", "requestHeaderValueMatch", "remoteAddress"];
    let fields = Fields::of(node, &KINDS, wrong)?;
    let [Field { key, value, .. }] = fields.all else {
        wrong.push(node.place.wrong(format!("expected exactly one of {}", KINDS.join(", "))));
        return None;
    };
    match &**key {
        "genericKey" => {
            let fields = Fields::of(value, &["key", "value"], wrong)?;
            let key = fields.get("key").map(|key| full_text(key, wrong));
            let value = fields.required("value", wrong).and_then(|value| full_text(value, wrong));
            Some(RateLimitEntry::GenericKey { key: key.flatten(), value: value? })
        }
        "requestHeader" => {
            let fields = Fields::of(value, &["headerName", "descriptorKey"], wrong)?;
            let header_name = fields.required("headerName", wrong).and_then(|name| header_name(name, wrong));
            let descriptor_key = fields.required("descriptorKey", wrong).and_then(|key| full_text(key, wrong));
            Some(RateLimitEntry::RequestHeader { header_name: header_name?, descriptor_key: descriptor_key? })
        }
        "requestHeaderValueMatch" => {
            let fields = Fields::of(value, &["headers", "expectMatch", "value"], wrong)?;
            let headers = fields.required("headers", wrong).and_then(|headers| header_matches(headers, wrong));
            let expect_match = fields.flag("expectMatch", true, wrong);
            let value = fields.required("value", wrong).and_then(|value| full_text(value, wrong));
            Some(RateLimitEntry::RequestHeaderValueMatch { headers: headers?, expect_match, value: value? })
        }
        _ => {
            if value.content != NodeContent::Null {
                Fields::of(value, &[], wrong)?;
            }
            Some(RateLimitEntry::RemoteAddress)
        }
    }
}

fn header_matches(node: &Node, wrong: &mut Vec<Wrong>) -> Option<Vec<EntryHeader>> {
    let items = list(node, "matches of headers", wrong)?;
    if items.is_empty() {
        wrong.push(node.place.wrong("expected at least one match of a header"));
    }
    Some(items.iter().filter_map(|item| header_match(item, wrong)).collect())
}

/// Parses one match: `name`, one condition, and options of the comparison.
fn header_match(node: &Node, wrong: &mut Vec<Wrong>) -> Option<EntryHeader> {
    const CONDITIONS: [&str; 7] = ["present", "notpresent", "exact", "notexact", "contains", "notcontains", "regex"];
    let known = [&["name", "ignoreCase", "treatMissingAsEmpty"][..], &CONDITIONS[..]].concat();
    let fields = Fields::of(node, &known, wrong)?;
    let name = fields.required("name", wrong).and_then(|name| header_name(name, wrong));
    let mut conditions = fields.all.iter().filter(|field| CONDITIONS.contains(&&*field.key));
    let (Some(Field { key, value, .. }), None) = (conditions.next(), conditions.next()) else {
        wrong.push(node.place.wrong(format!("expected exactly one of {}", CONDITIONS.join(", "))));
        return None;
    };
    let condition = match &**key {
        "present" | "notpresent" => {
            if Bool::read(value, wrong)? {
                if key == "present" { HeaderCondition::Present } else { HeaderCondition::NotPresent }
            } else {
                let opposite = if key == "present" { "notpresent" } else { "present" };
                wrong.push(value.place.wrong(format!("expected true; for the opposite, use {opposite}: true")));
                return None;
            }
        }
        form => {
            let value_text = full_text(value, wrong)?;
            match form {
                "exact" => HeaderCondition::Exact(value_text),
                "notexact" => HeaderCondition::NotExact(value_text),
                "contains" => HeaderCondition::Contains(value_text),
                "notcontains" => HeaderCondition::NotContains(value_text),
                _ => match re2::check(&value_text) {
                    Ok(()) => HeaderCondition::Regex(value_text),
                    Err(why) => {
                        let message =
                            format!("{} is not a regular expression that Envoy accepts: {why}", quoted(&value_text));
                        wrong.push(value.place.wrong(message));
                        return None;
                    }
                },
            }
        }
    };
    let is_text =
        !matches!(condition, HeaderCondition::Present | HeaderCondition::NotPresent | HeaderCondition::Regex(_));
    let of_value = !matches!(condition, HeaderCondition::Present | HeaderCondition::NotPresent);
    for (flag, sensible) in [("ignoreCase", is_text), ("treatMissingAsEmpty", of_value)] {
        if let Some(field) = fields.all.iter().find(|field| field.key == flag && !sensible) {
            wrong.push(field.place.wrong(format!("{flag} has no effect together with {key}")));
        }
    }
    Some(EntryHeader {
        condition,
        ignore_case: fields.flag("ignoreCase", false, wrong),
        treat_missing_as_empty: fields.flag("treatMissingAsEmpty", false, wrong),
        name: name?,
    })
}

/// Returns the fields of an object.
struct Fields<'a> {
    node: &'a Node,
    all: &'a [Field],
}

impl<'a> Fields<'a> {
    /// Returns the fields of `node`, which must all be in `known`.
    fn of(node: &'a Node, known: &[&str], wrong: &mut Vec<Wrong>) -> Option<Self> {
        let expected = match known {
            [] => "an empty object".to_owned(),
            known => format!("an object of {}", known.join(", ")),
        };
        let all = object(node, &expected, wrong)?;
        let faults = wrong.len();
        for Field { place, key, .. } in all.iter().filter(|field| !known.contains(&&*field.key)) {
            wrong.push(place.wrong(format!("{} is not known here: expected {expected}", quoted(key))));
        }
        (wrong.len() == faults).then_some(Self { node, all })
    }

    fn get(&self, key: &str) -> Option<&'a Node> {
        self.all.iter().find(|field| field.key == key).map(|field| &field.value)
    }

    fn required(&self, key: &str, wrong: &mut Vec<Wrong>) -> Option<&'a Node> {
        let found = self.get(key);
        if found.is_none() {
            wrong.push(self.node.place.wrong(format!("{key} is missing")));
        }
        found
    }

    fn flag(&self, key: &str, default: bool, wrong: &mut Vec<Wrong>) -> bool {
        self.get(key).and_then(|node| Bool::read(node, wrong)).unwrap_or(default)
    }
}

/// Returns the items of a list.
fn list<'a>(node: &'a Node, of: &str, wrong: &mut Vec<Wrong>) -> Option<&'a [Node]> {
    match &node.content {
        NodeContent::List(items) => Some(items),
        other => {
            wrong.push(node.place.wrong(format!("expected a list of {of}, found {}", found(other))));
            None
        }
    }
}

/// Returns a text that is not empty.
fn full_text(node: &Node, wrong: &mut Vec<Wrong>) -> Option<String> {
    let text = text(node, wrong)?;
    if text.is_empty() || text.chars().any(char::is_control) {
        wrong.push(node.place.wrong("expected at least one character, and no control characters"));
        return None;
    }
    Some(text.to_owned())
}

/// The name of a header or pseudo-header such as `:path`, in lower case.
fn header_name(node: &Node, wrong: &mut Vec<Wrong>) -> Option<String> {
    let name = text(node, wrong)?;
    if !is_token(name.strip_prefix(':').unwrap_or(name)) {
        wrong.push(node.place.wrong(format!("{} is not a valid header name", quoted(name))));
        return None;
    }
    Some(name.to_ascii_lowercase())
}
