//! The documents of a file, and the lines of their fields.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

/// One document of a file.
#[derive(Debug, Clone)]
pub struct Document {
    /// The index in the file, from 1. Empty documents count.
    pub index: usize,
    /// The first line, from 1.
    pub line: usize,
    /// The content, or the fault.
    pub value: Result<Value, DocumentFault>,
    /// With a fault that is only a key given twice: the content as kubectl reads it, with the last value of the key.
    pub lenient: Option<Value>,
    pub(super) lines: Lines,
}

/// A fault of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentFault {
    /// The index of the document in the file, from 1. 0 means that the fault concerns the whole file.
    pub document: usize,
    /// The line, from 1.
    pub line: usize,
    /// The path of the field: `virtual_hosts[0].routes[1].match.prefix`. Empty if no field is known.
    pub field: String,
    /// The fault: lower case, no full stop.
    pub message: String,
}

/// Displays `document 2, line 14: virtual_hosts[0].domains: expected a list, found "a.test"`.
impl fmt::Display for DocumentFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.document > 0 {
            write!(f, "document {}, ", self.document)?;
        }
        write!(f, "line {}: ", self.line)?;
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        f.write_str(&self.message)
    }
}

impl Document {
    /// Returns the line of `field`, a path such as `spec.rules[0].http` or `options["a.b/c"].x`. If the document lacks
    /// the field, it returns the line of the nearest enclosing field. `lowerCamelCase` and `snake_case` are
    /// interchangeable.
    pub fn line_of(&self, field: &str) -> usize {
        self.lines.find(field).unwrap_or(self.line)
    }

    /// Creates the fault `message` of `field` in this document.
    pub fn fault(&self, field: &str, message: impl Into<String>) -> DocumentFault {
        DocumentFault {
            document: self.index,
            line: self.line_of(field),
            field: field.to_owned(),
            message: message.into(),
        }
    }
}

/// The lines of a value and its parts. Line 0 means unknown.
#[derive(Debug, Clone, Default)]
pub(super) struct Lines {
    pub(super) line: usize,
    pub(super) inner: Inner,
}

/// The lines of the parts of a value.
#[derive(Debug, Clone, Default)]
pub(super) enum Inner {
    #[default]
    Scalar,
    List(Vec<Lines>),
    Object(BTreeMap<String, Lines>),
}

impl Lines {
    /// Returns the line of the deepest value on the way to `path`.
    fn find(&self, path: &str) -> Option<usize> {
        let path = path.strip_prefix('.').unwrap_or(path);
        let inner = match &self.inner {
            _ if path.is_empty() => None,
            Inner::Scalar => None,
            Inner::List(items) => bracketed(path)
                .and_then(|(index, rest)| Some((items.get(index.parse::<usize>().ok()?)?, rest)))
                .and_then(|(item, rest)| item.find(rest)),
            Inner::Object(fields) => match bracketed(path) {
                Some((key, rest)) => fields.get(key.trim_matches('"')).and_then(|field| field.find(rest)),
                None => field(fields, path).and_then(|(field, rest)| field.find(rest)),
            },
        };
        inner.or((self.line > 0).then_some(self.line))
    }
}

/// Splits `[0].match` into `0` and `.match`, and `["a]b"].c` into `"a]b"` and `.c`.
fn bracketed(path: &str) -> Option<(&str, &str)> {
    let path = path.strip_prefix('[')?;
    let end = if path.starts_with('"') { path.find("\"]")? + 1 } else { path.find(']')? };
    Some((&path[..end], &path[end + 1..]))
}

/// Returns the first field of `path`, and the rest of the path. Keys may contain dots: the longest matching key wins.
fn field<'a, 'p>(fields: &'a BTreeMap<String, Lines>, path: &'p str) -> Option<(&'a Lines, &'p str)> {
    let ends = path.char_indices().filter(|(_, c)| matches!(c, '.' | '[')).map(|(at, _)| at);
    let ends: Vec<usize> = ends.chain([path.len()]).collect();
    let exact = ends.iter().rev().find_map(|&end| Some((fields.get(&path[..end])?, &path[end..])));
    exact.or_else(|| {
        let (name, rest) = path.split_at(*ends.first()?);
        let folded = |name: &str| name.chars().filter(|c| *c != '_').collect::<String>().to_lowercase();
        let wanted = folded(name);
        fields.iter().find(|(key, _)| folded(key) == wanted).map(|(_, lines)| (lines, rest))
    })
}
