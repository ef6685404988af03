//! Changes of Secrets. The last good content of each Secret is retained, and a certificate is served from the start of
//! its validity.

use std::borrow::Cow;
use std::sync::Arc;

use super::content::Object;
use super::deleted::DELETED_SECRETS;
use super::kind::Kind;
use super::secret::{SECRET_DELETED, Secret};
use super::store::Objects;
use crate::model::ObjectKey;

impl Objects {
    /// Inserts a Secret, and retains the last good content of the previous version. Returns whether anything changed.
    pub(super) fn apply_secret(&mut self, object: Object) -> bool {
        let Some(content) = object.get::<Secret>() else { return false };
        let (key, mut secret) = (content.meta.key.clone(), Cow::Borrowed(content));
        self.deleted_secrets.remove(&key);
        self.forget_early(&key);
        if let Some(early) = &secret.early {
            self.early_secrets.insert((early.not_before, key.clone()));
        }
        if secret.pair.is_none() && secret.expired.is_some() {
            secret.to_mut().pair = secret.expired.clone();
        }
        if let Some(before) = self.get::<Secret>(&key) {
            if secret.fault.is_some() && secret.is_bettered_by(before) {
                secret.to_mut().pair = before.pair.clone();
            }
            if secret.authorities.is_none() && before.authorities.is_some() {
                secret.to_mut().authorities = before.authorities.clone();
            }
        }
        let owned = match secret {
            Cow::Owned(secret) => Some(Object::new(secret)),
            Cow::Borrowed(_) => None,
        };
        let changed = self.insert(owned.unwrap_or(object));
        self.update_kept(&key);
        changed
    }

    pub(super) fn delete_secret(&mut self, key: &ObjectKey) -> bool {
        self.forget_early(key);
        let Some(before) = self.get::<Secret>(key) else { return false };
        if before.pair.is_none() && before.authorities.is_none() {
            self.remove(Kind::SECRET, key);
            self.update_kept(key);
            return true;
        }
        if self.deleted_secrets.contains(key) {
            return false;
        }
        let mut secret = Secret {
            early: None,
            expired: None,
            revocations: None,
            credentials: None,
            key_sets: Box::default(),
            client_secret: None,
            ..Secret::clone(before)
        };
        secret.fault = Some(SECRET_DELETED.into());
        secret.authorities_fault = Some(SECRET_DELETED.into());
        self.insert(Object::new(secret));
        self.deleted_secrets.add(key.clone());
        self.update_kept(key);
        self.evict_deleted_secrets();
        true
    }

    /// Evicts deleted Secrets beyond [`DELETED_SECRETS`].
    fn evict_deleted_secrets(&mut self) {
        while self.deleted_secrets.len() > DELETED_SECRETS {
            let Some(evicted) = self.deleted_secrets.surplus(self.existing_namespaces()) else { return };
            self.deleted_secrets.remove(&evicted);
            self.remove(Kind::SECRET, &evicted);
            self.update_kept(&evicted);
            self.evicted_secrets.push(evicted);
        }
    }

    /// Returns the condition that a namespace exists. It always holds if no Namespace is known, as without the permission
    /// to list them.
    fn existing_namespaces(&self) -> impl Fn(&Arc<str>) -> bool {
        let (none, is_unknown) = (Arc::from(""), self.of_kind(Kind::NAMESPACE).is_empty());
        move |name| {
            let key = ObjectKey { namespace: Arc::clone(&none), name: name.clone() };
            is_unknown || self.meta(Kind::NAMESPACE, &key).is_some()
        }
    }

    fn forget_early(&mut self, key: &ObjectKey) {
        if let Some(early) = self.get::<Secret>(key).and_then(|secret| secret.early.as_ref()) {
            self.early_secrets.remove(&(early.not_before, key.clone()));
        }
    }

    /// Returns when the next certificate becomes valid, in seconds since 1970.
    pub fn next_validity(&self) -> Option<i64> {
        self.early_secrets.get_min().map(|(not_before, _)| *not_before)
    }

    /// Starts to use the key pairs whose certificates have become valid at `now`, as if their Secrets arrived now.
    /// Returns the changed Secrets.
    pub fn use_valid_secrets(&mut self, now: i64) -> Vec<ObjectKey> {
        let mut changed = Vec::new();
        while let Some((not_before, key)) = self.early_secrets.get_min().cloned().filter(|(at, _)| *at <= now) {
            self.early_secrets.remove(&(not_before, key.clone()));
            let Some(mut secret) = self.get::<Secret>(&key).cloned() else { continue };
            // The clock may have jumped. An expired pair stays faulty.
            let valid = secret.early.take().filter(|early| now <= early.pair.not_after);
            let is_valid = valid.is_some();
            if let Some(early) = valid {
                (secret.pair, secret.fault) = (Some(early.pair), None);
            }
            self.insert(Object::new(secret));
            if is_valid {
                self.update_kept(&key);
                changed.push(key);
            }
        }
        changed
    }

    /// Returns the deleted Secrets that were evicted since the last call. These Secrets have changed, like the object
    /// whose deletion evicted them.
    pub fn take_evicted_secrets(&mut self) -> Vec<ObjectKey> {
        std::mem::take(&mut self.evicted_secrets)
    }
}
