//! The documents of a file, and their faults.

use std::fmt;

use serde_json::Value;

use super::node::{Location, Node, NodeContent};

/// One document of a file.
#[derive(Debug, Clone)]
pub struct Document {
    /// The index in the file, from 1. Empty documents count.
    pub index: usize,
    /// The first line, from 1.
    pub line: usize,
    /// The content, or the fault.
    pub root: Result<Node, DocumentFault>,
    /// With a fault that is only a key given twice: the content as kubectl reads it, with the last value of the key.
    pub lenient: Option<Node>,
}

/// A fault of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentFault {
    /// The index of the document in the file, from 1. 0 means that the fault concerns the whole file.
    pub document: usize,
    /// The location.
    pub place: Location,
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
        write!(f, "line {}: ", self.place.line)?;
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        f.write_str(&self.message)
    }
}

impl Document {
    /// Returns whether the document has no content.
    pub fn is_empty(&self) -> bool {
        self.root.as_ref().is_ok_and(|root| root.content == NodeContent::Null)
    }

    /// Returns the content as JSON, or the fault.
    pub fn value(&self) -> Result<Value, &DocumentFault> {
        self.root.as_ref().map(Node::to_json)
    }

    /// Returns the location of `field`, a path such as `spec.rules[0].http` or `options["a.b/c"].x`. If the document lacks
    /// the field, it returns the location of the nearest enclosing field. `lowerCamelCase` and `snake_case` are
    /// interchangeable.
    fn place(&self, field: &str) -> Location {
        let place = self.root.as_ref().map(|root| root.find(field)).unwrap_or_default();
        if place.line > 0 { place } else { Location { line: self.line, column: 1 } }
    }

    /// Returns the line of `field`, or of the nearest enclosing field.
    pub fn line_of(&self, field: &str) -> usize {
        self.place(field).line
    }

    /// Creates the fault `message` of `field` in this document.
    pub fn fault(&self, field: &str, message: impl Into<String>) -> DocumentFault {
        DocumentFault {
            document: self.index,
            place: self.place(field),
            field: field.to_owned(),
            message: message.into(),
        }
    }
}
