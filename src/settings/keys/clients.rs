//! Keys of Envoy's client side.

use super::*;

/// In the order of the reference.
pub const CLIENTS: &[SettingsKey] = &[
    key!(
        "namespaceOwnership",
        Word<NamespaceOwnership>,
        route.namespace_ownership,
        "With `Strict`, the namespace that serves a host owns it until 60 s after its last rule for the host, and the \
         namespace with the oldest rule owns a new host. A wildcard host includes the names below it. Rules of other \
         namespaces are rejected as `Conflicted` unless the owner delegates the host to them. With `InterNamespaceAllowed`, every namespace may add paths to every host."
    ),
    key!(
        "hosts.requireGrant",
        Bool,
        route.hosts.require_grant,
        "A host that no HostGrant covers may be defined by nobody: Ingresses and routes are served without it. Rules without a \
         host, and default backends, need a HostGrant with the host `**`."
    ),
    key!(
        "httpProxy.rootNamespaces",
        List<Namespace>,
        route.http_proxies.root_namespaces,
        "The namespaces whose HTTPProxies may define a host (`spec.virtualhost`). HTTPProxies of other namespaces serve only the parts of \
         hosts for which a root includes them. All namespaces if the list is empty."
    ),
    key!(
        "httpProxy.permitInsecure",
        Bool,
        route.http_proxies.permit_insecure,
        "Whether HTTPProxies can serve a route in plain text with `permitInsecure`, although their host has TLS. Otherwise, plain HTTP is \
         redirected to HTTPS."
    ),
    key!(
        "httpProxy.envoyHeaders",
        List<EnvoyHeader>,
        route.http_proxies.envoy_headers,
        "Headers with the prefix `x-envoy-` that HTTPProxies may set and remove. Headers that Envoy itself uses are not allowed: they \
         control retries, time limits, and faults. HTTPProxies may change headers without this prefix anyway."
    ),
    key!("externalNames.allow", Bool, route.external_names.allow, "Allows Services of type ExternalName as backends."),
    key!(
        "externalNames.clusterLocal",
        Bool,
        route.external_names.cluster_local,
        "Allows external names within the Kubernetes cluster (`*.svc`, `*.cluster.local`, and relative names such as \
         `cart.shop`), which bypass its isolation of namespaces."
    ),
    key!(
        "status.addresses",
        List<Reachable>,
        status.addresses,
        "The addresses for the status of Ingresses, instead of the address of `status.envoyService`."
    ),
    key!(
        "status.envoyService",
        Maybe<ObjectName>,
        route.envoy_service,
        "The Service in front of the Envoys. Its `status.loadBalancer` is copied into the status of Ingresses. Its \
         endpoints become the endpoints of the Services of Gateways, which are created only if this key is set."
    ),
    key!(
        "listeners.http.address",
        Maybe<IpAddress>,
        route.listeners.http.address,
        "The address of the listener for plain HTTP. All addresses if not set."
    ),
    key!(
        "listeners.http.port",
        Port,
        route.listeners.http.port,
        "The port for plain HTTP. The Service in front of Envoy must use it as a target port."
    ),
    key!(
        "listeners.https.address",
        Maybe<IpAddress>,
        route.listeners.https.address,
        "The address of the listener for HTTPS. All addresses if not set."
    ),
    key!(
        "listeners.https.port",
        Port,
        route.listeners.https.port,
        "The port for HTTPS and HTTP/3. The Service in front of Envoy must use it as a target port."
    ),
    key!(
        "listeners.stats.address",
        Maybe<IpAddress>,
        route.listeners.stats.address,
        "The address of `/ready` and `/stats`. All addresses if not set."
    ),
    key!(
        "listeners.stats.port",
        PortOrNone,
        route.listeners.stats.port,
        "The port of `/ready`, `/stats`, and `/stats/prometheus`, for probes and scrapers; 0 for none."
    ),
    key!(
        "listeners.stats.tls.address",
        Maybe<IpAddress>,
        route.listeners.stats_tls.at.address,
        "The address of `/stats` over TLS. All addresses if not set."
    ),
    key!(
        "listeners.stats.tls.port",
        PortOrNone,
        route.listeners.stats_tls.at.port,
        "The port of `/stats` and `/stats/prometheus` over TLS, with the versions, cipher suites, and curves of \
         `tls`; 0 for none. If set, `listeners.stats.port` answers only `/ready`, with or without a certificate."
    ),
    key!(
        "listeners.stats.tls.secret",
        Maybe<ObjectName>,
        route.listeners.stats_tls.secret,
        "The Secret with the key pair of the statistics endpoint."
    ),
    key!(
        "listeners.stats.tls.clientCa",
        Maybe<ObjectName>,
        route.listeners.stats_tls.client_ca,
        "The Secret whose `ca.crt` contains the CAs of scrapers (mTLS). Scrapers must then present a certificate of \
         one of these CAs. If not set, every client that can connect to the port can read the statistics."
    ),
    key!(
        "listeners.readiness.address",
        Maybe<IpAddress>,
        route.listeners.readiness.address,
        "The address of the `/ready` for the kubelet. All addresses if not set."
    ),
    key!(
        "listeners.readiness.port",
        PortOrNone,
        route.listeners.readiness.port,
        "The port of a separate listener for `/ready`, for the probes of the kubelet; 0 disables it. Its connection limit is \
         separate, so clients of `listeners.stats.port` cannot make an Envoy unready. The chart sets it to 8006."
    ),
    key!(
        "listeners.overloadProbe.address",
        Maybe<IpAddress>,
        route.listeners.overload_probe.address,
        "The address of the `/ready` that fails under overload. All addresses if not set."
    ),
    key!(
        "listeners.overloadProbe.port",
        PortOrNone,
        route.listeners.overload_probe.port,
        "The port of a `/ready` that fails like any request while Envoy sheds load (`overload.maxHeap`, \
         `overload.maxConnections`); 0 for none. Use it for load balancers that should then select another Envoy. Do \
         not use it for probes of the kubelet, which would restart a busy Envoy."
    ),
    key!(
        "listeners.admin.address",
        Maybe<IpAddress>,
        route.listeners.admin.address,
        "The address of the read-only part of Envoy's admin interface. Every client that can connect to it can read \
         the whole configuration except private keys. By default, these are only clients on the same machine; in a \
         pod, clients in the pod (`kubectl port-forward`)."
    ),
    key!(
        "listeners.admin.port",
        PortOrNone,
        route.listeners.admin.port,
        "The port of the read-only paths of Envoy's admin interface: `/certs`, `/clusters`, `/config_dump`, \
         `/listeners`, `/memory`, `/ready`, `/runtime`, `/server_info`, `/stats`, `/stats/prometheus`, and \
         `/stats/recentlookups`, only by `GET`; 0 for none."
    ),
    key!(
        "listeners.ipv6",
        Bool,
        route.listeners.ipv6,
        "Whether \"all addresses\" includes IPv6. Set `false` only for nodes whose kernel has no IPv6."
    ),
    key!(
        "listeners.proxyProtocol",
        Word<ProxyProtocolMode>,
        route.listeners.proxy_protocol,
        "Support of PROXY headers, version 1 or 2, at the start of a connection. `required` closes connections \
         without a header. `optional` accepts both, and is only safe if nobody but trusted proxies can connect."
    ),
    key!(
        "listeners.connectionBalancer",
        Word<ConnectionBalancer>,
        route.listeners.connection_balancer,
        "The distribution of connections among Envoy's workers: by the kernel, or `exact`, for a few long \
         connections."
    ),
    key!(
        "listeners.bufferLimit",
        Buffer,
        route.listeners.buffer_limit_bytes,
        "The size of the buffer for each connection of a client."
    ),
    key!(
        "listeners.maxConnections",
        Maybe<Positive>,
        route.listeners.max_connections,
        "The maximum number of open connections of each listener; further connections are closed. If not set, only \
         `overload.maxConnections` applies."
    ),
    key!(
        "listeners.maxConnectionsPerSocketEvent",
        Maybe<Positive>,
        route.listeners.max_connections_per_socket_event,
        "The maximum number of connections that are accepted at once. Envoy's default if not set."
    ),
    key!(
        "listeners.socketOptions.tos",
        Maybe<Byte>,
        route.listeners.socket_options.tos,
        "`IP_TOS` of packets to clients, for IPv4."
    ),
    key!(
        "listeners.socketOptions.trafficClass",
        Maybe<Byte>,
        route.listeners.socket_options.traffic_class,
        "`IPV6_TCLASS` of packets to clients, for IPv6."
    ),
    key!(
        "http.versions",
        List<Word<HttpVersion>>,
        route.http.versions,
        "The HTTP versions over TCP. With TLS, ALPN offers them, and the first is preferred."
    ),
    key!(
        "http.http3.enabled",
        Bool,
        route.http.http3.enabled,
        "Offers HTTP/3, on the port for HTTPS over UDP. The Service in front of Envoy must also forward UDP to it."
    ),
    key!(
        "http.http3.advertisedPort",
        Port,
        route.http.http3.advertised_port,
        "The port for HTTP/3 that clients learn: the port of the Service."
    ),
    key!(
        "http.trustedHops",
        Count,
        route.http.trusted_hops,
        "The number of trusted proxies in front of Envoy, which is the number of their addresses at the end of \
         `x-forwarded-for`. If it is not 0, Envoy trusts `x-forwarded-proto` and `http.untrustedHeaders` of these \
         proxies: clients must not be able to connect to Envoy directly."
    ),
    key!(
        "http.stripTrailingHostDot",
        Bool,
        route.http.strip_trailing_host_dot,
        "Removes a trailing dot of `Host` before route matching. Otherwise, no rule names a host such as \
         `shop.example.com.`, and the default backend receives its requests."
    ),
    key!("http.mergeSlashes", Bool, route.http.merge_slashes, "Replaces `//` in a path by `/` before route matching."),
    key!(
        "http.escapedSlashes",
        Word<EscapedSlashes>,
        route.http.escaped_slashes,
        "The treatment of paths with `%2F` or `%5C`, with which `/x/..%2Fadmin` could bypass a route for `/admin` and \
         reach it in the backend. `unescape_and_redirect` answers 307 with the unescaped and normalized path (a gRPC \
         request is rejected), `unescape_and_forward` matches routes with this path, `reject` answers 400. `keep` is \
         for backends that use escaped slashes as data, such as package registries."
    ),
    key!(
        "http.serverHeader",
        Word<ServerHeader>,
        route.http.server_header,
        "The header `server` of responses: always `envoy`, `envoy` if the backend sends none, or the header of the \
         backend."
    ),
    key!(
        "http.headersWithUnderscores",
        Word<Underscores>,
        route.http.headers_with_underscores,
        "The treatment of request headers with `_` in their name. A backend that maps `-` to `_` may confuse \
         `x_forwarded_for` with Envoy's own header, so these headers are dropped by default."
    ),
    key!(
        "http.untrustedHeaders",
        List<HeaderName>,
        route.http.untrusted_headers,
        "Request headers in which proxies describe the client or the original request. If `http.trustedHops` is 0, \
         they are removed, as are all `x-envoy-` headers."
    ),
    key!(
        "http.returns",
        Passes,
        route.http.returns,
        "How often a request may return to the Envoys of this installation, for example through another proxy or a Service of type \
         ExternalName. The next return is answered 502. Each mirror of a route multiplies the requests of each return."
    ),
    key!(
        "http.allowChunkedLength",
        Bool,
        route.http.allow_chunked_length,
        "Accepts requests with both `content-length` and `transfer-encoding: chunked`, and removes the former. Such \
         requests are a known way of request smuggling."
    ),
    key!(
        "http.errorResponses",
        Bool,
        route.http.error_responses,
        "Allows `errorResponses` of HTTPPolicies. Each plain listener and each key pair then costs an Envoy 100 KB for each of its \
         threads: 300 KB with two workers. A change drains the connections of all listeners."
    ),
    key!(
        "http.maxRequestBody",
        Maybe<Body>,
        route.http.max_request_body_bytes,
        "The maximum size of a request body; a larger one is answered 413. The backend receives the beginning of a body of \
         unknown length. Websockets, and streams of gRPC to GRPCRoutes, have no limit, because they have no end. No limit \
         if not set."
    ),
    key!(
        "http.maxRequestHeaders",
        HeadersSize,
        route.http.max_request_headers_kib,
        "The maximum total size of the headers of a request; larger ones are answered 431."
    ),
    key!(
        "http.maxConcurrentStreams",
        Streams,
        route.http.max_concurrent_streams,
        "The maximum number of simultaneous requests on one connection of HTTP/2 or HTTP/3."
    ),
    key!(
        "http.maxRequestsPerConnection",
        Maybe<Positive>,
        route.http.max_requests_per_connection,
        "The number of requests on one connection, after which it is closed gracefully. No limit if not set."
    ),
    key!(
        "http.maxRequestsPerIoCycle",
        Maybe<Positive>,
        route.http.max_requests_per_io_cycle,
        "The number of requests of one connection that Envoy handles before it continues with other connections. \
         This protects against floods of requests that are canceled at once. No limit if not set."
    ),
    key!(
        "compression.algorithms",
        List<Word<CompressionAlgorithm>>,
        route.compression.algorithms,
        "The algorithms for compressed responses to clients that accept them, the preferred one first. Responses \
         that mix secrets with text from a client should not be compressed (BREACH), so there are none by default."
    ),
    key!(
        "compression.minimumSize",
        Compressible,
        route.compression.minimum_bytes,
        "Responses with a smaller `content-length` are not compressed."
    ),
    key!(
        "compression.contentTypes",
        List<MediaType>,
        route.compression.content_types,
        "The media types of compressed responses."
    ),
    key!(
        "headers.ingresses",
        Bool,
        route.headers.ingresses,
        "Whether the headers also apply to the routes of Ingresses, and to answers for hosts and paths without a route. `false` is the \
         default of Contour."
    ),
    key!("headers.request.set", Headers, route.headers.request.set, "Headers to set on requests to backends."),
    key!("headers.request.remove", List<HeaderName>, route.headers.request.remove, "Headers to remove from requests."),
    key!("headers.response.set", Headers, route.headers.response.set, "Headers to set on responses."),
    key!(
        "headers.response.remove",
        List<HeaderName>,
        route.headers.response.remove,
        "Headers to remove from responses."
    ),
    key!(
        "routes.discovery",
        Word<RouteDiscoveryMode>,
        route.routes.discovery,
        "The form of the routes of plain HTTP. `auto` is `scopes`. `scopes`: each host separately (SRDS); a change costs an Envoy the \
         same among ten hosts and among thousands. Requests to wildcard hosts and unknown hosts cost more, because Envoy looks for \
         their routes twice. `rds`: one route configuration; Envoy processes all hosts for each \
         change. `vhds`: the same in Envoy, but a change takes a few hundred bytes on the wire; for Envoys on an aggregated delta \
         stream, others receive one route configuration. When this key changes, except between `vhds` and `rds`, connections are \
         drained; requests may be answered 404 for some milliseconds, except from `vhds` to `rds`. Files (`lockgate export`) \
         always have one route configuration."
    ),
    key!(
        "statistics.maxObjects",
        Count,
        route.statistics.max_objects,
        "The maximum number of objects with statistics, counted once for each host of an object. The chart sets 200. \
         0: no object has statistics. An object takes about 2 KB of each Envoy's memory, 7 KB with requests, and up to \
         7 KB of each scrape."
    ),
    key!(
        "statistics.allOfServices",
        Bool,
        all_service_statistics,
        "Keeps all statistics of Services in Envoy. By default, Envoy keeps those of requests, connections, and the number of endpoints, \
         and leaves out 41 others of each Service, such as the states of circuit breakers, whose overflows are counted anyway. With \
         10,000 Services, these take 80 MB of each Envoy.",
        Restart::Envoys
    ),
    key!(
        "regexes.maxSize",
        Positive,
        route.regexes.max_size,
        "The maximum number of instructions of the compiled program of one path. The number is an estimate, and \
         never less than Envoy's number."
    ),
    key!(
        "regexes.maxSizePerHost",
        Positive,
        route.regexes.max_size_per_host,
        "The maximum number of instructions of all paths of a host together."
    ),
    key!(
        "regexes.maxSteps",
        Positive,
        route.regexes.max_steps,
        "The maximum number of steps that build the automaton of one path, with which Envoy matches a path in one \
         pass. Most patterns need fewer than 4,000. Millions are needed if a part such as `.*a` can match at many \
         places and a fixed number of characters follows, as in `/.*a.{20}`."
    ),
    key!(
        "regexes.maxStepsPerHost",
        Positive,
        route.regexes.max_steps_per_host,
        "The maximum number of steps for all paths of a host together."
    ),
    key!(
        "regexes.maxPerHost",
        Positive,
        route.regexes.max_per_host,
        "The maximum number of paths of a host that are regular expressions."
    ),
    key!("timeouts.request", Limit, route.timeouts.request, "Time limit for receiving a complete request."),
    key!(
        "timeouts.requestHeaders",
        Limit,
        route.timeouts.request_headers,
        "Time limit for receiving the headers of a request."
    ),
    key!(
        "timeouts.response",
        Limit,
        route.timeouts.response,
        "Time limit for a complete response, counted from the end of the request. It cuts off downloads, server-sent \
         events, and gRPC streams, so there is no such limit by default, and `timeouts.streamIdle` ends idle \
         responses. The annotation `projectcontour.io/response-timeout` of an Ingress overrides it."
    ),
    key!(
        "timeouts.connect",
        Time,
        route.timeouts.connect,
        "Time limit for connecting to a backend. The annotation `lockgate.dev/connect-timeout` of a Service \
         overrides it."
    ),
    key!(
        "timeouts.connectionIdle",
        Limit,
        route.timeouts.connection_idle,
        "Maximum time of a client connection without requests. Set it to more than the idle timeout of a load balancer in front \
         of Envoy. Otherwise, the load balancer may use connections that are just being closed."
    ),
    key!(
        "timeouts.streamIdle",
        Limit,
        route.timeouts.stream_idle,
        "Maximum time of a request without data in either direction, including the wait for the backend's answer \
         (then 504), and of a websocket."
    ),
    key!(
        "timeouts.maxConnectionDuration",
        Limit,
        route.timeouts.max_connection_duration,
        "The age at which a client connection is drained."
    ),
    key!(
        "timeouts.delayedClose",
        Limit,
        route.timeouts.delayed_close,
        "Time in which a client can receive the last bytes after Envoy has closed its side; `off` closes at once."
    ),
    key!(
        "timeouts.drain",
        Time,
        route.timeouts.drain,
        "Time in which a connection that is being drained still accepts requests, between its two GOAWAYs."
    ),
    key!(
        "timeouts.upstreamIdle",
        Limit,
        route.timeouts.upstream_idle,
        "Maximum time of a backend connection without requests. Set it to less than the backend's own limit. \
         Otherwise, Envoy may use connections that are just being closed."
    ),
    key!(
        "retries.conditions",
        List<RetryCondition>,
        route.retries.conditions,
        "The conditions for retries. With `[connect-failure, refused-stream, reset-before-request]`, the backend has \
         not seen the request, so a retry is safe for requests with side effects. With others, such as `5xx`, a \
         request may be executed twice. No retries if the list is empty."
    ),
    key!("retries.count", Positive, route.retries.count, "The maximum number of retries."),
    key!(
        "retries.perTryTimeout",
        Limit,
        route.retries.per_try_timeout,
        "Time limit for the complete response of each try. It cuts off streams, like `timeouts.response`."
    ),
    key!(
        "tls.defaultSecret",
        Maybe<ObjectName>,
        route.tls.default_secret,
        "The Secret with the default certificate. It serves TLS hosts without a Secret, and clients without a known \
         server name, which reach the default backend and the rules without a host. Without it and without \
         `tls.fallbackSecret`, the connections of these clients are closed."
    ),
    key!(
        "tls.fallbackSecret",
        Maybe<ObjectName>,
        route.tls.fallback_secret,
        "The Secret for clients without a known server name while there is no valid `tls.defaultSecret`. Example: a \
         self-signed certificate, so that health checks by address can connect. All requests on such a connection \
         are answered 404, regardless of their host, and reach no rule."
    ),
    key!(
        "tls.strictServerNames",
        Bool,
        route.tls.strict_server_names,
        "Whether a request below a wildcard host is answered 421 if its host is not the server name of its connection, as in \
         Contour. Otherwise, browsers reuse an HTTP/2 connection for all hosts of the wildcard. Other hosts are answered 421 in any \
         case."
    ),
    key!(
        "tls.hsts.maxAge",
        Maybe<Seconds>,
        route.tls.hsts.max_age,
        "The time in which browsers use only HTTPS for a host after a response over HTTPS with this header \
         (`strict-transport-security`). A header of the backend takes precedence. No header if not set."
    ),
    key!(
        "tls.hsts.includeSubdomains",
        Bool,
        route.tls.hsts.include_subdomains,
        "Whether HSTS also applies to all subdomains, regardless of who serves them."
    ),
    key!(
        "tls.hsts.preload",
        Bool,
        route.tls.hsts.preload,
        "Whether browsers may include the host in their preload lists. Requires `tls.hsts.includeSubdomains` and a \
         `tls.hsts.maxAge` of at least 365d."
    ),
    key!(
        "tls.expiryWarning",
        Time,
        route.tls.expiry_warning,
        "The controller warns of certificates in use that expire within this time: in the log, with an Event on \
         their Secret, and in the metric `lockgate_certificates_expiring`."
    ),
    key!(
        "tls.minimumVersion",
        Version,
        route.tls.parameters.minimum,
        "The lowest TLS version. Annotations of an Ingress can require a higher one."
    ),
    key!(
        "tls.maximumVersion",
        Version,
        route.tls.parameters.maximum,
        "The highest TLS version. Annotations of an Ingress can require a lower one."
    ),
    key!(
        "tls.cipherSuites",
        List<CipherSuite>,
        route.tls.parameters.cipher_suites,
        "The cipher suites of TLS 1.2, the preferred one first; `[A|B]` is a group with equal preference. The suites \
         of TLS 1.3 are not configurable. Envoy's default if the list is empty."
    ),
    key!(
        "tls.curves",
        List<Curve>,
        route.tls.parameters.curves,
        "The curves and groups of the key exchange, the preferred one first. Envoy's default if the list is empty."
    ),
    key!(
        "tls.fingerprints.ja3",
        Bool,
        route.tls.ja3,
        "Computes JA3 fingerprints of clients, for the field `tls_ja3_fingerprint` of the access log."
    ),
    key!(
        "tls.fingerprints.ja4",
        Bool,
        route.tls.ja4,
        "Computes JA4 fingerprints of clients, for the field `tls_ja4_fingerprint` of the access log."
    ),
];
