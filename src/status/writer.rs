//! The writer of the status of one kind. [`StatusQueue`] decides what to write and when; here is the I/O.
//!
//! A status is written by a merge patch with a resourceVersion. The fields of other writers stay, and no concurrent
//! change is overwritten.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::core::Request;
use serde::de::IgnoredAny;
use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until, timeout};

use super::WriterSettings;
use super::envoys::Envoys;
use super::events::Programmed;
use super::infrastructure::Faults;
use super::kind::{Address, ExternalFacts, HasStatus};
use super::queue::{Outcome, StatusQueue, Write};
use super::token_bucket::TokenBucket;
use super::{ApiBackoff, Failure, WRITE_TIMEOUT};
use crate::inspection::Inspection;
use crate::leader::Leader;
use crate::metrics::Metrics;

/// Writes per second of each kind, and the maximum burst. After a first installation, 10,000 Ingresses have their
/// addresses within 50 s.
const RATE: (u32, u32) = (200, 100);
/// The maximum number of concurrent writes. It limits the load on a slow API server. An overloaded API server answers 429.
const PARALLEL: usize = 8;
/// The writer processes changes within this time together.
const DEBOUNCE: Duration = Duration::from_millis(50);
/// The maximum sleep.
const MAX_SLEEP: Duration = Duration::from_secs(60);

/// The inputs that the status writers of all kinds share.
#[derive(Clone)]
pub(super) struct StatusWriter<E> {
    pub client: kube::Client,
    /// The field manager of this installation.
    pub manager: String,
    pub leader: Leader,
    pub inspected: watch::Receiver<Arc<Inspection>>,
    pub addresses: watch::Receiver<Arc<[Address]>>,
    pub settings: watch::Receiver<WriterSettings>,
    /// The Gateways that cannot have a Service.
    pub faults: watch::Receiver<Faults>,
    pub envoys: E,
    /// Receives the objects that all Envoys serve, for Events on them.
    pub programmed: mpsc::Sender<Programmed>,
    pub metrics: Metrics,
}

impl<E: Envoys> StatusWriter<E> {
    /// Writes the status of the objects of kind `T` while this replica leads. Runs forever.
    pub async fn run<T: HasStatus>(mut self) {
        let leader = self.leader.clone();
        loop {
            leader.leading().await;
            leader.while_leading(self.write_all::<T>()).await;
            self.metrics.set_status_pending(T::KIND.as_str(), 0);
        }
    }

    /// Writes during one term. The state ends with the term, because another replica writes then.
    async fn write_all<T: HasStatus>(&mut self) {
        let mut queue = StatusQueue::<T>::new(self.manager.clone());
        let mut writes = FuturesUnordered::new();
        let mut bucket = TokenBucket::new(RATE.0, RATE.1);
        let mut backoff = ApiBackoff::default();
        let (mut changed, mut update_at) = (true, Instant::now());
        // The list that the poll follows.
        let waiting = watch::Sender::new(queue.waiting().clone());
        let envoys = self.envoys.clone();
        let mut polling = Box::pin(envoys.accepted(T::KIND, waiting.subscribe()));
        let mut polled = 0;
        loop {
            let now = Instant::now();
            if changed && update_at <= now {
                let inspection = self.inspected.borrow_and_update().clone();
                let external = ExternalFacts {
                    addresses: self.addresses.borrow_and_update().clone(),
                    controller: self.settings.borrow_and_update().gateway_controller.clone(),
                    faults: self.faults.borrow_and_update().clone(),
                };
                queue.update(inspection, external, now);
                (changed, update_at) = (false, now + DEBOUNCE);
            }
            if polled != queue.wait_count() {
                polled = queue.wait_count();
                waiting.send_replace(queue.waiting().clone());
            }
            let mut wake = now + MAX_SLEEP;
            if writes.len() < PARALLEL {
                let at = bucket.next(now).max(backoff.until().unwrap_or(now));
                if at <= now
                    && let Some(write) = queue.start(now)
                {
                    bucket.take(now);
                    writes.push(self.write::<T>(write));
                    continue;
                }
                wake = queue.next().map_or(wake, |due| due.max(at).min(wake));
            }
            self.metrics.set_status_pending(T::KIND.as_str(), queue.len());
            tokio::select! {
                Some((write, written)) = writes.next() => {
                    let now = Instant::now();
                    let outcome = self.report(&queue, &write, written, &mut backoff);
                    queue.record_result(&write, outcome, now);
                }
                accepted = &mut polling => {
                    for (key, published, envoys) in accepted {
                        queue.record_acceptance(&key, &published, envoys, Instant::now());
                    }
                    waiting.send_replace(queue.waiting().clone());
                    polling.set(envoys.accepted(T::KIND, waiting.subscribe()));
                }
                // After one change, other changes have no effect until `update_at`, and must not wake each writer.
                () = super::changed(&mut self.inspected), if !changed => changed = true,
                () = super::changed(&mut self.addresses), if !changed => changed = true,
                () = super::changed(&mut self.settings), if !changed => changed = true,
                () = super::changed(&mut self.faults), if !changed => changed = true,
                () = sleep_until(update_at), if changed => {}
                () = sleep_until(wake) => {}
            }
        }
    }

    /// Returns a future that performs a write.
    fn write<T: HasStatus>(
        &self,
        write: Write<T::Status>,
    ) -> impl Future<Output = (Write<T::Status>, Result<(), Failure>)> + use<E, T> {
        let (client, request) = (self.client.clone(), request::<T>(&write, &self.manager, Timestamp::now()));
        async move {
            let written = async { client.request::<IgnoredAny>(request?).await };
            let written = Failure::from_response(timeout(WRITE_TIMEOUT, written).await).map(|_| ());
            (write, written)
        }
    }

    /// Reports the result of a write to the log, the metrics, and the owner of the object.
    fn report<T: HasStatus>(
        &self,
        queue: &StatusQueue<T>,
        write: &Write<T::Status>,
        written: Result<(), Failure>,
        backoff: &mut ApiBackoff,
    ) -> Outcome {
        let (kind, namespace, name) = (T::KIND.as_str(), &write.key.namespace, &write.key.name);
        let outcome = match &written {
            Ok(()) => Outcome::Done,
            Err(failure) => match failure.code() {
                Some(409) => Outcome::Conflict,
                _ => Outcome::Failed,
            },
        };
        backoff.record(written.as_ref().err(), Instant::now());
        self.metrics.status_written(kind, super::outcome(written.as_ref().err()));
        match (&written, &write.programmed) {
            (Ok(()), Some((published, envoys))) => {
                tracing::debug!(kind, %namespace, %name, envoys, "status written: {}", T::summary(&write.status));
                // If the queue is full, the Event is dropped: nobody reads so many.
                let _ = self.programmed.try_send(Programmed {
                    kind: T::KIND,
                    key: write.key.clone(),
                    uid: published.uid.clone(),
                    envoys: *envoys,
                    summary: T::summary(&write.status),
                });
            }
            (Ok(()), None) if write.revision.is_none() => {
                tracing::debug!(kind, %namespace, %name, "status withdrawn: Lockgate no longer serves the object");
            }
            (Ok(()), None) => {
                tracing::debug!(kind, %namespace, %name, "status written: {}", T::summary(&write.status));
            }
            (Err(failure), _) => {
                let failures = queue.failures(&write.key) + 1;
                // The first 404 is no fault: the object was deleted during the write. Every 404 delays the next write like another
                // failure, because an API server that starts answers 404 for kinds of CustomResourceDefinitions.
                let is_expected = outcome == Outcome::Conflict || (failure.code() == Some(404) && failures == 1);
                if !is_expected && failures.is_power_of_two() {
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
