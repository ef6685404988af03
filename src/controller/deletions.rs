//! Delayed deletions, for objects that are created again shortly after.
//!
//! `kubectl replace --force`, and many pipelines, delete an object and create it again some milliseconds later. Without
//! a delay, requests in between would be answered 404. A deletion that a watch reports therefore takes effect only
//! after [`GRACE`], and is dropped if the object exists again by then.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use lockgate_route::objects::{Kind, ObjectKey};

/// The delay of a deletion. `kubectl replace --force` takes 20 to 500 ms between deletion and creation, depending on
/// the load and the distance of the API server.
pub(super) const GRACE: Duration = Duration::from_secs(1);

/// The delayed deletions.
#[derive(Debug, Default)]
pub(super) struct Deletions {
    /// The time at which they take effect, by kind and by group. An object may replace another one of its group.
    waiting: BTreeMap<(Kind, ObjectKey), BTreeMap<ObjectKey, Instant>>,
    /// The deletions in the order of arrival. Some of them are no longer delayed, or arrived a second time.
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
    /// Delays the deletion of an object from `now` on if its kind requires that. Returns whether the deletion is
    /// delayed.
    pub fn delay(&mut self, kind: Kind, group: ObjectKey, key: &ObjectKey, now: Instant) -> bool {
        if !kind.info().deletion_waits {
            return false;
        }
        let due = now + GRACE;
        self.waiting.entry((kind, group.clone())).or_default().insert(key.clone(), due);
        self.order.push_back(Waiting { due, kind, group, key: key.clone() });
        true
    }

    /// Records that an object was applied, and drops a delayed deletion of it. Otherwise, it may replace deleted
    /// objects of its group, as after a change of its name. Their delay ends, and they are returned.
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

    /// Drops the delayed deletions of a kind, because a list has arrived.
    pub fn listed(&mut self, kind: Kind) {
        self.waiting.retain(|(other, _), _| *other != kind);
    }

    /// Returns the time at which the next deletion takes effect.
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

    /// Removes and returns the next deletion that takes effect by `now`.
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
