//! The settings file as a tree with line and column of every node, and values in the format of the file.
//!
//! Scalars stay text, and the key defines their meaning: `1.2` can be a version, and `off` a word. Aliases are rejected.

use granit_parser::{Event, Options, Parser, ScalarStyle, ScanError, Span, StrInput};
use serde_json::Value;

/// The maximum nesting depth; the deepest setting needs five levels.
const MAX_DEPTH: usize = 32;

/// A location in the file; both numbers start at 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

/// A value and its location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The start.
    pub place: Location,
    /// The value.
    pub content: NodeContent,
}

/// The kinds of values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeContent {
    /// An empty value, `null`, or `~`.
    Nothing,
    /// Text as written, without quotes.
    Scalar(String),
    /// A list.
    List(Vec<Node>),
    /// An object, in the order of the file.
    Object(Vec<Field>),
}

/// A field of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// The location of the key.
    pub place: Location,
    /// The key.
    pub key: String,
    /// The value.
    pub value: Node,
}

/// An error at a location: lower case, no full stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    /// The location.
    pub place: Location,
    /// The message.
    pub message: String,
}

impl Location {
    fn of(span: &Span) -> Self {
        Self { line: span.start.line(), column: span.start.col() + 1 }
    }

    /// Returns an error at this location.
    pub fn wrong(self, message: impl Into<String>) -> Wrong {
        Wrong { place: self, message: message.into() }
    }
}

impl Node {
    /// Creates a text that is not from a file.
    pub fn text(text: impl Into<String>) -> Self {
        Self { place: Location::default(), content: NodeContent::Scalar(text.into()) }
    }

    /// Creates a list of texts that are not from a file.
    pub fn texts<'a>(texts: impl IntoIterator<Item = &'a String>) -> Self {
        Self { place: Location::default(), content: NodeContent::List(texts.into_iter().map(Self::text).collect()) }
    }

    /// Creates a value that is not from a file. Scalars become text, as in a file.
    pub fn of_json(value: &Value) -> Self {
        let content = match value {
            Value::Null => NodeContent::Nothing,
            Value::Bool(_) | Value::Number(_) => NodeContent::Scalar(value.to_string()),
            Value::String(text) => NodeContent::Scalar(text.clone()),
            Value::Array(items) => NodeContent::List(items.iter().map(Self::of_json).collect()),
            Value::Object(fields) => {
                let field = |(key, value): (&String, &Value)| Field {
                    place: Location::default(),
                    key: key.clone(),
                    value: Self::of_json(value),
                };
                NodeContent::Object(fields.iter().map(field).collect())
            }
        };
        Self { place: Location::default(), content }
    }
}

/// Parses the single document in `text`, or returns an empty value. The error is the first invalid or unsupported
/// construct.
pub fn read(text: &str) -> Result<Node, Wrong> {
    let mut options = Options::default();
    options.set_emit_comments(false);
    let mut reader = Reader { parser: Parser::new_from_str_with_options(text, options) };
    let mut document = None;
    loop {
        let (event, place) = reader.next()?;
        match event {
            Event::DocumentStart(..) if document.is_some() => {
                return Err(place.wrong("a second document begins, and settings have only one"));
            }
            Event::DocumentStart(..) => {
                let (event, place) = reader.next()?;
                document = Some(reader.node(event, place, 0)?);
            }
            Event::StreamEnd => break,
            _ => {}
        }
    }
    Ok(document.unwrap_or(Node { place: Location { line: 1, column: 1 }, content: NodeContent::Nothing }))
}

struct Reader<'a> {
    parser: Parser<'a, StrInput<'a>>,
}

impl<'a> Reader<'a> {
    /// Returns the next event, or the end of the stream.
    fn next(&mut self) -> Result<(Event<'a>, Location), Wrong> {
        match self.parser.next_event() {
            None => Ok((Event::StreamEnd, Location::default())),
            Some(Ok((event, span))) => Ok((event, Location::of(&span))),
            Some(Err(error)) => Err(wrong(&error)),
        }
    }

    /// Parses the value that starts with `event`.
    fn node(&mut self, event: Event<'a>, place: Location, depth: usize) -> Result<Node, Wrong> {
        if depth > MAX_DEPTH {
            return Err(place.wrong(format!("nested deeper than {MAX_DEPTH} levels")));
        }
        let content = match event {
            Event::Scalar(text, style, ..) => match (&*text, style) {
                ("" | "~" | "null" | "Null" | "NULL", ScalarStyle::Plain) => NodeContent::Nothing,
                _ => NodeContent::Scalar(text.into_owned()),
            },
            Event::SequenceStart(..) => {
                let mut items = Vec::new();
                loop {
                    let (event, place) = self.next()?;
                    if matches!(event, Event::SequenceEnd) {
                        break NodeContent::List(items);
                    }
                    items.push(self.node(event, place, depth + 1)?);
                }
            }
            Event::MappingStart(..) => {
                let mut fields: Vec<Field> = Vec::new();
                loop {
                    let (event, place) = self.next()?;
                    if matches!(event, Event::MappingEnd) {
                        break NodeContent::Object(fields);
                    }
                    let Event::Scalar(key, ..) = event else {
                        return Err(place.wrong("only text can be a key"));
                    };
                    if let Some(first) = fields.iter().find(|field| *field.key == *key) {
                        let line = first.place.line;
                        return Err(place.wrong(format!("{:?} is already given in line {line}", &*key)));
                    }
                    let (event, value_place) = self.next()?;
                    let value = self.node(event, value_place, depth + 1)?;
                    fields.push(Field { place, key: key.into_owned(), value });
                }
            }
            Event::Alias(..) => return Err(place.wrong("aliases are not supported: repeat the value")),
            _ => return Err(place.wrong("the file ends in the middle of a value")),
        };
        Ok(Node { place, content })
    }
}

fn wrong(error: &ScanError) -> Wrong {
    let place = Location { line: error.marker().line(), column: error.marker().col() + 1 };
    place.wrong(error.kind().to_string())
}

/// Formats a value in one line, as YAML that all versions of YAML parse alike.
pub fn written(value: &Value) -> String {
    match value {
        Value::String(text) if is_plain(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(written).collect::<Vec<_>>().join(", ")),
        Value::Object(fields) => {
            let fields =
                fields.iter().map(|(key, value)| format!("{}: {}", written(&key.as_str().into()), written(value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// Returns whether every YAML parser reads the plain `text` as this string, inside a flow collection or not.
fn is_plain(text: &str) -> bool {
    let word = ["true", "false", "yes", "no", "on", "y", "n", "null", "nan", "inf"];
    let safe = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.bytes().all(safe)
        && !word.contains(&&*text.to_ascii_lowercase())
        && text.parse::<f64>().is_err()
        && !text.starts_with("0x")
}
