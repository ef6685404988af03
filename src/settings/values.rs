//! The formats of values in the settings file: how each is parsed, printed, and described by a schema.
//!
//! A format is a type without values, named in the table of keys. It defines the syntax and the parsed
//! [`ValueFormat::Value`].

pub mod lists;
pub mod names;
pub mod numbers;
pub mod policy;
pub mod process;
pub mod retries;
pub mod services;
pub mod times;
pub mod tls;
pub mod wasm;
pub mod words;

use serde_json::{Value as Json, json};

use crate::yaml::{Node, NodeContent, Wrong};

/// The format of a value.
pub trait ValueFormat {
    /// The parsed value.
    type Value;
    /// The name for the reference: `duration`, `list of header names`.
    fn describe() -> String;
    /// Parses a value. Adds faults to `wrong` and returns `None` if there are any.
    fn read(node: &Node, wrong: &mut Vec<Wrong>) -> Option<Self::Value>;
    /// Returns the value in the format of the file, as JSON.
    fn show(value: &Self::Value) -> Json;
    /// Returns the JSON schema.
    fn schema() -> Json;
}

/// A format of scalars.
pub trait Scalar {
    /// The parsed value.
    type Value;
    /// The name for the reference.
    const NAME: &'static str;
    /// Parses a value. The error lists the allowed values.
    fn parse(text: &str) -> Result<Self::Value, String>;
    /// Returns the value in the format of the file.
    fn show(value: &Self::Value) -> Json;
    /// Returns the JSON schema.
    fn schema() -> Json;
}

impl<S: Scalar> ValueFormat for S {
    type Value = S::Value;

    fn describe() -> String {
        S::NAME.to_owned()
    }

    fn read(node: &Node, wrong: &mut Vec<Wrong>) -> Option<S::Value> {
        let parsed = match &node.content {
            NodeContent::Text(text) => {
                S::parse(text).map_err(|why| format!("{} is not a valid {}: {why}", quoted(text), short(S::NAME)))
            }
            _ => Err(format!("expected a {}, found {}", short(S::NAME), found(&node.content))),
        };
        parsed.map_err(|message| wrong.push(node.place.wrong(message))).ok()
    }

    fn show(value: &S::Value) -> Json {
        S::show(value)
    }

    fn schema() -> Json {
        S::schema()
    }
}

/// An optional value.
pub struct Maybe<F>(F);

impl<F: ValueFormat> ValueFormat for Maybe<F> {
    type Value = Option<F::Value>;

    fn describe() -> String {
        F::describe()
    }

    fn read(node: &Node, wrong: &mut Vec<Wrong>) -> Option<Self::Value> {
        F::read(node, wrong).map(Some)
    }

    fn show(value: &Self::Value) -> Json {
        value.as_ref().map_or(Json::Null, F::show)
    }

    fn schema() -> Json {
        json!({"anyOf": [F::schema(), {"type": "null"}]})
    }
}

/// `true` or `false`.
pub struct Bool;

impl Scalar for Bool {
    type Value = bool;
    const NAME: &'static str = "boolean";

    fn parse(text: &str) -> Result<bool, String> {
        match text {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err("expected true or false".to_owned()),
        }
    }

    fn show(value: &bool) -> Json {
        (*value).into()
    }

    fn schema() -> Json {
        json!({"type": "boolean"})
    }
}

/// Returns the name of a format for messages, without choices and markup.
fn short(name: &str) -> String {
    name.split(" (").next().unwrap_or(name).replace('`', "")
}

/// Describes an unexpected value.
pub fn found(content: &NodeContent) -> String {
    match content {
        NodeContent::Null => "nothing".to_owned(),
        NodeContent::Bool(value) => value.to_string(),
        NodeContent::Number(number) => number.to_string(),
        NodeContent::Text(text) => quoted(text),
        NodeContent::List(_) => "a list".to_owned(),
        NodeContent::Object(_) => "an object".to_owned(),
    }
}

/// Quotes `text` and shortens it if it is long.
pub fn quoted(text: &str) -> String {
    const MOST: usize = 60;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}
