//! Events on objects with problems, and on objects that are served again.
//!
//! `tracker` finds the notices, `outbox` queues them, and `notice` turns them into Events. The name of an Event is a
//! hash of its content. Two replicas therefore never create the same Event twice, and need not read existing Events.
//! The recorder of kube creates a new name each time, so it would repeat all Events after a restart.

mod notice;
mod outbox;
mod tracker;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams, PostParams};
use lockgate_route::objects::{Kind, ObjectKey};
use lockgate_route::translate::problem::Problems;
use lockgate_xds::provenance::ObjectRef;
use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until, timeout};

use super::token_bucket::TokenBucket;
use super::{ApiBackoff, Failure, WRITE_TIMEOUT, WriterSettings};
use crate::inspection::Inspection;
use crate::leader::Leader;
use crate::metrics::Metrics;

use notice::{HEALED, Notice, PROGRAMMED};
use outbox::{Delivery, Outbox};
use tracker::ProblemTracker;

/// The Events per second, and the maximum burst.
const RATE: (u32, u32) = (10, 50);
/// The writer processes changes within this time together.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// A new leader repeats recoveries of this time, because the last leader may not have reported them.
const HANDOVER: Duration = Duration::from_secs(60);
/// The maximum number of such recoveries.
const MAX_RECENT: usize = 1000;
/// The maximum sleep.
const MAX_SLEEP: Duration = Duration::from_secs(60);

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

/// The number of dropped notices that are not logged yet.
#[derive(Debug, Default)]
struct Dropped {
    count: u64,
    /// The log has at most one line per minute.
    quiet_until: Option<Instant>,
}

/// The writer of Events.
pub(super) struct Events {
    pub client: kube::Client,
    /// The name of this replica.
    pub instance: String,
    pub leader: Leader,
    pub inspected: watch::Receiver<Arc<Inspection>>,
    pub expiring: watch::Receiver<Problems>,
    pub rejected: watch::Receiver<Problems>,
    /// The settings of the writers.
    pub settings: watch::Receiver<WriterSettings>,
    pub programmed: mpsc::Receiver<Programmed>,
    pub metrics: Metrics,
}

impl Events {
    /// Follows the problems at all times, and writes Events while this replica leads. Runs forever.
    pub async fn run(mut self) {
        let leader = self.leader.clone();
        let (mut tracker, mut outbox) = (ProblemTracker::default(), Outbox::default());
        let mut recent = VecDeque::new();
        loop {
            tokio::select! {
                () = leader.leading() => {}
                () = self.follow(&mut tracker, &mut recent) => {}
            }
            let now = Instant::now();
            self.update(&mut tracker);
            tracker.all().into_iter().for_each(|notice| outbox.push(notice, now));
            let recent = recent.drain(..).filter(|(at, _): &(Instant, Notice)| *at + HANDOVER > now);
            recent.for_each(|(_, notice)| outbox.push(Notice { is_new: false, ..notice }, now));
            leader.while_leading(self.write(&mut tracker, &mut outbox)).await;
            outbox.clear();
            self.metrics.set_status_pending("Event", 0);
        }
    }

    /// Returns the notices of all changes.
    fn update(&mut self, tracker: &mut ProblemTracker) -> Vec<Notice> {
        let inspection = self.inspected.borrow_and_update().clone();
        let others = self.expiring.borrow_and_update().clone();
        tracker.update(&inspection, &others.union(self.rejected.borrow_and_update().clone()))
    }

    /// Follows the problems while another replica leads. Records recoveries in `recent`, because the leader may end before it
    /// reports them.
    async fn follow(&mut self, tracker: &mut ProblemTracker, recent: &mut VecDeque<(Instant, Notice)>) {
        loop {
            let now = Instant::now();
            let notices = self.update(tracker);
            recent.extend(notices.into_iter().filter(|notice| notice.reason == HEALED).map(|notice| (now, notice)));
            recent.drain(..recent.len().saturating_sub(MAX_RECENT));
            tokio::time::sleep(DEBOUNCE).await;
            tokio::select! {
                () = super::changed(&mut self.inspected) => {}
                () = super::changed(&mut self.expiring) => {}
                () = super::changed(&mut self.rejected) => {}
            }
        }
    }

    /// Writes Events until leadership ends.
    async fn write(&mut self, tracker: &mut ProblemTracker, outbox: &mut Outbox) {
        let mut bucket = TokenBucket::new(RATE.0, RATE.1);
        let (mut backoff, mut dropped) = (ApiBackoff::default(), Dropped::default());
        let (mut new, mut update_at) = (true, Instant::now());
        loop {
            let now = Instant::now();
            if new && update_at <= now {
                self.update(tracker).into_iter().for_each(|notice| outbox.push(notice, now));
                (new, update_at) = (false, now + DEBOUNCE);
            }
            self.report(outbox, &mut dropped, now);
            let allowed = bucket.next(now).max(backoff.until().unwrap_or(now));
            if allowed <= now
                && let Some((notice, delivery)) = outbox.pop(now)
            {
                bucket.take(now);
                self.send(notice, delivery, outbox, &mut backoff).await;
                continue;
            }
            let wake = outbox.next(now).map_or(now + MAX_SLEEP, |at| at.max(allowed));
            tokio::select! {
                Some(programmed) = self.programmed.recv() => outbox.push(programmed.into(), Instant::now()),
                () = super::changed(&mut self.inspected), if !new => new = true,
                () = super::changed(&mut self.expiring), if !new => new = true,
                () = super::changed(&mut self.rejected), if !new => new = true,
                () = sleep_until(update_at), if new => {}
                () = sleep_until(wake) => {}
            }
        }
    }

    /// Updates the metrics, and occasionally logs the number of dropped notices.
    fn report(&self, outbox: &mut Outbox, dropped: &mut Dropped, now: Instant) {
        self.metrics.set_status_pending("Event", outbox.len());
        let count = outbox.take_dropped();
        self.metrics.events_dropped(count);
        dropped.count += count;
        if dropped.count > 0 && dropped.quiet_until.is_none_or(|until| until <= now) {
            let dropped = std::mem::replace(dropped, Dropped { count: 0, quiet_until: Some(now + MAX_SLEEP) });
            tracing::warn!(
                dropped = dropped.count,
                "Events dropped, because too many are queued in their namespaces; /debug/problems lists the problems"
            );
        }
    }

    /// Sends one Event, and returns it to the queue if the API server is unavailable.
    async fn send(&self, notice: Notice, delivery: Delivery, outbox: &mut Outbox, backoff: &mut ApiBackoff) {
        // The API server creates no objects in a namespace that is being deleted.
        if matches!(delivery, Delivery::Create) && self.inspected.borrow().objects.is_terminating(notice.namespace()) {
            return;
        }
        let api = Api::<Event>::namespaced(self.client.clone(), notice.namespace());
        let (name, now) = (notice.name(), Timestamp::now());
        let written = match delivery {
            Delivery::Create => {
                let controller = self.settings.borrow().controller.clone();
                let event = notice.event(&controller, &self.instance, now);
                let params = PostParams { field_manager: Some("lockgate".into()), ..PostParams::default() };
                Failure::from_response(timeout(WRITE_TIMEOUT, api.create(&params, &event)).await)
            }
            Delivery::Update(times) => {
                let series = json!({ "series": { "count": times, "lastObservedTime": MicroTime(now) } });
                let params = PatchParams { field_manager: Some("lockgate".into()), ..PatchParams::default() };
                Failure::from_response(timeout(WRITE_TIMEOUT, api.patch(&name, &params, &Patch::Merge(series))).await)
            }
        };
        let ended = Instant::now();
        backoff.record(written.as_ref().err(), ended);
        self.metrics.status_written("Event", super::outcome(written.as_ref().err()));
        let times = if let Delivery::Update(times) = delivery { times } else { 1 };
        let Err(failure) = written else { return outbox.delivered(&notice, times) };
        let ObjectRef { kind, namespace, name: object, .. } = &notice.object;
        match (failure.code(), delivery) {
            // An earlier leader, or this replica before a restart, has created the Event.
            (Some(409), Delivery::Create) => outbox.delivered(&notice, 1),
            (Some(409), Delivery::Update(_)) => outbox.put_back(notice, ended + Duration::from_secs(1)),
            (Some(404), Delivery::Update(_)) => {
                outbox.forget(&notice);
                outbox.put_back(notice, ended);
            }
            _ if failure.affects_all_writes() => {
                tracing::debug!(kind, %namespace, name = %object, "cannot write an Event: {failure}; trying again");
                outbox.put_back(notice, ended);
            }
            // The namespace is gone, and its Events are gone with it.
            (Some(404), Delivery::Create) => {}
            _ => {
                tracing::warn!(kind, %namespace, name = %object, reason = notice.reason, "cannot write an Event: {failure}")
            }
        }
    }
}

#[cfg(test)]
mod tests;
