//! External authorization: the calls to a server that permits or denies requests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::ClusterId;

/// A server that permits or denies the requests of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authorization {
    /// The server.
    pub cluster: ClusterId,
    /// The clusters of the other Service ports among which the calls are divided.
    pub shares: Vec<ClusterId>,
    /// The calls to the server.
    pub check: AuthorizationCheck,
    /// The request headers that a server over gRPC receives. Empty: all.
    pub grpc_headers: Vec<String>,
    /// Whether the forwarded request has all headers of a permitting answer over HTTP.
    pub copies_answer: bool,
    /// The values that a server over gRPC receives with each request.
    pub context: Arc<BTreeMap<String, String>>,
}

/// How a route differs from other routes for the authorization server of the settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingsAuthorization {
    /// The server is not asked.
    Off,
    /// The server, over gRPC, receives these values in addition to those of the settings.
    Context(Arc<BTreeMap<String, String>>),
}

/// The calls to an authorization server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthorizationCheck {
    /// The protocol of the server.
    pub protocol: AuthorizationProtocol,
    /// The timeout of a call.
    pub timeout: Duration,
    /// Whether requests are permitted if the server does not respond.
    pub fail_open: bool,
    /// The part of the request body that is sent.
    pub request_body: RequestBody,
    /// Settings that apply to HTTP only.
    pub http: AuthorizationHttp,
}

impl Default for AuthorizationCheck {
    fn default() -> Self {
        Self {
            protocol: AuthorizationProtocol::Grpc,
            // Envoy's default of 200ms is too short for a server that has just started or looks up a session. Users
            // would mistake the rejection for a decision of the server.
            timeout: Duration::from_secs(1),
            fail_open: false,
            request_body: RequestBody::default(),
            http: AuthorizationHttp::default(),
        }
    }
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
    /// Request headers that are sent in addition to the standard headers.
    pub allowed_request_headers: Vec<String>,
    /// Response headers that are set on the forwarded request.
    pub allowed_upstream_headers: Vec<String>,
    /// More request headers that are sent.
    pub request_patterns: Vec<HeaderPattern>,
    /// More response headers that are set on the forwarded request.
    pub upstream_patterns: Vec<HeaderPattern>,
}

/// Names of headers. The texts are in lower case, as the names are in Envoy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeaderPattern {
    /// A name.
    Exact(String),
    /// The beginning of names.
    Prefix(String),
    /// The end of names.
    Suffix(String),
    /// A part of names.
    Contains(String),
}

impl HeaderPattern {
    /// Returns whether a name in lower case matches.
    pub fn matches(&self, name: &str) -> bool {
        match self {
            Self::Exact(text) => name == text,
            Self::Prefix(text) => name.starts_with(text),
            Self::Suffix(text) => name.ends_with(text),
            Self::Contains(text) => name.contains(text),
        }
    }
}
