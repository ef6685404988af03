//! The changes of headers.

use serde::{Deserialize, Serialize};

use super::rest::Rest;

/// Changes of headers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct HeadersPolicy {
    /// The headers that are set to one value.
    pub set: Vec<HeaderSetting>,
    /// The headers that are removed.
    pub remove: Vec<String>,
    /// The other fields.
    #[serde(flatten)]
    #[cfg_attr(feature = "testing", schemars(skip))]
    pub rest: Rest,
}

/// A header and its value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct HeaderSetting {
    /// The name.
    pub name: String,
    /// The value.
    pub value: String,
    /// The other fields.
    #[serde(flatten)]
    #[cfg_attr(feature = "testing", schemars(skip))]
    pub rest: Rest,
}
