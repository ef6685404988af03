//! BackendPolicies: the health, load balancing, and connections of a Service. `make crds` writes the
//! CustomResourceDefinition from these types.
//!
//! A feature that cannot be decoded is left out, and the other features apply.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::gateway::{Lenient, PolicyStatus};
use super::meta::Meta;

/// A BackendPolicy.
#[derive(Debug, Clone, PartialEq)]
pub struct BackendPolicy {
    /// The metadata.
    pub meta: Meta,
    /// The spec.
    pub spec: BackendPolicySpec,
    /// The status. The translation does not read it.
    pub status: PolicyStatus,
    /// `metadata.resourceVersion`.
    pub version: Arc<str>,
}

/// The targets of the policy, and its features. A port inherits a feature that is not set from the policy of its whole
/// Service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct BackendPolicySpec {
    /// The Services that the policy applies to, in its own namespace, whichever route leads there.
    #[cfg_attr(feature = "testing", schemars(length(min = 1, max = 16)))]
    pub target_refs: Vec<BackendPolicyTarget>,
    /// The ejection of endpoints whose responses fail. An ejected endpoint receives no requests for some time. Without a detector,
    /// `consecutive5xx` is 5.
    #[cfg_attr(feature = "testing", schemars(with = "Option<OutlierDetectionSpec>"))]
    pub outlier_detection: Option<Lenient<OutlierDetectionSpec>>,
    /// The active health check: every Envoy sends it to every endpoint, and endpoints that fail it receive no requests. It needs the setting
    /// `tenants.activeHealthChecks`. Not for Services of type ExternalName.
    #[cfg_attr(feature = "testing", schemars(with = "Option<HealthCheckSpec>"))]
    pub health_check: Option<Lenient<HealthCheckSpec>>,
    /// The percentage of healthy endpoints below which unhealthy and terminating endpoints receive requests too. 0, the
    /// default, disables this.
    #[cfg_attr(feature = "testing", schemars(with = "Option<u32>", range(max = 100)))]
    pub panic_threshold: Option<Lenient<u32>>,
    /// The selection of an endpoint for a request. `RoundRobin` if not set.
    #[cfg_attr(feature = "testing", schemars(with = "Option<LoadBalancingSpec>"))]
    pub load_balancing: Option<Lenient<LoadBalancingSpec>>,
    /// The probes of silent connections.
    #[cfg_attr(feature = "testing", schemars(with = "Option<TcpKeepaliveSpec>"))]
    pub tcp_keepalive: Option<Lenient<TcpKeepaliveSpec>>,
    /// The version of the PROXY protocol that the endpoints expect. All connections begin with its header.
    #[cfg_attr(feature = "testing", schemars(with = "Option<ProxyProtocolVersion>"))]
    pub proxy_protocol: Option<Lenient<ProxyProtocolVersion>>,
    /// HTTP/3 to the endpoints: requests are sent over QUIC, to the UDP port with the number of the TCP port. Only for routes that reach
    /// the endpoints over TLS, and verify one DNS name or have a `serverName`. Not with `proxyProtocol` or `healthCheck.grpc`.
    #[cfg_attr(feature = "testing", schemars(with = "Option<EndpointHttp3Spec>"))]
    pub http3: Option<Lenient<EndpointHttp3Spec>>,
    /// The time after which an idle HTTP connection is closed, from 1s to 24h, instead of `timeouts.upstreamIdle` of the
    /// settings.
    #[cfg_attr(feature = "testing", schemars(with = "Option<String>", length(min = 2, max = 16)))]
    pub idle_timeout: Option<Lenient<String>>,
    /// The age at which an HTTP connection takes no further requests and is closed, from 1s to 168h. No limit if not set.
    #[cfg_attr(feature = "testing", schemars(with = "Option<String>", length(min = 2, max = 16)))]
    pub max_connection_age: Option<Lenient<String>>,
    /// The limit of concurrent retries as a share of the active requests, instead of the number in `upstream.circuitBreakers.maxRetries` of
    /// the settings or the annotation `max-retries`.
    #[cfg_attr(feature = "testing", schemars(with = "Option<RetryBudgetSpec>"))]
    pub retry_budget: Option<Lenient<RetryBudgetSpec>>,
    /// The preference of endpoints in the zone of an Envoy for its requests, instead of `spec.trafficDistribution` of the Service. Not for `RingHash` and `Maglev`.
    #[cfg_attr(feature = "testing", schemars(with = "Option<ZonesSpec>"))]
    pub zones: Option<Lenient<ZonesSpec>>,
    /// Features of other versions.
    #[serde(flatten)]
    #[cfg_attr(feature = "testing", schemars(skip))]
    pub unknown: BTreeMap<String, Value>,
}

/// A Service, or one of its ports.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct BackendPolicyTarget {
    /// The API group: empty, the core group.
    #[cfg_attr(feature = "testing", schemars(extend("enum" = [""])))]
    pub group: String,
    /// The kind.
    #[cfg_attr(feature = "testing", schemars(extend("enum" = ["Service"])))]
    pub kind: String,
    /// The name.
    #[cfg_attr(feature = "testing", schemars(length(min = 1, max = 253)))]
    pub name: String,
    /// The name or the number of a TCP port. All ports if not set.
    #[cfg_attr(feature = "testing", schemars(length(min = 1, max = 63)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub section_name: Option<Arc<str>>,
}

/// The ejection of endpoints whose responses fail. Without a detector, `consecutive5xx` is 5.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct OutlierDetectionSpec {
    /// The number of consecutive responses with a status of 500 or higher that ejects an endpoint.
    #[cfg_attr(feature = "testing", schemars(range(min = 1, max = 1000)))]
    #[serde(rename = "consecutive5xx")]
    pub consecutive_5xx: Option<u32>,
    /// The number of consecutive responses with the status 502, 503, or 504 that ejects an endpoint.
    #[cfg_attr(feature = "testing", schemars(range(min = 1, max = 1000)))]
    pub consecutive_gateway_errors: Option<u32>,
    /// The number of consecutive failures without a response, such as refused connections and timeouts, that ejects an
    /// endpoint. With this field, the other detectors do not count such failures.
    #[cfg_attr(feature = "testing", schemars(range(min = 1, max = 1000)))]
    pub consecutive_local_origin_failures: Option<u32>,
    /// Ejects endpoints whose success rate is far below the mean.
    pub success_rate: Option<SuccessRateSpec>,
    /// The interval of the analysis, from 1s to 1h; 10s if not set.
    #[cfg_attr(feature = "testing", schemars(length(min = 2, max = 16)))]
    pub interval: Option<String>,
    /// The time of the first ejection, from 1s to 1h; 30s if not set. Each further ejection takes longer by this time.
    #[cfg_attr(feature = "testing", schemars(length(min = 2, max = 16)))]
    pub base_ejection_time: Option<String>,
    /// The maximum time of an ejection, from 1s to 24h; 5m if not set, or `baseEjectionTime` if that is longer.
    #[cfg_attr(feature = "testing", schemars(length(min = 2, max = 16)))]
    pub max_ejection_time: Option<String>,
    /// The maximum percentage of ejected endpoints; 50 if not set. One endpoint can always be ejected.
    #[cfg_attr(feature = "testing", schemars(range(max = 100)))]
    pub max_ejection_percent: Option<u32>,
}

/// The detector of endpoints whose success rate is far below the mean.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct SuccessRateSpec {
    /// The number of endpoints with `requestVolume` requests that the comparison needs; 5 if not set.
    #[cfg_attr(feature = "testing", schemars(range(min = 1, max = 1000)))]
    pub minimum_hosts: Option<u32>,
    /// The number of requests in an interval that an endpoint needs to be compared; 100 if not set.
    #[cfg_attr(feature = "testing", schemars(range(min = 1, max = 1_000_000)))]
    pub request_volume: Option<u32>,
    /// The distance from the mean that ejects an endpoint, in thousandths of the standard deviation; 1900 if not set.
    #[cfg_attr(feature = "testing", schemars(range(min = 100, max = 10_000)))]
    pub stdev_factor: Option<u32>,
}

/// The active health check: one of `http`, `grpc`, and `tcp`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct HealthCheckSpec {
    /// A request over HTTP.
    pub http: Option<HttpProbeSpec>,
    /// The gRPC health protocol.
    pub grpc: Option<GrpcProbeSpec>,
    /// A TCP connection.
    pub tcp: Option<TcpProbeSpec>,
    /// The port of the endpoints that receives the check; the port of the requests if not set.
    #[cfg_attr(feature = "testing", schemars(range(min = 1)))]
    pub port: Option<u16>,
    /// The time between two checks of an endpoint by one Envoy, from 1s to 1h; 10s if not set.
    #[cfg_attr(feature = "testing", schemars(length(min = 2, max = 16)))]
    pub interval: Option<String>,
    /// The time limit of a check, from 100ms to 5s; the interval if not set, but at most 5s.
    #[cfg_attr(feature = "testing", schemars(length(min = 2, max = 16)))]
    pub timeout: Option<String>,
    /// The maximum random addition to the interval, in percent; 10 if not set. It spreads the checks over time.
    #[cfg_attr(feature = "testing", schemars(range(max = 100)))]
    pub jitter_percent: Option<u32>,
    /// The number of passed checks after which an unhealthy endpoint receives requests again; 2 if not set.
    #[cfg_attr(feature = "testing", schemars(range(min = 1, max = 100)))]
    pub healthy_threshold: Option<u32>,
    /// The number of failed checks after which an endpoint receives no requests; 3 if not set.
    #[cfg_attr(feature = "testing", schemars(range(min = 1, max = 100)))]
    pub unhealthy_threshold: Option<u32>,
}

/// A health check over HTTP.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpProbeSpec {
    /// The path, with a query.
    #[cfg_attr(feature = "testing", schemars(length(max = 1024), regex(pattern = r"^/[!-~]*$")))]
    pub path: String,
    /// The `Host` header; `<service>.<namespace>` if not set.
    #[cfg_attr(
        feature = "testing",
        schemars(length(max = 253), regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?(:[0-9]{1,5})?$"))
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The method: `GET`, the default, or `HEAD`.
    #[cfg_attr(feature = "testing", schemars(extend("enum" = ["GET", "HEAD"])))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The statuses of a passed check, such as `200` and `200-299`, the default.
    #[cfg_attr(
        feature = "testing",
        schemars(length(max = 16), inner(regex(pattern = r"^[1-5][0-9]{2}(-[1-5][0-9]{2})?$")))
    )]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expected_statuses: Vec<String>,
}

/// A health check by the gRPC health protocol.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GrpcProbeSpec {
    /// The name of the gRPC service; the whole server if not set.
    #[cfg_attr(feature = "testing", schemars(length(max = 253)))]
    #[serde(default)]
    pub service: String,
}

/// A health check by a TCP connection.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TcpProbeSpec {}

/// The selection of an endpoint for a request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LoadBalancingSpec {
    /// The algorithm.
    #[serde(default)]
    pub algorithm: LoadBalancingAlgorithm,
    /// The time in which a new endpoint receives fewer requests. For `RoundRobin` and `LeastRequest`.
    pub slow_start: Option<SlowStartSpec>,
    /// The parts of a request that select the endpoint, for `RingHash` and `Maglev`. The first part that a request has
    /// decides.
    #[cfg_attr(feature = "testing", schemars(length(max = 4)))]
    #[serde(default)]
    pub hash_on: Vec<HashOnSpec>,
}

/// An algorithm of load balancing. `RoundRobin` is the default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[expect(missing_docs, reason = "the variants have the names of the API")]
pub enum LoadBalancingAlgorithm {
    #[default]
    RoundRobin,
    LeastRequest,
    Random,
    RingHash,
    Maglev,
}

/// The time in which a new endpoint receives fewer requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SlowStartSpec {
    /// The time, from 1s to 1h.
    #[cfg_attr(feature = "testing", schemars(length(min = 2, max = 16)))]
    pub window: String,
    /// The share of the usual requests at the beginning, in percent; 10 if not set.
    #[cfg_attr(feature = "testing", schemars(range(min = 1, max = 100)))]
    pub min_weight_percent: Option<u32>,
}

/// A part of a request that is hashed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HashOnSpec {
    /// The part.
    pub r#type: HashOnType,
    /// The name of the header, cookie, or query parameter.
    #[cfg_attr(feature = "testing", schemars(length(min = 1, max = 253)))]
    pub name: Option<String>,
    /// The path of a cookie that Envoy sets; `/` if not set.
    #[cfg_attr(feature = "testing", schemars(length(max = 253), regex(pattern = r"^/[!-:<-~]*$")))]
    pub path: Option<String>,
    /// The lifetime of the cookie that Envoy sets for requests without it, up to 8760h; `0s` for the session of the browser. Envoy
    /// sets no cookie if this field is not set.
    #[cfg_attr(feature = "testing", schemars(length(min = 2, max = 16)))]
    pub lifetime: Option<String>,
}

/// A kind of part of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[expect(missing_docs, reason = "the variants have the names of the API")]
pub enum HashOnType {
    Header,
    Cookie,
    QueryParameter,
    #[default]
    SourceAddress,
    Path,
}

/// The probes of silent connections.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct TcpKeepaliveSpec {
    /// The number of probes without an answer after which the connection is closed; 6 if not set.
    #[cfg_attr(feature = "testing", schemars(range(min = 1, max = 20)))]
    pub probes: Option<u32>,
    /// The silence before the first probe, from 1s to 2h; 30s if not set.
    #[cfg_attr(feature = "testing", schemars(length(min = 2, max = 16)))]
    pub idle_time: Option<String>,
    /// The time between two probes, from 1s to 10m; 5s if not set.
    #[cfg_attr(feature = "testing", schemars(length(min = 2, max = 16)))]
    pub interval: Option<String>,
}

/// A version of the PROXY protocol.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[expect(missing_docs, reason = "the variants have the names of the API")]
pub enum ProxyProtocolVersion {
    V1,
    #[default]
    V2,
}

/// HTTP/3 to the endpoints.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct EndpointHttp3Spec {
    /// Whether requests are sent over HTTP/3; `true` if not set. `false` for a port disables it if the policy of the Service enables it.
    pub enabled: Option<bool>,
    /// The DNS name in the certificates of the endpoints, for routes that do not verify a single DNS name. Envoy requires a name over HTTP/3, and
    /// sends it as the server name (SNI).
    #[cfg_attr(
        feature = "testing",
        schemars(
            length(max = 253),
            regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
        )
    )]
    pub server_name: Option<String>,
}

/// The limit of concurrent retries.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct RetryBudgetSpec {
    /// The percentage of the active requests that may be retries; 20 if not set.
    #[cfg_attr(feature = "testing", schemars(range(min = 1, max = 100)))]
    pub percent: Option<u32>,
    /// The number of concurrent retries that is always allowed; 3 if not set.
    #[cfg_attr(feature = "testing", schemars(range(max = 1000)))]
    pub min_concurrency: Option<u32>,
}

/// The preference of endpoints by their zone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ZonesSpec {
    /// The preferred zones.
    pub prefer: PreferredZones,
    /// The number of healthy endpoints in the zone of an Envoy below which the endpoints of all zones receive its requests; 1 if not
    /// set. For `Local`.
    #[cfg_attr(feature = "testing", schemars(range(min = 1, max = 1000)))]
    pub min_local_endpoints: Option<u32>,
}

/// The preferred zones: that of the Envoy, or none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[expect(missing_docs, reason = "the variants have the names of the API")]
pub enum PreferredZones {
    #[default]
    Local,
    Any,
}
