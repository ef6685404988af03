//! YAML and JSON as kubectl reads them, with the line of every field kept: what a directory's files are read with,
//! whether they hold Kubernetes objects or Envoy resources.
//!
//! Plain scalars mean what YAML 1.1 says (`yes` is a boolean, `0644` is octal), for kubectl and Envoy read them so.
//! A broken document costs itself only. What aliases and merge keys multiply is bounded.

#[cfg(test)]
mod fuzz;
mod scalar;
mod tree;

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

/// One document of a file.
#[derive(Debug, Clone)]
pub struct Document {
    /// Its place in the file, from 1; empty documents count.
    pub index: usize,
    /// The line at which it starts, from 1.
    pub line: usize,
    /// Its content, or why it cannot be read.
    pub value: Result<Value, Fault>,
    lines: Lines,
}

/// What is wrong with a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The document's place in the file, from 1; 0 if the fault is the whole file's.
    pub document: usize,
    /// The line, from 1.
    pub line: usize,
    /// The field as a path: `virtual_hosts[0].routes[1].match.prefix`; empty if no field is known.
    pub field: String,
    /// What is wrong: lower case, no full stop.
    pub message: String,
}

/// `document 2, line 14: virtual_hosts[0].domains: expected a list, found "a.test"`
impl fmt::Display for Fault {
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
    /// The line of `field`, a path such as `spec.rules[0].http` or `options["a.b/c"].x`; of its nearest enclosing
    /// field that the document has, if it does not have this one. Takes `lowerCamelCase` for `snake_case` and back.
    pub fn line_of(&self, field: &str) -> usize {
        self.lines.find(field).unwrap_or(self.line)
    }

    /// The fault `message` of `field` in this document.
    pub fn fault(&self, field: &str, message: impl Into<String>) -> Fault {
        Fault { document: self.index, line: self.line_of(field), field: field.to_owned(), message: message.into() }
    }
}

/// Returns the documents of `text` in order, without the empty ones. Each is read when the iterator comes to it: the values
/// of a document take many times the memory of its text, and a file may have hundreds of thousands of documents.
pub fn documents(text: &str) -> impl Iterator<Item = Document> {
    tree::Documents::of(text).filter(|document| !matches!(document.value, Ok(Value::Null)))
}

/// The line of a value and of what is in it. Line 0: unknown.
#[derive(Debug, Clone, Default)]
struct Lines {
    line: usize,
    inner: Inner,
}

#[derive(Debug, Clone, Default)]
enum Inner {
    #[default]
    Scalar,
    List(Vec<Lines>),
    Object(BTreeMap<String, Lines>),
}

impl Lines {
    /// The line of the deepest value on the way to `path`.
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

/// `[0].match` is `0` and `.match`; `["a]b"].c` is `"a]b"` and `.c`.
fn bracketed(path: &str) -> Option<(&str, &str)> {
    let path = path.strip_prefix('[')?;
    let end = if path.starts_with('"') { path.find("\"]")? + 1 } else { path.find(']')? };
    Some((&path[..end], &path[end + 1..]))
}

/// The field that `path` starts with, and the rest of the path. Keys may hold dots: the longest key that fits wins.
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

#[cfg(test)]
mod tests;
