//! The due writes, fair between namespaces, so that no namespace delays the writes of another.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use lockgate_route::objects::ObjectKey;
use tokio::time::Instant;

/// A queue of due objects, in which the namespaces take turns. The objects of a namespace are sorted by time.
///
/// A tenant with 10,000 changed objects delays its own writes. It delays a write of another namespace by at most one
/// turn of each namespace in the queue.
#[derive(Debug, Default)]
pub(super) struct FairQueue {
    /// The due objects of each namespace in the queue.
    queues: BTreeMap<Arc<str>, BTreeSet<(Instant, Arc<str>)>>,
    /// The namespace that had the last turn.
    last: Arc<str>,
}

impl FairQueue {
    /// Adds an object that is due since `at`.
    pub fn push(&mut self, at: Instant, key: ObjectKey) {
        self.queues.entry(key.namespace).or_default().insert((at, key.name));
    }

    /// Returns the time at which an object became due, if there is one.
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
        let mut fair_queue = FairQueue::default();
        let pop = |fair_queue: &mut FairQueue| fair_queue.pop().map(|(_, key)| key.to_string()).unwrap_or_default();
        for (i, name) in ["c", "b", "a"].into_iter().enumerate() {
            fair_queue.push(now + std::time::Duration::from_millis(i as u64), ObjectKey::new("crowd", name));
        }
        assert_eq!(pop(&mut fair_queue), "crowd/c", "in the order of their times");
        fair_queue.push(now + std::time::Duration::from_secs(1), ObjectKey::new("shop", "cart"));
        fair_queue.push(now, ObjectKey::new("", "class"));
        let all: Vec<String> = (0..4).map(|_| pop(&mut fair_queue)).collect();
        assert_eq!(all, ["shop/cart", "class", "crowd/b", "crowd/a"]);
        assert_eq!((fair_queue.first(), &*pop(&mut fair_queue)), (None, ""));
    }
}
