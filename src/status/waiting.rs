//! The objects that wait for Envoys, in the order in which they were published. A clone shares everything.

use std::ops::Bound;

use imbl::OrdMap;
use lockgate_route::objects::ObjectKey;

use crate::inspection::Published;

/// A place in the order: the publication, then the object.
pub(super) type Place = (u64, ObjectKey);

/// The objects of one kind that wait for Envoys.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Waiting {
    ordered: OrdMap<Place, Published>,
    /// In which publication each is.
    since: OrdMap<ObjectKey, u64>,
}

impl Waiting {
    /// Sets the revision and publication that an object waits for, if it waits.
    pub fn set(&mut self, key: &ObjectKey, what: Option<Published>) {
        if let Some(since) = self.since.remove(key) {
            self.ordered.remove(&(since, key.clone()));
        }
        if let Some(what) = what {
            self.since.insert(key.clone(), what.since);
            self.ordered.insert((what.since, key.clone()), what);
        }
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.ordered.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.ordered.is_empty()
    }

    /// At most `most` of them: those behind `place`, then those at the beginning.
    pub fn some(&self, place: Option<&Place>, most: usize) -> Vec<(ObjectKey, Published)> {
        let behind = place.map(|place| self.ordered.range::<_, Place>((Bound::Excluded(place), Bound::Unbounded)));
        let behind = behind.into_iter().flatten();
        let beginning = self.ordered.iter().take_while(|(at, _)| place.is_none_or(|place| *at <= place));
        behind.chain(beginning).take(most).map(|((_, key), what)| (key.clone(), what.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use lockgate_route::objects::Revision;

    use super::*;

    #[test]
    fn they_come_in_the_order_of_publication_and_in_turns() {
        let key = |name: &str| ObjectKey::new("shop", name);
        let at = |since| {
            Some(Published {
                uid: "u".into(),
                revision: Revision(1),
                since,
                served: true,
                fleets: std::sync::Arc::default(),
            })
        };
        let mut waiting = Waiting::default();
        for (name, since) in [("a", 3), ("b", 1), ("c", 2), ("d", 2)] {
            waiting.set(&key(name), at(since));
        }
        let some = |waiting: &Waiting, place: Option<&Place>, most| -> String {
            waiting.some(place, most).iter().map(|(key, _)| &*key.name).collect()
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
