//! Settings of Envoy's side towards backends.

use super::downstream::TlsParameters;
use crate::model::CircuitBreakers;

/// Connections to backends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upstream {
    /// Which addresses of a DNS name are taken; for Services of type ExternalName.
    pub dns_lookup_family: DnsLookupFamily,
    /// Requests on one connection, after which it is closed in good order; `None` is no limit.
    pub max_requests_per_connection: Option<u32>,
    /// How much is buffered per connection, in bytes.
    pub buffer_limit_bytes: u32,
    /// Limits where the Service says nothing.
    pub circuit_breakers: CircuitBreakers,
    /// What TLS towards backends may agree on. No cipher suites are chosen by default.
    pub tls: TlsParameters,
    /// `namespace/name` of the Secret with the key pair that Envoy shows to backends that it speaks TLS with.
    pub client_certificate: Option<(String, String)>,
}

/// Which addresses of a DNS name are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DnsLookupFamily {
    /// IPv6 if there is any, else IPv4.
    Auto,
    /// IPv4.
    V4,
    /// IPv6.
    V6,
    /// IPv4 if there is any, else IPv6.
    V4Preferred,
    /// Both.
    All,
}

impl Default for Upstream {
    fn default() -> Self {
        Self {
            dns_lookup_family: DnsLookupFamily::V4Preferred,
            max_requests_per_connection: None,
            buffer_limit_bytes: 32 * 1024,
            circuit_breakers: CircuitBreakers::default(),
            tls: TlsParameters { cipher_suites: Vec::new(), ..TlsParameters::default() },
            client_certificate: None,
        }
    }
}
