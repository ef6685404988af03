//! The plan of the statuses of one kind, which follows the state of the controller and the acceptance by Envoys.
//!
//! A status is written by a merge patch with a resourceVersion. The fields of other writers stay, and no concurrent
//! change is overwritten.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::jiff::Timestamp;
use lockgate_route::objects::{Kind, Object};
use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::envoys::{Accepted, Envoys};
use super::events::Programmed;
use super::failure::Failure;
use super::fault::Faults;
use super::goals::Goals;
use super::kind::{ExternalFacts, HasStatus, LoadBalancerAddress};
use super::plan::{Limits, Performed, Performing, Plan, STATUS};
use super::queue::{Base, DueWrite, Queue};
use super::sender::{Form, Sender};
use super::settings::WriterSettings;
use super::waiting::Waiting;
use crate::channel::changed;
use crate::inspection::Inspection;

/// The inputs that the statuses of all kinds share.
#[derive(Clone)]
pub(super) struct StatusInputs<E> {
    pub inspected: watch::Receiver<Arc<Inspection>>,
    pub addresses: watch::Receiver<Arc<[LoadBalancerAddress]>>,
    pub settings: watch::Receiver<WriterSettings>,
    /// The Gateways that cannot have a Service.
    pub faults: watch::Receiver<Faults>,
    pub envoys: E,
    /// Receives the objects that all Envoys serve, for Events on them.
    pub programmed: mpsc::Sender<Programmed>,
}

/// The plan of the statuses of kind `T`.
pub(super) struct Statuses<T: HasStatus, E> {
    inputs: StatusInputs<E>,
    goals: Goals<T>,
    /// The objects that wait for Envoys, as the poll of the Envoys knows them.
    waiting: watch::Sender<Waiting>,
    /// The [`Queue::wait_count`] of `waiting`.
    wait_count: u64,
    polling: BoxFuture<'static, Accepted>,
    /// The result of the last poll, until the next update.
    accepted: Accepted,
}

impl<T: HasStatus, E: Envoys> Statuses<T, E> {
    /// Creates the plan.
    pub fn new(inputs: StatusInputs<E>) -> Self {
        Self {
            inputs,
            goals: Goals::new(String::new()),
            waiting: watch::Sender::default(),
            wait_count: 0,
            polling: std::future::pending().boxed(),
            accepted: Accepted::new(),
        }
    }

    /// Begins to poll the Envoys.
    fn poll(&mut self) {
        let (envoys, waiting) = (self.inputs.envoys.clone(), self.waiting.subscribe());
        self.polling = async move { envoys.accepted(T::KIND, waiting).await }.boxed();
    }
}

impl<T: HasStatus, E: Envoys> Plan for Statuses<T, E> {
    type Goal = T::Status;
    const NAME: &'static str = "the status";
    const LIMITS: Limits = STATUS;

    fn kinds(&self) -> &[Kind] {
        &[T::KIND]
    }

    async fn begin(&mut self, sender: &Sender) -> Result<(), Failure> {
        self.goals = Goals::new(sender.manager.clone());
        (self.waiting, self.wait_count, self.accepted) = (watch::Sender::default(), 0, Accepted::new());
        self.poll();
        Ok(())
    }

    async fn changed(&mut self) {
        let StatusInputs { inspected, addresses, settings, faults, .. } = &mut self.inputs;
        loop {
            tokio::select! {
                accepted = &mut self.polling => {
                    self.accepted = accepted;
                    self.polling = std::future::pending().boxed();
                    return;
                }
                // Most changes concern other kinds.
                () = changed(inspected) => {
                    let inspection = inspected.borrow_and_update().clone();
                    if self.goals.concerns(inspection) {
                        return;
                    }
                }
                () = changed(addresses) => return,
                () = changed(settings) => return,
                () = changed(faults) => return,
            }
        }
    }

    fn update(&mut self, queue: &mut Queue<T::Status>, now: Instant) -> Option<Instant> {
        let inspection = self.inputs.inspected.borrow_and_update().clone();
        let external = ExternalFacts {
            addresses: self.inputs.addresses.borrow_and_update().clone(),
            controller: self.inputs.settings.borrow_and_update().gateway_controller.clone(),
            faults: self.inputs.faults.borrow_and_update().clone(),
        };
        self.goals.update(queue, inspection, external, now);
        if !self.accepted.is_empty() {
            for (key, published, envoys) in std::mem::take(&mut self.accepted) {
                queue.accept(T::KIND, &key, &published, envoys, now);
            }
            self.waiting.send_replace(queue.waiting().clone());
            self.poll();
        }
        None
    }

    fn publish(&mut self, queue: &Queue<T::Status>) {
        if self.wait_count != queue.wait_count() {
            self.wait_count = queue.wait_count();
            self.waiting.send_replace(queue.waiting().clone());
        }
    }

    fn perform(&mut self, sender: Sender, write: &DueWrite<T::Status>) -> Performing {
        let form = self.goals.object(&write.id.key).and_then(|object| form::<T>(object, write, Timestamp::now()));
        let id = write.id.clone();
        let performing = async move {
            // An object without a content of this kind does not occur.
            let Some(form) = form else { return Ok(Performed::Unchanged) };
            sender.send(&id, form).await?;
            Ok(Performed::Written("written"))
        };
        performing.boxed()
    }

    fn finished(
        &mut self,
        queue: &mut Queue<T::Status>,
        write: &DueWrite<T::Status>,
        result: Result<Performed, &Failure>,
        now: Instant,
    ) {
        self.goals.finished(queue, write, self.outcome(write, result), now);
        if result.is_err() {
            return;
        }
        let (kind, namespace, name) = (T::KIND.as_str(), &write.id.key.namespace, &write.id.key.name);
        let summary = T::summary(&write.item.goal);
        match &write.item.needs {
            Some(published) => {
                tracing::debug!(kind, %namespace, %name, envoys = write.envoys, "status written: {summary}");
                // If the queue is full, the Event is dropped: nobody reads so many.
                let _ = self.inputs.programmed.try_send(Programmed {
                    kind: T::KIND,
                    key: write.id.key.clone(),
                    uid: published.uid.clone(),
                    envoys: write.envoys,
                    summary,
                });
            }
            None if write.item.series.is_none() => {
                tracing::debug!(kind, %namespace, %name, "status withdrawn: Lockgate no longer serves the object");
            }
            None => tracing::debug!(kind, %namespace, %name, "status written: {summary}"),
        }
    }
}

/// Returns the merge patch of a status at one version.
fn form<T: HasStatus>(object: &Object, write: &DueWrite<T::Status>, now: Timestamp) -> Option<Form> {
    let Base::Version(Some(version)) = &write.item.base else { return None };
    let status = object.get::<T>()?.patch(&write.item.goal, write.envoys, now);
    Some(Form::MergeStatus(json!({ "metadata": { "resourceVersion": &**version }, "status": status })))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use lockgate_route::objects::Ingress;
    use lockgate_route::testing::objects::ingress;
    use serde_json::Value;

    use super::*;
    use crate::status::queue::QueueItem;
    use crate::status::sender::request;

    fn patched(addresses: Vec<LoadBalancerAddress>) -> http::Request<Vec<u8>> {
        let object: Object = ingress("cart").into();
        let item = QueueItem::new(addresses, Base::Version(Some("7".into())));
        let write = DueWrite { id: object.id(), item, envoys: 0 };
        let form = form::<Ingress>(&object, &write, Timestamp::UNIX_EPOCH).unwrap();
        request(&write.id, "lockgate/ingress/lockgate", form).unwrap()
    }

    #[test]
    fn a_write_is_a_merge_patch_of_the_status_at_one_version() {
        let request =
            patched(vec![LoadBalancerAddress { ip: Some("192.0.2.1".into()), ..LoadBalancerAddress::default() }]);
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
