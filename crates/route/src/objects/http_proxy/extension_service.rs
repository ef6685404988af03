//! ExtensionServices: servers that Envoy asks about requests.

use serde::{Deserialize, Serialize};

use super::{Rest, TimeoutPolicy};
use crate::objects::Meta;

/// An ExtensionService. The translation of an HTTPProxy that refers to it reads it.
#[derive(Debug, Clone, PartialEq)]
pub struct ExtensionService {
    /// The metadata.
    pub meta: Meta,
    /// The spec.
    pub spec: ExtensionServiceSpec,
}

/// The spec of an ExtensionService.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExtensionServiceSpec {
    /// The Services of its namespace.
    pub services: Vec<ExtensionTarget>,
    /// `h2` or `h2c`; `h2` if absent.
    pub protocol: Option<String>,
    /// The time limits.
    pub timeout_policy: Option<TimeoutPolicy>,
    /// The version of the protocol; `v3` if empty.
    pub protocol_version: String,
    /// The other fields.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A Service of the namespace of the ExtensionService.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExtensionTarget {
    /// The name.
    pub name: String,
    /// The port.
    pub port: i64,
    /// The share of the calls relative to the other weights.
    pub weight: Option<i64>,
    /// The other fields.
    #[serde(flatten)]
    pub rest: Rest,
}
