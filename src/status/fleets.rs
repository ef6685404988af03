//! The writer of the objects of fleets: Deployments, Services, PodDisruptionBudgets, and HorizontalPodAutoscalers of Envoys that
//! serve a single Gateway. [`template`] and [`scale`] build the objects, [`plan`] decides when to write them, and this module
//! performs the I/O.
//!
//! All objects are in the namespace of the controller, and have its labels. The writer never changes objects of other owners. The
//! Lease of the leader owns the objects, so Kubernetes deletes them with the installation.

mod plan;
mod scale;
pub(super) mod template;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, Preconditions};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Config, Event, watcher};
use lockgate_route::objects::ObjectKey;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use super::infrastructure::{Fault, Faults};
use super::{Failure, WRITE_TIMEOUT};
use crate::channel::send_if_changed;
use crate::inspection::Inspection;
use crate::leader::Leader;
use crate::metrics::Metrics;
use crate::source::cluster::retry::ShortBackoff;
use plan::{Id, Part, Past, Wanted, Write};

use template::FLEETS;
pub use template::Template;

/// The maximum sleep.
const LONG: Duration = Duration::from_secs(60);
/// The field manager of the number of Envoys, while an autoscaler replaces a fixed number.
const AUTOSCALED: &str = "lockgate-autoscaled";
/// The pause after a failed read of the Lease.
const PAUSE: Duration = Duration::from_secs(2);

/// The writer of the objects of fleets.
pub(super) struct Fleets {
    pub client: kube::Client,
    /// The field manager of this installation.
    pub manager: String,
    /// The Lease that owns the objects.
    pub lease: String,
    pub template: Arc<Template>,
    pub leader: Leader,
    pub inspected: watch::Receiver<Arc<Inspection>>,
    /// Receives the Gateways whose fleets cannot be written, for their status.
    pub faults: watch::Sender<Faults>,
    pub metrics: Metrics,
}

/// An event of a watch: the objects of one kind after an initial list, or one change.
enum Seen {
    All(Part, BTreeMap<Arc<str>, Value>),
    One(Part, Arc<str>, Option<Value>),
}

/// The state of one term.
#[derive(Default)]
struct Term {
    observed: BTreeMap<Id, Value>,
    /// The kinds whose initial list is complete.
    listed: Vec<Part>,
    wanted: Wanted,
    past: Past,
    /// The objects whose last write failed.
    faults: BTreeMap<Id, Fault>,
}

impl Fleets {
    /// Writes while this replica leads, forever.
    pub async fn run(mut self) {
        let leader = self.leader.clone();
        loop {
            leader.leading().await;
            leader.while_leading(self.lead()).await;
        }
    }

    /// Writes during one term.
    async fn lead(&mut self) {
        let owner = self.owner().await;
        let mut seen = futures::stream::select_all([
            self.watch::<Service>(Part::Service),
            self.watch::<Deployment>(Part::Deployment),
            self.watch::<PodDisruptionBudget>(Part::PodDisruptionBudget),
            self.watch::<HorizontalPodAutoscaler>(Part::HorizontalPodAutoscaler),
        ]);
        let mut term = Term::default();
        let mut known = None::<Arc<Inspection>>;
        loop {
            let inspection = self.inspected.borrow_and_update().clone();
            if inspection.complete && known.as_ref().is_none_or(|known| differs(known, &inspection)) {
                term.wanted = plan::wanted(&inspection, &self.template, &owner);
                known = Some(inspection);
            }
            self.publish(&mut term);
            let mut wake = Instant::now() + LONG;
            if known.is_some() {
                match term.past.next(&term.wanted, &term.observed, &term.listed, Instant::now()) {
                    Ok((id, write)) => {
                        self.write(&mut term, &id, write).await;
                        // The watch delivers the result.
                        continue;
                    }
                    Err(first) => wake = first.map_or(wake, |first| first.min(wake)),
                }
            }
            tokio::select! {
                Some(event) = seen.next() => apply(&mut term, event),
                () = super::changed(&mut self.inspected) => {}
                () = sleep_until(wake) => {}
            }
        }
    }

    /// Returns the reference to the Lease, which the chart creates and removes.
    async fn owner(&self) -> Value {
        let api: Api<Lease> = Api::namespaced(self.client.clone(), &self.template.namespace);
        loop {
            match Failure::from_response(timeout(WRITE_TIMEOUT, api.get(&self.lease)).await) {
                Ok(lease) => {
                    let uid = lease.metadata.uid.unwrap_or_default();
                    return json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "name": self.lease, "uid": uid });
                }
                Err(failure) => {
                    tracing::warn!(name = self.lease, "cannot read the Lease, which owns the fleets: {failure}")
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Watches the objects of one kind that carry the label of this installation.
    fn watch<K>(&self, part: Part) -> BoxStream<'static, Seen>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
        K: Clone + DeserializeOwned + Serialize + Debug + Send + 'static,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), &self.template.namespace);
        let selector = Config::default().labels(&format!("{FLEETS}={}", self.template.label()));
        let mut all = BTreeMap::new();
        let seen = watcher(api, selector).backoff(ShortBackoff::default()).filter_map(move |event| {
            let seen = match event {
                Ok(Event::Init) => {
                    all = BTreeMap::new();
                    None
                }
                Ok(Event::InitApply(object)) => {
                    all.extend(named(&object, part));
                    None
                }
                Ok(Event::InitDone) => Some(Seen::All(part, std::mem::take(&mut all))),
                Ok(Event::Apply(object)) => named(&object, part).map(|(name, is)| Seen::One(part, name, Some(is))),
                Ok(Event::Delete(object)) => named(&object, part).map(|(name, _)| Seen::One(part, name, None)),
                Err(error) => {
                    tracing::warn!(
                        kind = part.as_str(),
                        "cannot watch the objects of fleets: {}",
                        watch_reason(&error)
                    );
                    None
                }
            };
            futures::future::ready(seen)
        });
        seen.boxed()
    }

    /// Performs a write, and reports its result.
    async fn write(&self, term: &mut Term, id: &Id, write: Write) {
        let performed = Failure::from_response(timeout(WRITE_TIMEOUT, self.perform(term, id, &write)).await);
        let times = term.past.written(id, &write, Instant::now());
        let (kind, name) = (id.0.as_str(), &id.1);
        let namespace = &self.template.namespace;
        self.metrics.status_written(kind, super::outcome(performed.as_ref().err()));
        let fault = match (&performed, &write) {
            (Ok(true), Write::Apply(gateway, _)) => {
                tracing::info!(kind, %namespace, %name, %gateway, "wrote the object for a Gateway");
                None
            }
            (Ok(true), Write::Delete) => {
                tracing::info!(kind, %namespace, %name, "deleted the object, because no Gateway needs it");
                term.observed.remove(id);
                None
            }
            (Ok(false), _) => Some("it belongs to another owner".to_owned()),
            (Err(failure), _) => Some(failure.to_string()),
        };
        if let Some(fault) = &fault
            && times.is_power_of_two()
        {
            tracing::warn!(kind, %namespace, %name, times, "cannot write the object of a fleet: {fault}");
        }
        match fault {
            // The message omits the details, because the tenant may not read the namespace of the controller.
            Some(_) => {
                let message =
                    format!("the controller cannot write the {kind} of the dedicated fleet; its log states why");
                term.faults.insert(id.clone(), Fault::new("NoResources", message));
            }
            None => drop(term.faults.remove(id)),
        }
    }

    /// Publishes the Gateways with an object that cannot be written. An object whose fault was avoided by a change of the fleet
    /// needs no write.
    fn publish(&self, term: &mut Term) {
        let Term { faults, wanted, observed, .. } = term;
        faults.retain(|id, _| plan::is_due(id, wanted, observed));
        let gateway = |(id, fault): (&Id, &Fault)| Some((wanted.get(id)?.0.clone(), fault.clone()));
        let faults: Faults = faults.iter().filter_map(gateway).collect();
        send_if_changed(&self.faults, faults);
    }

    /// Performs a write. Returns `false` if the object belongs to another owner.
    async fn perform(&self, term: &Term, id: &Id, write: &Write) -> kube::Result<bool> {
        let resource = match id.0 {
            Part::Service => ApiResource::erase::<Service>(&()),
            Part::Deployment => ApiResource::erase::<Deployment>(&()),
            Part::PodDisruptionBudget => ApiResource::erase::<PodDisruptionBudget>(&()),
            Part::HorizontalPodAutoscaler => ApiResource::erase::<HorizontalPodAutoscaler>(&()),
        };
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &self.template.namespace, &resource);
        let observed = term.observed.get(id);
        let uid = observed.and_then(|is| is["metadata"]["uid"].as_str()).map(str::to_owned);
        match write {
            Write::Delete => {
                let preconditions = Preconditions { resource_version: None, uid };
                let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::background() };
                match api.delete(&id.1, &params).await {
                    Err(kube::Error::Api(status)) if status.code == 404 => Ok(true),
                    result => result.map(|_| true),
                }
            }
            Write::Apply(_, object) => {
                // A server-side apply would take over an object without our label.
                if uid.is_none()
                    && let Some(other) = api.get_opt(&id.1).await?
                    && other.metadata.labels.as_ref().and_then(|labels| labels.get(FLEETS)).map(String::as_str)
                        != Some(self.template.label())
                {
                    return Ok(false);
                }
                if let Some(replicas) = observed.and_then(|is| scale::abandoned(is, object, &self.manager)) {
                    let number = json!({
                        "apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": { "name": &*id.1, "uid": uid },
                        "spec": { "replicas": replicas },
                    });
                    let params = PatchParams::apply(AUTOSCALED).force();
                    api.patch(&id.1, &params, &Patch::Apply(number)).await?;
                }
                let params = PatchParams::apply(&self.manager).force();
                api.patch(&id.1, &params, &Patch::Apply(object)).await.map(|_| true)
            }
        }
    }
}

/// Returns whether two inspections may need different objects.
fn differs(before: &Inspection, now: &Inspection) -> bool {
    let specs =
        |inspection: &Inspection, key: &ObjectKey| inspection.gateways.get(key).and_then(|report| report.fleet.clone());
    !Arc::ptr_eq(&before.dedicated, &now.dedicated)
        || now.dedicated.fleets.iter().any(|key| specs(before, key) != specs(now, key))
}

/// Applies an event of a watch.
fn apply(term: &mut Term, seen: Seen) {
    match seen {
        Seen::All(part, objects) => {
            term.observed.retain(|id, _| id.0 != part);
            term.observed.extend(objects.into_iter().map(|(name, object)| ((part, name), object)));
            if !term.listed.contains(&part) {
                term.listed.push(part);
            }
        }
        Seen::One(part, name, Some(object)) => drop(term.observed.insert((part, name), object)),
        Seen::One(part, name, None) => drop(term.observed.remove(&(part, name))),
    }
}

/// Returns the name and the content of an object. An object that is being deleted exists until the watch reports its deletion.
fn named<K: Serialize>(object: &K, part: Part) -> Option<(Arc<str>, Value)> {
    let mut value = serde_json::to_value(object).ok()?;
    value["kind"] = part.as_str().into();
    value["apiVersion"] = part.api_version().into();
    let name = value["metadata"]["name"].as_str()?.into();
    Some((name, value))
}

fn watch_reason(error: &watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => crate::source::cluster::reason(error),
        watcher::Error::WatchError(status) => status.message.clone(),
        watcher::Error::NoResourceVersion => "the API server gave no resource version".into(),
    }
}
