//! The TLS configuration of a whole Gateway: validation of clients, and the client certificate for backends.

use serde::{Deserialize, Serialize};

use super::reference::{ObjectReference, SecretRef};

/// The TLS configuration of a Gateway.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GatewayTls {
    /// TLS to backends.
    pub backend: Option<BackendTls>,
    /// TLS to clients.
    pub frontend: Option<FrontendTls>,
}

/// TLS to the backends of a Gateway.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BackendTls {
    /// The key pair that is presented to backends.
    pub client_certificate_ref: Option<SecretRef>,
}

/// TLS to the clients of a Gateway.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FrontendTls {
    /// The configuration of the HTTPS listeners without an entry in `per_port`.
    pub default: TlsConfig,
    /// The configurations of the HTTPS listeners on certain ports.
    pub per_port: Vec<PortTls>,
}

/// The TLS configuration of the HTTPS listeners on one port.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PortTls {
    /// The port.
    pub port: u16,
    /// The configuration, instead of the default one.
    pub tls: TlsConfig,
}

/// A TLS configuration of HTTPS listeners.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TlsConfig {
    /// The validation of client certificates. `None`: no certificate is requested.
    pub validation: Option<FrontendValidation>,
}

/// The validation of client certificates.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FrontendValidation {
    /// Objects with certificate authorities.
    pub ca_certificate_refs: Vec<ObjectReference>,
    /// `AllowValidOnly`, which is the default, or `AllowInsecureFallback`.
    pub mode: Option<String>,
}
