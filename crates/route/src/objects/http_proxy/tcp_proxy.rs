//! TCP proxies of HTTPProxies: where the bytes of TLS connections go.

use serde::{Deserialize, Serialize};

use super::backend::LoadBalancerPolicy;
use super::rest::Rest;
use super::route::ProxyService;

/// The destination of the TLS connections of a host, decrypted or not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct TcpProxy {
    /// The Services that receive the connections.
    pub services: Vec<ProxyService>,
    /// The object whose TCP proxy applies instead.
    pub include: Option<TcpInclude>,
    /// The old name of `include`.
    pub includes: Option<TcpInclude>,
    /// The selection of an endpoint for a connection.
    pub load_balancer_policy: Option<LoadBalancerPolicy>,
    /// The active health check of the endpoints.
    pub health_check_policy: Option<TcpHealthCheckPolicy>,
    /// The other fields.
    #[serde(flatten)]
    #[cfg_attr(feature = "testing", schemars(skip))]
    pub rest: Rest,
}

/// The object whose TCP proxy applies.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct TcpInclude {
    /// The name.
    pub name: String,
    /// The namespace. Empty: the namespace of the includer.
    pub namespace: String,
    /// The other fields.
    #[serde(flatten)]
    #[cfg_attr(feature = "testing", schemars(skip))]
    pub rest: Rest,
}

/// The active health check of endpoints by connections. A number of 0 is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct TcpHealthCheckPolicy {
    /// The time between two checks of an endpoint.
    pub interval_seconds: i64,
    /// The time limit of a check.
    pub timeout_seconds: i64,
    /// The number of failed checks after which a healthy endpoint is unhealthy.
    pub unhealthy_threshold_count: i64,
    /// The number of passed checks after which an unhealthy endpoint is healthy.
    pub healthy_threshold_count: i64,
    /// The other fields.
    #[serde(flatten)]
    #[cfg_attr(feature = "testing", schemars(skip))]
    pub rest: Rest,
}
