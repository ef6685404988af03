//! The feature of HTTPPolicies for limits of the request rate that a service counts for all Envoys.

use serde::{Deserialize, Serialize};

/// A limit of the request rate that the service of the setting `rateLimit.endpoint` counts for all Envoys together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GlobalRateLimitSpec {
    /// The descriptors of a request, in addition to those of the settings. Each begins with the entry `namespace`, whose value is the namespace
    /// of the policy. The service counts equal descriptors together, and a request is answered 429 if one of them is over its limit.
    #[cfg_attr(feature = "testing", schemars(length(min = 1, max = 16)))]
    pub descriptors: Vec<DescriptorSpec>,
}

/// A descriptor.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DescriptorSpec {
    /// The entries. If a request has no value for one of them, the descriptor is not sent.
    #[cfg_attr(feature = "testing", schemars(length(min = 1, max = 8)))]
    pub entries: Vec<DescriptorEntrySpec>,
}

/// An entry of a descriptor.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DescriptorEntrySpec {
    /// Where the value comes from: `Value`, `Header`, or `ClientAddress`, whose key is `remote_address`.
    pub r#type: DescriptorEntryType,
    /// The key, for `Value` and `Header`.
    #[cfg_attr(feature = "testing", schemars(length(min = 1, max = 253), regex(pattern = r"^[!-$&-~]+$")))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The value, for `Value`.
    #[cfg_attr(feature = "testing", schemars(length(min = 1, max = 253), regex(pattern = r"^[!-$&-~]+$")))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The header of the request with the value, for `Header`.
    #[cfg_attr(feature = "testing", schemars(length(min = 1, max = 253)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
}

/// The origin of the value of an entry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[expect(missing_docs, reason = "the variants have the names of the API")]
pub enum DescriptorEntryType {
    #[default]
    Value,
    Header,
    ClientAddress,
}
