//! Keys of Envoy's connections to backends, and of Envoy itself.

use super::*;

/// In the order of the reference.
pub const UPSTREAM: &[SettingsKey] = &[
    key!(
        "upstream.dnsLookupFamily",
        Word<DnsLookupFamily>,
        route.upstream.dns_lookup_family,
        "The address family of external names."
    ),
    key!(
        "upstream.maxRequestsPerConnection",
        Maybe<Positive>,
        route.upstream.max_requests_per_connection,
        "The number of requests on one connection to a backend, after which it is closed. No limit if not set."
    ),
    key!(
        "upstream.bufferLimit",
        Buffer,
        route.upstream.buffer_limit_bytes,
        "The size of the buffer for each connection to a backend."
    ),
    key!(
        "upstream.circuitBreakers.maxConnections",
        Maybe<Positive>,
        route.upstream.circuit_breakers.max_connections,
        "The maximum number of connections of one Envoy to one Service port, unless an annotation of the Service \
         overrides it. 1024 if not set."
    ),
    key!(
        "upstream.circuitBreakers.maxPendingRequests",
        Maybe<Positive>,
        route.upstream.circuit_breakers.max_pending_requests,
        "The maximum number of requests that wait for a connection, with the same override. 1024 if not set."
    ),
    key!(
        "upstream.circuitBreakers.maxRequests",
        Maybe<Positive>,
        route.upstream.circuit_breakers.max_requests,
        "The maximum number of active requests, with the same override. 1024 if not set."
    ),
    key!(
        "upstream.circuitBreakers.maxRetries",
        Maybe<Count>,
        route.upstream.circuit_breakers.max_retries,
        "The maximum number of active retries, with the same override. 3 if not set."
    ),
    key!(
        "upstream.circuitBreakers.perHostMaxConnections",
        Maybe<Positive>,
        route.upstream.circuit_breakers.per_host_max_connections,
        "The maximum number of connections of one Envoy to one endpoint, with the same override. No limit if not \
         set."
    ),
    key!(
        "upstream.tls.minimumVersion",
        Version,
        route.upstream.tls.minimum,
        "The lowest TLS version of connections to backends."
    ),
    key!(
        "upstream.tls.maximumVersion",
        Version,
        route.upstream.tls.maximum,
        "The highest TLS version of connections to backends."
    ),
    key!(
        "upstream.tls.cipherSuites",
        List<CipherSuite>,
        route.upstream.tls.cipher_suites,
        "The cipher suites of TLS 1.2 for connections to backends. Envoy's default if the list is empty."
    ),
    key!(
        "upstream.tls.curves",
        List<Curve>,
        route.upstream.tls.curves,
        "The curves and groups of the key exchange with backends. Envoy's default if the list is empty."
    ),
    key!(
        "upstream.clientCertificate",
        Maybe<ObjectName>,
        route.upstream.client_certificate,
        "The Secret with the client certificate that Envoy presents to backends with TLS (mTLS)."
    ),
    key!(
        "tenants.maxCircuitBreaker",
        Positive,
        route.tenants.max_circuit_breaker,
        "The largest value that annotations of a Service can set for a circuit breaker."
    ),
    key!(
        "tenants.maxConnectionsPerListener",
        Positive,
        route.tenants.max_connections_per_listener,
        "The maximum number of open connections of a listener of a Gateway that forwards TLS or TCP, unless \
         `listeners.maxConnections` is set, and of a host of an HTTPProxy with `tcpproxy`."
    ),
    key!(
        "tenants.maxRetries",
        Count,
        route.tenants.max_retries,
        "The largest number of retries that an Ingress, a route, or an HTTPPolicy can set for requests."
    ),
    key!(
        "tenants.maxBufferedBytes",
        Body,
        route.tenants.max_buffered_bytes,
        "The largest part of a request body that Envoy holds in memory for an HTTPPolicy, for each request. A policy that sends a larger \
         part to its authorization server is not valid. A larger `requestBuffering` is reduced to it."
    ),
    key!(
        "tenants.maxGrpcJsonBytes",
        JsonBody,
        route.tenants.max_grpc_json_bytes,
        "The largest body of JSON that Envoy converts for the gRPC services of an HTTPPolicy (`grpcJson`), of a request or a response. \
         `0`: HTTPPolicies cannot have `grpcJson`. A body of 64 KiB takes a thread of Envoy up to 12 ms."
    ),
    key!(
        "tenants.activeHealthChecks",
        Bool,
        route.tenants.active_health_checks,
        "Allows active health checks in BackendPolicies. Set it only if the authors of all namespaces are trusted: the checks of 10,000 \
         endpoints keep the main thread of an Envoy busy for half of the time, and each change of a check can delay the route changes of \
         all namespaces by 5 s. Outlier detection needs no permission."
    ),
    key!(
        "tenants.globalRateLimits",
        Bool,
        route.tenants.global_rate_limits,
        "Allows HTTPProxies and HTTPPolicies to send descriptors to the service of `rateLimit.endpoint`. Set it only if the authors of all \
         namespaces are trusted: the service counts equal descriptors of HTTPProxies together, so one tenant can use up the limit of another. \
         Those of HTTPPolicies begin with their namespace."
    ),
    key!(
        "tenants.disableAuthorization",
        Bool,
        route.tenants.disable_authorization,
        "Allows HTTPProxies to switch off `externalAuthorization` for their routes, with `authPolicy.disabled`. Set it only if the authors \
         of all namespaces are trusted."
    ),
    key!(
        "tenants.maxConfigurationPerNamespace",
        NamespaceSize,
        route.tenants.max_configuration_per_namespace,
        "The size of the Envoy configuration that the objects of one namespace can cause, in encoded bytes on all hosts and listeners. \
         It applies separately to routes, to the policies of Ingresses, to the certificate authorities of BackendTLSPolicies, and to \
         wildcard hosts with TLS and copies of rules of Ingresses. Older objects come first. An object that does not fit is closed: a route is answered 503, \
         with the Event `RouteTooExpensive`. [limits.md](limits.md#configuration-of-a-namespace) \
         explains the sizes. An Envoy takes up to 40 bytes of memory for each byte."
    ),
    key!(
        "overload.maxHeap",
        Maybe<Heap>,
        overload.max_heap_bytes,
        "The limit of Envoy's heap: Envoy returns memory to the system at 95 %, and refuses requests at 98 %. 0 \
         means no limit. If not set, 80 % of the memory limit of the container.",
        Restart::Envoys
    ),
    key!(
        "overload.maxConnections",
        Count,
        overload.max_connections,
        "The maximum number of open client connections; further connections are refused. 0 means no limit.",
        Restart::Envoys
    ),
    key!(
        "runtime",
        Runtime,
        route.runtime,
        "Runtime keys of Envoy and their values, such as `envoy.reloadable_features.…`. Keys that other settings \
         control are rejected here."
    ),
];
