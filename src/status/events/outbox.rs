//! The notices that wait to be told: bounded, and shared fairly among namespaces. Time comes as an argument.
//!
//! Each namespace has a queue and a rate of its own, and the queues take turns. A tenant with 10,000 faulty objects
//! therefore delays its own Events, and the first Event of another namespace by one turn of each namespace that waits.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::notice::{HEALED, Notice};
use crate::status::bucket::Bucket;

/// Notices of one namespace that wait at a time.
const ROOM: usize = 1000;
/// Notices of all namespaces that wait at a time.
const ROOM_OF_ALL: usize = 5 * ROOM;
/// Names of Events that are remembered.
const REMEMBERED: usize = 20_000;
/// Events of one namespace a second, and at once after a pause: half of what all namespaces have together.
const RATE: (u32, u32) = (5, 25);
/// A fault is told when it has lasted so long: a Service that comes right after its Ingress, as `kubectl apply` may do
/// it, is none.
const HOLD: Duration = Duration::from_secs(1);

/// What is still to be told, and what has been.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// The namespaces with notices that wait.
    queues: BTreeMap<Arc<str>, VecDeque<(Instant, Notice)>>,
    /// The sum of the lengths of the queues.
    waiting: usize,
    /// The namespace that was told last: the next one in order is next.
    last: Arc<str>,
    /// What each namespace has been told of late.
    rates: BTreeMap<Arc<str>, Bucket>,
    /// How often each Event was told, as far as this replica knows, by namespace.
    told: BTreeMap<Arc<str>, BTreeMap<String, i32>>,
    /// The number of names in `told`.
    remembered: usize,
    /// Notices that found no room.
    dropped: u64,
}

/// How a notice is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Telling {
    /// By a new Event.
    New,
    /// By an Event that is there already: it has happened so often now.
    Again(i32),
}

impl Outbox {
    /// Adds a notice, in the place of an earlier one on the same subject that has not been told yet.
    pub fn push(&mut self, notice: Notice, now: Instant) {
        let namespace = notice.object.namespace.clone();
        let queue = self.queues.entry(namespace.clone()).or_default();
        let before = queue.len();
        let same = |other: &Notice| other.object == notice.object && other.subject == notice.subject;
        let earlier = queue.iter().position(|(_, other)| same(other));
        let earlier = earlier.and_then(|at| queue.remove(at));
        let told = self.told.get(&namespace).is_some_and(|told| told.contains_key(&notice.name()));
        // What was healed before anybody was told of it needs no telling.
        let needless = notice.reason == HEALED && earlier.is_some_and(|(_, earlier)| earlier.is_warning);
        if !needless && (notice.is_new || !told) {
            let hold = if notice.is_warning && notice.is_new { HOLD } else { Duration::ZERO };
            queue.push_back((now + hold, notice));
        }
        self.waiting = self.waiting + queue.len() - before;
        if queue.is_empty() {
            self.queues.remove(&namespace);
        } else if queue.len() > ROOM {
            self.drop_one(&namespace);
        } else if self.waiting > ROOM_OF_ALL {
            let longest = self.queues.iter().max_by_key(|(_, queue)| queue.len());
            let longest = longest.map_or(namespace, |(namespace, _)| namespace.clone());
            self.drop_one(&longest);
        }
    }

    /// Drops a notice of a namespace: good news first, else the oldest.
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

    /// When a namespace may be told its first notice; `None` if it has none.
    fn due(&self, namespace: &Arc<str>, now: Instant) -> Option<Instant> {
        let (at, _) = self.queues.get(namespace)?.front()?;
        let may = self.rates.get(namespace).map_or(now, |rate| rate.next(now));
        Some(if may > now { may.max(*at) } else { *at })
    }

    /// When the next notice may be told.
    pub fn next(&self, now: Instant) -> Option<Instant> {
        self.queues.keys().filter_map(|namespace| self.due(namespace, now)).min()
    }

    /// The next notice, if the time of one has come: of the first namespace after the one that was told last. To be told
    /// anew unless [`Outbox::told`] follows.
    pub fn pop(&mut self, now: Instant) -> Option<(Notice, Telling)> {
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
        // A full bucket is as good as none.
        self.rates.retain(|_, rate| !rate.is_full(now));
        self.rates.entry(namespace.clone()).or_insert_with(|| Bucket::new(RATE.0, RATE.1)).take(now);
        let told = self.told.get(&namespace).and_then(|told| told.get(&notice.name()));
        let telling = told.map_or(Telling::New, |times| Telling::Again(times + 1));
        self.last = namespace;
        Some((notice, telling))
    }

    /// Puts back a notice that could not be told, for later; unless there is a later one on the same subject.
    pub fn put_back(&mut self, notice: Notice, at: Instant) {
        let queue = self.queues.entry(notice.object.namespace.clone()).or_default();
        let same = |other: &Notice| other.object == notice.object && other.subject == notice.subject;
        if !queue.iter().any(|(_, other)| same(other)) {
            queue.push_front((at, notice));
            self.waiting += 1;
        }
    }

    /// Notes that the Event of a notice is there now, and was told so often.
    pub fn told(&mut self, notice: &Notice, times: i32) {
        if self.remembered >= REMEMBERED {
            // The names of one namespace do not cost those of another.
            let most = self.told.iter().max_by_key(|(_, names)| names.len()).map(|(namespace, _)| namespace.clone());
            let forgotten = most.and_then(|namespace| self.told.remove(&namespace));
            self.remembered -= forgotten.map_or(0, |names| names.len());
        }
        let names = self.told.entry(notice.object.namespace.clone()).or_default();
        self.remembered += usize::from(names.insert(notice.name(), times).is_none());
    }

    /// Notes that the Event of a notice is gone: they do not last.
    pub fn forget(&mut self, notice: &Notice) {
        let Some(names) = self.told.get_mut(&notice.object.namespace) else { return };
        self.remembered -= usize::from(names.remove(&notice.name()).is_some());
    }

    /// Drops all notices: nothing is told any more by this replica.
    pub fn clear(&mut self) {
        self.queues.clear();
        self.waiting = 0;
    }

    /// The number of notices that wait.
    pub fn len(&self) -> usize {
        self.waiting
    }

    /// The number of notices that found no room since this was last asked.
    pub fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }
}

#[cfg(test)]
mod tests;
