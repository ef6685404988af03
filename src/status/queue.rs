//! The state machine of the status writes of one kind: which object to write, and when. No I/O; time comes as an
//! argument. The kind determines the content ([`HasStatus`]).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use lockgate_route::objects::{Object, ObjectKey, Revision};
use tokio::time::Instant;

use crate::inspection::{Inspection, Published, changed};
use crate::status::fair_queue::FairQueue;
use crate::status::kind::{ExternalFacts, Facts, Goal, HasStatus, Inputs};
use crate::status::waiting::Waiting;

/// Two writes to an object are independent if at least this time is between them.
const INDEPENDENT_AFTER: Duration = Duration::from_secs(120);
/// The time limit for the watch to report a write.
const WATCH_TIMEOUT: Duration = Duration::from_secs(30);
/// The first and the longest wait after a failed write.
const FAILURE_BACKOFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60));
/// The first and the longest wait between writes to one object for different facts.
const UPDATE_BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));
/// The first and the longest wait after a conflict. The watch soon reports the write of the other writer.
const CONFLICT_BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// A write that is due, of a status of type `S`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Write<S> {
    /// The key of the object.
    pub key: ObjectKey,
    /// The object that the goal is based on.
    pub object: Object,
    /// The `metadata.resourceVersion` that the object must still have.
    pub version: Arc<str>,
    /// The revision of the object, if it is ours.
    pub revision: Option<Revision>,
    /// The status that the object is to have.
    pub status: S,
    /// The publication that all Envoys have accepted, and their number. `None`: the goal does not depend on Envoys.
    /// For example, the withdrawal of addresses does not.
    pub programmed: Option<(Published, usize)>,
    /// The hash of the facts behind the goal.
    pub cause: u64,
}

/// The result of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The status is written.
    Done,
    /// Another writer was faster.
    Conflict,
    /// The write was rejected, or its result is unknown. If the object does not exist, the watch reports its deletion; an API server
    /// that starts does not know the kinds of CustomResourceDefinitions yet.
    Failed,
}

/// The pending status writes of all objects of kind `T`.
#[derive(Debug)]
pub(super) struct StatusQueue<T: HasStatus> {
    /// The field manager of this installation.
    manager: String,
    inputs: Inputs,
    /// The objects that Lockgate no longer serves, until their status is withdrawn.
    withdrawing: BTreeSet<ObjectKey>,
    /// The recent writes of each object. Another writer may overwrite the same fields.
    written: BTreeMap<ObjectKey, Streak>,
    /// The keys of `written` by time. Some entries are outdated.
    written_order: VecDeque<(Instant, ObjectKey)>,
    tasks: BTreeMap<ObjectKey, Task<T::Status>>,
    /// The tasks that wait for Envoys.
    waiting: Waiting,
    /// The time of the next step of each task. Some entries are outdated.
    timers: BTreeSet<(Instant, ObjectKey)>,
    /// The entries of `timers` that are due.
    due: FairQueue,
    /// The number of tasks that have begun to wait for Envoys.
    wait_count: u64,
}

/// Consecutive writes to one object in one revision.
#[derive(Debug)]
struct Streak {
    writes: u32,
    /// The number of last writes with the same cause.
    repeated: u32,
    last: Instant,
    revision: Option<Revision>,
    cause: u64,
}

#[derive(Debug)]
struct Task<S> {
    goal: Goal<S>,
    state: State,
    failures: u32,
    /// The earliest time of the next write after a failed one.
    not_before: Instant,
}

#[derive(Debug, Clone, PartialEq)]
enum State {
    /// Waits for Envoys.
    Waiting,
    /// May be written from this time on. This number of Envoys have accepted the object.
    Due(Instant, usize),
    /// Is being written over this version.
    Busy(Arc<str>),
    /// Is written over this version. The watch has not reported the write yet, and should do so until this time.
    Written(Arc<str>, Instant),
}

impl<T: HasStatus> StatusQueue<T> {
    /// Creates the state machine of an installation with this field manager.
    pub fn new(manager: String) -> Self {
        Self {
            manager,
            inputs: Inputs::default(),
            withdrawing: BTreeSet::new(),
            written: BTreeMap::new(),
            written_order: VecDeque::new(),
            tasks: BTreeMap::new(),
            waiting: Waiting::default(),
            timers: BTreeSet::new(),
            due: FairQueue::default(),
            wait_count: 0,
        }
    }

    /// Updates the tasks after a change of the inputs. While the addresses of the Envoys are unknown, no new address is
    /// written, and existing addresses stay.
    pub fn update(&mut self, inspection: Arc<Inspection>, external: impl Into<ExternalFacts>, now: Instant) {
        if inspection.complete {
            let (external, before): (ExternalFacts, _) = (external.into(), &self.inputs.external);
            let all = *external.addresses != *before.addresses || external.controller != before.controller;
            self.update_objects(inspection, external, all, now);
        }
    }

    /// Updates the tasks of changed objects, or of all objects.
    fn update_objects(&mut self, inspection: Arc<Inspection>, external: ExternalFacts, all: bool, now: Instant) {
        let before = std::mem::replace(&mut self.inputs, Inputs { inspection: inspection.clone(), external });
        while self.written_order.front().is_some_and(|(at, _)| now >= *at + INDEPENDENT_AFTER) {
            if let Some((at, key)) = self.written_order.pop_front()
                && self.written.get(&key).is_some_and(|streak| streak.last == at)
            {
                self.written.remove(&key);
            }
        }
        let objects = inspection.objects.of_kind(T::KIND);
        let mut keys = T::changed(&before, &self.inputs);
        keys.extend(changed(before.inspection.objects.of_kind(T::KIND), objects).cloned());
        if all {
            keys.extend(objects.keys().cloned());
        }
        for key in &keys {
            match objects.get(key) {
                Some(object) => {
                    if inspection.published(T::KIND, key).is_some() {
                        self.withdrawing.remove(key);
                    } else if before.inspection.published(T::KIND, key).is_some() {
                        self.withdrawing.insert(key.clone());
                    }
                    self.update_object(object, &inspection, now);
                }
                None => {
                    self.withdrawing.remove(key);
                    self.tasks.remove(key);
                }
            }
            self.update_waiting(key);
        }
    }

    fn update_object(&mut self, object: &Object, inspection: &Inspection, now: Instant) {
        let Some(content) = object.get::<T>() else { return };
        let key = &object.meta().key;
        let facts = Facts {
            manager: &self.manager,
            addresses: &self.inputs.external.addresses,
            published: inspection.published(T::KIND, key),
            withdrawing: self.withdrawing.contains(key),
            verdicts: inspection.verdicts.get(&T::KIND.id(key.clone())).map_or(&[], |verdicts| verdicts),
            inspection,
            controller: &self.inputs.external.controller,
            faults: &self.inputs.external.faults,
        };
        match content.goal(&facts) {
            Some(goal) => self.schedule(key, goal, content.version(), now),
            None => {
                self.tasks.remove(key);
                if inspection.published(T::KIND, key).is_none() {
                    self.withdrawing.remove(key);
                }
            }
        }
    }

    /// Updates the list of objects that wait for Envoys. Call it after every change of a task.
    fn update_waiting(&mut self, key: &ObjectKey) {
        let waits = self.tasks.get(key).filter(|task| task.state == State::Waiting);
        self.waiting.set(key, waits.and_then(|task| task.goal.needs.clone()));
    }

    fn schedule(&mut self, key: &ObjectKey, goal: Goal<T::Status>, version: &Arc<str>, now: Instant) {
        let earliest = self.earliest(key, goal.cause, now);
        let task = match self.tasks.entry(key.clone()) {
            std::collections::btree_map::Entry::Vacant(vacant) => {
                vacant.insert(Task { goal: goal.clone(), state: State::Waiting, failures: 0, not_before: now })
            }
            std::collections::btree_map::Entry::Occupied(occupied) => {
                let task = occupied.into_mut();
                let same = task.goal == goal;
                task.goal = goal.clone();
                match &task.state {
                    // The end of the write decides the next step.
                    State::Busy(_) => return,
                    // Another write over this version would be a conflict.
                    State::Written(base, _) if base == version => return,
                    State::Waiting | State::Due(..) if same => return,
                    _ => task.state = State::Waiting,
                }
                task
            }
        };
        match goal.needs {
            Some(_) => self.wait_count += 1,
            None => {
                let earliest = if self.withdrawing.contains(key) { now } else { earliest };
                let at = earliest.max(task.not_before);
                task.state = State::Due(at, 0);
                self.timers.insert((at, key.clone()));
            }
        }
    }

    /// Returns the earliest time of the next write to an object that was written recently in its current revision. The time
    /// counts from the last write, so changes of the goal do not postpone it.
    fn earliest(&self, key: &ObjectKey, cause: u64, now: Instant) -> Instant {
        let revision = self.revision(key);
        let streak =
            self.written.get(key).filter(|streak| now < streak.last + INDEPENDENT_AFTER && streak.revision == revision);
        streak.map_or(now, |streak| {
            let repeated = if streak.cause == cause { streak.repeated } else { 0 };
            now.max(streak.last + wait(repeated, FAILURE_BACKOFF).max(wait(streak.writes, UPDATE_BACKOFF)))
        })
    }

    /// Returns the revision of an object that Lockgate serves.
    fn revision(&self, key: &ObjectKey) -> Option<Revision> {
        self.inputs.inspection.published(T::KIND, key).map(|published| published.revision)
    }

    /// Returns the number of objects whose status differs from its goal.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Returns a number that increases whenever an object begins to wait for Envoys.
    pub fn wait_count(&self) -> u64 {
        self.wait_count
    }

    /// Returns the objects that wait for Envoys.
    pub fn waiting(&self) -> &Waiting {
        &self.waiting
    }

    /// Records that all `envoys` Envoys have accepted this publication of an object.
    pub fn record_acceptance(&mut self, key: &ObjectKey, what: &Published, envoys: usize, now: Instant) {
        let Some(cause) = self.tasks.get(key).map(|task| task.goal.cause) else { return };
        let earliest = self.earliest(key, cause, now);
        let Some(task) = self.tasks.get_mut(key) else { return };
        if task.state == State::Waiting && task.goal.needs.as_ref() == Some(what) {
            let at = earliest.max(task.not_before);
            task.state = State::Due(at, envoys);
            self.timers.insert((at, key.clone()));
            self.update_waiting(key);
        }
    }

    /// Returns the time of the next step.
    pub fn next(&self) -> Option<Instant> {
        self.due.first().or_else(|| self.timers.first().map(|(at, _)| *at))
    }

    /// Returns the next write, which is then in progress until [`StatusQueue::record_result`]. Namespaces take turns.
    pub fn start(&mut self, now: Instant) -> Option<Write<T::Status>> {
        while self.timers.first().is_some_and(|(at, _)| *at <= now) {
            let first = self.timers.pop_first();
            first.into_iter().for_each(|(at, key)| self.due.push(at, key));
        }
        while let Some((at, key)) = self.due.pop() {
            let revision = self.revision(&key);
            let object = self.inputs.inspection.objects.of_kind(T::KIND).get(&key);
            let content = object.and_then(Object::get::<T>);
            let (Some(task), Some(object), Some(content)) = (self.tasks.get_mut(&key), object, content) else {
                continue;
            };
            let (object, version) = (object.clone(), content.version().clone());
            let envoys = match &task.state {
                State::Due(due, envoys) if *due == at => *envoys,
                // The report of the watch is late. The goal can have changed since the write.
                State::Written(base, until) if *base == version && *until == at && task.goal.needs.is_none() => 0,
                State::Written(base, until) if *base == version && *until == at => {
                    task.state = State::Waiting;
                    self.wait_count += 1;
                    self.update_waiting(&key);
                    continue;
                }
                _ => continue,
            };
            task.state = State::Busy(version.clone());
            let programmed = task.goal.needs.clone().map(|published| (published, envoys));
            let (status, cause) = (task.goal.status.clone(), task.goal.cause);
            return Some(Write { key, object, version, revision, status, programmed, cause });
        }
        None
    }

    /// Records the result of a write.
    pub fn record_result(&mut self, write: &Write<T::Status>, outcome: Outcome, now: Instant) {
        let is_pending =
            self.tasks.get(&write.key).is_some_and(|task| task.state == State::Busy(write.version.clone()));
        if outcome == Outcome::Done {
            // A status is withdrawn only once. If it reappears, its new owner has written it.
            let withdrawn_once = is_pending && write.programmed.is_none() && self.withdrawing.remove(&write.key);
            if !withdrawn_once {
                self.extend_streak(write, now);
            }
        }
        let Some(task) = self.tasks.get_mut(&write.key).filter(|_| is_pending) else { return };
        let envoys = write.programmed.as_ref().map_or(0, |(_, envoys)| *envoys);
        let at = match outcome {
            Outcome::Done => {
                task.failures = 0;
                now + WATCH_TIMEOUT
            }
            Outcome::Conflict | Outcome::Failed => {
                let backoff = if outcome == Outcome::Conflict { CONFLICT_BACKOFF } else { FAILURE_BACKOFF };
                task.failures += 1;
                task.not_before = now + wait(task.failures, backoff);
                task.not_before
            }
        };
        let as_asked = write.status == task.goal.status
            && write.programmed.as_ref().map(|(published, _)| published) == task.goal.needs.as_ref();
        task.state = match outcome {
            Outcome::Done => State::Written(write.version.clone(), at),
            _ if as_asked || task.goal.needs.is_none() => State::Due(at, envoys),
            // The goal has changed, and Envoys must accept the new revision first.
            _ => {
                self.wait_count += 1;
                State::Waiting
            }
        };
        self.timers.insert((at, write.key.clone()));
        // The watch may have been faster than the response. A status is withdrawn only once.
        let inspection = self.inputs.inspection.clone();
        if let Some(object) = inspection.objects.of_kind(T::KIND).get(&write.key) {
            self.update_object(object, &inspection, now);
        }
        self.update_waiting(&write.key);
    }

    /// Counts a successful write among the recent writes to its object.
    fn extend_streak(&mut self, write: &Write<T::Status>, now: Instant) {
        let recent = |streak: &&Streak| now < streak.last + INDEPENDENT_AFTER && streak.revision == write.revision;
        let before = self.written.get(&write.key).filter(recent);
        let repeated = before.filter(|streak| streak.cause == write.cause);
        let streak = Streak {
            writes: before.map_or(0, |streak| streak.writes) + 1,
            repeated: repeated.map_or(0, |streak| streak.repeated) + 1,
            last: now,
            revision: write.revision,
            cause: write.cause,
        };
        self.written.insert(write.key.clone(), streak);
        self.written_order.push_back((now, write.key.clone()));
    }

    /// Returns the number of consecutive failed writes to an object.
    pub fn failures(&self, key: &ObjectKey) -> u32 {
        self.tasks.get(key).map_or(0, |task| task.failures)
    }
}

/// Returns the wait after this number of consecutive failures.
fn wait(failures: u32, (first, longest): (Duration, Duration)) -> Duration {
    match failures.checked_sub(1) {
        None => Duration::ZERO,
        Some(doublings) => first.saturating_mul(1 << doublings.min(16)).min(longest),
    }
}

#[cfg(test)]
mod tests;
