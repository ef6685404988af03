//! The writer of the status of one kind of objects. [`Desk`] decides what to write and when; here is the I/O.
//!
//! A status is written by a merge patch that holds for one resourceVersion only: fields of other writers stay, and nothing is
//! overwritten unseen.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, OptionFuture};
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::core::Request;
use serde::de::IgnoredAny;
use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until, timeout};

use super::Chosen;
use super::bucket::Bucket;
use super::desk::{Desk, Outcome, Write};
use super::envoys::{Accepted, Envoys};
use super::events::Programmed;
use super::infrastructure::Faults;
use super::kind::{Address, HasStatus, Outside};
use super::{Failure, PATIENCE, Trouble};
use crate::inspection::Inspection;
use crate::leader::Leader;
use crate::metrics::Metrics;

/// Writes a second, and how many at once after a pause: 10,000 Ingresses have their addresses 50 s after a first
/// installation. Of each kind.
const RATE: (u32, u32) = (200, 100);
/// Requests at a time. It is this that holds writes back while the API server is slow; one that has enough says 429.
const PARALLEL: usize = 8;
/// Changes within this time are looked at together.
const TOGETHER: Duration = Duration::from_millis(50);
/// Nothing else to wait for.
const LONG: Duration = Duration::from_secs(60);

/// The parts that the status writers of all kinds share.
#[derive(Clone)]
pub(super) struct StatusWriter<E> {
    pub client: kube::Client,
    /// The field manager of this installation.
    pub manager: String,
    pub leader: Leader,
    pub inspected: watch::Receiver<Arc<Inspection>>,
    pub addresses: watch::Receiver<Arc<[Address]>>,
    pub settings: watch::Receiver<Chosen>,
    /// The Gateways that cannot have a Service.
    pub faults: watch::Receiver<Faults>,
    pub envoys: E,
    /// Receives the objects that all Envoys serve, for Events on them.
    pub programmed: mpsc::Sender<Programmed>,
    pub metrics: Metrics,
}

impl<E: Envoys> StatusWriter<E> {
    /// Writes the status of the kind of `T` while this replica leads; for ever.
    pub async fn run<T: HasStatus>(mut self) {
        let leader = self.leader.clone();
        loop {
            leader.leading().await;
            leader.while_leading(self.write_all::<T>()).await;
            self.metrics.set_status_pending(T::KIND.as_str(), 0);
        }
    }

    /// Writes during one term. The state is dropped at its end, because others write then.
    async fn write_all<T: HasStatus>(&mut self) {
        let mut desk = Desk::<T>::new(self.manager.clone());
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
                let outside = Outside {
                    addresses: self.addresses.borrow_and_update().clone(),
                    controller: self.settings.borrow_and_update().gateway_controller.clone(),
                    faults: self.faults.borrow_and_update().clone(),
                };
                desk.look(inspection, outside, now);
                (new, look_at) = (false, now + TOGETHER);
            }
            // Objects that begin to wait are asked for at once, not after those that have waited long.
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
                    writes.push(self.write::<T>(write));
                    continue;
                }
                wake = desk.next().map_or(wake, |due| due.max(at).min(wake));
            }
            self.metrics.set_status_pending(T::KIND.as_str(), desk.len());
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
                // One change is enough: `look_at` limits how often the others would wake every writer.
                () = super::changed(&mut self.inspected), if !new => new = true,
                () = super::changed(&mut self.addresses), if !new => new = true,
                () = super::changed(&mut self.settings), if !new => new = true,
                () = super::changed(&mut self.faults), if !new => new = true,
                () = sleep_until(look_at), if new => {}
                () = sleep_until(wake) => {}
            }
        }
    }

    fn write<T: HasStatus>(
        &self,
        write: Write<T::Status>,
    ) -> impl Future<Output = (Write<T::Status>, Result<(), Failure>)> + use<E, T> {
        let (client, request) = (self.client.clone(), request::<T>(&write, &self.manager, Timestamp::now()));
        async move {
            let written = async { client.request::<IgnoredAny>(request?).await };
            let written = Failure::of(timeout(PATIENCE, written).await).map(|_| ());
            (write, written)
        }
    }

    /// Reports a write to the log, the metrics, and the owner of the object.
    fn told<T: HasStatus>(
        &self,
        desk: &Desk<T>,
        write: &Write<T::Status>,
        written: Result<(), Failure>,
        trouble: &mut Trouble,
    ) -> Outcome {
        let (kind, namespace, name) = (T::KIND.as_str(), &write.key.namespace, &write.key.name);
        let outcome = match &written {
            Ok(()) => Outcome::Done,
            Err(failure) => match failure.code() {
                Some(404) => Outcome::Gone,
                Some(409) => Outcome::Conflict,
                _ => Outcome::Failed,
            },
        };
        trouble.note(written.as_ref().err(), Instant::now());
        self.metrics.status_written(kind, super::outcome(written.as_ref().err()));
        match (&written, &write.programmed) {
            (Ok(()), Some((published, envoys))) => {
                tracing::info!(kind, %namespace, %name, envoys, "status written: {}", T::summary(&write.status));
                // A full queue has more Events already than anybody reads.
                let _ = self.programmed.try_send(Programmed {
                    kind: T::KIND,
                    key: write.key.clone(),
                    uid: published.uid.clone(),
                    envoys: *envoys,
                    summary: T::summary(&write.status),
                });
            }
            (Ok(()), None) if write.revision.is_none() => {
                tracing::info!(kind, %namespace, %name, "status withdrawn: the object is no longer ours");
            }
            (Ok(()), None) => {
                tracing::info!(kind, %namespace, %name, "status written: {}", T::summary(&write.status));
            }
            (Err(failure), _) => {
                let failures = desk.failures(&write.key) + 1;
                if outcome == Outcome::Failed && failures.is_power_of_two() {
                    tracing::warn!(kind, %namespace, %name, failures, "cannot write the status: {failure}");
                } else {
                    tracing::debug!(kind, %namespace, %name, failures, "cannot write the status: {failure}");
                }
            }
        }
        outcome
    }
}

/// Returns the request that performs a write.
fn request<T: HasStatus>(
    write: &Write<T::Status>,
    manager: &str,
    now: Timestamp,
) -> kube::Result<http::Request<Vec<u8>>> {
    let envoys = write.programmed.as_ref().map_or(0, |(_, envoys)| *envoys);
    let status = write.object.get::<T>().map(|content| content.patch(&write.status, envoys, now));
    // An empty object changes nothing; `null` would remove the status.
    let status = status.unwrap_or_else(|| json!({}));
    let patch = Patch::Merge(json!({ "metadata": { "resourceVersion": &*write.version }, "status": status }));
    let params = PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() };
    let namespace = T::KIND.info().namespaced.then_some(&*write.key.namespace);
    let request = Request::new(T::KIND.path(namespace));
    request.patch_subresource("status", &write.key.name, &params, &patch).map_err(kube::Error::BuildRequest)
}

/// Asks how far the Envoys are with the objects that wait for them, if there are any.
fn ask<E: Envoys, T: HasStatus>(envoys: &E, desk: &Desk<T>) -> OptionFuture<BoxFuture<'static, Accepted>> {
    let waiting = desk.waiting().clone();
    let envoys = envoys.clone();
    OptionFuture::from((!waiting.is_empty()).then(|| async move { envoys.accepted(T::KIND, waiting).await }.boxed()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use lockgate_route::objects::{Ingress, Object};
    use lockgate_route::testing::objects::ingress;
    use serde_json::Value;

    use super::*;

    fn patched(addresses: Vec<Address>) -> http::Request<Vec<u8>> {
        let object: Object = ingress("cart").into();
        let (key, version) = (object.meta().key.clone(), "7".into());
        let write = Write { key, object, version, revision: None, status: addresses, programmed: None, cause: 0 };
        request::<Ingress>(&write, "lockgate/ingress/lockgate", Timestamp::UNIX_EPOCH).unwrap()
    }

    #[test]
    fn a_write_is_a_merge_patch_of_the_status_at_one_version() {
        let request = patched(vec![Address { ip: Some("192.0.2.1".into()), ..Address::default() }]);
        let path = "/apis/networking.k8s.io/v1/namespaces/shop/ingresses/cart/status";
        assert_eq!((request.method(), request.uri().path()), (&http::Method::PATCH, path));
        assert!(request.uri().query().unwrap().contains("fieldManager=lockgate%2Fingress%2Flockgate"));
        assert_eq!(request.headers()[http::header::CONTENT_TYPE], "application/merge-patch+json");
        let body: Value = serde_json::from_slice(request.body()).unwrap();
        let addresses = json!([{ "ip": "192.0.2.1" }]);
        let status = json!({ "loadBalancer": { "ingress": addresses } });
        assert_eq!(body, json!({ "metadata": { "resourceVersion": "7" }, "status": status }));
    }

    #[test]
    fn withdrawn_addresses_are_removed_and_the_rest_of_the_status_stays() {
        let body: Value = serde_json::from_slice(patched(Vec::new()).body()).unwrap();
        assert_eq!(body["status"], json!({ "loadBalancer": { "ingress": null } }));
    }
}
