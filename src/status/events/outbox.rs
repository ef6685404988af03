//! What is still to be told: bounded, and in order. Time comes as an argument.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::notice::{HEALED, Notice};

/// Notices that wait at a time.
const ROOM: usize = 1000;
/// Names of Events that are remembered.
const REMEMBERED: usize = 20_000;
/// A fault is told when it has lasted so long: a Service that comes right after its Ingress, as `kubectl apply` may do
/// it, is none.
const HOLD: Duration = Duration::from_secs(1);

/// What is still to be told, and what has been.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    waiting: VecDeque<(Instant, Notice)>,
    /// How often each Event was told, as far as this replica knows.
    told: BTreeMap<String, i32>,
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
    /// Takes in a notice, in the place of an earlier one on the same subject that has not been told yet.
    pub fn push(&mut self, notice: Notice, now: Instant) {
        let same = |other: &Notice| other.object == notice.object && other.subject == notice.subject;
        let earlier = self.waiting.iter().position(|(_, other)| same(other));
        let earlier = earlier.and_then(|at| self.waiting.remove(at));
        // What was healed before anybody was told of it needs no telling.
        if notice.reason == HEALED && earlier.is_some_and(|(_, earlier)| earlier.is_warning) {
            return;
        }
        if !notice.is_new && self.told.contains_key(&notice.name()) {
            return;
        }
        let hold = if notice.is_warning && notice.is_new { HOLD } else { Duration::ZERO };
        self.waiting.push_back((now + hold, notice));
        if self.waiting.len() > ROOM {
            // Good news first, else the oldest.
            let victim = self.waiting.iter().position(|(_, notice)| !notice.is_warning).unwrap_or(0);
            self.waiting.remove(victim);
            self.dropped += 1;
        }
    }

    /// When the first may be told.
    pub fn next(&self) -> Option<Instant> {
        self.waiting.front().map(|(at, _)| *at)
    }

    /// The first, if its time has come. To be told anew unless [`Outbox::told`] follows.
    pub fn pop(&mut self, now: Instant) -> Option<(Notice, Telling)> {
        self.waiting.front().filter(|(at, _)| *at <= now)?;
        let (_, notice) = self.waiting.pop_front()?;
        let telling = self.told.get(&notice.name()).map_or(Telling::New, |times| Telling::Again(times + 1));
        Some((notice, telling))
    }

    /// A notice that could not be told, for later; unless there is a later one on the same subject.
    pub fn put_back(&mut self, notice: Notice, at: Instant) {
        let same = |other: &Notice| other.object == notice.object && other.subject == notice.subject;
        if !self.waiting.iter().any(|(_, other)| same(other)) {
            self.waiting.push_front((at, notice));
        }
    }

    /// An Event with this name is there now, and was told so often.
    pub fn told(&mut self, name: String, times: i32) {
        if self.told.len() >= REMEMBERED {
            self.told.clear();
        }
        self.told.insert(name, times);
    }

    /// An Event is gone: they do not last.
    pub fn forget(&mut self, name: &str) {
        self.told.remove(name);
    }

    /// Nothing is told any more by this replica.
    pub fn clear(&mut self) {
        self.waiting.clear();
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// How many found no room since this was last asked.
    pub fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }
}
