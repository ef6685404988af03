//! Proto3 JSON, in and out, for messages of any type in the pool.

mod print;
mod read;
mod scalar;

use std::fmt;

pub use print::{to_json, to_json_redacted};
pub use read::{from_json, name_of};

/// An encoded message and its type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedMessage {
    /// The type URL in the pool's spelling.
    pub type_url: &'static str,
    /// The message in its canonical encoding.
    pub message: Vec<u8>,
    /// The resource name; see [`name_of`].
    pub name: Option<String>,
}

impl EncodedMessage {
    /// The message's full name, e.g. `envoy.config.cluster.v3.Cluster`.
    pub fn full_name(&self) -> &'static str {
        self.type_url.rsplit('/').next().unwrap_or(self.type_url)
    }
}

/// An error in the JSON form of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonError {
    /// The path of the field, as written: `virtual_hosts[0].routes[1].match.prefix`, `options["a.b"].x`. Empty for the
    /// root.
    pub path: String,
    /// The message: lower case, no full stop.
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

    /// Prepends the field `name` to the path.
    fn in_field(self, name: &str) -> Self {
        self.below(name.to_owned())
    }

    /// Prepends the list index `index` to the path.
    fn in_item(self, index: usize) -> Self {
        self.below(format!("[{index}]"))
    }

    /// Prepends the map key `key` to the path.
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
