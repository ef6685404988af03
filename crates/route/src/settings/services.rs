//! Settings of services that Envoy asks about each request: whether it may pass, and whether there have been too many.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Where a service is asked, in clear text.
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

/// A server that says of each request whether it may pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalAuthorization {
    /// The server; without one nothing is asked.
    pub endpoint: Option<Endpoint>,
    /// How it is asked.
    pub protocol: AuthorizationProtocol,
    /// How long it may take.
    pub timeout: Duration,
    /// Whether requests pass when it gives no answer.
    pub fail_open: bool,
    /// What it is told with each request; by gRPC alone.
    pub context: BTreeMap<String, String>,
    /// What it gets of a request's body.
    pub request_body: RequestBody,
    /// What holds over HTTP alone.
    pub http: AuthorizationHttp,
}

/// How an authorization server is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthorizationProtocol {
    /// `envoy.service.auth.v3.Authorization`.
    Grpc,
    /// A request of the same method and path, which is answered 200 if it may pass.
    Http,
}

/// What an authorization server gets of a request's body.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestBody {
    /// How much at most; `None` is nothing.
    pub max_bytes: Option<u32>,
    /// Whether of a longer one its beginning is sent. Otherwise such a request is answered 413.
    pub allow_partial: bool,
    /// Whether it is sent as bytes and not as text; by gRPC alone.
    pub pack_as_bytes: bool,
}

/// What an authorization server is asked over HTTP, and what it may change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuthorizationHttp {
    /// Put before the path.
    pub path_prefix: Option<String>,
    /// Headers of the request that are passed on, beside those that always are.
    pub allowed_request_headers: Vec<String>,
    /// Headers of its answer that are set on the request.
    pub allowed_upstream_headers: Vec<String>,
}

impl Default for ExternalAuthorization {
    fn default() -> Self {
        Self {
            endpoint: None,
            protocol: AuthorizationProtocol::Grpc,
            // Envoy's own 200ms are less than a server may need that has just started or looks a session up, and who is
            // refused for it takes that for an answer.
            timeout: Duration::from_secs(1),
            fail_open: false,
            context: BTreeMap::new(),
            request_body: RequestBody::default(),
            http: AuthorizationHttp::default(),
        }
    }
}

/// A service that counts requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateLimit {
    /// The service; without one nothing is counted.
    pub endpoint: Option<Endpoint>,
    /// Whose limits these are, among all that it has.
    pub domain: String,
    /// How long it may take.
    pub timeout: Duration,
    /// Whether requests pass when it gives no answer.
    pub fail_open: bool,
    /// Whether answers have `x-ratelimit-` headers.
    pub headers: bool,
    /// Whether gRPC calls beyond the limit end with `RESOURCE_EXHAUSTED`, not `UNAVAILABLE`.
    pub resource_exhausted: bool,
    /// What it is told of a request, one list after the other.
    pub descriptors: Vec<Vec<Entry>>,
}

/// A part of what is counted. If a request has nothing for it, the whole descriptor is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// Always the same.
    GenericKey {
        /// `generic_key` if there is none.
        key: Option<String>,
        /// The value.
        value: String,
    },
    /// What the request has in a header.
    RequestHeader {
        /// The header, in lower case.
        header_name: String,
        /// The key.
        descriptor_key: String,
    },
    /// The same value for all requests whose headers match, under the key `header_match`.
    RequestHeaderValueMatch {
        /// Matches, all of which hold.
        headers: Vec<HeaderMatch>,
        /// Whether they shall match, or not.
        expect_match: bool,
        /// The value.
        value: String,
    },
    /// The client's address, under the key `remote_address`.
    RemoteAddress,
}

/// A match of a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderMatch {
    /// The header, in lower case.
    pub name: String,
    /// What is wanted of it.
    pub condition: HeaderCondition,
    /// Whether texts are compared without regard to case.
    pub ignore_case: bool,
    /// Whether a header that is not there is one with an empty value. Otherwise no condition on a value holds for it.
    pub treat_missing_as_empty: bool,
}

/// What is wanted of a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeaderCondition {
    /// It is there.
    Present,
    /// It is not.
    NotPresent,
    /// It has this value.
    Exact(String),
    /// It has another value.
    NotExact(String),
    /// It has this in its value.
    Contains(String),
    /// It does not.
    NotContains(String),
    /// Its whole value is matched by this, which is RE2.
    Regex(String),
}

impl Default for RateLimit {
    fn default() -> Self {
        Self {
            endpoint: None,
            domain: "lockgate".to_owned(),
            // Envoy's own 20ms are less than the 100ms for which a container waits that has used its share of CPU.
            timeout: Duration::from_millis(200),
            fail_open: false,
            headers: false,
            resource_exhausted: false,
            descriptors: Vec::new(),
        }
    }
}
