//! Due writes in turns by namespace, so that the writes of one namespace do not delay those of another.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use lockgate_route::objects::ObjectKey;
use tokio::time::Instant;

/// The objects whose time has come. The namespaces take turns; the objects of a namespace are in the order of their times.
///
/// A tenant with 10,000 changed objects delays its own writes, and the write of another namespace by one turn of each
/// namespace that has any.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// The due objects of each namespace that has any.
    queues: BTreeMap<Arc<str>, BTreeSet<(Instant, Arc<str>)>>,
    /// The namespace that had the last turn.
    last: Arc<str>,
}

impl Turns {
    /// Adds an object that is due since `at`.
    pub fn push(&mut self, at: Instant, key: ObjectKey) {
        self.queues.entry(key.namespace).or_default().insert((at, key.name));
    }

    /// Returns the time since when an object is due, if there is one.
    pub fn first(&self) -> Option<Instant> {
        self.queues.values().next()?.first().map(|(at, _)| *at)
    }

    /// Removes and returns the first object of the next namespace.
    pub fn pop(&mut self) -> Option<(Instant, ObjectKey)> {
        let after = (Bound::Excluded(self.last.clone()), Bound::Unbounded);
        let namespace = self.queues.range(after).chain(&self.queues).next().map(|(namespace, _)| namespace.clone())?;
        let queue = self.queues.get_mut(&namespace)?;
        let first = queue.pop_first();
        if queue.is_empty() {
            self.queues.remove(&namespace);
        }
        self.last = namespace.clone();
        first.map(|(at, name)| (at, ObjectKey { namespace, name }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_take_turns() {
        let now = Instant::now();
        let mut turns = Turns::default();
        let pop = |turns: &mut Turns| turns.pop().map(|(_, key)| key.to_string()).unwrap_or_default();
        for (i, name) in ["c", "b", "a"].into_iter().enumerate() {
            turns.push(now + std::time::Duration::from_millis(i as u64), ObjectKey::new("crowd", name));
        }
        assert_eq!(pop(&mut turns), "crowd/c", "in the order of their times");
        turns.push(now + std::time::Duration::from_secs(1), ObjectKey::new("shop", "cart"));
        turns.push(now, ObjectKey::new("", "class"));
        let all: Vec<String> = (0..4).map(|_| pop(&mut turns)).collect();
        assert_eq!(all, ["shop/cart", "class", "crowd/b", "crowd/a"]);
        assert_eq!((turns.first(), &*pop(&mut turns)), (None, ""));
    }
}
