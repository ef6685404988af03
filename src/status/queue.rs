//! The queue of a plan: which object to write, and when. It contains the only policy of the leader for retries, for pauses between
//! writes, and for fairness between namespaces. No I/O; time comes as an argument.

mod item;
mod task;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use lockgate_route::objects::{Kind, ObjectId, ObjectKey};
use tokio::time::Instant;

use super::fair_queue::FairQueue;
use super::waiting::Waiting;
use crate::inspection::Published;
use task::{State, Streak, Task};

pub(super) use item::{Base, DueWrite, QueueItem, WriteOutcome};

/// Two writes to an object are independent if at least this time is between them.
const INDEPENDENT_AFTER: Duration = Duration::from_secs(120);
/// The time limit for the watch to report a write.
pub(super) const WATCH_TIMEOUT: Duration = Duration::from_secs(30);
/// The first and the longest wait after a failed write, or between writes to one object for the same facts.
pub(super) const FAILURE_BACKOFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60));
/// The first and the longest wait between writes to one object for different facts.
const UPDATE_BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));
/// The time that Envoys have to accept an object before a status tells that they have not. Most accept it earlier, so that one write is
/// enough.
pub(super) const PROGRESS_AFTER: Duration = Duration::from_secs(1);
/// The first and the longest wait after a conflict. The watch soon reports the write of the other writer.
pub(super) const CONFLICT_BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// The pending writes of a plan, with goals of type `G`.
#[derive(Debug)]
pub(super) struct Queue<G> {
    /// The recent writes of each object. Another writer may overwrite the same fields.
    written: BTreeMap<ObjectId, Streak>,
    /// The keys of `written` by time. Some entries are outdated.
    written_order: VecDeque<(Instant, ObjectId)>,
    tasks: BTreeMap<ObjectId, Task<G>>,
    /// The number of tasks of each kind.
    counts: BTreeMap<Kind, usize>,
    /// The tasks that wait for Envoys.
    waiting: Waiting,
    /// The time of the next step of each task. Some entries are outdated.
    timers: BTreeSet<(Instant, ObjectId)>,
    /// The entries of `timers` that are due.
    due: FairQueue,
    /// The number of tasks that have begun to wait for Envoys.
    wait_count: u64,
}

impl<G: Clone + PartialEq> Queue<G> {
    /// Creates an empty queue. `rate` is the number of writes per second of one namespace, and the maximum burst.
    pub fn new(rate: Option<(u32, u32)>) -> Self {
        Self {
            written: BTreeMap::new(),
            written_order: VecDeque::new(),
            tasks: BTreeMap::new(),
            counts: BTreeMap::new(),
            waiting: Waiting::default(),
            timers: BTreeSet::new(),
            due: FairQueue::new(rate),
            wait_count: 0,
        }
    }

    /// Sets all desired writes, and removes the others.
    pub fn replace(&mut self, items: BTreeMap<ObjectId, QueueItem<G>>, now: Instant) {
        let removed: Vec<ObjectId> = self.tasks.keys().filter(|id| !items.contains_key(*id)).cloned().collect();
        removed.iter().for_each(|id| self.remove(id));
        items.into_iter().for_each(|(id, item)| self.set(&id, item, now));
    }

    /// Removes the desired write of an object.
    pub fn remove(&mut self, id: &ObjectId) {
        match self.tasks.get_mut(id) {
            // At most one write to an object is in progress.
            Some(task) if task.state == State::Busy => task.is_removed = true,
            Some(_) => self.forget(id),
            None => {}
        }
    }

    fn forget(&mut self, id: &ObjectId) {
        if self.tasks.remove(id).is_some()
            && let Some(count) = self.counts.get_mut(&id.kind)
        {
            *count -= 1;
        }
        self.update_waiting(id);
    }

    /// Sets the desired write of an object.
    pub fn set(&mut self, id: &ObjectId, item: QueueItem<G>, now: Instant) {
        let task = match self.tasks.entry(id.clone()) {
            Entry::Vacant(vacant) => {
                *self.counts.entry(id.kind).or_default() += 1;
                vacant.insert(Task::new(item, now))
            }
            Entry::Occupied(occupied) => {
                let task = occupied.into_mut();
                let is_same = task.item.is_same(&item);
                (task.item, task.is_removed) = (item, false);
                match &task.state {
                    // The end of the write decides the next step.
                    State::Busy => return,
                    State::Written(base, _)
                        if *base == task.item.base && (is_same || matches!(base, Base::Version(_))) =>
                    {
                        return;
                    }
                    State::Waiting | State::Due(..) if is_same => return,
                    _ => task,
                }
            }
        };
        task.state = State::Waiting;
        self.schedule(id, now);
        self.update_waiting(id);
    }

    /// Lets a task wait for Envoys, or for its time.
    fn schedule(&mut self, id: &ObjectId, now: Instant) {
        let Some(task) = self.tasks.get(id) else { return };
        match &task.item.needs {
            Some(_) => {
                self.wait_count += 1;
                self.schedule_interim(id, now);
            }
            None => self.make_due(id, 0, now),
        }
    }

    /// Schedules the write in the interim. Changes of the goal do not postpone it.
    fn schedule_interim(&mut self, id: &ObjectId, now: Instant) {
        let Some(task) = self.tasks.get(id) else { return };
        let at = task.item.interim.is_some().then(|| {
            let planned = task.interim_at.unwrap_or(now + PROGRESS_AFTER);
            planned.max(task.not_before).max(self.earliest(id, &task.item, now))
        });
        self.timers.extend(at.map(|at| (at, id.clone())));
        if let Some(task) = self.tasks.get_mut(id) {
            task.interim_at = at;
        }
    }

    fn make_due(&mut self, id: &ObjectId, envoys: usize, now: Instant) {
        let Some(task) = self.tasks.get(id) else { return };
        let earliest = if task.item.is_urgent { now } else { self.earliest(id, &task.item, now) };
        let at = earliest.max(task.not_before).max(task.item.not_before.unwrap_or(now));
        if let Some(task) = self.tasks.get_mut(id) {
            task.state = State::Due(at, envoys);
            self.timers.insert((at, id.clone()));
        }
    }

    /// Returns the earliest time of the next write to an object that was written recently in the same series. The time counts from
    /// the last write, so changes of the goal do not postpone it.
    fn earliest(&self, id: &ObjectId, item: &QueueItem<G>, now: Instant) -> Instant {
        let recent = |streak: &&Streak| now < streak.last + INDEPENDENT_AFTER && streak.series == item.series;
        self.written.get(id).filter(recent).map_or(now, |streak| {
            let repeated = if streak.cause == item.cause { streak.repeated } else { 0 };
            now.max(streak.last + wait(repeated, FAILURE_BACKOFF).max(wait(streak.writes, UPDATE_BACKOFF)))
        })
    }

    /// Forgets the writes that no longer delay others.
    fn expire(&mut self, now: Instant) {
        while self.written_order.front().is_some_and(|(at, _)| now >= *at + INDEPENDENT_AFTER) {
            if let Some((at, id)) = self.written_order.pop_front()
                && self.written.get(&id).is_some_and(|streak| streak.last == at)
            {
                self.written.remove(&id);
            }
        }
    }

    /// Updates the list of objects that wait for Envoys. Call it after every change of a task.
    fn update_waiting(&mut self, id: &ObjectId) {
        let waits = self.tasks.get(id).filter(|task| task.state == State::Waiting);
        self.waiting.set(&id.key, waits.and_then(|task| task.item.needs.clone()));
    }

    /// Returns whether an object has a pending write, or one that the watch has not reported yet.
    pub fn contains(&self, id: &ObjectId) -> bool {
        self.tasks.contains_key(id)
    }

    /// Returns the number of objects of a kind that differ from their goals.
    pub fn count(&self, kind: Kind) -> usize {
        self.counts.get(&kind).copied().unwrap_or_default()
    }

    /// Returns the writes that the watch has not reported yet, each with the object that was written.
    pub fn unreported(&self) -> impl Iterator<Item = (&ObjectId, &G, &Base)> {
        self.tasks.iter().filter_map(|(id, task)| match &task.state {
            State::Written(base, _) => Some((id, &task.item.goal, base)),
            _ => None,
        })
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
    pub fn accept(&mut self, kind: Kind, key: &ObjectKey, what: &Published, envoys: usize, now: Instant) {
        let id = kind.id(key.clone());
        let Some(task) = self.tasks.get(&id) else { return };
        if task.state == State::Waiting && task.item.needs.as_ref() == Some(what) {
            self.make_due(&id, envoys, now);
            self.update_waiting(&id);
        }
    }

    /// Returns the time of the next step.
    pub fn next(&self, now: Instant) -> Option<Instant> {
        self.due.next(now).into_iter().chain(self.timers.first().map(|(at, _)| *at)).min()
    }

    /// Returns the next write, which is then in progress until [`Queue::finish`]. Namespaces take turns.
    pub fn start(&mut self, now: Instant) -> Option<DueWrite<G>> {
        self.expire(now);
        while self.timers.first().is_some_and(|(at, _)| *at <= now) {
            let first = self.timers.pop_first();
            first.into_iter().for_each(|(at, id)| self.due.push(at, id));
        }
        while let Some((at, id)) = self.due.pop(now) {
            let Some(task) = self.tasks.get_mut(&id) else { continue };
            let (item, envoys) = match &task.state {
                State::Due(due, envoys) if *due == at => (task.item.clone(), *envoys),
                State::Waiting if task.interim_at == Some(at) => match task.item.in_the_interim() {
                    Some(item) => (item, 0),
                    None => continue,
                },
                // The report of the watch is late. The goal can have changed since the write.
                State::Written(_, until) if *until == at && task.item.needs.is_none() => (task.item.clone(), 0),
                State::Written(_, until) if *until == at => {
                    task.state = State::Waiting;
                    self.wait_count += 1;
                    self.update_waiting(&id);
                    continue;
                }
                _ => continue,
            };
            (task.state, task.interim_at) = (State::Busy, None);
            self.update_waiting(&id);
            self.due.take(&id.key.namespace, now);
            return Some(DueWrite { id, item, envoys });
        }
        None
    }

    /// Records the result of a write. If the write is no longer desired, the object is forgotten.
    pub fn finish(&mut self, write: &DueWrite<G>, outcome: WriteOutcome, now: Instant) {
        if outcome == WriteOutcome::Done && !write.item.is_urgent {
            self.extend_streak(write, now);
        }
        let Some(task) = self.tasks.get_mut(&write.id) else { return };
        let is_same = task.item.is_same(&write.item);
        if task.is_removed || (outcome == WriteOutcome::Dropped && is_same) {
            return self.forget(&write.id);
        }
        let backoff = match outcome {
            WriteOutcome::Done => {
                task.failures = 0;
                let until = now + WATCH_TIMEOUT;
                task.state = State::Written(write.item.base.clone(), until);
                self.timers.insert((until, write.id.clone()));
                // A goal that has changed during the write is written at once, unless both require the same version.
                if is_same || matches!(task.item.base, Base::Version(_)) {
                    return;
                }
                (Duration::ZERO, Duration::ZERO)
            }
            WriteOutcome::Dropped => (Duration::ZERO, Duration::ZERO),
            WriteOutcome::Conflict => CONFLICT_BACKOFF,
            WriteOutcome::Failed => FAILURE_BACKOFF,
        };
        task.failures += u32::from(outcome != WriteOutcome::Done);
        task.not_before = now + wait(task.failures, backoff);
        task.state = State::Waiting;
        // Envoys have accepted an unchanged goal.
        match is_same {
            true => self.make_due(&write.id, write.envoys, now),
            false => self.schedule(&write.id, now),
        }
        self.update_waiting(&write.id);
    }

    /// Counts a successful write among the recent writes to its object.
    fn extend_streak(&mut self, write: &DueWrite<G>, now: Instant) {
        let QueueItem { series, cause, .. } = write.item;
        let recent = |streak: &&Streak| now < streak.last + INDEPENDENT_AFTER && streak.series == series;
        let before = self.written.get(&write.id).filter(recent);
        let repeated = before.filter(|streak| streak.cause == cause);
        let streak = Streak {
            writes: before.map_or(0, |streak| streak.writes) + 1,
            repeated: repeated.map_or(0, |streak| streak.repeated) + 1,
            last: now,
            series,
            cause,
        };
        self.written.insert(write.id.clone(), streak);
        self.written_order.push_back((now, write.id.clone()));
    }

    /// Returns the number of consecutive failed writes to an object.
    pub fn failures(&self, id: &ObjectId) -> u32 {
        self.tasks.get(id).map_or(0, |task| task.failures)
    }
}

/// Returns the wait after this number of consecutive failures.
pub(super) fn wait(failures: u32, (first, longest): (Duration, Duration)) -> Duration {
    match failures.checked_sub(1) {
        None => Duration::ZERO,
        Some(doublings) => first.saturating_mul(1 << doublings.min(16)).min(longest),
    }
}
