//! The state machine of the writes: which objects differ from the plan, and when each may be written. No I/O; time
//! comes as an argument.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use lockgate_route::objects::{Kind, Object, ObjectId, ObjectKey, Objects};
use tokio::time::Instant;

use super::content::Content;
use super::plan::{Plan, Ports, observed};

/// The time that the watch may take to bring back a write.
const ECHO: Duration = Duration::from_secs(30);
/// The time until an object of another owner is looked at again.
const LONG: Duration = Duration::from_secs(60 * 60);
/// Equal writes to one object that are further apart are independent.
const FIGHT: Duration = Duration::from_secs(120);
/// First and longest wait after a failure, or between equal writes.
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

/// How a write ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The object is as it should be.
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
    /// From then on, the watch should have brought it back.
    until: Instant,
    /// The time of the write, and how often the same content was written in a row.
    at: Instant,
    times: u32,
}

/// The writes of one term.
#[derive(Debug, Default)]
pub struct Work {
    last: BTreeMap<ObjectId, Last>,
    /// The number of failures in a row of each object, and the time of the next attempt.
    retries: BTreeMap<ObjectId, (u32, Instant)>,
    busy: BTreeSet<ObjectId>,
    /// The objects that differ from the plan, by namespace.
    due: BTreeMap<Arc<str>, BTreeMap<ObjectId, Write>>,
    /// The namespace that had the last turn.
    turn: Arc<str>,
}

impl Work {
    /// Compares the plan with the observed objects.
    pub fn look(&mut self, plan: &Plan, objects: &Objects, now: Instant) {
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

    /// Returns whether an object is to be written. At the beginning of a term, every object is, because not all of its
    /// fields are observed.
    fn is_due(&self, id: &ObjectId, content: Option<&Content>, over: Option<&Object>, now: Instant) -> bool {
        let is_right = match (content, over) {
            (Some(content), Some(over)) => content.is(over),
            (None, None) => true,
            _ => false,
        };
        match self.last.get(id).filter(|last| last.write.content.as_ref() == content) {
            Some(_) if is_right => false,
            Some(last) => last.write.over.as_ref() != over || last.until <= now,
            None => content.is_some() || !is_right,
        }
    }

    /// Returns the ports of the Services that were written and that the watch has not brought back yet.
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

    /// Returns the next write, which is then in progress until [`Work::finished`]. Namespaces take turns, so the Gateways
    /// of one namespace do not delay those of another.
    pub fn start(&mut self, now: Instant) -> Option<Write> {
        let may = |id: &&ObjectId| !self.busy.contains(*id) && self.retries.get(*id).is_none_or(|(_, at)| *at <= now);
        let after = (Bound::Excluded(self.turn.clone()), Bound::Unbounded);
        let mut namespaces = self.due.range(after).chain(&self.due);
        // A write does not cost a look at all writes that are due.
        let id = namespaces.find_map(|(_, due)| due.keys().find(may))?.clone();
        self.turn = id.key.namespace.clone();
        self.busy.insert(id.clone());
        self.due.get_mut(&id.key.namespace)?.remove(&id)
    }

    /// Returns the time of the next write that has to wait, or of the next look at writes that the watch does not
    /// bring back.
    pub fn next(&self, now: Instant) -> Option<Instant> {
        let retry = |id: &ObjectId| self.retries.get(id).map(|(_, at)| *at);
        let due = self.ids().filter(|id| !self.busy.contains(*id)).filter_map(retry);
        due.chain(self.last.values().map(|last| last.until)).filter(|at| *at > now).min()
    }

    /// Records the end of a write. The next [`Work::look`] decides what follows.
    pub fn finished(&mut self, write: Write, outcome: Outcome, now: Instant) {
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

    /// Returns how often in a row writes to an object have failed.
    pub fn failures(&self, id: &ObjectId) -> u32 {
        self.retries.get(id).map_or(0, |(failures, _)| *failures)
    }

    /// Returns the number of objects that differ from the plan.
    pub fn len(&self, kind: Kind) -> usize {
        let is_due = |id: &&ObjectId| self.due.get(&id.key.namespace).is_some_and(|due| due.contains_key(*id));
        let busy = self.busy.iter().filter(|id| !is_due(id));
        self.ids().chain(busy).filter(|id| id.kind == kind).count()
    }

    /// Returns the objects that differ from the plan.
    fn ids(&self) -> impl Iterator<Item = &ObjectId> {
        self.due.values().flat_map(BTreeMap::keys)
    }
}

/// Returns the wait after so many failures in a row.
fn wait(failures: u32) -> Duration {
    BACKOFF.0.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(BACKOFF.1)
}

#[cfg(test)]
mod tests;
