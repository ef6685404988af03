//! The objects that wait for Envoys, sorted by publication. A clone shares all entries.

use std::ops::Bound;

use imbl::OrdMap;
use lockgate_route::objects::ObjectKey;

use crate::inspection::Published;

/// The position of an object: its publication, then its key.
pub(super) type Position = (u64, ObjectKey);

/// The objects of one kind that wait for Envoys.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Waiting {
    ordered: OrdMap<Position, Published>,
    /// The publication of each object.
    since: OrdMap<ObjectKey, u64>,
}

impl Waiting {
    /// Sets the publication whose acceptance an object waits for. `None`: the object does not wait.
    pub fn set(&mut self, key: &ObjectKey, published: Option<Published>) {
        if let Some(since) = self.since.remove(key) {
            self.ordered.remove(&(since, key.clone()));
        }
        if let Some(published) = published {
            self.since.insert(key.clone(), published.since);
            self.ordered.insert((published.since, key.clone()), published);
        }
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.ordered.len()
    }

    /// Returns whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.ordered.is_empty()
    }

    /// Returns at most `limit` objects: first the objects after `position`, then the objects from the beginning.
    pub fn batch(&self, position: Option<&Position>, limit: usize) -> Vec<(ObjectKey, Published)> {
        let behind =
            position.map(|position| self.ordered.range::<_, Position>((Bound::Excluded(position), Bound::Unbounded)));
        let behind = behind.into_iter().flatten();
        let beginning = self.ordered.iter().take_while(|(at, _)| position.is_none_or(|position| *at <= position));
        behind.chain(beginning).take(limit).map(|((_, key), published)| (key.clone(), published.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_follow_the_order_of_publication_and_wrap_around() {
        let key = |name: &str| ObjectKey::new("shop", name);
        let at = |since| Some(Published::example(1, since));
        let mut waiting = Waiting::default();
        for (name, since) in [("a", 3), ("b", 1), ("c", 2), ("d", 2)] {
            waiting.set(&key(name), at(since));
        }
        let some = |waiting: &Waiting, position: Option<&Position>, most| -> String {
            waiting.batch(position, most).iter().map(|(key, _)| &*key.name).collect()
        };
        assert_eq!(some(&waiting, None, 9), "bcda");
        assert_eq!(some(&waiting, Some(&(2, key("c"))), 3), "dab");
        assert_eq!(some(&waiting, Some(&(2, key("cc"))), 9), "dabc");
        assert_eq!(some(&waiting, Some(&(9, key("x"))), 2), "bc");
        waiting.set(&key("b"), at(4));
        waiting.set(&key("c"), None);
        assert_eq!((&*some(&waiting, None, 9), waiting.len()), ("dab", 3));
        ["a", "b", "d"].iter().for_each(|name| waiting.set(&key(name), None));
        assert!(waiting.is_empty() && waiting == Waiting::default());
    }
}
