//! Changes of Secrets. The last good content of each Secret is retained, and a certificate is served from the start of
//! its validity.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::sync::Arc;

use imbl::OrdMap;

use super::deleted::Deleted;
use super::{KeyPair, Kind, Object, ObjectKey, Objects, SECRET_DELETED, Secret};

/// The maximum number of deleted Secrets that are retained. A tenant who creates and deletes Secrets cannot exhaust the
/// memory.
pub(super) const DELETED_SECRETS: usize = 1024;

/// The deleted Secrets that are retained, by namespace. A clone is cheap and shares all keys.
#[derive(Debug, Clone, Default)]
pub(super) struct DeletedSecrets {
    /// The deleted Secrets of each namespace that has any, and the number of its last deletion.
    namespaces: OrdMap<Arc<str>, (u64, Deleted)>,
    /// The number of deleted Secrets of all namespaces.
    len: usize,
    /// The number of deletions so far.
    deletions: u64,
}

impl DeletedSecrets {
    /// Returns the number of deleted Secrets.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns whether `key` is a deleted Secret.
    fn contains(&self, key: &ObjectKey) -> bool {
        self.namespaces.get(&key.namespace).is_some_and(|(_, keys)| keys.contains(key))
    }

    /// Adds a Secret as the last deletion of its namespace.
    pub(super) fn add(&mut self, key: ObjectKey) {
        self.remove(&key);
        self.deletions += 1;
        let (last, keys) = self.namespaces.entry(key.namespace.clone()).or_default();
        *last = self.deletions;
        keys.add(key);
        self.len += 1;
    }

    /// Removes a Secret.
    fn remove(&mut self, key: &ObjectKey) {
        // Most applied Secrets were not deleted. A mutable access would copy nodes of the map anyway.
        if !self.contains(key) {
            return;
        }
        let Some((_, keys)) = self.namespaces.get_mut(&key.namespace) else { return };
        keys.remove(key);
        if keys.len() == 0 {
            self.namespaces.remove(&key.namespace);
        }
        self.len -= 1;
    }

    /// Returns the Secret to evict: the oldest deletion of the namespace with the most deleted Secrets. A namespace can
    /// thus displace only its own Secrets while another namespace has fewer. Of several such namespaces, it selects the
    /// one whose last deletion is the oldest. A namespace that does not exist comes first, because it serves nothing.
    fn surplus(&self, exists: impl Fn(&Arc<str>) -> bool) -> Option<ObjectKey> {
        let of_namespaces = self.namespaces.iter();
        let (_, (_, keys)) =
            of_namespaces.max_by_key(|(namespace, (last, keys))| (!exists(namespace), keys.len(), Reverse(*last)))?;
        keys.clone().pop_oldest()
    }

    /// Returns whether a deleted Secret of `namespace` that another replica retains can be added: up to the limit, and
    /// beyond it up to an equal share of the limit for each namespace. The next deletion evicts the surplus, and leaves
    /// each namespace its share.
    pub(super) fn has_room(&self, namespace: &Arc<str>) -> bool {
        let own = self.namespaces.get(namespace).map_or(0, |(_, keys)| keys.len());
        let namespaces = self.namespaces.len() + usize::from(own == 0);
        self.len < DELETED_SECRETS || own < DELETED_SECRETS / namespaces
    }
}

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
