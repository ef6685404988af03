//! The state machine of status writes for one kind of objects: what to write to which object, and when. No I/O; time comes as
//! an argument. The kind decides the content ([`HasStatus`]).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use lockgate_route::objects::{Object, ObjectKey, Revision};
use tokio::time::Instant;

use crate::inspection::{Inspection, Published, changed};
use crate::status::kind::{Facts, Goal, HasStatus, Known, Outside};
use crate::status::turns::Turns;
use crate::status::waiting::Waiting;

/// Writes to one object that are further apart than this are independent.
const FIGHT: Duration = Duration::from_secs(120);
/// How long the watch may take to bring back what was written.
const ECHO: Duration = Duration::from_secs(30);
/// First and longest wait after a write that failed.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60));
/// First and longest wait between writes to one object for different facts.
const NEWS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));
/// First and longest wait after a conflict: the watch brings what the other has written in no time.
const CONFLICT: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

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
    /// The publication that all Envoys have accepted, and their number. `None` if the goal does not depend on Envoys, as
    /// when addresses are withdrawn.
    pub programmed: Option<(Published, usize)>,
    /// The hash of the facts behind the goal.
    pub cause: u64,
}

/// How a write ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It is written.
    Done,
    /// The object is gone.
    Gone,
    /// Somebody else wrote first.
    Conflict,
    /// It was refused, or nobody knows.
    Failed,
}

/// All objects of the kind of `T` whose status is not as it should be.
#[derive(Debug)]
pub(super) struct Desk<T: HasStatus> {
    /// The field manager of this installation.
    manager: String,
    known: Known,
    /// The objects that were ours, until their status is withdrawn.
    left: BTreeSet<ObjectKey>,
    /// Recent writes of each object: another writer may overwrite the same fields.
    written: BTreeMap<ObjectKey, Streak>,
    /// The entries of `written` by age, and such as no longer hold.
    aging: VecDeque<(Instant, ObjectKey)>,
    open: BTreeMap<ObjectKey, Task<T::Status>>,
    /// Those of `open` that wait for Envoys.
    waiting: Waiting,
    /// When to look at which of `open`; entries that no longer hold are skipped.
    agenda: BTreeSet<(Instant, ObjectKey)>,
    /// The entries of `agenda` whose time has come.
    due: Turns,
    /// Counts what came to wait for Envoys.
    arrivals: u64,
}

/// Writes to one object in a row, for one revision of it.
#[derive(Debug)]
struct Streak {
    writes: u32,
    /// The last writes that had the same cause.
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
}

#[derive(Debug, Clone, PartialEq)]
enum State {
    /// Waits for Envoys.
    Waiting,
    /// May be written from then on; so many Envoys have accepted it.
    Due(Instant, usize),
    /// Under way, over this version.
    Busy(Arc<str>),
    /// Written over this version; the watch has not brought it back yet.
    Written(Arc<str>),
}

impl<T: HasStatus> Desk<T> {
    /// A desk that knows nothing yet, for an installation that writes as `manager`.
    pub fn new(manager: String) -> Self {
        Self {
            manager,
            known: Known::default(),
            left: BTreeSet::new(),
            written: BTreeMap::new(),
            aging: VecDeque::new(),
            open: BTreeMap::new(),
            waiting: Waiting::default(),
            agenda: BTreeSet::new(),
            due: Turns::default(),
            arrivals: 0,
        }
    }

    /// Takes in what is known now. Without any address of the Envoys, no address is written anew, and what is written
    /// stays.
    pub fn look(&mut self, inspection: Arc<Inspection>, outside: impl Into<Outside>, now: Instant) {
        if inspection.complete {
            let (outside, before): (Outside, _) = (outside.into(), &self.known.outside);
            let all = *outside.addresses != *before.addresses || outside.controller != before.controller;
            self.take_in(inspection, outside, all, now);
        }
    }

    /// Looks at the objects of which something has changed, or at all.
    fn take_in(&mut self, inspection: Arc<Inspection>, outside: Outside, all: bool, now: Instant) {
        let before = std::mem::replace(&mut self.known, Known { inspection: inspection.clone(), outside });
        while self.aging.front().is_some_and(|(at, _)| now >= *at + FIGHT) {
            if let Some((at, key)) = self.aging.pop_front()
                && self.written.get(&key).is_some_and(|streak| streak.last == at)
            {
                self.written.remove(&key);
            }
        }
        let objects = inspection.objects.of_kind(T::KIND);
        let mut keys = T::changed(&before, &self.known);
        keys.extend(changed(before.inspection.objects.of_kind(T::KIND), objects).cloned());
        if all {
            keys.extend(objects.keys().cloned());
        }
        for key in &keys {
            match objects.get(key) {
                Some(object) => {
                    if inspection.published(T::KIND, key).is_some() {
                        self.left.remove(key);
                    } else if before.inspection.published(T::KIND, key).is_some() {
                        self.left.insert(key.clone());
                    }
                    self.look_at(object, &inspection, now);
                }
                None => {
                    self.left.remove(key);
                    self.open.remove(key);
                }
            }
            self.file(key);
        }
    }

    fn look_at(&mut self, object: &Object, inspection: &Inspection, now: Instant) {
        let Some(content) = object.get::<T>() else { return };
        let key = &object.meta().key;
        let facts = Facts {
            manager: &self.manager,
            addresses: &self.known.outside.addresses,
            published: inspection.published(T::KIND, key),
            left: self.left.contains(key),
            verdicts: inspection.verdicts.get(&T::KIND.id(key.clone())).map_or(&[], |verdicts| verdicts),
            inspection,
            controller: &self.known.outside.controller,
            faults: &self.known.outside.faults,
        };
        match content.goal(&facts) {
            Some(goal) => self.open(key, goal, content.version(), now),
            None => {
                self.open.remove(key);
                if inspection.published(T::KIND, key).is_none() {
                    self.left.remove(key);
                }
            }
        }
    }

    /// Records whether this object waits for Envoys; to be called after every change of its task.
    fn file(&mut self, key: &ObjectKey) {
        let waits = self.open.get(key).filter(|task| task.state == State::Waiting);
        self.waiting.set(key, waits.and_then(|task| task.goal.needs.clone()));
    }

    fn open(&mut self, key: &ObjectKey, goal: Goal<T::Status>, version: &Arc<str>, now: Instant) {
        let pause = self.pause(key, goal.cause, now);
        let task = match self.open.entry(key.clone()) {
            std::collections::btree_map::Entry::Vacant(vacant) => {
                vacant.insert(Task { goal: goal.clone(), state: State::Waiting, failures: 0 })
            }
            std::collections::btree_map::Entry::Occupied(occupied) => {
                let task = occupied.into_mut();
                let same = task.goal == goal;
                task.goal = goal.clone();
                match &task.state {
                    // What comes of it is seen when it is done.
                    State::Busy(_) => return,
                    State::Written(over) if over == version => return,
                    State::Waiting | State::Due(..) if same => return,
                    _ => task.state = State::Waiting,
                }
                task
            }
        };
        match goal.needs {
            Some(_) => self.arrivals += 1,
            None => {
                let pause = if self.left.contains(key) { Duration::ZERO } else { pause };
                let at = now + wait(task.failures, BACKOFF).max(pause);
                task.state = State::Due(at, 0);
                self.agenda.insert((at, key.clone()));
            }
        }
    }

    /// Returns the wait before the next write to an object that was written recently in its current revision.
    fn pause(&self, key: &ObjectKey, cause: u64, now: Instant) -> Duration {
        let revision = self.revision(key);
        let streak = self.written.get(key).filter(|streak| now < streak.last + FIGHT && streak.revision == revision);
        streak.map_or(Duration::ZERO, |streak| {
            let repeated = if streak.cause == cause { streak.repeated } else { 0 };
            wait(repeated, BACKOFF).max(wait(streak.writes, NEWS))
        })
    }

    /// Returns the revision of an object that is ours.
    fn revision(&self, key: &ObjectKey) -> Option<Revision> {
        self.known.inspection.published(T::KIND, key).map(|published| published.revision)
    }

    /// The number of objects whose status is not as it should be.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// A number that grows whenever an object begins to wait for Envoys.
    pub fn arrivals(&self) -> u64 {
        self.arrivals
    }

    /// The objects that wait for Envoys.
    pub fn waiting(&self) -> &Waiting {
        &self.waiting
    }

    /// Records that all Envoys, which are so many, have accepted an object as it was published then.
    pub fn accepted(&mut self, key: &ObjectKey, what: &Published, envoys: usize, now: Instant) {
        let Some(cause) = self.open.get(key).map(|task| task.goal.cause) else { return };
        let pause = self.pause(key, cause, now);
        let Some(task) = self.open.get_mut(key) else { return };
        if task.state == State::Waiting && task.goal.needs.as_ref() == Some(what) {
            let at = now + wait(task.failures, BACKOFF).max(pause);
            task.state = State::Due(at, envoys);
            self.agenda.insert((at, key.clone()));
            self.file(key);
        }
    }

    /// When there may be something to write.
    pub fn next(&self) -> Option<Instant> {
        self.due.first().or_else(|| self.agenda.first().map(|(at, _)| *at))
    }

    /// The next write, which is then under way until [`Desk::finished`]. Namespaces take turns.
    pub fn start(&mut self, now: Instant) -> Option<Write<T::Status>> {
        while self.agenda.first().is_some_and(|(at, _)| *at <= now) {
            let first = self.agenda.pop_first();
            first.into_iter().for_each(|(at, key)| self.due.push(at, key));
        }
        while let Some((at, key)) = self.due.pop() {
            let revision = self.revision(&key);
            let object = self.known.inspection.objects.of_kind(T::KIND).get(&key);
            let content = object.and_then(Object::get::<T>);
            let (Some(task), Some(object), Some(content)) = (self.open.get_mut(&key), object, content) else {
                continue;
            };
            let (object, version) = (object.clone(), content.version().clone());
            let envoys = match &task.state {
                State::Due(due, envoys) if *due == at => *envoys,
                // The watch did not bring it back: nobody knows what there is now.
                State::Written(over) if *over == version => {
                    task.state = State::Waiting;
                    self.arrivals += 1;
                    self.file(&key);
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

    /// A write ended.
    pub fn finished(&mut self, write: &Write<T::Status>, outcome: Outcome, now: Instant) {
        let Some(task) = self.open.get_mut(&write.key) else { return };
        if task.state != State::Busy(write.version.clone()) {
            return;
        }
        let envoys = write.programmed.as_ref().map_or(0, |(_, envoys)| *envoys);
        let at = match outcome {
            // The watch will say so too, or bring another of this name.
            Outcome::Gone => {
                self.open.remove(&write.key);
                return;
            }
            Outcome::Done => {
                task.failures = 0;
                // Once: if it comes back, then by the hand of its new owner.
                let withdrawn_once = write.programmed.is_none() && self.left.remove(&write.key);
                if !withdrawn_once {
                    let recent = |streak: &&Streak| now < streak.last + FIGHT && streak.revision == write.revision;
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
                    self.aging.push_back((now, write.key.clone()));
                }
                now + ECHO
            }
            Outcome::Conflict => {
                task.failures += 1;
                now + wait(task.failures, CONFLICT)
            }
            Outcome::Failed => {
                task.failures += 1;
                now + wait(task.failures, BACKOFF)
            }
        };
        let as_asked = write.status == task.goal.status
            && write.programmed.as_ref().map(|(published, _)| published) == task.goal.needs.as_ref();
        task.state = match outcome {
            Outcome::Done => State::Written(write.version.clone()),
            _ if as_asked || task.goal.needs.is_none() => State::Due(at, envoys),
            // Meanwhile it changed, and Envoys have to accept that first.
            _ => {
                self.arrivals += 1;
                State::Waiting
            }
        };
        self.agenda.insert((at, write.key.clone()));
        // The watch may have been quicker than the answer, and what was withdrawn is withdrawn once.
        let inspection = self.known.inspection.clone();
        if let Some(object) = inspection.objects.of_kind(T::KIND).get(&write.key) {
            self.look_at(object, &inspection, now);
        }
        self.file(&write.key);
    }

    /// Returns how often in a row writes to this object have failed.
    pub fn failures(&self, key: &ObjectKey) -> u32 {
        self.open.get(key).map_or(0, |task| task.failures)
    }
}

/// The wait after so many failures in a row.
fn wait(failures: u32, (first, longest): (Duration, Duration)) -> Duration {
    match failures.checked_sub(1) {
        None => Duration::ZERO,
        Some(doublings) => first.saturating_mul(1 << doublings.min(16)).min(longest),
    }
}

#[cfg(test)]
mod tests;
