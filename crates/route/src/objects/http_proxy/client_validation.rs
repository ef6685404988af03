//! The verification of client certificates by roots.

use serde::{Deserialize, Serialize};

use super::rest::Rest;

/// The verification of client certificates. Empty texts are absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct ClientVerification {
    /// The Secret with the certificate authorities: `name` or `namespace/name`.
    pub ca_secret: String,
    /// Whether certificates are requested and not verified.
    pub skip_client_cert_validation: bool,
    /// Whether clients without a certificate are accepted.
    pub optional_client_certificate: bool,
    /// The Secret with the revocation lists: `name` or `namespace/name`.
    pub crl_secret: String,
    /// Whether only the certificate of the client is looked up in the revocation lists.
    pub crl_only_verify_leaf_cert: bool,
    /// The parts of the certificate that backends receive.
    pub forward_client_certificate: Option<ForwardClientCertificate>,
    /// The other fields.
    #[serde(flatten)]
    #[cfg_attr(feature = "testing", schemars(skip))]
    pub rest: Rest,
}

/// The parts of the certificate of a client that backends receive in the header `x-forwarded-client-cert`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct ForwardClientCertificate {
    /// The subject.
    pub subject: bool,
    /// The certificate.
    pub cert: bool,
    /// The certificate with its chain.
    pub chain: bool,
    /// The DNS names.
    pub dns: bool,
    /// The URI.
    pub uri: bool,
    /// The other fields.
    #[serde(flatten)]
    #[cfg_attr(feature = "testing", schemars(skip))]
    pub rest: Rest,
}
