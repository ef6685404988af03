//! A tree of values, each with its line and column.

use serde_json::{Number, Value};

/// A location in a text; both numbers start at 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    /// The line. 0 means unknown.
    pub line: usize,
    /// The column.
    pub column: usize,
}

/// A value and its location.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Node {
    /// The start.
    pub place: Location,
    /// The value.
    pub content: NodeContent,
}

/// The kinds of values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum NodeContent {
    /// An empty value, `null`, or `~`.
    #[default]
    Null,
    /// A boolean. Absent if scalars stay text.
    Bool(bool),
    /// A number. Absent if scalars stay text.
    Number(Number),
    /// Text without quotes.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// An object, in the order of the text.
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
    /// Returns an error at this location.
    pub fn wrong(self, message: impl Into<String>) -> Wrong {
        Wrong { place: self, message: message.into() }
    }
}

/// A value that is not from a text.
impl From<NodeContent> for Node {
    fn from(content: NodeContent) -> Self {
        Self { place: Location::default(), content }
    }
}

impl Node {
    /// Creates a text that is not from a file.
    pub fn text(text: impl Into<String>) -> Self {
        NodeContent::Text(text.into()).into()
    }

    /// Creates a list of texts that are not from a file.
    pub fn texts<'a>(texts: impl IntoIterator<Item = &'a String>) -> Self {
        NodeContent::List(texts.into_iter().map(Self::text).collect()).into()
    }

    /// Creates a value that is not from a file. Scalars become text, as in a settings file.
    pub fn with_text_scalars(value: &Value) -> Self {
        let content = match value {
            Value::Null => NodeContent::Null,
            Value::Bool(_) | Value::Number(_) => NodeContent::Text(value.to_string()),
            Value::String(text) => NodeContent::Text(text.clone()),
            Value::Array(items) => NodeContent::List(items.iter().map(Self::with_text_scalars).collect()),
            Value::Object(fields) => {
                let field = |(key, value): (&String, &Value)| Field {
                    place: Location::default(),
                    key: key.clone(),
                    value: Self::with_text_scalars(value),
                };
                NodeContent::Object(fields.iter().map(field).collect())
            }
        };
        content.into()
    }

    /// Returns the value as JSON. If a key is given twice, the last value counts.
    pub fn to_json(&self) -> Value {
        match &self.content {
            NodeContent::Null => Value::Null,
            NodeContent::Bool(value) => Value::Bool(*value),
            NodeContent::Number(number) => Value::Number(number.clone()),
            NodeContent::Text(text) => Value::String(text.clone()),
            NodeContent::List(items) => items.iter().map(Self::to_json).collect(),
            NodeContent::Object(fields) => {
                Value::Object(fields.iter().map(|field| (field.key.clone(), field.value.to_json())).collect())
            }
        }
    }

    /// Returns the location of the deepest value on the way to `path`, such as `spec.rules[0].http` or `options["a.b/c"].x`.
    /// `lowerCamelCase` and `snake_case` are interchangeable.
    pub(super) fn find(&self, path: &str) -> Location {
        self.below(path).unwrap_or(self.place)
    }

    /// Returns the location of the deepest known value on the way to `path` below this value.
    fn below(&self, path: &str) -> Option<Location> {
        let path = path.strip_prefix('.').unwrap_or(path);
        if path.is_empty() {
            return None;
        }
        let (place, value, rest) = match (&self.content, bracketed(path)) {
            (NodeContent::List(items), Some((index, rest))) => {
                let item = items.get(index.parse::<usize>().ok()?)?;
                (item.place, item, rest)
            }
            (NodeContent::Object(fields), bracketed) => {
                let found = match bracketed {
                    Some((key, rest)) => last(fields, key.trim_matches('"')).map(|field| (field, rest)),
                    None => field(fields, path),
                };
                // The location of a field is that of its key, where the user looks for it.
                let (field, rest) = found?;
                (field.place, &field.value, rest)
            }
            _ => return None,
        };
        value.below(rest).or((place.line > 0).then_some(place))
    }
}

/// Splits `[0].match` into `0` and `.match`, and `["a]b"].c` into `"a]b"` and `.c`.
fn bracketed(path: &str) -> Option<(&str, &str)> {
    let path = path.strip_prefix('[')?;
    let end = if path.starts_with('"') { path.find("\"]")? + 1 } else { path.find(']')? };
    Some((&path[..end], &path[end + 1..]))
}

/// Returns the last field with this key.
fn last<'a>(fields: &'a [Field], key: &str) -> Option<&'a Field> {
    fields.iter().rfind(|field| field.key == key)
}

/// Returns the first field of `path`, and the rest of the path. Keys may contain dots: the longest matching key wins.
fn field<'a, 'p>(fields: &'a [Field], path: &'p str) -> Option<(&'a Field, &'p str)> {
    let ends = path.char_indices().filter(|(_, c)| matches!(c, '.' | '[')).map(|(at, _)| at);
    let ends: Vec<usize> = ends.chain([path.len()]).collect();
    let exact = ends.iter().rev().find_map(|&end| Some((last(fields, &path[..end])?, &path[end..])));
    exact.or_else(|| {
        let (name, rest) = path.split_at(*ends.first()?);
        let folded = |name: &str| name.chars().filter(|c| *c != '_').collect::<String>().to_lowercase();
        let wanted = folded(name);
        fields.iter().rfind(|field| folded(&field.key) == wanted).map(|field| (field, rest))
    })
}
