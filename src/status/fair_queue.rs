//! The due writes, fair between namespaces, so that no namespace delays the writes of another.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use lockgate_route::objects::ObjectId;
use tokio::time::Instant;

use super::token_bucket::TokenBucket;

/// A queue of due objects, in which the namespaces take turns. The objects of a namespace are sorted by time. Each namespace can have
/// a rate limit.
///
/// A tenant with 10,000 changed objects delays its own writes. It delays a write of another namespace by at most one
/// turn of each namespace in the queue.
#[derive(Debug)]
pub(super) struct FairQueue {
    /// The due objects of each namespace in the queue.
    queues: BTreeMap<Arc<str>, BTreeSet<(Instant, ObjectId)>>,
    /// The namespace that had the last turn.
    last: Arc<str>,
    /// The writes per second of one namespace, and the maximum burst. `None`: without a limit.
    rate: Option<(u32, u32)>,
    /// The rate limit of each namespace with recent writes.
    buckets: BTreeMap<Arc<str>, TokenBucket>,
}

impl FairQueue {
    /// Creates an empty queue.
    pub fn new(rate: Option<(u32, u32)>) -> Self {
        Self { queues: BTreeMap::new(), last: "".into(), rate, buckets: BTreeMap::new() }
    }

    /// Adds an object that is due since `at`.
    pub fn push(&mut self, at: Instant, id: ObjectId) {
        self.queues.entry(id.key.namespace.clone()).or_default().insert((at, id));
    }

    /// Returns the time of the next turn, if there is one.
    pub fn next(&self, now: Instant) -> Option<Instant> {
        if self.rate.is_none() {
            return self.queues.values().next()?.first().map(|(at, _)| *at);
        }
        let turn = |(namespace, queue): (&Arc<str>, &BTreeSet<(Instant, ObjectId)>)| {
            let (at, _) = queue.first()?;
            Some(self.allowed(namespace, now).map_or(*at, |allowed| allowed.max(*at)))
        };
        self.queues.iter().filter_map(turn).min()
    }

    /// Returns the time of the next write that the limit of a namespace permits. `None`: now.
    fn allowed(&self, namespace: &str, now: Instant) -> Option<Instant> {
        self.buckets.get(namespace).map(|bucket| bucket.next(now)).filter(|allowed| *allowed > now)
    }

    /// Removes and returns the first object of the next namespace that is below its limit.
    pub fn pop(&mut self, now: Instant) -> Option<(Instant, ObjectId)> {
        let after = (Bound::Excluded(self.last.clone()), Bound::Unbounded);
        let mut turns = self.queues.range(after).chain(&self.queues).map(|(namespace, _)| namespace);
        let namespace = turns.find(|namespace| self.allowed(namespace, now).is_none())?.clone();
        let queue = self.queues.get_mut(&namespace)?;
        let first = queue.pop_first();
        if queue.is_empty() {
            self.queues.remove(&namespace);
        }
        self.last = namespace;
        first
    }

    /// Counts a write of a namespace.
    pub fn take(&mut self, namespace: &Arc<str>, now: Instant) {
        let Some((per_second, burst)) = self.rate else { return };
        // A full bucket is equal to no bucket.
        self.buckets.retain(|_, bucket| !bucket.is_full(now));
        self.buckets.entry(namespace.clone()).or_insert_with(|| TokenBucket::new(per_second, burst)).take(now);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::Duration;

    use lockgate_route::objects::Kind;

    use super::*;

    fn id(namespace: &str, name: &str) -> ObjectId {
        ObjectId::new(Kind::INGRESS, namespace, name)
    }

    #[test]
    fn namespaces_take_turns() {
        let now = Instant::now();
        let mut fair_queue = FairQueue::new(None);
        let pop =
            |fair_queue: &mut FairQueue| fair_queue.pop(now).map(|(_, id)| id.key.to_string()).unwrap_or_default();
        for (i, name) in ["c", "b", "a"].into_iter().enumerate() {
            fair_queue.push(now + Duration::from_millis(i as u64), id("crowd", name));
        }
        assert_eq!(pop(&mut fair_queue), "crowd/c", "in the order of their times");
        fair_queue.push(now + Duration::from_secs(1), id("shop", "cart"));
        fair_queue.push(now, id("", "class"));
        let all: Vec<String> = (0..4).map(|_| pop(&mut fair_queue)).collect();
        assert_eq!(all, ["shop/cart", "class", "crowd/b", "crowd/a"]);
        assert_eq!((fair_queue.next(now), &*pop(&mut fair_queue)), (None, ""));
    }

    #[test]
    fn a_namespace_at_its_limit_delays_no_other() {
        let now = Instant::now();
        let mut fair_queue = FairQueue::new(Some((10, 2)));
        (0..9).for_each(|at| fair_queue.push(now, id("crowd", &at.to_string())));
        let write = |fair_queue: &mut FairQueue, now| {
            let (_, id) = fair_queue.pop(now)?;
            fair_queue.take(&id.key.namespace, now);
            Some(id.key.to_string())
        };
        let burst: Vec<String> = std::iter::from_fn(|| write(&mut fair_queue, now)).collect();
        assert_eq!(burst, ["crowd/0", "crowd/1"]);
        let later = now + Duration::from_millis(100);
        assert_eq!(fair_queue.next(now), Some(later));
        fair_queue.push(now, id("shop", "cart"));
        assert_eq!(fair_queue.next(now), Some(now));
        assert_eq!(write(&mut fair_queue, now).unwrap(), "shop/cart");
        assert_eq!(write(&mut fair_queue, now), None);
        assert_eq!(write(&mut fair_queue, later).unwrap(), "crowd/2");
    }
}
