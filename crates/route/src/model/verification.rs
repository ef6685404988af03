//! The verification of peers by certificate authorities: endpoints and clients.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use super::SecretId;

/// The verification of the certificates of endpoints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verification {
    /// The server name (SNI) of connections. Empty: none.
    pub server_name: Arc<str>,
    /// The authorities. One of them must have issued the certificate.
    pub authorities: Authorities,
    /// The names. The certificate must have at least one of them.
    pub names: Vec<PeerName>,
}

/// Certificate authorities.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Authorities {
    /// The authorities of the system that Envoy runs on.
    System,
    /// The authorities in a secret, by its identity in [`Model::secrets`](super::Model::secrets).
    Secret(SecretId),
}

/// A name in the certificate of a peer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum PeerName {
    /// A DNS name in lower case.
    Dns(Arc<str>),
    /// Every DNS name with at least one label before this suffix: `example.com` for `*.example.com`.
    DnsBelow(Arc<str>),
    /// A URI, such as a SPIFFE ID.
    Uri(Arc<str>),
}

/// `dns:shop.example.com`, `dns:*.example.com`, or `uri:spiffe://shop/cart`.
impl fmt::Display for PeerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dns(name) => write!(f, "dns:{name}"),
            Self::DnsBelow(suffix) => write!(f, "dns:*.{suffix}"),
            Self::Uri(uri) => write!(f, "uri:{uri}"),
        }
    }
}

/// How the certificates of clients are verified.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientValidation {
    /// The authorities with their revocation lists, by identity in [`Model::secrets`](super::Model::secrets). `None`: certificates are
    /// requested only.
    pub authorities: Option<SecretId>,
    /// Whether connections without a certificate are refused.
    pub required: bool,
    /// Whether connections with a certificate that is not valid are refused.
    pub is_verified: bool,
    /// The parts of the certificate that backends receive.
    pub forwarded: ForwardedParts,
}

impl ClientValidation {
    /// Returns the validation by these authorities. Connections without a valid certificate are refused if it is `required`.
    pub fn new(authorities: SecretId, required: bool) -> Self {
        let forwarded = ForwardedParts::default();
        Self { authorities: Some(authorities), required, is_verified: required, forwarded }
    }
}

/// The parts of the certificate of a client that backends receive in the header `x-forwarded-client-cert`. Without any, they receive no
/// header.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ForwardedParts {
    /// The subject.
    pub subject: bool,
    /// The certificate.
    pub certificate: bool,
    /// The certificate with its chain.
    pub chain: bool,
    /// The DNS names.
    pub dns: bool,
    /// The URI.
    pub uri: bool,
}

impl ForwardedParts {
    /// Returns the names of the parts.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let Self { subject, certificate, chain, dns, uri } = self;
        let parts = [("subject", subject), ("cert", certificate), ("chain", chain), ("dns", dns), ("uri", uri)];
        parts.into_iter().filter(|(_, is_forwarded)| *is_forwarded).map(|(name, _)| name)
    }
}

impl Verification {
    /// Returns the secret with the authorities, if there is one.
    pub fn secret(&self) -> Option<&SecretId> {
        match &self.authorities {
            Authorities::System => None,
            Authorities::Secret(secret) => Some(secret),
        }
    }

    /// Appends the content to the text whose hash identifies a policy. The length of each text that tenants write precedes
    /// it, so that different contents give different texts.
    pub(super) fn write(&self, text: &mut String) {
        // Without `..`, so that a new field does not compile until it is hashed.
        let Self { server_name, authorities, names } = self;
        let mut part = |key: &str, value: &str| {
            // Writing to a string cannot fail.
            let _ = write!(text, ";{key}={}:{value}", value.len());
        };
        part("sni", server_name);
        match authorities {
            Authorities::System => part("authorities", ""),
            Authorities::Secret(secret) => part("authorities", &secret.to_string()),
        }
        names.iter().for_each(|name| part("name", &name.to_string()));
    }
}
