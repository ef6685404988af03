//! The plan of the objects of fleets: Deployments, Services, PodDisruptionBudgets, and HorizontalPodAutoscalers of Envoys that serve
//! a single Gateway. [`template`] and [`scale`] build the objects, [`plan`] decides which are needed, and [`observed`] watches them.
//!
//! All objects are in the namespace of the controller, and have its labels. Objects of other owners never change. The Lease of the
//! leader owns the objects, so Kubernetes deletes them with the installation.

mod observed;
mod plan;
mod scale;
pub(super) mod template;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use kube::api::Preconditions;
use lockgate_route::objects::{Kind, ObjectId, ObjectKey};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use super::failure::Failure;
use super::fault::{Fault, Faults};
use super::kinds::LEASE;
use super::plan::{Limits, OBJECTS, Performed, Performing, Plan};
use super::queue::{DueWrite, Queue};
use super::sender::{Form, Sender};
use crate::channel::{changed, send_if_changed};
use crate::inspection::Inspection;
use observed::{Observed, Seen};
use plan::{FleetObjects, Goal};

use template::FLEETS;
pub use template::Template;

/// The field manager of the number of Envoys, while an autoscaler replaces a fixed number.
const AUTOSCALED: &str = "lockgate-autoscaled";

/// The plan of the objects of fleets.
pub(super) struct Fleets {
    /// The Lease that owns the objects.
    pub lease: String,
    pub template: Arc<Template>,
    pub inspected: watch::Receiver<Arc<Inspection>>,
    /// Receives the Gateways whose fleets cannot be written, for their status.
    pub faults: watch::Sender<Faults>,
    pub term: Term,
}

/// The state of one term.
pub(super) struct Term {
    /// The reference to the Lease.
    owner: Value,
    known: Option<Arc<Inspection>>,
    wanted: FleetObjects,
    observed: Observed,
    seen: BoxStream<'static, Seen>,
    /// The objects whose last write failed.
    faults: BTreeMap<ObjectId, Fault>,
}

impl Default for Term {
    fn default() -> Self {
        Self {
            owner: Value::Null,
            known: None,
            wanted: FleetObjects::new(),
            observed: Observed::default(),
            seen: futures::stream::pending().boxed(),
            faults: BTreeMap::new(),
        }
    }
}

impl Plan for Fleets {
    type Goal = Goal;
    const NAME: &'static str = "the object of a fleet";
    const LIMITS: Limits = OBJECTS;

    fn kinds(&self) -> &[Kind] {
        &[]
    }

    /// Reads the Lease, which the chart creates and removes.
    async fn begin(&mut self, sender: &Sender) -> Result<(), Failure> {
        let id = ObjectId::new(LEASE, &self.template.namespace, &self.lease);
        let lease = sender.get(&id).await?;
        let owner = json!({
            "apiVersion": LEASE.api_version(), "kind": LEASE.as_str(), "name": self.lease, "uid": lease["metadata"]["uid"],
        });
        let seen = observed::watch(&sender.client, &self.template);
        self.term = Term { owner, seen, ..Term::default() };
        Ok(())
    }

    async fn changed(&mut self) {
        let Term { seen, observed, .. } = &mut self.term;
        tokio::select! {
            Some(event) = seen.next() => observed.apply(event),
            () = changed(&mut self.inspected) => {}
        }
    }

    fn update(&mut self, queue: &mut Queue<Goal>, now: Instant) -> Option<Instant> {
        let inspection = self.inspected.borrow_and_update().clone();
        let Term { owner, known, wanted, observed, faults, .. } = &mut self.term;
        if inspection.complete && known.as_ref().is_none_or(|known| plan::differs(known, &inspection)) {
            *wanted = plan::wanted(&inspection, &self.template, owner);
            *known = Some(inspection);
        }
        if known.is_some() {
            queue.replace(plan::items(wanted, observed), now);
        }
        // An object whose fault was avoided by a change of the fleet needs no write.
        faults.retain(|id, _| plan::is_due(id, wanted, observed));
        let gateway = |(id, fault): (&ObjectId, &Fault)| Some((wanted.get(id)?.0.clone(), fault.clone()));
        send_if_changed(&self.faults, faults.iter().filter_map(gateway).collect());
        None
    }

    fn perform(&mut self, sender: Sender, write: &DueWrite<Goal>) -> Performing {
        let (id, is) = (write.id.clone(), self.term.observed.get(&write.id).cloned());
        let (goal, label) = (write.item.goal.clone(), self.template.label().to_owned());
        async move { perform(&sender, &id, goal, is, &label).await }.boxed()
    }

    fn finished(
        &mut self,
        _queue: &mut Queue<Goal>,
        write: &DueWrite<Goal>,
        result: Result<Performed, &Failure>,
        _now: Instant,
    ) {
        let (kind, ObjectKey { namespace, name }) = (write.id.kind.as_str(), &write.id.key);
        let Term { faults, observed, .. } = &mut self.term;
        match (result, &write.item.goal) {
            (Ok(_), Goal::Apply(gateway, _)) => {
                faults.remove(&write.id);
                tracing::info!(kind, %namespace, %name, %gateway, "wrote the object for a Gateway");
            }
            (Ok(_), Goal::Delete) => {
                observed.remove(&write.id);
                tracing::info!(kind, %namespace, %name, "deleted the object, because no Gateway needs it");
            }
            // The message omits the details, because the tenant may not read the namespace of the controller.
            (Err(_), _) => {
                let message =
                    format!("the controller cannot write the {kind} of the dedicated fleet; its log states why");
                faults.insert(write.id.clone(), Fault::new("NoResources", message));
            }
        }
    }
}

/// Writes or deletes an object. `is` is the observed object with the label of this installation.
async fn perform(
    sender: &Sender,
    id: &ObjectId,
    goal: Goal,
    is: Option<Value>,
    label: &str,
) -> Result<Performed, Failure> {
    let uid = is.as_ref().and_then(|is| is["metadata"]["uid"].as_str()).map(str::to_owned);
    let Goal::Apply(_, object) = goal else {
        return match sender.send(id, Form::Delete(Preconditions { resource_version: None, uid })).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Performed::Unchanged),
            result => Ok(result.map(|()| Performed::Written("deleted"))?),
        };
    };
    // A server-side apply would take over an object without our label.
    if uid.is_none() {
        match sender.get(id).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Ok(other) if other["metadata"]["labels"][FLEETS] == label => {}
            Ok(_) => return Err(Failure::Foreign),
            Err(error) => return Err(error.into()),
        }
    }
    if let Some(replicas) = is.and_then(|is| scale::abandoned(&is, &object, &sender.manager)) {
        let number = json!({
            "apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": { "name": &*id.key.name, "uid": uid },
            "spec": { "replicas": replicas },
        });
        sender.send(id, Form::Apply(number, Some(AUTOSCALED))).await?;
    }
    sender.send(id, Form::Apply(object, None)).await?;
    Ok(Performed::Written("wrote"))
}
