//! The maxima of what an object of a tenant may ask of Envoy.

/// The maxima for the objects of tenants. A larger value counts as the maximum, or the object is not valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tenants {
    /// The largest value of a circuit breaker of a Service. Each connection needs a socket of Envoy.
    pub max_circuit_breaker: u32,
    /// The number of open connections of a listener of a Gateway that forwards TLS or TCP.
    pub max_connections_per_listener: u32,
    /// The largest number of retries of a request.
    pub max_retries: u32,
    /// The largest part of a request that Envoy holds in memory for an authorization server, in bytes.
    pub max_buffered_bytes: u32,
    /// The largest body of JSON, of a request or a response, that Envoy converts for the gRPC services of an HTTPPolicy, in bytes. 0: none.
    pub max_grpc_json_bytes: u32,
    /// Whether a BackendPolicy may have active health checks. Envoy performs them on the thread that also reads its configuration, and
    /// confirms a changed cluster only after the first check.
    pub active_health_checks: bool,
    /// Whether HTTPProxies may send descriptors to the service that counts requests. All tenants share its limits: a descriptor of one may
    /// be that of another.
    pub global_rate_limits: bool,
    /// Whether HTTPProxies may switch off the external authorization of the settings for their routes.
    pub disable_authorization: bool,
    /// The size of the configuration that the objects of one namespace can cause, in bytes.
    pub max_configuration_per_namespace: u64,
}

impl Default for Tenants {
    fn default() -> Self {
        Self {
            max_circuit_breaker: 10_000,
            max_connections_per_listener: 10_000,
            max_retries: 10,
            max_buffered_bytes: 1 << 20,
            max_grpc_json_bytes: 0,
            active_health_checks: false,
            global_rate_limits: false,
            disable_authorization: false,
            max_configuration_per_namespace: 8 << 20,
        }
    }
}
