//! Keys of what Envoy is towards clients, and of which Ingresses are served.

use super::*;

/// In the order of the reference.
pub const CLIENTS: &[Key] = &[
    key!(
        "ingress.controllerName",
        ControllerName,
        route.ingress.controller,
        "What `spec.controller` of an IngressClass says for its Ingresses to be served: another name for each \
         installation in one Kubernetes cluster."
    ),
    key!(
        "ingress.classNames",
        List<ClassName>,
        route.ingress.class_names,
        "Serve Ingresses of these classes even without an IngressClass object. Classes whose object names this \
         controller are served in any case."
    ),
    key!(
        "ingress.withoutClass",
        Bool,
        route.ingress.classless,
        "Serve Ingresses that name no class at all, also if no IngressClass of ours is the default class."
    ),
    key!(
        "ingress.restrictingAnnotations",
        Word<RestrictingAnnotations>,
        route.ingress.restricting_annotations,
        "What happens to requests for paths with an annotation of another ingress controller that \
         [restricts access](annotations.md#annotations-that-restrict-access), such as \
         `nginx.ingress.kubernetes.io/auth-url`. `deny`: answered 403. `ignore`: served without the restriction. \
         The Ingress has a Warning in both cases."
    ),
    key!(
        "ingress.ignoredAnnotations",
        List<Annotation>,
        route.ingress.ignored_annotations,
        "Annotations of other ingress controllers, by their whole names, that are ignored without a report, even if \
         they restrict access: for example `nginx.ingress.kubernetes.io/auth-url` where `externalAuthorization` protects \
         all hosts."
    ),
    key!(
        "namespaceOwnership",
        Word<NamespaceOwnership>,
        route.namespace_ownership,
        "With `Strict`, the namespace with the oldest rule for a host owns the host and, for a wildcard host, the names \
         below it. Rules of other namespaces are rejected as `Conflicted` unless the owner delegates the host to them. \
         With `InterNamespaceAllowed`, every namespace may add paths to every host."
    ),
    key!("externalNames.allow", Bool, route.external_names.allow, "Take Services of type ExternalName as backends."),
    key!(
        "externalNames.clusterLocal",
        Bool,
        route.external_names.cluster_local,
        "Let external names lead into the Kubernetes cluster (`*.svc`, `*.cluster.local`), past its own rules of \
         namespaces."
    ),
    key!(
        "status.addresses",
        List<Reachable>,
        status.addresses,
        "What is written as the address of the load balancer, instead of that of `status.envoyService`."
    ),
    key!(
        "status.envoyService",
        Maybe<ObjectName>,
        status.envoy_service,
        "The Service whose `status.loadBalancer` is copied into the status of Ingresses."
    ),
    key!(
        "listeners.http.address",
        Maybe<Address>,
        route.listeners.http.address,
        "Where plain HTTP is served; all addresses if not set."
    ),
    key!(
        "listeners.http.port",
        Port,
        route.listeners.http.port,
        "Port of plain HTTP. The Service in front of Envoy has to lead there."
    ),
    key!(
        "listeners.https.address",
        Maybe<Address>,
        route.listeners.https.address,
        "Where HTTPS is served; all addresses if not set."
    ),
    key!(
        "listeners.https.port",
        Port,
        route.listeners.https.port,
        "Port of HTTPS, and of HTTP/3. The Service in front of Envoy has to lead there."
    ),
    key!(
        "listeners.stats.address",
        Maybe<Address>,
        route.listeners.stats.address,
        "Where `/ready` and `/stats` are answered; all addresses if not set."
    ),
    key!(
        "listeners.stats.port",
        PortOrNone,
        route.listeners.stats.port,
        "Port of `/ready`, `/stats` and `/stats/prometheus`; 0 for none. Probes and scrapers go there."
    ),
    key!(
        "listeners.stats.tls.address",
        Maybe<Address>,
        route.listeners.stats_tls.at.address,
        "Where `/stats` is answered by TLS; all addresses if not set."
    ),
    key!(
        "listeners.stats.tls.port",
        PortOrNone,
        route.listeners.stats_tls.at.port,
        "Port of `/stats` and `/stats/prometheus` by TLS, with the versions, cipher suites and curves of `tls`; 0 for \
         none. If it is set, `listeners.stats.port` answers `/ready` alone, whether or not there is a certificate."
    ),
    key!(
        "listeners.stats.tls.secret",
        Maybe<ObjectName>,
        route.listeners.stats_tls.secret,
        "The Secret with the key pair that scrapers are shown."
    ),
    key!(
        "listeners.stats.tls.clientCa",
        Maybe<ObjectName>,
        route.listeners.stats_tls.client_ca,
        "The Secret whose `ca.crt` has the authorities of scrapers, who then have to show a certificate of one of them. \
         Whoever reaches the port may read the statistics if not set."
    ),
    key!(
        "listeners.overloadProbe.address",
        Maybe<Address>,
        route.listeners.overload_probe.address,
        "Where the second `/ready` is answered; all addresses if not set."
    ),
    key!(
        "listeners.overloadProbe.port",
        PortOrNone,
        route.listeners.overload_probe.port,
        "Port of a second `/ready`, which is refused like any request while Envoy sheds load (`overload.maxHeap`, \
         `overload.maxConnections`); 0 for none. For load balancers that shall then go elsewhere; not for probes of the \
         kubelet, which would restart an Envoy that is busy."
    ),
    key!(
        "listeners.admin.address",
        Maybe<Address>,
        route.listeners.admin.address,
        "Where Envoy's admin interface can be read. Whoever reaches it learns all that Envoy was told, but for private \
         keys: by default, that is its own machine, in a pod the pod (`kubectl port-forward`)."
    ),
    key!(
        "listeners.admin.port",
        PortOrNone,
        route.listeners.admin.port,
        "Port of those paths of Envoy's admin interface that change nothing: `/certs`, `/clusters`, `/config_dump`, \
         `/listeners`, `/memory`, `/ready`, `/runtime`, `/server_info`, `/stats`, `/stats/prometheus` and \
         `/stats/recentlookups`, for `GET` alone; 0 for none."
    ),
    key!(
        "listeners.ipv6",
        Bool,
        route.listeners.ipv6,
        "Whether all addresses are those of IPv6 too. `false` only on nodes whose kernel has no IPv6."
    ),
    key!(
        "listeners.proxyProtocol",
        Word<ProxyProtocol>,
        route.listeners.proxy_protocol,
        "Whether connections start with a PROXY header, version 1 or 2. `required` closes those without one, \
         `optional` takes both, and is for listeners that nobody but trusted proxies reaches."
    ),
    key!(
        "listeners.connectionBalancer",
        Word<ConnectionBalancer>,
        route.listeners.connection_balancer,
        "How connections are spread over Envoy's workers: by the kernel, or `exact`, for few and long ones."
    ),
    key!(
        "listeners.bufferLimit",
        Buffer,
        route.listeners.buffer_limit_bytes,
        "How much is buffered for a connection with a client."
    ),
    key!(
        "listeners.maxConnections",
        Maybe<Positive>,
        route.listeners.max_connections,
        "Open connections of each listener; more are closed. No limit but `overload.maxConnections` if not set."
    ),
    key!(
        "listeners.maxConnectionsPerSocketEvent",
        Maybe<Positive>,
        route.listeners.max_connections_per_socket_event,
        "Connections accepted at one go; Envoy's default if not set."
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
        "Versions offered over TCP: by ALPN behind TLS, where the first is preferred."
    ),
    key!(
        "http.http3.enabled",
        Bool,
        route.http.http3.enabled,
        "Offer HTTP/3, on the port of HTTPS by UDP. The Service in front of Envoy has to lead there too."
    ),
    key!(
        "http.http3.advertisedPort",
        Port,
        route.http.http3.advertised_port,
        "The port that clients are told to use for HTTP/3: that of the Service."
    ),
    key!(
        "http.trustedHops",
        Count,
        route.http.trusted_hops,
        "Trusted proxies in front of Envoy: how many addresses from the end of `x-forwarded-for` are theirs. If there are \
         any, `x-forwarded-proto` and `http.untrustedHeaders` are taken from them: clients must not reach Envoy in another \
         way."
    ),
    key!(
        "http.stripTrailingHostDot",
        Bool,
        route.http.strip_trailing_host_dot,
        "Remove a dot at the end of `Host` before routes are looked up. Otherwise `shop.example.com.` is a host that no rule \
         names, which gets the default backend."
    ),
    key!("http.mergeSlashes", Bool, route.http.merge_slashes, "Make `//` in a path `/` before routes are looked up."),
    key!(
        "http.escapedSlashes",
        Word<EscapedSlashes>,
        route.http.escaped_slashes,
        "Paths with `%2F` or `%5C`, by which `/x/..%2Fadmin` would pass a route for `/admin` and reach it in the backend: \
         `unescape_and_redirect` answers 307 with the unescaped and normalized path (a gRPC request is rejected), \
         `unescape_and_forward` looks up routes with it, `reject` answers 400. `keep` is for backends that take escaped \
         slashes for data, such as package registries."
    ),
    key!(
        "http.serverHeader",
        Word<ServerHeader>,
        route.http.server_header,
        "The header `server` of responses: always `envoy`, `envoy` if the backend sends none, or as the backend \
         sends it."
    ),
    key!(
        "http.headersWithUnderscores",
        Word<Underscores>,
        route.http.headers_with_underscores,
        "Request headers with `_` in their name. A backend that turns `-` into `_` may take `x_forwarded_for` for \
         Envoy's own header, so they are dropped by default."
    ),
    key!(
        "http.untrustedHeaders",
        List<HeaderName>,
        route.http.untrusted_headers,
        "Request headers by which proxies describe the client or the original request. They are removed, like all \
         `x-envoy-` headers, if `http.trustedHops` is 0."
    ),
    key!(
        "http.allowChunkedLength",
        Bool,
        route.http.allow_chunked_length,
        "Take requests with both `content-length` and `transfer-encoding: chunked`, without the former. Such \
         requests are a known way to smuggle others."
    ),
    key!(
        "http.maxRequestBody",
        Maybe<Body>,
        route.http.max_request_body_bytes,
        "How large the body of a request may be; more is answered 413. A body of unknown length is held in Envoy's memory \
         until it is there as a whole; websockets and gRPC, whose streams have no end, are limited only by the \
         `content-length` of the request. No limit if not set."
    ),
    key!(
        "http.maxRequestHeaders",
        HeadersSize,
        route.http.max_request_headers_kib,
        "How large the headers of a request may be, together; more is answered 431."
    ),
    key!(
        "http.maxConcurrentStreams",
        Streams,
        route.http.max_concurrent_streams,
        "Requests at a time on one connection of HTTP/2 or HTTP/3."
    ),
    key!(
        "http.maxRequestsPerConnection",
        Maybe<Positive>,
        route.http.max_requests_per_connection,
        "Requests on one connection, after which it is closed in good order; no limit if not set."
    ),
    key!(
        "http.maxRequestsPerIoCycle",
        Maybe<Positive>,
        route.http.max_requests_per_io_cycle,
        "Requests of one connection that are handled before others get their turn, against floods of requests that \
         are cancelled at once; no limit if not set."
    ),
    key!(
        "compression.algorithms",
        List<Word<CompressionAlgorithm>>,
        route.compression.algorithms,
        "How responses may be compressed if a client accepts it, the preferred algorithm first. Responses that mix \
         secrets with what a client sent should not be compressed (BREACH), so none are by default."
    ),
    key!(
        "compression.minimumSize",
        Compressible,
        route.compression.minimum_bytes,
        "Responses whose `content-length` is less are left alone."
    ),
    key!(
        "compression.contentTypes",
        List<MediaType>,
        route.compression.content_types,
        "Media types that are compressed."
    ),
    key!("headers.request.set", Headers, route.headers.request.set, "Set on requests, before the backend sees them."),
    key!("headers.request.remove", List<HeaderName>, route.headers.request.remove, "Removed from requests."),
    key!("headers.response.set", Headers, route.headers.response.set, "Set on responses."),
    key!("headers.response.remove", List<HeaderName>, route.headers.response.remove, "Removed from responses."),
    key!(
        "routes.discovery",
        Word<Discovery>,
        route.routes.discovery,
        "`rds`: all in one piece. `vhds`: each virtual host by itself, so that a change is a few hundred bytes; for Envoys on \
         an aggregated delta stream, others have one piece. `auto`: now as `vhds`. `buckets`: in 64 pieces, which Envoy takes \
         up many times faster where there are thousands of hosts, but it computes for each request the piece that the host is \
         in. When it changes, except to `rds`, requests may be answered 404 for some milliseconds; `buckets` drains connections. \
         Files (`lockgate export`) have one piece always."
    ),
    key!(
        "regexes.maxSize",
        Positive,
        route.regexes.max_size,
        "Instructions of the compiled program of one path. They are estimated, and never fewer than Envoy counts."
    ),
    key!(
        "regexes.maxSizePerHost",
        Positive,
        route.regexes.max_size_per_host,
        "The same of all paths of a host together."
    ),
    key!(
        "regexes.maxSteps",
        Positive,
        route.regexes.max_steps,
        "Steps of building the automaton of one path, with which Envoy reads a path in one pass. Most patterns need fewer than \
         4,000; it is millions if a part such as `.*a` may match at many places and a fixed number of characters follows, as in \
         `/.*a.{20}`."
    ),
    key!(
        "regexes.maxStepsPerHost",
        Positive,
        route.regexes.max_steps_per_host,
        "The same of all paths of a host together."
    ),
    key!("regexes.maxPerHost", Positive, route.regexes.max_per_host, "Paths of a host that are regular expressions."),
    key!("timeouts.request", Limit, route.timeouts.request, "A request has to arrive as a whole."),
    key!("timeouts.requestHeaders", Limit, route.timeouts.request_headers, "The headers of a request have to arrive."),
    key!(
        "timeouts.response",
        Limit,
        route.timeouts.response,
        "A response has to be there as a whole, counted from the end of the request. It cuts off downloads, server-sent \
         events and gRPC streams, so there is no such limit by default, and `timeouts.streamIdle` ends what stands still. The \
         annotation `projectcontour.io/response-timeout` of an Ingress overrides it."
    ),
    key!(
        "timeouts.connect",
        Time,
        route.timeouts.connect,
        "A connection to a backend has to be made. The annotation `lockgate.dev/connect-timeout` of a Service \
         overrides it."
    ),
    key!(
        "timeouts.connectionIdle",
        Limit,
        route.timeouts.connection_idle,
        "A connection with a client may be without requests. Longer than that of a load balancer in front, or it \
         will use connections that are just being closed."
    ),
    key!(
        "timeouts.streamIdle",
        Limit,
        route.timeouts.stream_idle,
        "A request may be without a byte in either direction, also while the backend has not answered (504 then), and a \
         websocket."
    ),
    key!(
        "timeouts.maxConnectionDuration",
        Limit,
        route.timeouts.max_connection_duration,
        "How old a connection with a client gets before it is drained."
    ),
    key!(
        "timeouts.delayedClose",
        Limit,
        route.timeouts.delayed_close,
        "A client may take the last bytes after Envoy has closed its side; `off` closes at once."
    ),
    key!(
        "timeouts.drain",
        Time,
        route.timeouts.drain,
        "A connection that is drained still takes requests, between its two GOAWAYs."
    ),
    key!(
        "timeouts.upstreamIdle",
        Limit,
        route.timeouts.upstream_idle,
        "A connection to a backend may be without requests. Shorter than the backend's own limit, or Envoy will use \
         connections that are just being closed."
    ),
    key!(
        "retries.conditions",
        List<Condition>,
        route.retries.conditions,
        "Conditions under which a request is tried again. `[connect-failure, refused-stream, reset-before-request]` are those \
         under which the backend has not seen it, so that it can be one that changes something; with others, such as \
         `5xx`, it may be carried out twice. Never if the list is empty."
    ),
    key!("retries.count", Positive, route.retries.count, "How often a request is tried again at the most."),
    key!(
        "retries.perTryTimeout",
        Limit,
        route.retries.per_try_timeout,
        "Each try has to be answered as a whole in this time. It cuts off streams as `timeouts.response` does."
    ),
    key!(
        "tls.defaultSecret",
        Maybe<ObjectName>,
        route.tls.default_secret,
        "The Secret for TLS hosts that name none, and for clients that send no known server name, who are served the default \
         backend and the rules without a host. Without it and without `tls.fallbackSecret`, their connections are closed."
    ),
    key!(
        "tls.fallbackSecret",
        Maybe<ObjectName>,
        route.tls.fallback_secret,
        "The Secret for clients that send no server name, or one that nobody serves, while there is no usable \
         `tls.defaultSecret`: for example a self-signed certificate, so that a health check by address can connect. All \
         requests over such a connection are answered 404, whatever host they are for, and no rule is reached by it."
    ),
    key!(
        "tls.redirect",
        Bool,
        route.tls.redirect,
        "Redirect plain HTTP to HTTPS for all hosts that are served behind TLS by their name. Not for rules without a host, \
         nor for paths of rules below `/.well-known/acme-challenge`, by which certificates are issued. The annotation \
         `ingress.kubernetes.io/force-ssl-redirect` of an Ingress overrides it: `true` redirects in any case, `false` never. A \
         load balancer that ends TLS and speaks plain HTTP to Envoy would be redirected forever."
    ),
    key!(
        "tls.redirectStatus",
        RedirectStatus,
        route.tls.redirect_status,
        "The status of redirects to HTTPS, also of those by annotation. 307 and 308 make clients keep the method and the \
         body of a request."
    ),
    key!(
        "tls.hsts.maxAge",
        Maybe<Seconds>,
        route.tls.hsts.max_age,
        "How long browsers shall use nothing but HTTPS for a host, after an answer over HTTPS with this header \
         (`strict-transport-security`). A header of the backend counts more. No such header if not set."
    ),
    key!(
        "tls.hsts.includeSubdomains",
        Bool,
        route.tls.hsts.include_subdomains,
        "Whether that holds for all hosts below, too, whoever serves them."
    ),
    key!(
        "tls.hsts.preload",
        Bool,
        route.tls.hsts.preload,
        "Whether browsers may take the host into the lists that they ship. Needs `tls.hsts.includeSubdomains` and a \
         `tls.hsts.maxAge` of at least 365d."
    ),
    key!(
        "tls.expiryWarning",
        Time,
        route.tls.expiry_warning,
        "Certificates in use that end within this time are warned of in the log and by an Event on their Secret, and \
         counted in the metric `lockgate_certificates_expiring`."
    ),
    key!(
        "tls.minimumVersion",
        Version,
        route.tls.parameters.minimum,
        "Lowest version. Annotations of an Ingress may ask for a higher one."
    ),
    key!(
        "tls.maximumVersion",
        Version,
        route.tls.parameters.maximum,
        "Highest version. Annotations of an Ingress may ask for a lower one."
    ),
    key!(
        "tls.cipherSuites",
        List<CipherSuite>,
        route.tls.parameters.cipher_suites,
        "Cipher suites of TLS 1.2, the preferred one first; `[A|B]` is a group of equally preferred ones. Those of \
         TLS 1.3 cannot be chosen. Envoy's choice if the list is empty."
    ),
    key!(
        "tls.curves",
        List<Curve>,
        route.tls.parameters.curves,
        "Curves and groups of the key exchange, the preferred one first. Envoy's choice if the list is empty."
    ),
    key!(
        "tls.fingerprints.ja3",
        Bool,
        route.tls.ja3,
        "Compute JA3 fingerprints of clients, for the field `tls_ja3_fingerprint` of the access log."
    ),
    key!(
        "tls.fingerprints.ja4",
        Bool,
        route.tls.ja4,
        "Compute JA4 fingerprints of clients, for the field `tls_ja4_fingerprint` of the access log."
    ),
];
