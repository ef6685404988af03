//! The plan of Events on objects with problems, and on objects that are served again.
//!
//! `tracker` finds the notices, `outbox` bounds them, and `notice` turns them into Events. The name of an Event is a
//! hash of its content. Two replicas therefore never create the same Event twice, and need not read existing Events.
//! The recorder of kube creates a new name each time, so it would repeat all Events after a restart.

mod notice;
mod outbox;
mod tracker;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use lockgate_route::objects::{Kind, ObjectId, ObjectKey};
use lockgate_route::translate::problem::Problems;
use lockgate_xds::provenance::ObjectRef;
use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::failure::Failure;
use super::kinds::EVENT;
use super::plan::{EVENTS, Limits, Performed, Performing, Plan};
use super::queue::{DueWrite, Queue, WriteOutcome};
use super::sender::{Form, Sender};
use super::settings::WriterSettings;
use crate::channel::changed;
use crate::inspection::Inspection;
use crate::metrics::Metrics;

use notice::{HEALED, Notice, PROGRAMMED};
use outbox::{Delivery, Outbox};
use tracker::ProblemTracker;

/// A new leader repeats recoveries of this time, because the last leader may not have reported them.
const HANDOVER: Duration = Duration::from_secs(60);
/// The maximum number of such recoveries.
const MAX_RECENT: usize = 1000;
/// The minimum time between two log lines about dropped notices.
const QUIET: Duration = Duration::from_secs(60);

/// An object that all Envoys serve, and whose status is written.
#[derive(Debug)]
pub(super) struct Programmed {
    pub kind: Kind,
    pub key: ObjectKey,
    pub uid: Arc<str>,
    pub envoys: usize,
    /// The [`HasStatus::summary`](super::kind::HasStatus::summary) of the status.
    pub summary: String,
}

impl From<Programmed> for Notice {
    fn from(programmed: Programmed) -> Self {
        let Programmed { kind, key, uid, envoys, summary } = programmed;
        Notice {
            object: ObjectRef { kind: kind.as_str(), namespace: key.namespace, name: key.name, generation: 0 },
            uid,
            subject: PROGRAMMED,
            is_warning: false,
            reason: PROGRAMMED,
            note: format!("accepted by {envoys}/{envoys} Envoys; {summary}"),
            is_new: true,
        }
    }
}

/// The inputs of Events.
pub(super) struct EventInputs {
    /// The name of this replica.
    pub instance: String,
    pub inspected: watch::Receiver<Arc<Inspection>>,
    pub expiring: watch::Receiver<Problems>,
    pub rejected: watch::Receiver<Problems>,
    /// The settings of the writers.
    pub settings: watch::Receiver<WriterSettings>,
    pub programmed: mpsc::Receiver<Programmed>,
    pub metrics: Metrics,
}

/// The plan of Events.
pub(super) struct Events {
    inputs: EventInputs,
    tracker: ProblemTracker,
    outbox: Outbox,
    /// The recoveries while another replica leads.
    recent: VecDeque<(Instant, Notice)>,
    /// The number of dropped notices that are not logged yet.
    dropped: u64,
    /// The time of the next log line about dropped notices.
    quiet_until: Option<Instant>,
}

impl Events {
    /// Creates the plan.
    pub fn new(inputs: EventInputs) -> Self {
        Self {
            inputs,
            tracker: ProblemTracker::default(),
            outbox: Outbox::default(),
            recent: VecDeque::new(),
            dropped: 0,
            quiet_until: None,
        }
    }

    /// Returns the notices of all changes.
    fn track(&mut self) -> Vec<Notice> {
        let EventInputs { inspected, expiring, rejected, .. } = &mut self.inputs;
        let inspection = inspected.borrow_and_update().clone();
        let others = expiring.borrow_and_update().clone();
        self.tracker.update(&inspection, &others.union(rejected.borrow_and_update().clone()))
    }

    /// Waits for a change of a problem.
    async fn problems_changed(&mut self) {
        tokio::select! {
            () = changed(&mut self.inputs.inspected) => {}
            () = changed(&mut self.inputs.expiring) => {}
            () = changed(&mut self.inputs.rejected) => {}
        }
    }
}

impl Plan for Events {
    type Goal = Notice;
    const NAME: &'static str = "an Event";
    const LIMITS: Limits = EVENTS;

    fn kinds(&self) -> &[Kind] {
        &[EVENT]
    }

    /// Follows the problems while another replica leads. Records recoveries, because the leader may end before it reports them.
    async fn follow(&mut self) -> Infallible {
        loop {
            let now = Instant::now();
            let notices = self.track();
            let recoveries = notices.into_iter().filter(|notice| notice.reason == HEALED);
            self.recent.extend(recoveries.map(|notice| (now, notice)));
            self.recent.drain(..self.recent.len().saturating_sub(MAX_RECENT));
            tokio::time::sleep(EVENTS.debounce).await;
            self.problems_changed().await;
        }
    }

    async fn begin(&mut self, _sender: &Sender) -> Result<(), Failure> {
        let now = Instant::now();
        self.outbox.clear();
        self.track();
        self.tracker.all().into_iter().for_each(|notice| self.outbox.push(notice, now));
        let recent = self.recent.drain(..).filter(|(at, _)| *at + HANDOVER > now);
        recent.for_each(|(_, notice)| self.outbox.push(Notice { is_new: false, ..notice }, now));
        Ok(())
    }

    async fn changed(&mut self) {
        let EventInputs { inspected, expiring, rejected, programmed, .. } = &mut self.inputs;
        tokio::select! {
            Some(programmed) = programmed.recv() => self.outbox.push(programmed.into(), Instant::now()),
            () = changed(inspected) => {}
            () = changed(expiring) => {}
            () = changed(rejected) => {}
        }
    }

    fn update(&mut self, queue: &mut Queue<Notice>, now: Instant) -> Option<Instant> {
        self.track().into_iter().for_each(|notice| self.outbox.push(notice, now));
        // A burst of statuses is one update.
        while let Ok(programmed) = self.inputs.programmed.try_recv() {
            self.outbox.push(programmed.into(), now);
        }
        self.outbox.update(queue, now);
        None
    }

    /// Updates the metrics, and occasionally logs the number of dropped notices.
    fn publish(&mut self, _queue: &Queue<Notice>) {
        let (count, now) = (self.outbox.take_dropped(), Instant::now());
        self.inputs.metrics.events_dropped(count);
        self.dropped += count;
        if self.dropped > 0 && self.quiet_until.is_none_or(|until| until <= now) {
            tracing::warn!(
                dropped = std::mem::take(&mut self.dropped),
                "Events dropped, because too many are queued in their namespaces; /debug/problems lists the problems"
            );
            self.quiet_until = Some(now + QUIET);
        }
    }

    fn perform(&mut self, sender: Sender, write: &DueWrite<Notice>) -> Performing {
        let (notice, now) = (write.item.goal.clone(), Timestamp::now());
        self.outbox.start(&write.id, &notice);
        let id = ObjectId::new(EVENT, notice.namespace(), &notice.name());
        let form = match self.outbox.delivery(&notice) {
            // The API server creates no objects in a namespace that is being deleted.
            Delivery::Create if self.inputs.inspected.borrow().objects.is_terminating(notice.namespace()) => None,
            Delivery::Create => {
                let controller = self.inputs.settings.borrow().controller.clone();
                Some(Form::Create(json!(notice.event(&controller, &self.inputs.instance, now))))
            }
            Delivery::Update(times) => {
                Some(Form::Merge(json!({ "series": { "count": times, "lastObservedTime": MicroTime(now) } })))
            }
        };
        async move {
            let Some(form) = form else { return Ok(Performed::Unchanged) };
            sender.send(&id, form).await?;
            Ok(Performed::Written("written"))
        }
        .boxed()
    }

    fn outcome(&self, write: &DueWrite<Notice>, result: Result<Performed, &Failure>) -> WriteOutcome {
        let Err(failure) = result else { return WriteOutcome::Done };
        match (failure.code(), self.outbox.delivery(&write.item.goal)) {
            // An earlier leader, or this replica before a restart, has created the Event.
            (Some(409), Delivery::Create) => WriteOutcome::Done,
            // The Event has expired, or its update was not the newest.
            (Some(404 | 409), Delivery::Update(_)) => WriteOutcome::Conflict,
            _ if failure.affects_all_writes() => WriteOutcome::Failed,
            // If the namespace is gone, its Events are gone with it.
            _ => WriteOutcome::Dropped,
        }
    }

    fn finished(
        &mut self,
        queue: &mut Queue<Notice>,
        write: &DueWrite<Notice>,
        result: Result<Performed, &Failure>,
        now: Instant,
    ) {
        let (notice, delivery) = (&write.item.goal, self.outbox.delivery(&write.item.goal));
        let times = if let Delivery::Update(times) = delivery { times } else { 1 };
        match (self.outcome(write, result), result) {
            (WriteOutcome::Done, Ok(Performed::Unchanged)) | (WriteOutcome::Dropped, _) => {}
            (WriteOutcome::Done, _) => self.outbox.delivered(notice, times),
            (WriteOutcome::Conflict | WriteOutcome::Failed, _) => {
                if result.is_err_and(|failure| failure.code() == Some(404)) {
                    self.outbox.forget(notice);
                }
                self.outbox.put_back(notice.clone(), now);
            }
        }
        if !self.outbox.contains(&write.id) {
            queue.remove(&write.id);
        }
    }

    fn subject(write: &DueWrite<Notice>) -> ObjectRef {
        write.item.goal.object.clone()
    }
}

#[cfg(test)]
mod tests;
