//! Settings of the services that Envoy calls for each request: external authorization and global rate limiting.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

pub use crate::model::{
    AuthorizationCheck, AuthorizationHttp, AuthorizationProtocol, EntryHeader, HeaderCondition, RateLimitEntry,
    RequestBody,
};

/// The address of a service, without TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceAddress {
    /// A DNS name or an IP address.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl fmt::Display for ServiceAddress {
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
    pub endpoint: Option<ServiceAddress>,
    /// The requests to the server.
    pub check: AuthorizationCheck,
    /// The context that is sent with each request, with gRPC only.
    pub context: BTreeMap<String, String>,
}

/// Global rate limiting: an external service that counts requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateLimit {
    /// The service. `None` disables rate limiting.
    pub endpoint: Option<ServiceAddress>,
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
    pub descriptors: Vec<Vec<RateLimitEntry>>,
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
