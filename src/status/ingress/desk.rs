//! What is to be written to which Ingress, and when: all of the judgement, and no I/O. Time comes as an argument.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::networking::v1::IngressLoadBalancerIngress;
use lockgate_route::objects::{Ingress, Kind, ObjectKey};
use tokio::time::Instant;

use crate::inspection::{Inspection, Published, changed, changed_sources};
use crate::status::waiting::Waiting;

/// An address in the status of an Ingress.
pub(crate) type Address = IngressLoadBalancerIngress;

/// Writes to one Ingress that are further apart than this have nothing to do with each other.
const FIGHT: Duration = Duration::from_secs(120);
/// How long the watch may take to bring back what was written.
const ECHO: Duration = Duration::from_secs(30);
/// First and longest wait after a write that failed.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60));
/// First and longest wait after a conflict: the watch brings what the other has written in no time.
const CONFLICT: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// A write that is due.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Write {
    /// The Ingress.
    pub key: ObjectKey,
    /// The version that it must still have.
    pub version: Arc<str>,
    /// All the addresses that its status is to have.
    pub addresses: Vec<Address>,
    /// For which the addresses are written, and how many Envoys have it; `None` if ours are withdrawn: the Ingress is no
    /// longer ours, or has lost all that it asks for.
    pub programmed: Option<(Published, usize)>,
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

/// All Ingresses that are not as they should be.
#[derive(Debug)]
pub(super) struct Desk {
    /// Under which name this installation writes.
    manager: String,
    inspection: Arc<Inspection>,
    addresses: Arc<[Address]>,
    /// Those that were ours, until their addresses are withdrawn.
    left: BTreeSet<ObjectKey>,
    /// How often in a row each was written, and when last: somebody else may write what we write over.
    written: BTreeMap<ObjectKey, (u32, Instant)>,
    /// The entries of `written` by age, and such as no longer hold.
    aging: VecDeque<(Instant, ObjectKey)>,
    open: BTreeMap<ObjectKey, Task>,
    /// Those of `open` that wait for Envoys.
    waiting: Waiting,
    /// When to look at which of `open`; entries that no longer hold are skipped.
    agenda: BTreeSet<(Instant, ObjectKey)>,
    /// Counts what came to wait for Envoys.
    arrivals: u64,
}

#[derive(Debug)]
struct Task {
    goal: Goal,
    state: State,
    failures: u32,
}

#[derive(Debug, Clone, PartialEq)]
struct Goal {
    addresses: Vec<Address>,
    /// What Envoys must have accepted first.
    needs: Option<Published>,
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

impl Desk {
    /// A desk that knows nothing yet, for an installation that writes as `manager`.
    pub fn new(manager: String) -> Self {
        Self {
            manager,
            inspection: Arc::default(),
            addresses: Arc::default(),
            left: BTreeSet::new(),
            written: BTreeMap::new(),
            aging: VecDeque::new(),
            open: BTreeMap::new(),
            waiting: Waiting::default(),
            agenda: BTreeSet::new(),
            arrivals: 0,
        }
    }

    /// Takes in what is known now: the objects, and our addresses. Without any address nothing is written anew, and
    /// what is written stays.
    pub fn look(&mut self, inspection: Arc<Inspection>, addresses: Arc<[Address]>, now: Instant) {
        if inspection.complete {
            let all = *addresses != *self.addresses;
            self.take_in(inspection, addresses, all, now);
        }
    }

    /// Looks at the Ingresses that have changed, or at all.
    fn take_in(&mut self, inspection: Arc<Inspection>, addresses: Arc<[Address]>, all: bool, now: Instant) {
        let before = std::mem::replace(&mut self.inspection, inspection.clone());
        self.addresses = addresses;
        while self.aging.front().is_some_and(|(at, _)| now >= *at + FIGHT) {
            if let Some((at, key)) = self.aging.pop_front()
                && self.written.get(&key).is_some_and(|(_, last)| *last == at)
            {
                self.written.remove(&key);
            }
        }
        let mut keys: BTreeSet<&ObjectKey> =
            changed(before.objects.of_kind(Kind::INGRESS), inspection.objects.of_kind(Kind::INGRESS)).collect();
        keys.extend(changed_sources(Kind::INGRESS, &before, &inspection));
        if all {
            keys.extend(inspection.objects.of_kind(Kind::INGRESS).keys());
        }
        for key in keys {
            let ours = inspection.published(Kind::INGRESS, key);
            match inspection.objects.get::<Ingress>(key) {
                Some(ingress) => {
                    if ours.is_some() {
                        self.left.remove(key);
                    } else if before.published(Kind::INGRESS, key).is_some() {
                        self.left.insert(key.clone());
                    }
                    self.look_at(key, ingress, ours, now);
                }
                None => {
                    self.left.remove(key);
                    self.open.remove(key);
                }
            }
            self.file(key);
        }
    }

    fn look_at(&mut self, key: &ObjectKey, ingress: &Ingress, ours: Option<&Published>, now: Instant) {
        match self.goal(ingress, ours) {
            Some(goal) => self.open(key, goal, &ingress.status.version, now),
            None => {
                self.open.remove(key);
                if ours.is_none() {
                    self.left.remove(key);
                }
            }
        }
    }

    /// Notes whether this one waits for Envoys; to be called after every change of its task.
    fn file(&mut self, key: &ObjectKey) {
        let waits = self.open.get(key).filter(|task| task.state == State::Waiting);
        self.waiting.set(key, waits.and_then(|task| task.goal.needs.clone()));
    }

    /// What the status should be; `None` if that is what it is, or nothing of our business.
    fn goal(&self, ingress: &Ingress, ours: Option<&Published>) -> Option<Goal> {
        let is = &ingress.status.addresses;
        let goal = match ours {
            // Nothing of it is served: what we wrote would send clients to the backends of others.
            Some(published) if !published.served => {
                let by_us = ingress.status.writers.iter().any(|writer| **writer == *self.manager);
                let keep = is.iter().filter(|address| !by_us && !self.addresses.contains(address)).cloned();
                Goal { addresses: keep.collect(), needs: None }
            }
            Some(_) if self.addresses.is_empty() || **is == *self.addresses => return None,
            Some(published) => Goal { addresses: self.addresses.to_vec(), needs: Some(published.clone()) },
            // Whoever else has the same address may have written it; what we wrote is what we take away.
            None => {
                let by_us = ingress.status.writers.iter().any(|writer| **writer == *self.manager);
                let keep = is.iter().filter(|address| !self.addresses.contains(address)).cloned();
                let mine = by_us || self.left.contains(&ingress.meta.key);
                Goal { addresses: if mine { keep.collect() } else { is.clone() }, needs: None }
            }
        };
        (goal.addresses != *is).then_some(goal)
    }

    fn open(&mut self, key: &ObjectKey, goal: Goal, version: &Arc<str>, now: Instant) {
        let task = self.open.entry(key.clone());
        let task = match task {
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
                let again = if self.left.contains(key) { 0 } else { times(&self.written, key, now) };
                let at = now + wait(task.failures.max(again), BACKOFF);
                task.state = State::Due(at, 0);
                self.agenda.insert((at, key.clone()));
            }
        }
    }

    /// How many Ingresses are not as they should be.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// A number that grows whenever something comes to wait for Envoys.
    pub fn arrivals(&self) -> u64 {
        self.arrivals
    }

    /// What waits for Envoys.
    pub fn waiting(&self) -> &Waiting {
        &self.waiting
    }

    /// So many Envoys, which is all of them, have accepted what serves an Ingress.
    pub fn accepted(&mut self, key: &ObjectKey, what: &Published, envoys: usize, now: Instant) {
        let Some(task) = self.open.get_mut(key) else { return };
        if task.state == State::Waiting && task.goal.needs.as_ref() == Some(what) {
            let at = now + wait(task.failures.max(times(&self.written, key, now)), BACKOFF);
            task.state = State::Due(at, envoys);
            self.agenda.insert((at, key.clone()));
            self.file(key);
        }
    }

    /// When there may be something to write.
    pub fn next(&self) -> Option<Instant> {
        self.agenda.first().map(|(at, _)| *at)
    }

    /// The next write, which is then under way until [`Desk::finished`].
    pub fn start(&mut self, now: Instant) -> Option<Write> {
        while let Some((at, key)) = self.agenda.first().filter(|(at, _)| *at <= now).cloned() {
            self.agenda.remove(&(at, key.clone()));
            let ingress = self.inspection.objects.get::<Ingress>(&key);
            let (Some(task), Some(ingress)) = (self.open.get_mut(&key), ingress) else { continue };
            let version = ingress.status.version.clone();
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
            return Some(Write { key, version, addresses: task.goal.addresses.clone(), programmed });
        }
        None
    }

    /// A write ended.
    pub fn finished(&mut self, write: &Write, outcome: Outcome, now: Instant) {
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
                    let written = self.written.entry(write.key.clone()).or_insert((0, now));
                    *written = (if now < written.1 + FIGHT { written.0 + 1 } else { 1 }, now);
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
        let as_asked = write.addresses == task.goal.addresses
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
        let inspection = self.inspection.clone();
        if let Some(ingress) = inspection.objects.get::<Ingress>(&write.key) {
            self.look_at(&write.key, ingress, inspection.published(Kind::INGRESS, &write.key), now);
        }
        self.file(&write.key);
    }

    /// How often in a row writes to this Ingress have failed.
    pub fn failures(&self, key: &ObjectKey) -> u32 {
        self.open.get(key).map_or(0, |task| task.failures)
    }
}

/// How often in a row an Ingress was written in the time in which writes have to do with each other.
fn times(written: &BTreeMap<ObjectKey, (u32, Instant)>, key: &ObjectKey, now: Instant) -> u32 {
    written.get(key).filter(|(_, at)| now < *at + FIGHT).map_or(0, |(times, _)| *times)
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
