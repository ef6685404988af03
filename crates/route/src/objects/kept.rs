//! The last good content of Secrets: the served content that the Secret itself no longer contains.
//!
//! The cluster does not store this content. A restarted replica reads it from the other replicas.

use std::sync::Arc;

use super::content::Object;
use super::meta::Meta;
use super::secret::{SECRET_DELETED, Secret};
use super::store::Objects;
use crate::model::{KeyPair, ObjectKey};

/// The last good content of one Secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// The Secret.
    pub key: ObjectKey,
    /// The key pair, if the current key pair of the Secret is unusable or absent.
    pub pair: Option<Arc<KeyPair>>,
    /// The certificate authorities in PEM, if the current authorities of the Secret are unusable or absent.
    pub authorities: Option<Arc<str>>,
}

impl Kept {
    /// Returns the last good content of `secret`. Returns `None` if the Secret contains all its served content.
    pub(super) fn of(secret: &Secret) -> Option<Self> {
        let pair = secret.pair.clone().filter(|_| secret.fault.is_some() && !secret.serves_expired());
        let authorities = secret.authorities.clone().filter(|_| secret.authorities_fault.is_some());
        let key = secret.meta.key.clone();
        (pair.is_some() || authorities.is_some()).then_some(Self { key, pair, authorities })
    }

    /// Returns the approximate size in bytes.
    pub fn size(&self) -> usize {
        let pair = self.pair.as_ref().map_or(0, |pair| pair.certificate_chain.len() + pair.private_key.len());
        self.key.namespace.len() + self.key.name.len() + pair + self.authorities.as_ref().map_or(0, |text| text.len())
    }
}

/// Returns whether `new` replaces the last good pair `known`. Replicas may know different pairs. All replicas select
/// the pair that expires last, so that they converge.
fn outranks(new: &KeyPair, known: Option<&Arc<KeyPair>>) -> bool {
    let rank = |pair: &KeyPair| (pair.not_after, pair.certificate_chain.clone());
    known.is_none_or(|known| rank(new) > rank(known))
}

impl Objects {
    /// Returns the last good content of all Secrets that are served by it, by key.
    pub fn kept(&self) -> impl Iterator<Item = Kept> {
        self.kept_secrets.iter().filter_map(|key| Kept::of(self.get::<Secret>(key)?))
    }

    /// Adopts the last good content of another replica. Returns whether anything changed.
    ///
    /// Content that the Secret itself contains takes precedence. A Secret that does not exist counts as deleted, if
    /// there is room for another deleted Secret. Each namespace has room for an equal share of the deleted Secrets, so a
    /// namespace cannot keep the Secrets of others from a starting replica. An adoption evicts no Secret.
    pub fn adopt(&mut self, kept: &Kept) -> bool {
        let known = self.get::<Secret>(&kept.key);
        if known.is_none() && !self.deleted_secrets.has_room(&kept.key.namespace) {
            return false;
        }
        let mut secret = known.map_or_else(|| unknown(&kept.key), Secret::clone);
        let pair = kept.pair.as_ref().filter(|new| secret.fault.is_some() && outranks(new, secret.pair.as_ref()));
        let authorities = kept.authorities.as_ref().filter(|new| {
            let is_greater = secret.authorities.as_ref().is_none_or(|known| *new > known);
            secret.authorities_fault.is_some() && is_greater
        });
        if pair.is_none() && authorities.is_none() {
            return false;
        }
        if known.is_none() {
            self.deleted_secrets.add(kept.key.clone());
        }
        secret.pair = pair.cloned().or(secret.pair);
        secret.authorities = authorities.cloned().or(secret.authorities);
        self.insert(Object::new(secret));
        self.update_kept(&kept.key);
        true
    }

    /// Records whether the Secret `key` is served by its last good content, after a change.
    pub(super) fn update_kept(&mut self, key: &ObjectKey) {
        match self.get::<Secret>(key).and_then(Kept::of) {
            Some(_) => self.kept_secrets.insert(key.clone()),
            None => self.kept_secrets.remove(key),
        };
    }
}

/// Returns a Secret that was deleted before this process could see it.
fn unknown(key: &ObjectKey) -> Secret {
    Secret {
        meta: Meta {
            key: key.clone(),
            uid: "".into(),
            generation: 0,
            created: i64::MAX,
            terminating: false,
            annotations: Default::default(),
            labels: Default::default(),
        },
        pair: None,
        early: None,
        expired: None,
        fault: Some(SECRET_DELETED.into()),
        authorities: None,
        authorities_fault: Some(SECRET_DELETED.into()),
        revocations: None,
        credentials: None,
        key_sets: Box::default(),
        client_secret: None,
    }
}
