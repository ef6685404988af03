//! The progress of a desired write.

use tokio::time::Instant;

use super::item::{Base, QueueItem};

/// Consecutive writes of one series to one object.
#[derive(Debug)]
pub(super) struct Streak {
    pub writes: u32,
    /// The number of last writes with the same cause.
    pub repeated: u32,
    pub last: Instant,
    pub series: Option<u64>,
    pub cause: u64,
}

/// An item with its progress.
#[derive(Debug)]
pub(super) struct Task<G> {
    pub item: QueueItem<G>,
    pub state: State,
    pub failures: u32,
    /// The earliest time of the next write after a failed one.
    pub not_before: Instant,
    /// The time of the write in the interim.
    pub interim_at: Option<Instant>,
    /// Whether the item was removed during a write.
    pub is_removed: bool,
}

impl<G> Task<G> {
    pub fn new(item: QueueItem<G>, now: Instant) -> Self {
        Self { item, state: State::Waiting, failures: 0, not_before: now, interim_at: None, is_removed: false }
    }
}

/// The progress of an item.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum State {
    /// Waits for Envoys.
    Waiting,
    /// May be written from this time on. This number of Envoys have accepted the object.
    Due(Instant, usize),
    /// Is being written.
    Busy,
    /// Is written over this object. The watch has not reported the write yet, and should do so until this time.
    Written(Base, Instant),
}
