//! How values are written in the settings file: what is taken, how it is shown, how a schema describes it.
//!
//! A format is a type without values, named in the table of keys. What a user may write is up to the format, what the
//! program gets is its [`Format::Value`].

pub mod lists;
pub mod names;
pub mod numbers;
pub mod policy;
pub mod process;
pub mod retries;
pub mod services;
pub mod times;
pub mod tls;
pub mod words;

use serde_json::{Value as Json, json};

use super::yaml::{Content, Node, Wrong};

/// How a value is written.
pub trait Format {
    /// What the program gets.
    type Value;
    /// In words, for the reference: `duration`, `list of header names`.
    fn describe() -> String;
    /// Reads a value; what is wrong goes to `wrong`, and then there is none.
    fn read(node: &Node, wrong: &mut Vec<Wrong>) -> Option<Self::Value>;
    /// The value as it may be written in a file, in JSON.
    fn show(value: &Self::Value) -> Json;
    /// A JSON schema.
    fn schema() -> Json;
}

/// A format whose values are one scalar.
pub trait Scalar {
    /// What the program gets.
    type Value;
    /// In words.
    const NAME: &'static str;
    /// Reads a value. Errors: what is allowed.
    fn parse(text: &str) -> Result<Self::Value, String>;
    /// The value as it may be written in a file.
    fn show(value: &Self::Value) -> Json;
    /// A JSON schema.
    fn schema() -> Json;
}

impl<S: Scalar> Format for S {
    type Value = S::Value;

    fn describe() -> String {
        S::NAME.to_owned()
    }

    fn read(node: &Node, wrong: &mut Vec<Wrong>) -> Option<S::Value> {
        let parsed = match &node.content {
            Content::Scalar(text) => {
                S::parse(text).map_err(|why| format!("{} is no {}: {why}", quoted(text), short(S::NAME)))
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

/// A value, or none.
pub struct Maybe<F>(F);

impl<F: Format> Format for Maybe<F> {
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

/// The name of a format in a message: without its choices and its marks.
fn short(name: &str) -> String {
    name.split(" (").next().unwrap_or(name).replace('`', "")
}

/// What stands there instead of what was expected.
pub fn found(content: &Content) -> String {
    match content {
        Content::Nothing => "nothing".to_owned(),
        Content::Scalar(text) => quoted(text),
        Content::List(_) => "a list".to_owned(),
        Content::Object(_) => "an object".to_owned(),
    }
}

/// `text` in quotes, cut if it is long.
pub fn quoted(text: &str) -> String {
    const MOST: usize = 60;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}
