//! Settings of Envoy's upstream side.

use super::tls::TlsParameters;
use crate::model::CircuitBreakers;

/// Connections to backends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upstream {
    /// The address families of DNS names in Services of type ExternalName.
    pub dns_lookup_family: DnsLookupFamily,
    /// The number of requests after which a connection is closed gracefully. `None` sets no limit.
    pub max_requests_per_connection: Option<u32>,
    /// The size of the buffers of a connection, in bytes.
    pub buffer_limit_bytes: u32,
    /// The limits, unless the Service sets them.
    pub circuit_breakers: CircuitBreakers,
    /// The parameters of TLS to backends. By default, Envoy selects the cipher suites.
    pub tls: TlsParameters,
    /// `namespace/name` of the Secret with the key pair that Envoy presents to backends with TLS.
    pub client_certificate: Option<(String, String)>,
}

/// The address families of a DNS name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DnsLookupFamily {
    /// IPv6 if available, otherwise IPv4.
    Auto,
    /// IPv4.
    V4,
    /// IPv6.
    V6,
    /// IPv4 if available, otherwise IPv6.
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
