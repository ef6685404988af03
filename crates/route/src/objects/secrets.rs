//! Changes of Secrets. The last good content of each Secret is retained, and a certificate is served from the start of
//! its validity.

use std::borrow::Cow;
use std::sync::Arc;

use super::{KeyPair, Kind, Object, ObjectKey, Objects, SECRET_DELETED, Secret};

/// The maximum number of deleted Secrets that are retained. A tenant who creates and deletes Secrets cannot exhaust the
/// memory.
pub(super) const DELETED_SECRETS: usize = 1024;

impl Secret {
    /// Returns whether the served pair is the current content although it has expired.
    pub fn serves_expired(&self) -> bool {
        self.pair.is_some() && self.pair == self.expired
    }

    /// Returns whether the pair of `before` takes precedence over the faulty content of this Secret.
    fn is_bettered_by(&self, before: &Self) -> bool {
        let end = |pair: &Option<Arc<KeyPair>>| pair.as_ref().map(|pair| pair.not_after);
        match (&self.expired, &self.pair) {
            (None, Some(_)) => false,
            _ => end(&before.pair) > end(&self.pair),
        }
    }
}

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
        let mut secret = Secret { early: None, expired: None, ..Secret::clone(before) };
        secret.fault = Some(SECRET_DELETED.into());
        secret.authorities_fault = Some(SECRET_DELETED.into());
        self.insert(Object::new(secret));
        self.deleted_secrets.add(key.clone());
        if self.deleted_secrets.len() > DELETED_SECRETS
            && let Some(oldest) = self.deleted_secrets.pop_oldest()
        {
            self.remove(Kind::SECRET, &oldest);
            self.update_kept(&oldest);
            self.evicted_secrets.push(oldest);
        }
        self.update_kept(key);
        true
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
