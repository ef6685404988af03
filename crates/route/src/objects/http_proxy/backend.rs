//! The policies of HTTPProxies for the endpoints of Services: TLS, load balancing, and health.

use serde::{Deserialize, Serialize};

use super::rest::Rest;

/// The verification of the certificates of a Service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct UpstreamValidation {
    /// The Secret with the certificate authorities: `name` or `namespace/name`.
    pub ca_secret: String,
    /// A name that the certificate must have. Empty if absent.
    pub subject_name: String,
    /// The names of which the certificate must have one.
    pub subject_names: Vec<String>,
    /// The other fields.
    #[serde(flatten)]
    #[cfg_attr(feature = "testing", schemars(skip))]
    pub rest: Rest,
}

/// The selection of an endpoint for a request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct LoadBalancerPolicy {
    /// `RoundRobin`, `WeightedLeastRequest`, `Random`, `Cookie`, or `RequestHash`. Empty if absent.
    pub strategy: String,
    /// The parts of a request that select the endpoint, with `RequestHash`.
    pub request_hash_policies: Vec<RequestHashPolicy>,
    /// The other fields.
    #[serde(flatten)]
    #[cfg_attr(feature = "testing", schemars(skip))]
    pub rest: Rest,
}

/// A part of a request that selects the endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct RequestHashPolicy {
    /// Whether the parts behind it have no effect on a request with this part.
    pub terminal: bool,
    /// A header.
    pub header_hash_options: Option<HeaderHashOptions>,
    /// A query parameter.
    pub query_parameter_hash_options: Option<QueryParameterHashOptions>,
    /// The address of the client.
    #[serde(rename = "hashSourceIP")]
    pub hash_source_ip: bool,
    /// The other fields.
    #[serde(flatten)]
    #[cfg_attr(feature = "testing", schemars(skip))]
    pub rest: Rest,
}

/// A header that selects the endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct HeaderHashOptions {
    /// The name.
    pub header_name: String,
    /// The other fields.
    #[serde(flatten)]
    #[cfg_attr(feature = "testing", schemars(skip))]
    pub rest: Rest,
}

/// A query parameter that selects the endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct QueryParameterHashOptions {
    /// The name.
    pub parameter_name: String,
    /// The other fields.
    #[serde(flatten)]
    #[cfg_attr(feature = "testing", schemars(skip))]
    pub rest: Rest,
}

/// The active health check of the endpoints of a route. A number of 0 is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct HealthCheckPolicy {
    /// The path of the request.
    pub path: String,
    /// The `Host` header of the request. Empty if absent.
    pub host: String,
    /// The time between two checks of an endpoint.
    pub interval_seconds: i64,
    /// The time limit of a check.
    pub timeout_seconds: i64,
    /// The number of failed checks after which a healthy endpoint is unhealthy.
    pub unhealthy_threshold_count: i64,
    /// The number of passed checks after which an unhealthy endpoint is healthy.
    pub healthy_threshold_count: i64,
    /// The statuses of a passed check.
    pub expected_statuses: Vec<StatusRange>,
    /// The other fields.
    #[serde(flatten)]
    #[cfg_attr(feature = "testing", schemars(skip))]
    pub rest: Rest,
}

/// A range of statuses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct StatusRange {
    /// The first status.
    pub start: i64,
    /// The first status behind the range.
    pub end: i64,
    /// The other fields.
    #[serde(flatten)]
    #[cfg_attr(feature = "testing", schemars(skip))]
    pub rest: Rest,
}

/// The time in which a new endpoint receives fewer requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct SlowStartPolicy {
    /// The time.
    pub window: String,
    /// The exponent of the share of the requests: above 1, they increase faster at first. Empty: 1.
    pub aggression: String,
    /// The share of the requests at the beginning, in percent; 10 if absent.
    pub min_weight_percent: Option<i64>,
    /// The other fields.
    #[serde(flatten)]
    #[cfg_attr(feature = "testing", schemars(skip))]
    pub rest: Rest,
}
