//! Settings of Envoy's side towards clients: listeners, HTTP, TLS, time limits. Defaults are those of an edge proxy.

use std::net::Ipv4Addr;
use std::time::Duration;

use crate::model::{Bind, TlsVersion};

/// Envoy's listeners.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listeners {
    /// Plain text.
    pub http: Bind,
    /// TLS, and HTTP/3 on the same port of UDP.
    pub https: Bind,
    /// Answers `/ready` and `/stats`; port 0 is none.
    pub stats: Bind,
    /// Answers `/stats` instead of the former, by TLS.
    pub stats_tls: StatsTls,
    /// Answers `/ready` unless Envoy is overloaded; port 0 is none.
    pub overload_probe: Bind,
    /// Answers what of Envoy's admin interface only tells something; port 0 is none.
    pub admin: Bind,
    /// Whether listeners without an address of their own take IPv6 too; false only for nodes whose kernel has none,
    /// where Envoy refuses the address.
    pub ipv6: bool,
    /// Whether connections start with a PROXY header (versions 1 and 2); not on the listener for statistics.
    pub proxy_protocol: ProxyProtocol,
    /// How connections are spread over Envoy's workers.
    pub connection_balancer: ConnectionBalancer,
    /// How much is buffered per connection, in bytes. Source: Envoy, "Configuring Envoy as an edge proxy".
    pub buffer_limit_bytes: u32,
    /// Open connections of each listener; `None` is no limit of its own.
    pub max_connections: Option<u32>,
    /// Connections accepted at one go; `None` is Envoy's default.
    pub max_connections_per_socket_event: Option<u32>,
    /// Marks on the packets.
    pub socket_options: SocketOptions,
}

/// Statistics by TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatsTls {
    /// Where; port 0 is nowhere.
    pub at: Bind,
    /// Namespace and name of the Secret with the server's key pair.
    pub secret: Option<(String, String)>,
    /// Namespace and name of the Secret whose `ca.crt` has the authorities of clients; `None` takes clients without a
    /// certificate.
    pub client_ca: Option<(String, String)>,
}

/// Whether connections start with a PROXY header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyProtocol {
    /// They do not.
    Off,
    /// They do; those without one are closed.
    Required,
    /// Some do. Only for listeners that nobody but trusted proxies reaches.
    Optional,
}

/// How connections are spread over Envoy's workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionBalancer {
    /// By the kernel.
    Off,
    /// To the worker with the fewest, for few long connections.
    Exact,
}

/// Marks on the packets of connections with clients.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SocketOptions {
    /// `IP_TOS`, for IPv4.
    pub tos: Option<u8>,
    /// `IPV6_TCLASS`, for IPv6.
    pub traffic_class: Option<u8>,
}

/// HTTP towards clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Http {
    /// Versions offered over TCP: at least one. On plain text HTTP/2 is with prior knowledge.
    pub versions: Vec<HttpVersion>,
    /// HTTP/3.
    pub http3: Http3,
    /// Trusted proxies in front of Envoy, for `x-forwarded-for`.
    pub trusted_hops: u32,
    /// Whether a dot at the end of `Host` is taken away before routes are looked up.
    pub strip_trailing_host_dot: bool,
    /// Whether `//` in a path becomes `/` before routes are looked up.
    pub merge_slashes: bool,
    /// What happens to a path with an escaped slash or backslash.
    pub escaped_slashes: EscapedSlashes,
    /// The header `server` of responses.
    pub server_header: ServerHeader,
    /// Headers of requests with `_` in their name.
    pub headers_with_underscores: Underscores,
    /// Headers that proxies add, in lower case. They are removed from requests of clients unless there are
    /// `trusted_hops`.
    pub untrusted_headers: Vec<String>,
    /// Whether a request with both `Content-Length` and `Transfer-Encoding: chunked` is taken, as chunked.
    pub allow_chunked_length: bool,
    /// How large the body of a request may be, in bytes; `None` is no limit.
    pub max_request_body_bytes: Option<u32>,
    /// How large the headers of a request may be, in KiB.
    pub max_request_headers_kib: u32,
    /// Streams at a time on one HTTP/2 or HTTP/3 connection.
    pub max_concurrent_streams: u32,
    /// Requests on one connection, after which it is closed in good order; `None` is no limit.
    pub max_requests_per_connection: Option<u32>,
    /// Requests of one connection that are handled before others get their turn; `None` is no limit. A runtime flag
    /// of Envoy: `http.max_requests_per_io_cycle`.
    pub max_requests_per_io_cycle: Option<u32>,
}

/// A version of HTTP over TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpVersion {
    /// `HTTP/1.1` (and 1.0).
    Http1,
    /// `HTTP/2`.
    Http2,
}

/// HTTP/3 on the TLS listener's port of UDP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Http3 {
    /// Whether it is offered.
    pub enabled: bool,
    /// The port that clients are told by `alt-svc`.
    pub advertised_port: u16,
}

/// The header `server` of responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerHeader {
    /// Always `envoy`.
    Overwrite,
    /// `envoy` if the backend sends none.
    AppendIfAbsent,
    /// As the backend sends it.
    PassThrough,
}

/// Headers of requests with `_` in their name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Underscores {
    /// They are dropped.
    Drop,
    /// They are passed on.
    Allow,
    /// The request is refused.
    Reject,
}

/// A path with `%2F` or `%5C`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EscapedSlashes {
    /// It is passed on as it is.
    Keep,
    /// It is answered 400.
    Reject,
    /// It is answered with a redirect to the unescaped, normalized path; a gRPC request is rejected.
    UnescapeAndRedirect,
    /// It is unescaped and normalized before routes are looked up.
    UnescapeAndForward,
}

/// Compression of responses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compression {
    /// What may be used if a client accepts it, the preferred one first; empty is no compression.
    pub algorithms: Vec<CompressionAlgorithm>,
    /// Responses of fewer bytes are left alone.
    pub minimum_bytes: u32,
    /// Media types that are compressed.
    pub content_types: Vec<String>,
}

/// How responses are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompressionAlgorithm {
    /// `gzip`
    Gzip,
    /// `br`
    Brotli,
    /// `zstd`
    Zstd,
}

/// Headers set and removed on all routes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeaderPolicies {
    /// On requests, before the backend sees them.
    pub request: HeaderPolicy,
    /// On responses.
    pub response: HeaderPolicy,
}

/// Headers set and removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeaderPolicy {
    /// Names in lower case, and what they are set to: in the form that Envoy takes, so commands such as
    /// `%DOWNSTREAM_REMOTE_ADDRESS%` are known ones, and a `%` that is none is written twice.
    pub set: Vec<(String, String)>,
    /// Names in lower case.
    pub remove: Vec<String>,
}

/// Time limits. `None` is no limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeouts {
    /// A request has to arrive as a whole.
    pub request: Option<Duration>,
    /// The headers of a request have to arrive.
    pub request_headers: Option<Duration>,
    /// A response has to be there as a whole, where the object says nothing.
    pub response: Option<Duration>,
    /// A connection to a backend has to be made, where the Service says nothing.
    pub connect: Duration,
    /// A connection with a client may be idle.
    pub connection_idle: Option<Duration>,
    /// A stream may be idle.
    pub stream_idle: Option<Duration>,
    /// How old a connection with a client gets, before it is drained.
    pub max_connection_duration: Option<Duration>,
    /// How long the last bytes of a connection may take to be read by the client, after Envoy has closed its side.
    pub delayed_close: Option<Duration>,
    /// How long a connection that is drained still takes requests, between its two GOAWAYs.
    pub drain: Duration,
    /// A connection to a backend may be idle.
    pub upstream_idle: Option<Duration>,
}

/// TLS towards clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// `namespace/name` of the Secret for TLS hosts without one of their own, and for clients without a known SNI.
    pub default_secret: Option<(String, String)>,
    /// `namespace/name` of the Secret for clients without a known SNI where there is no default Secret. Everything is
    /// answered 404 behind it.
    pub fallback_secret: Option<(String, String)>,
    /// Whether plain HTTP is redirected for hosts behind TLS whose Ingress does not say.
    pub redirect: bool,
    /// The status of redirects to HTTPS.
    pub redirect_status: u16,
    /// What browsers are told by `strict-transport-security`.
    pub hsts: Hsts,
    /// A certificate that ends within this time is warned of.
    pub expiry_warning: Duration,
    /// Bounds of what objects may ask for.
    pub parameters: TlsParameters,
    /// Whether JA3 fingerprints of clients are computed, for the access log.
    pub ja3: bool,
    /// Whether JA4 fingerprints of clients are computed, for the access log.
    pub ja4: bool,
}

/// HTTP Strict Transport Security. Source: RFC 6797.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hsts {
    /// How long a browser keeps to HTTPS, in whole seconds; `None` tells browsers nothing.
    pub max_age: Option<Duration>,
    /// Whether it holds for all hosts below.
    pub include_subdomains: bool,
    /// Whether browsers may take the host into their lists.
    pub preload: bool,
}

/// What a TLS handshake may agree on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsParameters {
    /// Lowest version.
    pub minimum: TlsVersion,
    /// Highest version.
    pub maximum: TlsVersion,
    /// Cipher suites of TLS 1.2, in BoringSSL's names; empty is Envoy's choice. Those of 1.3 cannot be chosen.
    pub cipher_suites: Vec<String>,
    /// Curves and groups; empty is Envoy's choice.
    pub curves: Vec<String>,
}

/// Cipher suites for TLS 1.2, all with forward secrecy.
const CIPHER_SUITES: [&str; 4] = [
    "[ECDHE-ECDSA-AES128-GCM-SHA256|ECDHE-ECDSA-CHACHA20-POLY1305]",
    "[ECDHE-RSA-AES128-GCM-SHA256|ECDHE-RSA-CHACHA20-POLY1305]",
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-RSA-AES256-GCM-SHA384",
];

/// Headers by which proxies tell a backend about the client or about the original request. Envoy sets none of them, so a
/// backend that reads one would believe the client. What Envoy does set (`x-forwarded-for`, `x-forwarded-proto`,
/// `x-forwarded-client-cert`) is not among them.
/// Source: RFC 7239; Traefik, `forwardedHeaders`; ingress-nginx, `nginx.tmpl`; IIS URL Rewrite.
const UNTRUSTED_HEADERS: [&str; 12] = [
    "forwarded",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-prefix",
    "x-forwarded-scheme",
    "x-forwarded-server",
    "x-forwarded-ssl",
    "x-original-forwarded-for",
    "x-original-host",
    "x-original-url",
    "x-real-ip",
    "x-rewrite-url",
];

/// What is worth compressing.
const CONTENT_TYPES: [&str; 11] = [
    "application/javascript",
    "application/json",
    "application/wasm",
    "application/xhtml+xml",
    "application/xml",
    "image/svg+xml",
    "text/css",
    "text/html",
    "text/javascript",
    "text/plain",
    "text/xml",
];

impl Default for Listeners {
    fn default() -> Self {
        let every_address = |port| Bind { address: None, port };
        Self {
            http: every_address(8080),
            https: every_address(8443),
            stats: every_address(8002),
            stats_tls: StatsTls { at: every_address(0), secret: None, client_ca: None },
            overload_probe: every_address(0),
            // Whoever reaches it learns all that Envoy was told.
            admin: Bind { address: Some(Ipv4Addr::LOCALHOST.into()), port: 0 },
            ipv6: true,
            proxy_protocol: ProxyProtocol::Off,
            connection_balancer: ConnectionBalancer::Off,
            buffer_limit_bytes: 32 * 1024,
            max_connections: None,
            max_connections_per_socket_event: None,
            socket_options: SocketOptions::default(),
        }
    }
}

impl Default for Http {
    fn default() -> Self {
        Self {
            versions: vec![HttpVersion::Http2, HttpVersion::Http1],
            http3: Http3 { enabled: false, advertised_port: 443 },
            trusted_hops: 0,
            strip_trailing_host_dot: true,
            merge_slashes: true,
            escaped_slashes: EscapedSlashes::UnescapeAndRedirect,
            server_header: ServerHeader::Overwrite,
            headers_with_underscores: Underscores::Drop,
            untrusted_headers: UNTRUSTED_HEADERS.map(str::to_owned).to_vec(),
            allow_chunked_length: false,
            max_request_body_bytes: None,
            max_request_headers_kib: 60,
            max_concurrent_streams: 100,
            max_requests_per_connection: None,
            max_requests_per_io_cycle: None,
        }
    }
}

impl Default for Compression {
    fn default() -> Self {
        Self { algorithms: Vec::new(), minimum_bytes: 1024, content_types: CONTENT_TYPES.map(str::to_owned).to_vec() }
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        Self {
            request: None,
            request_headers: seconds(10),
            response: None,
            connect: Duration::from_secs(2),
            connection_idle: seconds(60),
            stream_idle: seconds(300),
            max_connection_duration: None,
            delayed_close: seconds(1),
            drain: Duration::from_secs(5),
            upstream_idle: seconds(3600),
        }
    }
}

impl Default for Tls {
    fn default() -> Self {
        Self {
            default_secret: None,
            fallback_secret: None,
            redirect: false,
            redirect_status: 301,
            hsts: Hsts::default(),
            expiry_warning: Duration::from_secs(21 * 24 * 3600),
            parameters: TlsParameters::default(),
            ja3: false,
            ja4: false,
        }
    }
}

impl Default for TlsParameters {
    fn default() -> Self {
        Self {
            minimum: TlsVersion::V1_2,
            maximum: TlsVersion::V1_3,
            cipher_suites: CIPHER_SUITES.map(str::to_owned).to_vec(),
            curves: Vec::new(),
        }
    }
}
