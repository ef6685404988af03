//! Settings of Envoy's downstream side: HTTP, headers, compression, timeouts. The defaults suit an edge proxy.

use std::time::Duration;

pub use crate::model::CompressionAlgorithm;

/// HTTP for clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Http {
    /// Versions offered over TCP, at least one. Without TLS, HTTP/2 requires prior knowledge.
    pub versions: Vec<HttpVersion>,
    /// HTTP/3.
    pub http3: Http3Settings,
    /// The number of trusted proxies in front of Envoy, for `x-forwarded-for`.
    pub trusted_hops: u32,
    /// Whether a dot at the end of `Host` is removed before routes are selected.
    pub strip_trailing_host_dot: bool,
    /// Whether `//` in a path becomes `/` before routes are selected.
    pub merge_slashes: bool,
    /// The handling of a path with an escaped slash or backslash.
    pub escaped_slashes: EscapedSlashes,
    /// The header `server` of responses.
    pub server_header: ServerHeader,
    /// The handling of request headers with `_` in their name.
    pub headers_with_underscores: Underscores,
    /// Headers that proxies add, in lower case. They are removed from requests of clients unless `trusted_hops` is
    /// positive.
    pub untrusted_headers: Vec<String>,
    /// How often a request may return to the Envoys of this installation.
    pub returns: u32,
    /// Whether a request with both `Content-Length` and `Transfer-Encoding: chunked` is accepted, as chunked.
    pub allow_chunked_length: bool,
    /// Whether policies may replace error responses. It costs memory for each connection manager.
    pub error_responses: bool,
    /// The maximum size of a request body in bytes. `None` sets no limit.
    pub max_request_body_bytes: Option<u32>,
    /// The maximum size of the request headers in KiB.
    pub max_request_headers_kib: u32,
    /// The maximum number of concurrent streams on one HTTP/2 or HTTP/3 connection.
    pub max_concurrent_streams: u32,
    /// The number of requests after which a connection is closed gracefully. `None` sets no limit.
    pub max_requests_per_connection: Option<u32>,
    /// The number of requests of one connection that are processed before other connections. `None` sets no limit. It
    /// is Envoy's runtime flag `http.max_requests_per_io_cycle`.
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

/// HTTP/3 on the UDP port of the TLS listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Http3Settings {
    /// Whether HTTP/3 is offered.
    pub enabled: bool,
    /// The port in `alt-svc`.
    pub advertised_port: u16,
}

/// The header `server` of responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerHeader {
    /// Always `envoy`.
    Overwrite,
    /// `envoy` if the backend sends none.
    AppendIfAbsent,
    /// The value of the backend.
    PassThrough,
}

/// The handling of request headers with `_` in their name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Underscores {
    /// Drops the headers.
    Drop,
    /// Forwards the headers.
    Allow,
    /// Rejects the request.
    Reject,
}

/// The handling of a path with `%2F` or `%5C`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EscapedSlashes {
    /// Forwards the path unchanged.
    Keep,
    /// Answers with 400.
    Reject,
    /// Redirects to the unescaped, normalized path; rejects a gRPC request.
    UnescapeAndRedirect,
    /// Unescapes and normalizes the path before routes are selected.
    UnescapeAndForward,
}

/// Compression of responses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compression {
    /// The algorithms in order of preference, for clients that accept them. An empty list disables compression.
    pub algorithms: Vec<CompressionAlgorithm>,
    /// The minimum size of compressed responses in bytes.
    pub minimum_bytes: u32,
    /// Media types that are compressed.
    pub content_types: Vec<String>,
}

/// Headers set and removed on all routes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderPolicies {
    /// Applied to requests before they are forwarded.
    pub request: HeaderPolicy,
    /// Applied to responses.
    pub response: HeaderPolicy,
    /// Whether routes of Ingresses, and answers without an object, have them.
    pub ingresses: bool,
}

impl Default for HeaderPolicies {
    fn default() -> Self {
        Self { request: HeaderPolicy::default(), response: HeaderPolicy::default(), ingresses: true }
    }
}

/// Headers set and removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeaderPolicy {
    /// Names in lower case, with their values in Envoy's format. Commands such as `%DOWNSTREAM_REMOTE_ADDRESS%` are
    /// validated, and a literal `%` is doubled.
    pub set: Vec<(String, String)>,
    /// Names in lower case.
    pub remove: Vec<String>,
}

/// Timeouts. `None` sets no limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeouts {
    /// The limit for receiving a complete request.
    pub request: Option<Duration>,
    /// The limit for receiving the headers of a request.
    pub request_headers: Option<Duration>,
    /// The limit for a complete response, unless the object sets one.
    pub response: Option<Duration>,
    /// The limit for connecting to a backend, unless the Service sets one.
    pub connect: Duration,
    /// The idle timeout of a client connection.
    pub connection_idle: Option<Duration>,
    /// The idle timeout of a stream.
    pub stream_idle: Option<Duration>,
    /// The age at which a client connection is drained.
    pub max_connection_duration: Option<Duration>,
    /// The time for a client to read the last bytes of a connection after Envoy has closed its side.
    pub delayed_close: Option<Duration>,
    /// The time between the two GOAWAYs of a draining connection, during which it still accepts requests.
    pub drain: Duration,
    /// The idle timeout of a backend connection.
    pub upstream_idle: Option<Duration>,
}

/// Headers with which proxies tell a backend about the client or about the original request. Envoy sets none of them,
/// so a backend that reads one would trust the client. Headers that Envoy does set (`x-forwarded-for`,
/// `x-forwarded-proto`, `x-forwarded-client-cert`) are not in this list. Source: RFC 7239; Traefik, `forwardedHeaders`;
/// ingress-nginx, `nginx.tmpl`; IIS URL Rewrite.
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

/// Media types that benefit from compression.
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

impl Default for Http {
    fn default() -> Self {
        Self {
            versions: vec![HttpVersion::Http2, HttpVersion::Http1],
            http3: Http3Settings { enabled: false, advertised_port: 443 },
            trusted_hops: 0,
            strip_trailing_host_dot: true,
            merge_slashes: true,
            escaped_slashes: EscapedSlashes::UnescapeAndRedirect,
            server_header: ServerHeader::Overwrite,
            headers_with_underscores: Underscores::Drop,
            untrusted_headers: UNTRUSTED_HEADERS.map(str::to_owned).to_vec(),
            returns: 0,
            allow_chunked_length: false,
            error_responses: false,
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
