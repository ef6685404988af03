//! ExtensionServices: servers that Envoy asks about requests.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::backend::{LoadBalancerPolicy, UpstreamValidation};
use super::rest::Rest;
use super::route::TimeoutPolicy;
use super::status::DetailedCondition;
use crate::objects::meta::Meta;

/// An ExtensionService. The translation of an HTTPProxy that refers to it reads it.
#[derive(Debug, Clone, PartialEq)]
pub struct ExtensionService {
    /// The metadata.
    pub meta: Meta,
    /// The spec.
    pub spec: ExtensionServiceSpec,
    /// The status. The translation does not read it.
    pub status: ExtensionServiceStatus,
    /// `metadata.resourceVersion`.
    pub version: Arc<str>,
}

/// The spec of an ExtensionService.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct ExtensionServiceSpec {
    /// The Services of its namespace.
    pub services: Vec<ExtensionTarget>,
    /// The verification of the certificates of the Services.
    pub validation: Option<UpstreamValidation>,
    /// `h2`, `h2c`, or `http/1.1`; `h2` if absent.
    pub protocol: Option<String>,
    /// The selection of an endpoint.
    pub load_balancer_policy: Option<LoadBalancerPolicy>,
    /// The time limits.
    pub timeout_policy: Option<TimeoutPolicy>,
    /// The limits of connections and requests.
    pub circuit_breaker_policy: Option<CircuitBreakerPolicy>,
    /// The version of the protocol; `v3` if empty.
    pub protocol_version: String,
    /// The other fields.
    #[serde(flatten)]
    #[cfg_attr(feature = "testing", schemars(skip))]
    pub rest: Rest,
}

/// A Service of the namespace of the ExtensionService.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
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
    #[cfg_attr(feature = "testing", schemars(skip))]
    pub rest: Rest,
}

/// The limits of connections and requests. A limit of 0 is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct CircuitBreakerPolicy {
    /// Connections.
    pub max_connections: i64,
    /// Requests that wait for a connection.
    pub max_pending_requests: i64,
    /// Requests under way.
    pub max_requests: i64,
    /// Retries under way.
    pub max_retries: i64,
    /// Connections to one endpoint.
    pub per_host_max_connections: i64,
    /// The other fields.
    #[serde(flatten)]
    #[cfg_attr(feature = "testing", schemars(skip))]
    pub rest: Rest,
}

/// The status of an ExtensionService.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExtensionServiceStatus {
    /// The conditions.
    pub conditions: Vec<DetailedCondition>,
}
