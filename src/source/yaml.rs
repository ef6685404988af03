//! Parses YAML and JSON like kubectl, with the line of every field, for directories of Kubernetes objects and of Envoy
//! resources.
//!
//! Plain scalars have the meaning of YAML 1.1 (`yes` is a boolean, `0644` is octal), as for kubectl and Envoy. A broken
//! document does not affect the others. The expansion of aliases and merge keys is limited.

mod document;
#[cfg(test)]
mod fuzz;
mod scalar;
mod tree;

use serde_json::Value;

pub use document::{Document, DocumentFault};

/// Returns the documents of `text` in order, without the empty ones. Each is parsed when the iterator reaches it. The
/// values of a document take many times the memory of its text, and a file may have hundreds of thousands of documents.
pub fn documents(text: &str) -> impl Iterator<Item = Document> {
    tree::Documents::of(text).filter(|document| !matches!(document.value, Ok(Value::Null)))
}

#[cfg(test)]
mod tests;
