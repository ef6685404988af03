//! The feature of HTTPPolicies for injected faults.

use serde::{Deserialize, Serialize};

/// Faults that are injected into a share of the requests. A request that has both is delayed first. Without both, none is
/// injected.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct FaultsSpec {
    /// Delays requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<DelaySpec>,
    /// Answers requests instead of the backend.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub abort: Option<AbortSpec>,
}

/// A delay of requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DelaySpec {
    /// The time, from `1ms` to `30s`, such as `500ms`.
    #[cfg_attr(feature = "testing", schemars(length(min = 2, max = 16)))]
    pub duration: String,
    /// The share of the requests in percent. All if not set.
    #[cfg_attr(feature = "testing", schemars(range(max = 100)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percent: Option<u32>,
}

/// An answer in the place of that of the backend.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AbortSpec {
    /// The status, from 400 to 599. Calls of gRPC have the status of gRPC for it, such as 14 for 503.
    #[cfg_attr(feature = "testing", schemars(range(min = 400, max = 599)))]
    pub status: u16,
    /// The share of the requests in percent. All if not set.
    #[cfg_attr(feature = "testing", schemars(range(max = 100)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percent: Option<u32>,
}
