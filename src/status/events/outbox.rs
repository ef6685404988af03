//! The notices that wait for their Events: bounded for each namespace, and without notices that are no longer needed. The queue
//! decides when each Event is written. No I/O; time comes as an argument.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use lockgate_route::objects::ObjectId;
use tokio::time::Instant;

use super::notice::{HEALED, Notice};
use crate::status::kinds::EVENT;
use crate::status::queue::{Base, Queue, QueueItem};

/// The maximum number of waiting notices of one namespace.
const CAPACITY: usize = 1000;
/// The maximum number of waiting notices.
const TOTAL_CAPACITY: usize = 5 * CAPACITY;
/// The maximum number of remembered Events.
const MAX_REMEMBERED: usize = 20_000;
/// The minimum duration of a problem before it is reported. With `kubectl apply`, a Service can follow shortly after
/// its Ingress.
const MIN_DURATION: Duration = Duration::from_secs(1);

/// The waiting notices, and the Events that were created.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// The waiting notice of each subject.
    notices: BTreeMap<ObjectId, Waiting>,
    /// The subjects of each namespace by the number of their notices, which increases, and whether these are warnings.
    order: BTreeMap<Arc<str>, BTreeMap<u64, (ObjectId, bool)>>,
    /// The number of the last notice.
    number: u64,
    /// The subjects whose notices differ from the queue.
    changed: BTreeSet<ObjectId>,
    /// The count of each Event that this replica knows, by namespace and name.
    counts: BTreeMap<Arc<str>, BTreeMap<String, i32>>,
    /// The number of names in `counts`.
    remembered: usize,
    /// The number of dropped notices that are not reported yet.
    dropped: u64,
}

/// A waiting notice.
#[derive(Debug)]
struct Waiting {
    number: u64,
    /// The earliest time of the Event.
    at: Instant,
    notice: Notice,
}

/// The request that reports a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Delivery {
    /// Creates an Event.
    Create,
    /// Updates the existing Event with this count.
    Update(i32),
}

/// Returns the identity of the subject of a notice in the queue.
fn subject(notice: &Notice) -> ObjectId {
    let name = format!("{}/{}/{}", notice.object.kind, notice.object.name, notice.subject);
    ObjectId::new(EVENT, &notice.object.namespace, &name)
}

impl Outbox {
    /// Adds a notice. It replaces a waiting notice on the same subject.
    pub fn push(&mut self, notice: Notice, now: Instant) {
        let (id, namespace) = (subject(&notice), notice.object.namespace.clone());
        let earlier = self.remove(&id);
        let told = self.counts.get(&namespace).is_some_and(|told| told.contains_key(&notice.name()));
        // A problem that is solved before its Event needs no Event.
        let needless = notice.reason == HEALED && earlier.is_some_and(|earlier| earlier.notice.is_warning);
        if needless || (told && !notice.is_new) {
            return;
        }
        let hold = if notice.is_warning && notice.is_new { MIN_DURATION } else { Duration::ZERO };
        self.insert(id, notice, now + hold);
        if self.order.get(&namespace).is_some_and(|order| order.len() > CAPACITY) {
            self.drop_one(&namespace);
        } else if self.notices.len() > TOTAL_CAPACITY {
            let longest = self.order.iter().max_by_key(|(_, order)| order.len());
            let longest = longest.map_or(namespace, |(namespace, _)| namespace.clone());
            self.drop_one(&longest);
        }
    }

    fn insert(&mut self, id: ObjectId, notice: Notice, at: Instant) {
        self.number += 1;
        let number = self.number;
        self.order.entry(notice.object.namespace.clone()).or_default().insert(number, (id.clone(), notice.is_warning));
        self.changed.insert(id.clone());
        self.notices.insert(id, Waiting { number, at, notice });
    }

    fn remove(&mut self, id: &ObjectId) -> Option<Waiting> {
        let waiting = self.notices.remove(id)?;
        if let Some(order) = self.order.get_mut(&id.key.namespace) {
            order.remove(&waiting.number);
            if order.is_empty() {
                self.order.remove(&id.key.namespace);
            }
        }
        self.changed.insert(id.clone());
        Some(waiting)
    }

    /// Drops a notice of a namespace: the oldest one without a problem, otherwise the oldest.
    fn drop_one(&mut self, namespace: &Arc<str>) {
        let Some(order) = self.order.get(namespace) else { return };
        let victim = order.values().find(|(_, is_warning)| !is_warning).or_else(|| order.values().next()).cloned();
        if victim.is_some_and(|(victim, _)| self.remove(&victim).is_some()) {
            self.dropped += 1;
        }
    }

    /// Updates the queue with the changed notices.
    pub fn update(&mut self, queue: &mut Queue<Notice>, now: Instant) {
        for id in std::mem::take(&mut self.changed) {
            match self.notices.get(&id) {
                Some(Waiting { number, at, notice }) => {
                    // Notices on the same subject are independent, and not a conflict with another writer.
                    let item = QueueItem::new(notice.clone(), Base::Observed(None));
                    let item = QueueItem { series: Some(*number), not_before: Some(*at), ..item };
                    queue.set(&id, item, now);
                }
                None => queue.remove(&id),
            }
        }
    }

    /// Removes a notice whose Event is being written, unless a later notice on the same subject is waiting.
    /// [`Outbox::delivered`] records its success.
    pub fn start(&mut self, id: &ObjectId, notice: &Notice) {
        if self.notices.get(id).is_some_and(|waiting| waiting.notice == *notice) {
            self.remove(id);
            self.changed.remove(id);
        }
    }

    /// Returns how a notice is reported.
    pub fn delivery(&self, notice: &Notice) -> Delivery {
        let told = self.counts.get(&notice.object.namespace).and_then(|told| told.get(&notice.name()));
        told.map_or(Delivery::Create, |times| Delivery::Update(times + 1))
    }

    /// Puts back a notice whose Event could not be written, unless a later notice on the same subject is waiting.
    pub fn put_back(&mut self, notice: Notice, at: Instant) {
        let id = subject(&notice);
        if !self.notices.contains_key(&id) {
            self.insert(id.clone(), notice, at);
            // The queue still has it.
            self.changed.remove(&id);
        }
    }

    /// Returns whether a notice on a subject is waiting.
    pub fn contains(&self, id: &ObjectId) -> bool {
        self.notices.contains_key(id)
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

    /// Drops all notices, when a term begins with an empty queue.
    pub fn clear(&mut self) {
        self.notices.clear();
        self.order.clear();
        self.changed.clear();
    }

    /// Returns the number of notices that were dropped since the last call.
    pub fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }
}

#[cfg(test)]
pub mod tests;
