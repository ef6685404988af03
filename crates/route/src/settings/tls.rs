//! Settings of TLS. The defaults suit an edge proxy.

use std::time::Duration;

use crate::model::TlsVersion;

/// Cipher suites for TLS 1.2, all with forward secrecy.
const CIPHER_SUITES: [&str; 4] = [
    "[ECDHE-ECDSA-AES128-GCM-SHA256|ECDHE-ECDSA-CHACHA20-POLY1305]",
    "[ECDHE-RSA-AES128-GCM-SHA256|ECDHE-RSA-CHACHA20-POLY1305]",
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-RSA-AES256-GCM-SHA384",
];

/// TLS for clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsSettings {
    /// `namespace/name` of the Secret for TLS hosts without a Secret, and for clients without a known SNI.
    pub default_secret: Option<(String, String)>,
    /// `namespace/name` of the Secret for clients without a known SNI, if there is no default Secret. All their
    /// requests are answered 404.
    pub fallback_secret: Option<(String, String)>,
    /// Whether plain HTTP is redirected for TLS hosts, unless their Ingress decides.
    pub redirect: bool,
    /// The status of redirects to HTTPS.
    pub redirect_status: u16,
    /// Whether a request below a wildcard host must have the server name of its connection as its host.
    pub strict_server_names: bool,
    /// The content of `strict-transport-security`.
    pub hsts: Hsts,
    /// The time before the expiry of a certificate at which a warning starts.
    pub expiry_warning: Duration,
    /// The bounds of TLS parameters in objects.
    pub parameters: TlsParameters,
    /// Whether JA3 fingerprints of clients are computed, for the access log.
    pub ja3: bool,
    /// Whether JA4 fingerprints of clients are computed, for the access log.
    pub ja4: bool,
}

impl Default for TlsSettings {
    fn default() -> Self {
        Self {
            default_secret: None,
            fallback_secret: None,
            redirect: true,
            redirect_status: 308,
            strict_server_names: false,
            hsts: Hsts::default(),
            expiry_warning: Duration::from_secs(21 * 24 * 3600),
            parameters: TlsParameters::default(),
            ja3: false,
            ja4: false,
        }
    }
}

/// HTTP Strict Transport Security. Source: RFC 6797.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hsts {
    /// The time for which a browser uses HTTPS only, in whole seconds. `None` disables the header.
    pub max_age: Option<Duration>,
    /// Whether the header applies to all subdomains.
    pub include_subdomains: bool,
    /// Whether browsers may add the host to their preload lists.
    pub preload: bool,
}

/// The parameters of TLS handshakes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsParameters {
    /// Lowest version.
    pub minimum: TlsVersion,
    /// Highest version.
    pub maximum: TlsVersion,
    /// Cipher suites of TLS 1.2, with BoringSSL's names. An empty list is Envoy's default. The cipher suites of TLS 1.3
    /// are not configurable.
    pub cipher_suites: Vec<String>,
    /// Curves and groups. An empty list is Envoy's default.
    pub curves: Vec<String>,
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
