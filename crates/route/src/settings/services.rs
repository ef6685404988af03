//! Settings of the services that Envoy calls for each request: external authorization and global rate limiting.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// The address of a service, without TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// A DNS name or an IP address.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        match host.contains(':') {
            true => write!(f, "[{host}]:{port}"),
            false => write!(f, "{host}:{port}"),
        }
    }
}

/// External authorization: a server that permits or denies each request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalAuthorization {
    /// The server. `None` disables authorization.
    pub endpoint: Option<Endpoint>,
    /// The protocol of the server.
    pub protocol: AuthorizationProtocol,
    /// The timeout of a call.
    pub timeout: Duration,
    /// Whether requests are permitted if the server does not respond.
    pub fail_open: bool,
    /// The context that is sent with each request, with gRPC only.
    pub context: BTreeMap<String, String>,
    /// The part of the request body that is sent.
    pub request_body: RequestBody,
    /// Settings that apply to HTTP only.
    pub http: AuthorizationHttp,
}

/// The protocol of an authorization server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthorizationProtocol {
    /// `envoy.service.auth.v3.Authorization`.
    Grpc,
    /// A request with the same method and path. A response of 200 permits the request.
    Http,
}

/// The part of the request body that is sent to an authorization server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestBody {
    /// The maximum size in bytes. `None` sends no body.
    pub max_bytes: Option<u32>,
    /// Whether the beginning of a longer body is sent. Otherwise, such a request is answered 413.
    pub allow_partial: bool,
    /// Whether the body is sent as bytes instead of text, with gRPC only.
    pub pack_as_bytes: bool,
}

/// The HTTP request to an authorization server, and the headers that its response may set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuthorizationHttp {
    /// The prefix of the path.
    pub path_prefix: Option<String>,
    /// Request headers that are sent in addition to the standard ones.
    pub allowed_request_headers: Vec<String>,
    /// Response headers that are set on the forwarded request.
    pub allowed_upstream_headers: Vec<String>,
}

impl Default for ExternalAuthorization {
    fn default() -> Self {
        Self {
            endpoint: None,
            protocol: AuthorizationProtocol::Grpc,
            // Envoy's default of 200ms is too short for a server that has just started or looks up a session. Users
            // would mistake the rejection for a decision of the server.
            timeout: Duration::from_secs(1),
            fail_open: false,
            context: BTreeMap::new(),
            request_body: RequestBody::default(),
            http: AuthorizationHttp::default(),
        }
    }
}

/// Global rate limiting: an external service that counts requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateLimit {
    /// The service. `None` disables rate limiting.
    pub endpoint: Option<Endpoint>,
    /// The domain of the limits within the service.
    pub domain: String,
    /// The timeout of a call.
    pub timeout: Duration,
    /// Whether requests are permitted if the service does not respond.
    pub fail_open: bool,
    /// Whether responses have `x-ratelimit-` headers.
    pub headers: bool,
    /// Whether gRPC calls over the limit end with `RESOURCE_EXHAUSTED` instead of `UNAVAILABLE`.
    pub resource_exhausted: bool,
    /// The descriptors of a request, each a list of entries.
    pub descriptors: Vec<Vec<Entry>>,
}

/// An entry of a descriptor. If a request has no value for it, the whole descriptor is omitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A constant value.
    GenericKey {
        /// The key, by default `generic_key`.
        key: Option<String>,
        /// The value.
        value: String,
    },
    /// The value of a request header.
    RequestHeader {
        /// The header, in lower case.
        header_name: String,
        /// The key.
        descriptor_key: String,
    },
    /// A constant value for all requests whose headers match, with the key `header_match`.
    RequestHeaderValueMatch {
        /// The conditions, which must all match.
        headers: Vec<HeaderMatch>,
        /// Whether the headers must match or must not match.
        expect_match: bool,
        /// The value.
        value: String,
    },
    /// The client's address, with the key `remote_address`.
    RemoteAddress,
}

/// A match of a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderMatch {
    /// The header, in lower case.
    pub name: String,
    /// The condition of the match.
    pub condition: HeaderCondition,
    /// Whether the case of letters is ignored.
    pub ignore_case: bool,
    /// Whether an absent header counts as a header with an empty value. Otherwise, no condition on a value matches.
    pub treat_missing_as_empty: bool,
}

/// The condition of a header match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeaderCondition {
    /// The header is present.
    Present,
    /// The header is absent.
    NotPresent,
    /// The header has this value.
    Exact(String),
    /// The header has another value.
    NotExact(String),
    /// The value contains this text.
    Contains(String),
    /// The value does not contain this text.
    NotContains(String),
    /// The complete value matches this RE2 pattern.
    Regex(String),
}

impl Default for RateLimit {
    fn default() -> Self {
        Self {
            endpoint: None,
            domain: "lockgate".to_owned(),
            // Envoy's default of 20ms is shorter than the 100ms that a throttled container waits for CPU.
            timeout: Duration::from_millis(200),
            fail_open: false,
            headers: false,
            resource_exhausted: false,
            descriptors: Vec::new(),
        }
    }
}
