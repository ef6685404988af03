//! The addresses in the status of Ingresses: written when Envoys serve what they stand for, withdrawn when it is no longer
//! ours. [`desk`] judges; here is the I/O.
//!
//! The list of addresses is atomic for the API server: no field manager can own an entry of it. So it is written as a
//! whole, by a merge patch that holds for one resourceVersion only: the rest of the status stays as others have written
//! it, and nothing is overwritten unseen. A server-side apply would take the whole list from whoever wrote it last.

pub(super) mod desk;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::future::OptionFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use k8s_openapi::api::networking::v1::Ingress;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until, timeout};

use super::bucket::Bucket;
use super::envoys::Envoys;
use super::events::Programmed;
use super::{PATIENCE, Trouble};
use crate::inspection::Inspection;
use crate::leader::Leader;
use crate::metrics::Metrics;
use desk::{Address, Desk, Outcome, Write};

/// Writes a second, and how many at once after a pause: 10,000 Ingresses have their addresses 50 s after a first
/// installation.
const RATE: (u32, u32) = (200, 100);
/// Requests at a time. It is this that holds writes back while the API server is slow; one that has enough says 429.
const PARALLEL: usize = 8;
/// Changes within this time are looked at together.
const TOGETHER: Duration = Duration::from_millis(50);
/// Nothing else to wait for.
const LONG: Duration = Duration::from_secs(60);

/// Who writes the status of Ingresses.
pub(super) struct Ingresses<E> {
    pub client: kube::Client,
    /// Under which name.
    pub manager: String,
    pub leader: Leader,
    pub inspected: watch::Receiver<Arc<Inspection>>,
    pub addresses: watch::Receiver<Arc<[Address]>>,
    pub envoys: E,
    /// Who tells the owners of Ingresses.
    pub programmed: mpsc::Sender<Programmed>,
    pub metrics: Metrics,
}

impl<E: Envoys> Ingresses<E> {
    /// Writes while this replica leads; for ever.
    pub async fn run(mut self) {
        let leader = self.leader.clone();
        loop {
            leader.leading().await;
            leader.while_leading(self.lead()).await;
            self.metrics.set_status_pending("Ingress", 0);
        }
    }

    /// One term. What is known of it is forgotten at its end, for others write then.
    async fn lead(&mut self) {
        let mut desk = Desk::new(self.manager.clone());
        let mut writes = FuturesUnordered::new();
        let mut bucket = Bucket::new(RATE.0, RATE.1);
        let mut trouble = Trouble::default();
        let (mut new, mut look_at) = (true, Instant::now());
        let mut asking = OptionFuture::default();
        let mut asked = 0;
        loop {
            let now = Instant::now();
            if new && look_at <= now {
                let inspection = self.inspected.borrow_and_update().clone();
                let addresses = self.addresses.borrow_and_update().clone();
                desk.look(inspection, addresses, now);
                (new, look_at) = (false, now + TOGETHER);
            }
            // Who newly waits is asked for at once, not after those who have waited long.
            if asked != desk.arrivals() {
                asked = desk.arrivals();
                asking = ask(&self.envoys, &desk);
            }
            let mut wake = now + LONG;
            if writes.len() < PARALLEL {
                let at = bucket.next(now).max(trouble.over().unwrap_or(now));
                if at <= now
                    && let Some(write) = desk.start(now)
                {
                    bucket.take(now);
                    writes.push(self.write(write));
                    continue;
                }
                wake = desk.next().map_or(wake, |due| due.max(at).min(wake));
            }
            self.metrics.set_status_pending("Ingress", desk.len());
            tokio::select! {
                Some((write, written)) = writes.next() => {
                    let now = Instant::now();
                    let outcome = self.told(&desk, &write, written, &mut trouble);
                    desk.finished(&write, outcome, now);
                }
                Some(accepted) = &mut asking => {
                    for (key, what, envoys) in accepted {
                        desk.accepted(&key, &what, envoys, Instant::now());
                    }
                    asking = ask(&self.envoys, &desk);
                }
                () = super::changed(&mut self.inspected) => new = true,
                () = super::changed(&mut self.addresses) => new = true,
                () = sleep_until(look_at), if new => {}
                () = sleep_until(wake) => {}
            }
        }
    }

    fn write(&self, write: Write) -> impl Future<Output = (Write, Result<(), super::Failure>)> + use<E> {
        let api = Api::<Ingress>::namespaced(self.client.clone(), &write.key.namespace);
        let params = PatchParams { field_manager: Some(self.manager.clone()), ..PatchParams::default() };
        async move {
            let addresses = (!write.addresses.is_empty()).then_some(&write.addresses);
            let patch = Patch::Merge(json!({
                "metadata": { "resourceVersion": &*write.version },
                "status": { "loadBalancer": { "ingress": addresses } },
            }));
            let written = timeout(PATIENCE, api.patch_status(&write.key.name, &params, &patch)).await;
            let written = super::Failure::of(written).map(|_| ());
            (write, written)
        }
    }

    /// What the log, the metrics and the owner learn of a write.
    fn told(&self, desk: &Desk, write: &Write, written: Result<(), super::Failure>, trouble: &mut Trouble) -> Outcome {
        let (namespace, name) = (&write.key.namespace, &write.key.name);
        let outcome = match &written {
            Ok(()) => Outcome::Done,
            Err(failure) => match failure.code() {
                Some(404) => Outcome::Gone,
                Some(409) => Outcome::Conflict,
                _ => Outcome::Failed,
            },
        };
        trouble.note(written.as_ref().err(), Instant::now());
        self.metrics.status_written("Ingress", super::outcome(written.as_ref().err()));
        match (&written, &write.programmed) {
            (Ok(()), Some((published, envoys))) => {
                tracing::info!(kind = "Ingress", %namespace, %name, envoys, "status written: {}", list(&write.addresses));
                // If nobody takes it, there is more to tell already than anybody reads.
                let _ = self.programmed.try_send(Programmed {
                    key: write.key.clone(),
                    uid: published.uid.clone(),
                    envoys: *envoys,
                    addresses: list(&write.addresses),
                });
            }
            (Ok(()), None) => {
                tracing::info!(kind = "Ingress", %namespace, %name, "status withdrawn: nothing of it is served by us");
            }
            (Err(failure), _) => {
                let failures = desk.failures(&write.key) + 1;
                if outcome == Outcome::Failed && failures.is_power_of_two() {
                    tracing::warn!(kind = "Ingress", %namespace, %name, failures, "cannot write the status: {failure}");
                } else {
                    tracing::debug!(kind = "Ingress", %namespace, %name, failures, "cannot write the status: {failure}");
                }
            }
        }
        outcome
    }
}

/// Asks for all that waits for Envoys, if anything does.
fn ask<E: Envoys>(
    envoys: &E,
    desk: &Desk,
) -> OptionFuture<futures::future::BoxFuture<'static, super::envoys::Accepted>> {
    let waiting = desk.waiting().clone();
    let envoys = envoys.clone();
    OptionFuture::from((!waiting.is_empty()).then(|| async move { envoys.accepted(waiting).await }.boxed()))
}

/// `192.0.2.1, lb.example.com`
pub(super) fn list(addresses: &[Address]) -> String {
    let text = |address: &Address| address.ip.clone().or_else(|| address.hostname.clone()).unwrap_or_default();
    addresses.iter().map(text).collect::<Vec<_>>().join(", ")
}
