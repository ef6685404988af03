//! Keys of what is towards backends, and of Envoy itself.

use super::*;

/// In the order of the reference.
pub const UPSTREAM: &[Key] = &[
    key!(
        "upstream.dnsLookupFamily",
        Word<DnsLookupFamily>,
        route.upstream.dns_lookup_family,
        "Which addresses of an external name are taken."
    ),
    key!(
        "upstream.maxRequestsPerConnection",
        Maybe<Positive>,
        route.upstream.max_requests_per_connection,
        "Requests on one connection to a backend, after which it is closed; no limit if not set."
    ),
    key!(
        "upstream.bufferLimit",
        Buffer,
        route.upstream.buffer_limit_bytes,
        "How much is buffered for a connection to a backend."
    ),
    key!(
        "upstream.circuitBreakers.maxConnections",
        Maybe<Positive>,
        route.upstream.circuit_breakers.max_connections,
        "Connections of one Envoy to one Service port, where the annotation of the Service says nothing. 1024 if \
         not set."
    ),
    key!(
        "upstream.circuitBreakers.maxPendingRequests",
        Maybe<Positive>,
        route.upstream.circuit_breakers.max_pending_requests,
        "Requests that wait for a connection, likewise. 1024 if not set."
    ),
    key!(
        "upstream.circuitBreakers.maxRequests",
        Maybe<Positive>,
        route.upstream.circuit_breakers.max_requests,
        "Requests under way, likewise. 1024 if not set."
    ),
    key!(
        "upstream.circuitBreakers.maxRetries",
        Maybe<Count>,
        route.upstream.circuit_breakers.max_retries,
        "Retries under way, likewise. 3 if not set."
    ),
    key!(
        "upstream.circuitBreakers.perHostMaxConnections",
        Maybe<Positive>,
        route.upstream.circuit_breakers.per_host_max_connections,
        "Connections of one Envoy to one endpoint, likewise. No limit if not set."
    ),
    key!("upstream.tls.minimumVersion", Version, route.upstream.tls.minimum, "Lowest version towards backends."),
    key!("upstream.tls.maximumVersion", Version, route.upstream.tls.maximum, "Highest version towards backends."),
    key!(
        "upstream.tls.cipherSuites",
        List<CipherSuite>,
        route.upstream.tls.cipher_suites,
        "Cipher suites of TLS 1.2 towards backends. Envoy's choice if the list is empty."
    ),
    key!(
        "upstream.tls.curves",
        List<Curve>,
        route.upstream.tls.curves,
        "Curves and groups of the key exchange with backends. Envoy's choice if the list is empty."
    ),
    key!(
        "upstream.clientCertificate",
        Maybe<ObjectName>,
        route.upstream.client_certificate,
        "The Secret with the key pair that Envoy shows to backends that it speaks TLS with."
    ),
    key!(
        "overload.maxHeap",
        Maybe<Heap>,
        overload.max_heap_bytes,
        "Envoy's heap: it gives memory back at 95 %, refuses requests at 98 %. 0 is no limit; 80 % of what the \
         container has if not set.",
        Restart::Envoys
    ),
    key!(
        "overload.maxConnections",
        Count,
        overload.max_connections,
        "Connections that clients may hold open at once; more are refused. 0 is no limit.",
        Restart::Envoys
    ),
    key!(
        "runtime",
        Runtime,
        route.runtime,
        "Runtime keys of Envoy and their values, such as `envoy.reloadable_features.…`. What other settings decide \
         is refused here."
    ),
];
