//! Events on objects that are at fault, and on those that are served or healed again.
//!
//! `ledger` finds what is to be told, `outbox` keeps it until it is, `notice` makes an Event of it. An Event's name says
//! what it tells, so two replicas cannot tell the same twice, and nothing need be read to know. kube's own recorder makes
//! a new name each time, and so tells everything again after a restart.

mod ledger;
mod notice;
mod outbox;

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

use super::bucket::Bucket;
use super::{Chosen, Failure, PATIENCE, Trouble};
use crate::inspection::Inspection;
use crate::leader::Leader;
use crate::metrics::Metrics;

use ledger::Ledger;
use notice::{HEALED, Notice, PROGRAMMED};
use outbox::{Outbox, Telling};

/// Events a second, and how many at once after a pause.
const RATE: (u32, u32) = (10, 50);
/// Changes within this time are looked at together.
const TOGETHER: Duration = Duration::from_millis(100);
/// What was healed in so long a time before this replica began to lead may not have been told by the one before it.
const GAP: Duration = Duration::from_secs(60);
/// How many of these are kept.
const GAP_ROOM: usize = 1000;
/// Nothing else to wait for.
const LONG: Duration = Duration::from_secs(60);

/// An object is served by all Envoys, and its status is written.
#[derive(Debug)]
pub(super) struct Programmed {
    pub kind: Kind,
    pub key: ObjectKey,
    pub uid: Arc<str>,
    pub envoys: usize,
    /// [`HasStatus::summary`](super::kind::HasStatus::summary) of the status.
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

/// Notices that were dropped, and not logged yet.
#[derive(Debug, Default)]
struct Dropped {
    count: u64,
    /// One line a minute is enough.
    quiet_until: Option<Instant>,
}

/// Who writes Events.
pub(super) struct Events {
    pub client: kube::Client,
    /// Who this replica is.
    pub instance: String,
    pub leader: Leader,
    pub inspected: watch::Receiver<Arc<Inspection>>,
    pub expiring: watch::Receiver<Problems>,
    pub rejected: watch::Receiver<Problems>,
    /// What we are called.
    pub settings: watch::Receiver<Chosen>,
    pub programmed: mpsc::Receiver<Programmed>,
    pub metrics: Metrics,
}

impl Events {
    /// Looks all the time, and writes while this replica leads; for ever.
    pub async fn run(mut self) {
        let leader = self.leader.clone();
        let (mut ledger, mut outbox) = (Ledger::default(), Outbox::default());
        let mut gap = VecDeque::new();
        loop {
            tokio::select! {
                () = leader.leading() => {}
                () = self.follow(&mut ledger, &mut gap) => {}
            }
            let now = Instant::now();
            self.look(&mut ledger);
            ledger.all().into_iter().for_each(|notice| outbox.push(notice, now));
            let recent = gap.drain(..).filter(|(at, _): &(Instant, Notice)| *at + GAP > now);
            recent.for_each(|(_, notice)| outbox.push(Notice { is_new: false, ..notice }, now));
            leader.while_leading(self.write(&mut ledger, &mut outbox)).await;
            outbox.clear();
            self.metrics.set_status_pending("Event", 0);
        }
    }

    /// What is to be told of what has changed.
    fn look(&mut self, ledger: &mut Ledger) -> Vec<Notice> {
        let inspection = self.inspected.borrow_and_update().clone();
        let beside = self.expiring.borrow_and_update().clone();
        ledger.look(&inspection, &beside.union(self.rejected.borrow_and_update().clone()))
    }

    /// While another replica leads: keeps what is healed in mind, in case that one ends before it has told it.
    async fn follow(&mut self, ledger: &mut Ledger, gap: &mut VecDeque<(Instant, Notice)>) {
        loop {
            let now = Instant::now();
            let notices = self.look(ledger);
            gap.extend(notices.into_iter().filter(|notice| notice.reason == HEALED).map(|notice| (now, notice)));
            gap.drain(..gap.len().saturating_sub(GAP_ROOM));
            tokio::time::sleep(TOGETHER).await;
            tokio::select! {
                () = super::changed(&mut self.inspected) => {}
                () = super::changed(&mut self.expiring) => {}
                () = super::changed(&mut self.rejected) => {}
            }
        }
    }

    /// Writes Events until leadership ends.
    async fn write(&mut self, ledger: &mut Ledger, outbox: &mut Outbox) {
        let mut bucket = Bucket::new(RATE.0, RATE.1);
        let (mut trouble, mut dropped) = (Trouble::default(), Dropped::default());
        let (mut new, mut look_at) = (true, Instant::now());
        loop {
            let now = Instant::now();
            if new && look_at <= now {
                self.look(ledger).into_iter().for_each(|notice| outbox.push(notice, now));
                (new, look_at) = (false, now + TOGETHER);
            }
            self.report(outbox, &mut dropped, now);
            let may = bucket.next(now).max(trouble.over().unwrap_or(now));
            if may <= now
                && let Some((notice, telling)) = outbox.pop(now)
            {
                bucket.take(now);
                self.send(notice, telling, outbox, &mut trouble).await;
                continue;
            }
            let wake = outbox.next(now).map_or(now + LONG, |at| at.max(may));
            tokio::select! {
                Some(programmed) = self.programmed.recv() => outbox.push(programmed.into(), Instant::now()),
                () = super::changed(&mut self.inspected), if !new => new = true,
                () = super::changed(&mut self.expiring), if !new => new = true,
                () = super::changed(&mut self.rejected), if !new => new = true,
                () = sleep_until(look_at), if new => {}
                () = sleep_until(wake) => {}
            }
        }
    }

    /// Updates the metrics, and logs dropped notices once in a while.
    fn report(&self, outbox: &mut Outbox, dropped: &mut Dropped, now: Instant) {
        self.metrics.set_status_pending("Event", outbox.len());
        let count = outbox.take_dropped();
        self.metrics.events_dropped(count);
        dropped.count += count;
        if dropped.count > 0 && dropped.quiet_until.is_none_or(|until| until <= now) {
            let dropped = std::mem::replace(dropped, Dropped { count: 0, quiet_until: Some(now + LONG) });
            tracing::warn!(
                dropped = dropped.count,
                "Events left out, for too many wait in their namespaces; /debug/problems lists the problems"
            );
        }
    }

    async fn send(&self, notice: Notice, telling: Telling, outbox: &mut Outbox, trouble: &mut Trouble) {
        // The API server creates nothing in a namespace that is being deleted.
        if matches!(telling, Telling::New) && self.inspected.borrow().objects.is_terminating(notice.namespace()) {
            return;
        }
        let api = Api::<Event>::namespaced(self.client.clone(), notice.namespace());
        let (name, now) = (notice.name(), Timestamp::now());
        let written = match telling {
            Telling::New => {
                let controller = self.settings.borrow().controller.clone();
                let event = notice.event(&controller, &self.instance, now);
                let params = PostParams { field_manager: Some("lockgate".into()), ..PostParams::default() };
                Failure::of(timeout(PATIENCE, api.create(&params, &event)).await)
            }
            Telling::Again(times) => {
                let series = json!({ "series": { "count": times, "lastObservedTime": MicroTime(now) } });
                let params = PatchParams { field_manager: Some("lockgate".into()), ..PatchParams::default() };
                Failure::of(timeout(PATIENCE, api.patch(&name, &params, &Patch::Merge(series))).await)
            }
        };
        let ended = Instant::now();
        trouble.note(written.as_ref().err(), ended);
        self.metrics.status_written("Event", super::outcome(written.as_ref().err()));
        let times = if let Telling::Again(times) = telling { times } else { 1 };
        let Err(failure) = written else { return outbox.told(&notice, times) };
        let ObjectRef { kind, namespace, name: object, .. } = &notice.object;
        match (failure.code(), telling) {
            // Somebody has told it already: an earlier leader, or this replica before a restart.
            (Some(409), Telling::New) => outbox.told(&notice, 1),
            (Some(409), Telling::Again(_)) => outbox.put_back(notice, ended + Duration::from_secs(1)),
            (Some(404), Telling::Again(_)) => {
                outbox.forget(&notice);
                outbox.put_back(notice, ended);
            }
            _ if failure.is_general() => {
                tracing::debug!(kind, %namespace, name = %object, "cannot write an Event: {failure}; trying again");
                outbox.put_back(notice, ended);
            }
            // A namespace that goes takes what is in it along.
            (Some(404), Telling::New) => {}
            _ => {
                tracing::warn!(kind, %namespace, name = %object, reason = notice.reason, "cannot write an Event: {failure}")
            }
        }
    }
}

#[cfg(test)]
mod tests;
