//! Deleted objects that are retained, in the order of their deletion.

use imbl::OrdMap;

use super::ObjectKey;

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
