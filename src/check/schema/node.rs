//! A structural schema: a node for each field, with the keywords that CustomResourceDefinitions and Kubernetes use.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::OnceLock;

use regex::Regex;
use serde::Deserialize;
use serde_json::{Map, Number, Value};

use super::{FaultForm, ObjectFault};

/// The largest number of changed letters with which an unknown field counts as misspelled.
const MISSPELLED: usize = 3;

/// The longest value in a message, in characters.
const MAX_VALUE: usize = 60;

/// The schema of one field. Unknown keywords are errors, so that none is ignored.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct FieldSchema {
    #[serde(rename = "type")]
    form: Option<Type>,
    #[serde(rename = "x-kubernetes-int-or-string")]
    int_or_string: bool,
    #[serde(rename = "x-kubernetes-preserve-unknown-fields")]
    preserves_unknown_fields: bool,
    #[serde(rename = "x-kubernetes-list-map-keys")]
    list_map_keys: Vec<String>,
    #[serde(rename = "x-kubernetes-list-type")]
    list_type: String,
    properties: BTreeMap<String, FieldSchema>,
    additional_properties: Option<Additional>,
    required: Vec<String>,
    items: Option<Box<FieldSchema>>,
    #[serde(rename = "enum")]
    values: Vec<Value>,
    format: String,
    pattern: Option<Pattern>,
    minimum: Option<f64>,
    maximum: Option<f64>,
    exclusive_minimum: bool,
    exclusive_maximum: bool,
    min_length: Option<usize>,
    max_length: Option<usize>,
    min_items: Option<usize>,
    max_items: Option<usize>,
    min_properties: Option<usize>,
    max_properties: Option<usize>,
    all_of: Vec<FieldSchema>,
    any_of: Vec<FieldSchema>,
    one_of: Vec<FieldSchema>,
    not: Option<Box<FieldSchema>>,
    // `kube-cel` reads these.
    #[serde(rename = "default")]
    _default: Value,
    #[serde(rename = "x-kubernetes-validations")]
    _rules: Vec<Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Type {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

/// The values of other fields of an object.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Additional {
    /// `true`: any value.
    Allowed(bool),
    /// Values of a map.
    Schema(Box<FieldSchema>),
}

/// A regular expression, compiled at its first use.
#[derive(Debug, Deserialize)]
#[serde(from = "String")]
struct Pattern {
    text: String,
    compiled: OnceLock<Option<Regex>>,
}

impl From<String> for Pattern {
    fn from(text: String) -> Self {
        Self { text, compiled: OnceLock::new() }
    }
}

impl Pattern {
    fn matches(&self, text: &str) -> bool {
        self.compiled.get_or_init(|| Regex::new(&self.text).ok()).as_ref().is_none_or(|regex| regex.is_match(text))
    }
}

/// Returns `value` without fields that are null: the API server treats them as absent.
pub fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let present = fields.iter().filter(|(_, value)| !value.is_null());
            Value::Object(present.map(|(name, value)| (name.clone(), without_nulls(value))).collect())
        }
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}

/// Returns the path of the field `name` in the field `path`.
fn within(path: &str, name: &str) -> String {
    let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    match (path, is_plain) {
        ("", true) => name.to_owned(),
        (path, true) => format!("{path}.{name}"),
        (path, false) => format!("{path}[{name:?}]"),
    }
}

/// Describes a value: `the string "80"`.
fn described(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => format!("the boolean {value}"),
        Value::Number(value) => format!("the number {value}"),
        Value::String(text) if text.chars().count() > MAX_VALUE => "a long string".to_owned(),
        Value::String(text) => format!("the string {text:?}"),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

/// Returns the text in quotes, shortened.
fn quoted(text: &str) -> String {
    match text.char_indices().nth(MAX_VALUE) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}

/// Returns the text, shortened to twice the length of a value.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(2 * MAX_VALUE) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn as_integer(number: &Number) -> Option<i64> {
    number.as_i64().or_else(|| number.as_f64().filter(|value| value.fract() == 0.0).map(|value| value as i64))
}

impl FieldSchema {
    /// Adds the faults of `value`, which is at `path`.
    pub fn check(&self, value: &Value, path: &str, faults: &mut Vec<ObjectFault>) {
        let mut fault = |message: String| {
            faults.push(ObjectFault { field: path.to_owned(), message, remedy: None, form: FaultForm::Value });
        };
        if self.int_or_string && !matches!(value, Value::String(_) | Value::Number(_)) {
            return fault(format!("expected an integer or a string, found {}", described(value)));
        }
        let (is_of_type, expected) = match (self.form, value) {
            (None, _) => (true, ""),
            (Some(Type::Object), value) => (value.is_object(), "an object"),
            (Some(Type::Array), value) => (value.is_array(), "a list"),
            (Some(Type::String), value) => (value.is_string(), "a string"),
            (Some(Type::Integer), Value::Number(number)) => (as_integer(number).is_some(), "an integer"),
            (Some(Type::Integer), _) => (false, "an integer"),
            (Some(Type::Number), value) => (value.is_number(), "a number"),
            (Some(Type::Boolean), value) => (value.is_boolean(), "a boolean"),
        };
        if !is_of_type {
            return fault(format!("expected {expected}, found {}", described(value)));
        }
        if !self.values.is_empty() && !self.values.contains(value) {
            let known: Vec<String> = self.values.iter().map(ToString::to_string).collect();
            return fault(format!("{} is none of {}", value, known.join(", ")));
        }
        match value {
            Value::String(text) => self.text(text).into_iter().for_each(&mut fault),
            Value::Number(number) => self.number(number).into_iter().for_each(&mut fault),
            Value::Array(items) => self.list(items, path, faults),
            Value::Object(fields) => self.object(fields, path, faults),
            Value::Null | Value::Bool(_) => {}
        }
        self.alternatives(value, path, faults);
    }

    /// Returns whether `value` has no faults.
    fn accepts(&self, value: &Value) -> bool {
        let mut faults = Vec::new();
        self.check(value, "", &mut faults);
        // Fields of a branch are declared outside of it.
        faults.iter().all(|fault| fault.form == FaultForm::UnknownField)
    }

    fn text(&self, text: &str) -> Option<String> {
        let length = text.chars().count();
        if let Some(shortest) = self.min_length.filter(|shortest| length < *shortest) {
            let must = if shortest == 1 {
                "must not be empty".to_owned()
            } else {
                format!("has less than {shortest} characters")
            };
            return Some(format!("{} {must}", quoted(text)));
        }
        if let Some(longest) = self.max_length.filter(|longest| length > *longest) {
            return Some(format!("{} has {length} characters; the maximum is {longest}", quoted(text)));
        }
        if let Some(pattern) = self.pattern.as_ref().filter(|pattern| !pattern.matches(text)) {
            return Some(format!("{} does not match the pattern {}", quoted(text), pattern.text));
        }
        let is_valid = match self.format.as_str() {
            "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
            "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
            _ => true,
        };
        (!is_valid).then(|| format!("{} is not an address of the format {}", quoted(text), self.format))
    }

    fn number(&self, number: &Number) -> Option<String> {
        let value = number.as_f64()?;
        if self.format == "int32" && i32::try_from(as_integer(number)?).is_err() {
            return Some(format!("{number} is not an integer of 32 bits"));
        }
        let is_below = |limit: &f64| value < *limit || self.exclusive_minimum && value <= *limit;
        let is_above = |limit: &f64| value > *limit || self.exclusive_maximum && value >= *limit;
        if let Some(least) = self.minimum.filter(is_below) {
            return Some(format!("{number} is less than the minimum, {least}"));
        }
        self.maximum.filter(is_above).map(|most| format!("{number} is greater than the maximum, {most}"))
    }

    fn list(&self, items: &[Value], path: &str, faults: &mut Vec<ObjectFault>) {
        let size = size("items", items.len(), self.min_items, self.max_items);
        faults.extend(size.map(|message| ObjectFault {
            field: path.to_owned(),
            message,
            remedy: None,
            form: FaultForm::Value,
        }));
        for (index, item) in items.iter().enumerate() {
            let at = format!("{path}[{index}]");
            if let Some(schema) = &self.items {
                schema.check(item, &at, faults);
            }
            let key = |item: &Value| -> Vec<Value> {
                self.list_map_keys.iter().map(|key| item.get(key).cloned().unwrap_or_default()).collect()
            };
            let is_repeated = match self.list_type.as_str() {
                "set" => items[..index].contains(item),
                "map" => items[..index].iter().any(|other| key(other) == key(item)),
                _ => false,
            };
            if is_repeated {
                let message = match self.list_map_keys.as_slice() {
                    [] => "the value is already in the list".to_owned(),
                    keys => format!("an earlier item has the same {}", keys.join(" and ")),
                };
                faults.push(ObjectFault { field: at, message, remedy: None, form: FaultForm::Value });
            }
        }
    }

    fn object(&self, fields: &Map<String, Value>, path: &str, faults: &mut Vec<ObjectFault>) {
        let size = size("fields", fields.len(), self.min_properties, self.max_properties);
        faults.extend(size.map(|message| ObjectFault {
            field: path.to_owned(),
            message,
            remedy: None,
            form: FaultForm::Value,
        }));
        for name in self.required.iter().filter(|name| !fields.contains_key(*name)) {
            let (field, message) = (within(path, name), "missing".to_owned());
            faults.push(ObjectFault { field, message, remedy: None, form: FaultForm::Value });
        }
        for (name, value) in fields {
            let field = within(path, name);
            match (self.properties.get(name), &self.additional_properties) {
                (Some(schema), _) => schema.check(value, &field, faults),
                (None, Some(Additional::Schema(schema))) => schema.check(value, &field, faults),
                (None, None | Some(Additional::Allowed(false))) if self.is_closed() => {
                    let message = format!("the field {} does not exist", quoted(name));
                    let remedy = Some(self.remedy(name));
                    faults.push(ObjectFault { field, message, remedy, form: FaultForm::UnknownField });
                }
                _ => {}
            }
        }
    }

    /// Returns whether an object has no other fields. An object of the type alone has any.
    fn is_closed(&self) -> bool {
        !self.preserves_unknown_fields && !self.properties.is_empty()
    }

    /// Returns the remedy of an unknown field: the nearest known field, or all known fields.
    fn remedy(&self, name: &str) -> String {
        let folded = name.to_lowercase();
        let distance = |known: &&String| strsim::damerau_levenshtein(&known.to_lowercase(), &folded);
        let most = MISSPELLED.min(name.chars().count() / 3);
        let nearest = self.properties.keys().filter(|known| distance(known) <= most).min_by_key(distance);
        if let Some(nearest) = nearest {
            return format!("Write \"{nearest}\".");
        }
        let known: Vec<String> = self.properties.keys().map(|name| format!("\"{name}\"")).collect();
        match known.len() {
            0..=12 => format!("Remove the field, or use one of {}.", known.join(", ")),
            _ => "Remove the field; kubectl explain shows the fields.".to_owned(),
        }
    }

    fn alternatives(&self, value: &Value, path: &str, faults: &mut Vec<ObjectFault>) {
        let count = |nodes: &[Self]| nodes.iter().filter(|node| node.accepts(value)).count();
        let is_valid = self.all_of.len() == count(&self.all_of)
            && (self.any_of.is_empty() || count(&self.any_of) > 0)
            && (self.one_of.is_empty() || count(&self.one_of) == 1)
            && self.not.as_ref().is_none_or(|not| !not.accepts(value));
        if !is_valid && faults.iter().all(|fault| !fault.field.starts_with(path)) {
            let message = format!("{} has none of the permitted forms", shortened(&value.to_string()));
            faults.push(ObjectFault { field: path.to_owned(), message, remedy: None, form: FaultForm::Rule });
        }
    }
}

/// Returns the fault of a number of items or fields.
fn size(noun: &str, count: usize, least: Option<usize>, most: Option<usize>) -> Option<String> {
    if let Some(least) = least.filter(|least| count < *least) {
        return Some(format!("has {count} {noun}; the minimum is {least}"));
    }
    most.filter(|most| count > *most).map(|most| format!("has {count} {noun}; the maximum is {most}"))
}
