//! Parses YAML and JSON into trees with the location of every value, for settings, Kubernetes objects, and Envoy resources.
//!
//! A broken document does not affect the others. The expansion of aliases and merge keys is limited.

mod document;
mod node;
mod scalar;
mod tree;
mod write;

pub use document::{Document, DocumentFault};
pub use node::{Field, Location, Node, NodeContent, Wrong};
pub use write::written;

use scalar::Scalars;
use tree::Documents;

/// Returns the documents of `text` in order, without the empty ones, like kubectl: plain scalars have the meaning of YAML
/// 1.1 (`yes` is a boolean, `0644` is octal). Each document is parsed when the iterator reaches it. The values of a document
/// take many times the memory of its text, and a file may have hundreds of thousands of documents.
pub fn documents(text: &str) -> impl Iterator<Item = Document> {
    Documents::new(text, Scalars::Yaml11).filter(|document| !document.is_empty())
}

/// Parses the single document in `text`, or returns an empty value. Scalars stay text, and the reader defines their meaning:
/// `1.2` can be a version, and `off` a word.
pub fn settings(text: &str) -> Result<Node, DocumentFault> {
    let mut documents = Documents::new(text, Scalars::Text);
    let first = documents.next().map_or(Ok(Node::default()), |document| document.root)?;
    match documents.next() {
        None => Ok(first),
        Some(Document { root: Err(fault), .. }) => Err(fault),
        Some(second) => Err(second.fault("", "a second document begins, and settings have only one")),
    }
}

#[cfg(test)]
mod tests;
