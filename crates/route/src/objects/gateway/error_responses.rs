//! The feature of HTTPPolicies for answers in the place of error responses.

use std::fmt;

use serde::{Deserialize, Serialize};

/// An answer in the place of the error responses with some statuses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ErrorResponseSpec {
    /// The statuses of the responses that are replaced: codes from 400 to 599, such as 404, and ranges of them, such as `500-599`. If several
    /// entries name a status, the first one applies.
    #[cfg_attr(
        feature = "testing",
        schemars(
            length(min = 1, max = 32),
            extend("items" = serde_json::json!({
                "x-kubernetes-int-or-string": true, "minimum": 400, "maximum": 599, "pattern": "^[45][0-9]{2}(-[45][0-9]{2})?$"
            }))
        )
    )]
    pub statuses: Vec<StatusesSpec>,
    /// The status of the answer, from 400 to 599. The status of the replaced response if not set.
    #[cfg_attr(feature = "testing", schemars(range(min = 400, max = 599)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The header `content-type` of the answer, such as `application/json`. `text/plain; charset=utf-8` if not set.
    #[cfg_attr(feature = "testing", schemars(length(min = 1, max = 256)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// The body of the answer, a fixed text of at most 4 KiB. All bodies of a policy have at most 16 KiB.
    #[cfg_attr(feature = "testing", schemars(length(max = 4096)))]
    pub body: String,
}

/// A status, or a range of statuses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum StatusesSpec {
    /// `404`
    Code(u16),
    /// `500-599`
    Text(String),
}

impl fmt::Display for StatusesSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => code.fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}
