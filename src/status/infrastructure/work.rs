//! The state machine of the writes: the objects that differ from the plan, and the time of each write. It has no I/O, and
//! receives the time as an argument.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use lockgate_route::objects::{Kind, Object, ObjectId, ObjectKey, Objects};
use tokio::time::Instant;

use super::content::Content;
use super::plan::{Plan, Ports, observed};

/// The time limit for the watch to report a write.
const ECHO: Duration = Duration::from_secs(30);
/// The time until an object of another owner is checked again.
const LONG: Duration = Duration::from_secs(60 * 60);
/// Two equal writes to an object are independent if at least this time is between them.
const FIGHT: Duration = Duration::from_secs(120);
/// The first and the longest wait after a failure, or between equal writes.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60));

/// A write that is due.
#[derive(Debug, Clone, PartialEq)]
pub struct Write {
    /// The object.
    pub id: ObjectId,
    /// The object as it was observed.
    pub over: Option<Object>,
    /// The content. `None`: the object is to be deleted.
    pub content: Option<Content>,
}

/// The result of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The object has the wanted content.
    Done,
    /// The object belongs to another owner.
    Foreign,
    /// The write failed, or another writer was faster.
    Failed,
}

/// The last write to an object.
#[derive(Debug)]
struct Last {
    write: Write,
    /// The time limit for the watch to report the write.
    until: Instant,
    /// The time of the write.
    at: Instant,
    /// The number of consecutive writes with the same content.
    times: u32,
}

/// The writes of one term of the leader.
#[derive(Debug, Default)]
pub struct Work {
    last: BTreeMap<ObjectId, Last>,
    /// The number of consecutive failures of each object, and the time of the next attempt.
    retries: BTreeMap<ObjectId, (u32, Instant)>,
    busy: BTreeSet<ObjectId>,
    /// The objects that differ from the plan, by namespace.
    due: BTreeMap<Arc<str>, BTreeMap<ObjectId, Write>>,
    /// The namespace of the last write.
    turn: Arc<str>,
}

impl Work {
    /// Compares the plan with the observed objects, and stores the differences.
    pub fn compare(&mut self, plan: &Plan, objects: &Objects, now: Instant) {
        let is_known = |id: &ObjectId| plan.wanted.contains_key(id) || plan.obsolete.contains(id);
        self.last.retain(|id, last| is_known(id) || now < last.until);
        self.retries.retain(|id, _| is_known(id));
        let puts = plan.wanted.iter().map(|(id, content)| (id, Some(content)));
        let all = puts.chain(plan.obsolete.iter().map(|id| (id, None)));
        let write = |(id, content): (&ObjectId, Option<&Content>)| {
            let over = observed(objects, id);
            let write = || Write { id: id.clone(), over: over.cloned(), content: content.cloned() };
            self.is_due(id, content, over, now).then(|| (id.clone(), write()))
        };
        let mut due = BTreeMap::<Arc<str>, BTreeMap<ObjectId, Write>>::new();
        for (id, write) in all.filter_map(write) {
            due.entry(id.key.namespace.clone()).or_default().insert(id, write);
        }
        self.due = due;
    }

    /// Returns whether an object must be written. At the beginning of a term, every object is written, because the source
    /// does not observe all fields.
    fn is_due(&self, id: &ObjectId, content: Option<&Content>, over: Option<&Object>, now: Instant) -> bool {
        let is_right = match (content, over) {
            (Some(content), Some(over)) => content.matches(over),
            (None, None) => true,
            _ => false,
        };
        match self.last.get(id).filter(|last| last.write.content.as_ref() == content) {
            Some(_) if is_right => false,
            Some(last) => last.write.over.as_ref() != over || last.until <= now,
            None => content.is_some() || !is_right,
        }
    }

    /// Returns the ports of the Services whose last write the watch has not reported yet.
    pub fn recent(&self, objects: &Objects, now: Instant) -> BTreeMap<ObjectKey, Ports> {
        let recent = self.last.iter().filter(|(id, last)| {
            id.kind == Kind::SERVICE && now < last.until && last.write.over.as_ref() == observed(objects, id)
        });
        recent
            .filter_map(|(id, last)| match &last.write.content {
                Some(Content::Service(service)) => Some((id.key.clone(), service.ports.clone())),
                _ => None,
            })
            .collect()
    }

    /// Returns the next write, which is then in progress until [`Work::record`]. Namespaces take turns, so the Gateways
    /// of one namespace do not delay the Gateways of another.
    pub fn start(&mut self, now: Instant) -> Option<Write> {
        let may = |id: &&ObjectId| !self.busy.contains(*id) && self.retries.get(*id).is_none_or(|(_, at)| *at <= now);
        let after = (Bound::Excluded(self.turn.clone()), Bound::Unbounded);
        let mut namespaces = self.due.range(after).chain(&self.due);
        // Stops at the first write, so the cost does not depend on the number of due writes.
        let id = namespaces.find_map(|(_, due)| due.keys().find(may))?.clone();
        self.turn = id.key.namespace.clone();
        self.busy.insert(id.clone());
        self.due.get_mut(&id.key.namespace)?.remove(&id)
    }

    /// Returns the time of the next delayed write, or of the next check of writes that the watch has not reported.
    pub fn next(&self, now: Instant) -> Option<Instant> {
        let retry = |id: &ObjectId| self.retries.get(id).map(|(_, at)| *at);
        let due = self.ids().filter(|id| !self.busy.contains(*id)).filter_map(retry);
        due.chain(self.last.values().map(|last| last.until)).filter(|at| *at > now).min()
    }

    /// Records the result of a write. The next [`Work::compare`] decides on further writes.
    pub fn record(&mut self, write: Write, outcome: Outcome, now: Instant) {
        self.busy.remove(&write.id);
        let id = write.id.clone();
        if outcome == Outcome::Failed {
            let failures = self.retries.get(&id).map_or(0, |(failures, _)| *failures) + 1;
            self.retries.insert(id, (failures, now + wait(failures)));
            return;
        }
        let same = self.last.get(&id).filter(|last| last.write.content == write.content && now < last.at + FIGHT);
        let times = same.map_or(0, |last| last.times) + 1;
        match times {
            1 => drop(self.retries.remove(&id)),
            _ => drop(self.retries.insert(id.clone(), (0, now + wait(times - 1)))),
        }
        let until = now + if outcome == Outcome::Foreign { LONG } else { ECHO };
        self.last.insert(id, Last { write, until, at: now, times });
    }

    /// Returns the number of consecutive failed writes to an object.
    pub fn failures(&self, id: &ObjectId) -> u32 {
        self.retries.get(id).map_or(0, |(failures, _)| *failures)
    }

    /// Returns whether an object differs from the plan, or is being written.
    pub fn is_pending(&self, id: &ObjectId) -> bool {
        self.busy.contains(id) || self.due.get(&id.key.namespace).is_some_and(|due| due.contains_key(id))
    }

    /// Returns the number of objects that differ from the plan.
    pub fn count(&self, kind: Kind) -> usize {
        let is_due = |id: &&ObjectId| self.due.get(&id.key.namespace).is_some_and(|due| due.contains_key(*id));
        let busy = self.busy.iter().filter(|id| !is_due(id));
        self.ids().chain(busy).filter(|id| id.kind == kind).count()
    }

    /// Returns the objects that differ from the plan.
    fn ids(&self) -> impl Iterator<Item = &ObjectId> {
        self.due.values().flat_map(BTreeMap::keys)
    }
}

/// Returns the wait after a number of consecutive failures.
fn wait(failures: u32) -> Duration {
    BACKOFF.0.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(BACKOFF.1)
}

#[cfg(test)]
mod tests;
