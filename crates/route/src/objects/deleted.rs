//! Deleted Secrets that are retained, in the order of their deletion, and the choice of the Secret to evict.

use std::cmp::Reverse;
use std::sync::Arc;

use imbl::OrdMap;

use crate::model::ObjectKey;

/// The maximum number of deleted Secrets that are retained. A tenant who creates and deletes Secrets cannot exhaust the
/// memory.
pub(super) const DELETED_SECRETS: usize = 1024;

/// Keys in the order in which they were added. A clone is cheap and shares all keys.
///
/// It consists of two maps instead of an `imbl::Vector`: `Vector::retain` frees elements twice if the vector is shared
/// and has more than 64 elements.
#[derive(Debug, Clone, Default)]
pub struct Deleted {
    keys: OrdMap<u64, ObjectKey>,
    numbers: OrdMap<ObjectKey, u64>,
}

impl Deleted {
    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns whether the set contains a key.
    pub fn contains(&self, key: &ObjectKey) -> bool {
        self.numbers.contains_key(key)
    }

    /// Adds a key as the newest.
    pub fn add(&mut self, key: ObjectKey) {
        self.remove(&key);
        let number = self.keys.get_max().map_or(0, |(newest, _)| newest + 1);
        self.keys.insert(number, key.clone());
        self.numbers.insert(key, number);
    }

    /// Removes a key.
    pub fn remove(&mut self, key: &ObjectKey) {
        if let Some(number) = self.numbers.remove(key) {
            self.keys.remove(&number);
        }
    }

    /// Removes and returns the oldest key.
    pub fn pop_oldest(&mut self) -> Option<ObjectKey> {
        let (_, oldest) = self.keys.get_min()?;
        let oldest = oldest.clone();
        self.remove(&oldest);
        Some(oldest)
    }
}

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
    pub(super) fn contains(&self, key: &ObjectKey) -> bool {
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
    pub(super) fn remove(&mut self, key: &ObjectKey) {
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
    pub(super) fn surplus(&self, exists: impl Fn(&Arc<str>) -> bool) -> Option<ObjectKey> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_kept_in_order_while_clones_share_them() {
        let (mut deleted, mut expected) = (Deleted::default(), Vec::new());
        let mut clones = Vec::new();
        for i in 0..5_000_u64 {
            let key = ObjectKey::new("shop", &format!("{}", i * 7919 % 1500));
            expected.retain(|other| *other != key);
            expected.push(key.clone());
            deleted.add(key);
            if i % 3 == 0 {
                let key = ObjectKey::new("shop", &format!("{}", i * 31 % 1500));
                expected.retain(|other| *other != key);
                deleted.remove(&key);
            }
            if expected.len() > 1000 {
                assert_eq!(deleted.pop_oldest(), Some(expected.remove(0)));
            }
            clones.push(deleted.clone());
            clones.truncate(5);
            assert_eq!(deleted.len(), expected.len());
        }
        assert!(expected.iter().all(|key| deleted.contains(key)));
        let in_order: Vec<ObjectKey> = std::iter::from_fn(|| deleted.pop_oldest()).collect();
        assert_eq!(in_order, expected);
    }
}
