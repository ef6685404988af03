//! Settings of the services that Envoy calls for each request: external authorization and global rate limiting.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

pub use crate::model::{AuthorizationCheck, AuthorizationHttp, AuthorizationProtocol, RequestBody};

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
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExternalAuthorization {
    /// The server. `None` disables authorization.
    pub endpoint: Option<Endpoint>,
    /// The requests to the server.
    pub check: AuthorizationCheck,
    /// The context that is sent with each request, with gRPC only.
    pub context: BTreeMap<String, String>,
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
