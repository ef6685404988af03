//! Deletions that wait for a moment, in case the object is created again.
//!
//! `kubectl replace --force`, and many pipelines, delete an object and create it again some milliseconds later. Between the
//! two, requests were answered 404. So a deletion that a watch tells counts only after [`GRACE`], and not at all if the
//! object is back by then.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use lockgate_route::objects::{Kind, ObjectKey};

/// How long a deletion waits. `kubectl replace --force` takes 20 to 500 ms between the two, depending on how busy and how far
/// away the API server is.
pub(super) const GRACE: Duration = Duration::from_secs(1);

/// The deletions that wait.
#[derive(Debug, Default)]
pub(super) struct Deletions {
    /// When they count, by kind, then by group: objects of which one may stand for another.
    waiting: BTreeMap<(Kind, ObjectKey), BTreeMap<ObjectKey, Instant>>,
    /// In the order in which they came; some of them wait no longer, or came a second time.
    order: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    due: Instant,
    kind: Kind,
    group: ObjectKey,
    key: ObjectKey,
}

impl Deletions {
    /// Lets the deletion of an object wait from `now` on, if those of its kind do; returns whether it waits.
    pub fn put(&mut self, kind: Kind, group: ObjectKey, key: &ObjectKey, now: Instant) -> bool {
        if !kind.info().deletion_waits {
            return false;
        }
        let due = now + GRACE;
        self.waiting.entry((kind, group.clone())).or_default().insert(key.clone(), due);
        self.order.push_back(Waiting { due, kind, group, key: key.clone() });
        true
    }

    /// Takes note that an object was applied. If it was deleted just before, it was not deleted. Otherwise it may stand for
    /// one of its group that is deleted, as after a change of its name: returns those, and they wait no longer.
    pub fn applied(&mut self, kind: Kind, group: ObjectKey, key: &ObjectKey) -> Vec<ObjectKey> {
        let group = (kind, group);
        let Some(mut waiting) = self.waiting.remove(&group) else { return Vec::new() };
        if waiting.remove(key).is_none() {
            return waiting.into_keys().collect();
        }
        if !waiting.is_empty() {
            self.waiting.insert(group, waiting);
        }
        Vec::new()
    }

    /// Forgets the deletions of a kind, of which there is a list.
    pub fn listed(&mut self, kind: Kind) {
        self.waiting.retain(|(other, _), _| *other != kind);
    }

    /// When the next deletion counts.
    pub fn due(&mut self) -> Option<Instant> {
        while let Some(Waiting { due, kind, group, key }) = self.order.front() {
            let group = self.waiting.get(&(*kind, group.clone()));
            if group.is_some_and(|waiting| waiting.get(key) == Some(due)) {
                return Some(*due);
            }
            self.order.pop_front();
        }
        None
    }

    /// Takes the next deletion that counts by `now`.
    pub fn take_due(&mut self, now: Instant) -> Option<(Kind, ObjectKey)> {
        self.due().filter(|due| *due <= now)?;
        let Waiting { kind, group, key, .. } = self.order.pop_front()?;
        let group = (kind, group);
        let waiting = self.waiting.get_mut(&group)?;
        waiting.remove(&key);
        if waiting.is_empty() {
            self.waiting.remove(&group);
        }
        Some((kind, key))
    }
}
