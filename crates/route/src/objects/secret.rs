//! Secrets: the current content, and the last good content that is served instead of a faulty one.

use std::sync::Arc;

use super::credentials::Credentials;
use super::meta::Meta;
use crate::model::{Confidential, KeyPair};

/// The fault of a deleted Secret.
pub const SECRET_DELETED: &str = "the Secret was deleted";

/// A validated Secret of type `kubernetes.io/tls`, `Opaque`, or [`API_KEYS_TYPE`](super::API_KEYS_TYPE).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secret {
    /// The metadata.
    pub meta: Meta,
    /// The key pair that is served: the current one, the last good one, or an expired one if there is no other.
    pub pair: Option<Arc<KeyPair>>,
    /// The current content, if its only fault is that it is not valid yet.
    pub early: Option<EarlyPair>,
    /// The current content, if its only fault is that it has expired.
    pub expired: Option<Arc<KeyPair>>,
    /// The fault of the current content, if any; lower case, no full stop, names the data key.
    pub fault: Option<String>,
    /// The newest usable certificate authorities (`ca.crt`) that this object ever had, in PEM. Secrets with equal
    /// authorities share the text, such as all Secrets that one authority has issued.
    pub authorities: Option<Arc<str>>,
    /// The fault of the current `ca.crt`. An absent `ca.crt` is a fault too.
    pub authorities_fault: Option<Arc<str>>,
    /// The certificate revocation lists in PEM, or their fault. `None`: there are none.
    pub revocations: Option<Result<Arc<str>, Arc<str>>>,
    /// The current credentials of clients.
    pub credentials: Option<Arc<Credentials>>,
    /// The current values that may be JSON Web Key Sets, by data key, in order. They can contain private keys.
    pub key_sets: Box<[(Arc<str>, Confidential)]>,
    /// The current secret of an application at an OpenID provider, in the data key [`CLIENT_SECRET`](super::CLIENT_SECRET).
    pub client_secret: Option<Confidential>,
}

/// A key pair whose certificate is not valid yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EarlyPair {
    /// The start of the validity, in seconds since 1970.
    pub not_before: i64,
    /// The key pair.
    pub pair: Arc<KeyPair>,
}

impl Secret {
    /// Returns whether the served pair is the current content although it has expired.
    pub fn serves_expired(&self) -> bool {
        self.pair.is_some() && self.pair == self.expired
    }

    /// Returns whether the pair of `before` takes precedence over the faulty content of this Secret.
    pub(super) fn is_bettered_by(&self, before: &Self) -> bool {
        let end = |pair: &Option<Arc<KeyPair>>| pair.as_ref().map(|pair| pair.not_after);
        match (&self.expired, &self.pair) {
            (None, Some(_)) => false,
            _ => end(&before.pair) > end(&self.pair),
        }
    }
}
