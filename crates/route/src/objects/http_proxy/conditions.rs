//! The conditions of routes and includes on requests.

use serde::{Deserialize, Serialize};

use super::rest::Rest;

/// A condition on requests. Empty texts are absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct MatchCondition {
    /// A string prefix of the path.
    pub prefix: String,
    /// The complete path.
    pub exact: String,
    /// A regular expression that the complete path matches.
    pub regex: String,
    /// The condition on a header.
    pub header: Option<ValueCondition>,
    /// The condition on a query parameter.
    pub query_parameter: Option<ValueCondition>,
    /// The other fields.
    #[serde(flatten)]
    #[cfg_attr(feature = "testing", schemars(skip))]
    pub rest: Rest,
}

/// A condition on a header or a query parameter. Empty texts are absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct ValueCondition {
    /// The name.
    pub name: String,
    /// Whether the name must be present.
    pub present: bool,
    /// Whether a header must be absent.
    pub notpresent: bool,
    /// A part of the value.
    pub contains: String,
    /// A text that is no part of the value of a header.
    pub notcontains: String,
    /// The value.
    pub exact: String,
    /// A text that is not the value of a header.
    pub notexact: String,
    /// A regular expression that the complete value matches.
    pub regex: String,
    /// The start of the value of a query parameter.
    pub prefix: String,
    /// The end of the value of a query parameter.
    pub suffix: String,
    /// Whether the case of the value has no effect.
    pub ignore_case: bool,
    /// Whether a request without the header is treated like one with an empty value, with `notcontains` and `notexact`.
    pub treat_missing_as_empty: bool,
    /// The other fields.
    #[serde(flatten)]
    #[cfg_attr(feature = "testing", schemars(skip))]
    pub rest: Rest,
}
