//! The queue of notices: bounded, and fair between namespaces. No I/O; time comes as an argument.
//!
//! Each namespace has its own queue and rate, and the namespaces take turns. A tenant with 10,000 problems delays its
//! own Events. It delays the first Event of another namespace by at most one turn of each namespace in the queue.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::notice::{HEALED, Notice};
use crate::status::token_bucket::TokenBucket;

/// The maximum number of queued notices of one namespace.
const CAPACITY: usize = 1000;
/// The maximum number of queued notices.
const TOTAL_CAPACITY: usize = 5 * CAPACITY;
/// The maximum number of remembered Events.
const MAX_REMEMBERED: usize = 20_000;
/// Events per second of one namespace, and the maximum burst. Both are half of the limits of all namespaces.
const RATE: (u32, u32) = (5, 25);
/// The minimum duration of a problem before it is reported. With `kubectl apply`, a Service can follow shortly after
/// its Ingress.
const MIN_DURATION: Duration = Duration::from_secs(1);

/// The queued notices, and the Events that were created.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// The queued notices of each namespace, with the earliest time of their Events.
    queues: BTreeMap<Arc<str>, VecDeque<(Instant, Notice)>>,
    /// The number of queued notices.
    waiting: usize,
    /// The namespace that had the last turn.
    last: Arc<str>,
    /// The rate limit of each namespace with recent Events.
    rates: BTreeMap<Arc<str>, TokenBucket>,
    /// The count of each Event that this replica knows, by namespace and name.
    counts: BTreeMap<Arc<str>, BTreeMap<String, i32>>,
    /// The number of names in `counts`.
    remembered: usize,
    /// The number of dropped notices that are not reported yet.
    dropped: u64,
}

/// The request that reports a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Delivery {
    /// Creates an Event.
    Create,
    /// Updates the existing Event with this count.
    Update(i32),
}

impl Outbox {
    /// Adds a notice. It replaces a queued notice on the same subject.
    pub fn push(&mut self, notice: Notice, now: Instant) {
        let namespace = notice.object.namespace.clone();
        let queue = self.queues.entry(namespace.clone()).or_default();
        let before = queue.len();
        let same = |other: &Notice| other.object == notice.object && other.subject == notice.subject;
        let earlier = queue.iter().position(|(_, other)| same(other));
        let earlier = earlier.and_then(|at| queue.remove(at));
        let told = self.counts.get(&namespace).is_some_and(|told| told.contains_key(&notice.name()));
        // A problem that is solved before its Event needs no Event.
        let needless = notice.reason == HEALED && earlier.is_some_and(|(_, earlier)| earlier.is_warning);
        if !needless && (notice.is_new || !told) {
            let hold = if notice.is_warning && notice.is_new { MIN_DURATION } else { Duration::ZERO };
            queue.push_back((now + hold, notice));
        }
        self.waiting = self.waiting + queue.len() - before;
        if queue.is_empty() {
            self.queues.remove(&namespace);
        } else if queue.len() > CAPACITY {
            self.drop_one(&namespace);
        } else if self.waiting > TOTAL_CAPACITY {
            let longest = self.queues.iter().max_by_key(|(_, queue)| queue.len());
            let longest = longest.map_or(namespace, |(namespace, _)| namespace.clone());
            self.drop_one(&longest);
        }
    }

    /// Drops a notice of a namespace: the oldest one without a problem, otherwise the oldest.
    fn drop_one(&mut self, namespace: &Arc<str>) {
        let Some(queue) = self.queues.get_mut(namespace) else { return };
        let victim = queue.iter().position(|(_, notice)| !notice.is_warning).unwrap_or(0);
        if queue.remove(victim).is_some() {
            self.waiting -= 1;
            self.dropped += 1;
        }
        if queue.is_empty() {
            self.queues.remove(namespace);
        }
    }

    /// Returns the earliest time of the next Event in a namespace. `None`: it has no notices.
    fn due(&self, namespace: &Arc<str>, now: Instant) -> Option<Instant> {
        let (at, _) = self.queues.get(namespace)?.front()?;
        let allowed = self.rates.get(namespace).map_or(now, |rate| rate.next(now));
        Some(if allowed > now { allowed.max(*at) } else { *at })
    }

    /// Returns the earliest time of the next Event.
    pub fn next(&self, now: Instant) -> Option<Instant> {
        self.queues.keys().filter_map(|namespace| self.due(namespace, now)).min()
    }

    /// Removes and returns the next notice that is due, of the next namespace. [`Outbox::delivered`] records its
    /// success.
    pub fn pop(&mut self, now: Instant) -> Option<(Notice, Delivery)> {
        let is_due = |namespace: &&Arc<str>| self.due(namespace, now).is_some_and(|due| due <= now);
        let after = (std::ops::Bound::Excluded(self.last.clone()), std::ops::Bound::Unbounded);
        let later = self.queues.range(after).map(|(namespace, _)| namespace);
        let namespace = later.chain(self.queues.keys()).find(is_due)?.clone();
        let queue = self.queues.get_mut(&namespace)?;
        let (_, notice) = queue.pop_front()?;
        self.waiting -= 1;
        if queue.is_empty() {
            self.queues.remove(&namespace);
        }
        // A full bucket is equal to no bucket.
        self.rates.retain(|_, rate| !rate.is_full(now));
        self.rates.entry(namespace.clone()).or_insert_with(|| TokenBucket::new(RATE.0, RATE.1)).take(now);
        let told = self.counts.get(&namespace).and_then(|told| told.get(&notice.name()));
        let delivery = told.map_or(Delivery::Create, |times| Delivery::Update(times + 1));
        self.last = namespace;
        Some((notice, delivery))
    }

    /// Puts back a notice whose Event could not be written, unless a later notice on the same subject is queued.
    pub fn put_back(&mut self, notice: Notice, at: Instant) {
        let queue = self.queues.entry(notice.object.namespace.clone()).or_default();
        let same = |other: &Notice| other.object == notice.object && other.subject == notice.subject;
        if !queue.iter().any(|(_, other)| same(other)) {
            queue.push_front((at, notice));
            self.waiting += 1;
        }
    }

    /// Records that the Event of a notice exists with this count.
    pub fn delivered(&mut self, notice: &Notice, times: i32) {
        if self.remembered >= MAX_REMEMBERED {
            // A namespace with many Events does not displace the Events of other namespaces.
            let most = self.counts.iter().max_by_key(|(_, names)| names.len()).map(|(namespace, _)| namespace.clone());
            let forgotten = most.and_then(|namespace| self.counts.remove(&namespace));
            self.remembered -= forgotten.map_or(0, |names| names.len());
        }
        let names = self.counts.entry(notice.object.namespace.clone()).or_default();
        self.remembered += usize::from(names.insert(notice.name(), times).is_none());
    }

    /// Records that the Event of a notice no longer exists. Events expire.
    pub fn forget(&mut self, notice: &Notice) {
        let Some(names) = self.counts.get_mut(&notice.object.namespace) else { return };
        self.remembered -= usize::from(names.remove(&notice.name()).is_some());
    }

    /// Drops all notices, when this replica no longer leads.
    pub fn clear(&mut self) {
        self.queues.clear();
        self.waiting = 0;
    }

    /// Returns the number of queued notices.
    pub fn len(&self) -> usize {
        self.waiting
    }

    /// Returns the number of notices that were dropped since the last call.
    pub fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }
}

#[cfg(test)]
mod tests;
