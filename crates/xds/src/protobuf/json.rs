//! Proto3 JSON, in and out, for messages of any type in the pool.

mod print;
mod read;
mod scalar;

use std::fmt;

pub use print::{to_json, to_json_redacted};
pub use read::{from_json, name_of};

/// A message, encoded, with its type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encoded {
    /// The type URL as the pool spells it.
    pub type_url: &'static str,
    /// The message in its canonical encoding.
    pub message: Vec<u8>,
    /// Its [`name_of`].
    pub name: Option<String>,
}

impl Encoded {
    /// The message's full name, e.g. `envoy.config.cluster.v3.Cluster`.
    pub fn full_name(&self) -> &'static str {
        self.type_url.rsplit('/').next().unwrap_or(self.type_url)
    }
}

/// JSON that is not the message it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonError {
    /// The field, as it is written: `virtual_hosts[0].routes[1].match.prefix`, `options["a.b"].x`; empty for the whole.
    pub path: String,
    /// What is wrong: lower case, no full stop.
    pub message: String,
}

impl std::error::Error for JsonError {}

/// `virtual_hosts[0].domains: expected a list, found "a.test"`
impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.path {
            "" => f.write_str(&self.message),
            path => write!(f, "{path}: {}", self.message),
        }
    }
}

impl JsonError {
    fn new(message: impl Into<String>) -> Self {
        Self { path: String::new(), message: message.into() }
    }

    /// The same error, seen from outside of the field `name`.
    fn in_field(self, name: &str) -> Self {
        self.below(name.to_owned())
    }

    /// The same error, seen from outside of the item `index` of a list.
    fn in_item(self, index: usize) -> Self {
        self.below(format!("[{index}]"))
    }

    /// The same error, seen from outside of the entry `key` of a map.
    fn in_entry(self, key: &str) -> Self {
        self.below(format!("[{key:?}]"))
    }

    fn below(mut self, outer: String) -> Self {
        let dot = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path = format!("{outer}{dot}{}", self.path);
        self
    }
}

#[cfg(test)]
mod tests;
