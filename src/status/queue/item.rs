//! A desired write, and its result.

use std::sync::Arc;

use lockgate_route::objects::{Object, ObjectId};
use tokio::time::Instant;

use crate::inspection::Published;

/// The desired write of an object, and the reasons why it may wait.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueItem<G> {
    /// The content of the write.
    pub goal: G,
    /// The object that the write changes. After a write, the next one waits until the watch reports another object.
    pub base: Base,
    /// The publication that all Envoys must have accepted first.
    pub needs: Option<Published>,
    /// The content of the write if the Envoys have not accepted the publication after `PROGRESS_AFTER`.
    pub interim: Option<G>,
    /// A hash of the facts behind the goal. Repeated writes for the same facts indicate a conflict with another writer, so the
    /// queue delays them. It hardly delays writes for new facts.
    pub cause: u64,
    /// Recent writes of another series do not delay this one.
    pub series: Option<u64>,
    /// The earliest time of the write.
    pub not_before: Option<Instant>,
    /// Whether the write is independent of recent writes to the object, as the withdrawal of an address is.
    pub is_urgent: bool,
}

impl<G> QueueItem<G> {
    /// Creates an item that no fact delays.
    pub fn new(goal: G, base: Base) -> Self {
        Self { goal, base, needs: None, interim: None, cause: 0, series: None, not_before: None, is_urgent: false }
    }
}

impl<G: Clone + PartialEq> QueueItem<G> {
    /// Returns the write while the Envoys have not accepted the publication.
    pub(super) fn in_the_interim(&self) -> Option<Self> {
        let goal = self.interim.clone()?;
        Some(Self { goal, needs: None, interim: None, ..self.clone() })
    }

    /// Returns whether two items are the same write, over any object.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.goal == other.goal
            && self.needs == other.needs
            && self.interim == other.interim
            && self.cause == other.cause
            && self.not_before == other.not_before
    }
}

/// The object that a write changes.
#[derive(Debug, Clone, PartialEq)]
pub enum Base {
    /// The write requires this `metadata.resourceVersion`, or that the object does not exist. Another write over the same version
    /// would be a conflict.
    Version(Option<Arc<str>>),
    /// The write changes any version. This version was observed.
    Observed(Option<Arc<str>>),
    /// The write changes any version. This object was observed.
    Object(Option<Object>),
}

/// A write that is due.
#[derive(Debug, Clone, PartialEq)]
pub struct DueWrite<G> {
    /// The object.
    pub id: ObjectId,
    /// The desired write.
    pub item: QueueItem<G>,
    /// The number of Envoys that have accepted the object, if the item needs their acceptance.
    pub envoys: usize,
}

/// The result of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteOutcome {
    /// The object has the desired content.
    Done,
    /// Another writer was faster.
    Conflict,
    /// The write was rejected, or its result is unknown. If the object does not exist, the watch reports its deletion; an API server
    /// that starts does not know the kinds of CustomResourceDefinitions yet.
    Failed,
    /// The write is not repeated.
    Dropped,
}
