//! The statuses of one kind with their queue, without I/O.

use std::sync::Arc;

use lockgate_route::objects::ObjectKey;
use tokio::time::Instant;

use crate::inspection::{Inspection, Published};
use crate::status::goals::Goals;
use crate::status::kind::{ExternalFacts, HasStatus};
use crate::status::queue::{Base, DueWrite, Queue, WriteOutcome};
use crate::status::waiting::Waiting;

/// The goals of the objects of kind `T`, and their queue.
pub struct StatusQueue<T: HasStatus> {
    pub goals: Goals<T>,
    pub queue: Queue<T::Status>,
}

/// A write in progress.
#[derive(Debug, Clone, PartialEq)]
pub struct Started<S> {
    write: DueWrite<S>,
    pub key: ObjectKey,
    pub version: Arc<str>,
    pub status: S,
    /// The accepted publication, and the number of Envoys.
    pub programmed: Option<(Published, usize)>,
}

impl<T: HasStatus> StatusQueue<T> {
    pub fn new(manager: String) -> Self {
        Self { goals: Goals::new(manager), queue: Queue::new(None) }
    }

    pub fn update(&mut self, inspection: Arc<Inspection>, external: impl Into<ExternalFacts>, now: Instant) {
        self.goals.update(&mut self.queue, inspection, external, now);
    }

    pub fn len(&self) -> usize {
        self.queue.count(T::KIND)
    }

    pub fn next(&self) -> Option<Instant> {
        self.queue.next(Instant::now())
    }

    pub fn waiting(&self) -> &Waiting {
        self.queue.waiting()
    }

    pub fn record_acceptance(&mut self, key: &ObjectKey, what: &Published, envoys: usize, now: Instant) {
        self.queue.accept(T::KIND, key, what, envoys, now);
    }

    pub fn start(&mut self, now: Instant) -> Option<Started<T::Status>> {
        let write = self.queue.start(now)?;
        let Base::Version(Some(version)) = write.item.base.clone() else { panic!("{write:?}") };
        let programmed = write.item.needs.clone().map(|published| (published, write.envoys));
        let (key, status) = (write.id.key.clone(), write.item.goal.clone());
        Some(Started { write, key, version, status, programmed })
    }

    pub fn record_result(&mut self, started: &Started<T::Status>, outcome: WriteOutcome, now: Instant) {
        self.queue.finish(&started.write, outcome, now);
        self.goals.finished(&mut self.queue, &started.write, outcome, now);
    }
}
