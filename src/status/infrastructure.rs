//! The writer of the Services in front of Gateways, and of their EndpointSlices. [`plan`] decides which objects the Gateways
//! need, and [`work`] decides when to write. This module performs the I/O.
//!
//! The Service of a Gateway stores the ports on which Envoy listens for the Gateway. The ports therefore stay the same in every
//! replica and after a restart. The writer never changes objects of other owners.

mod content;
mod moves;
mod plan;
mod ports;
mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use imbl::OrdMap;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::discovery::v1 as discovery;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::Request;
use lockgate_route::objects::{Kind, ObjectId, ObjectKey};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use super::envoys::Envoys;
use super::token_bucket::TokenBucket;
use super::waiting::Waiting;
use super::{AllEnvoys, ApiBackoff, Failure, Template, WRITE_TIMEOUT, WriterSettings};
use crate::channel::send_if_changed;
use crate::inspection::{Inspection, changed};
use crate::leader::Leader;
use crate::metrics::Metrics;
use content::{Content, MANAGED_BY, Slice};
use moves::Moves;
use plan::{Outside, Plan};
use work::{Outcome, Work, Write};

/// Writes per second, and the maximum burst.
const RATE: (u32, u32) = (100, 50);
/// The maximum number of concurrent writes.
const PARALLEL: usize = 4;
/// The writer processes changes within this time together.
const DEBOUNCE: Duration = Duration::from_millis(50);
/// The minimum time between two plans, in relation to the time that a plan takes. It grows with the number of Gateways.
const REST: u32 = 9;
/// The maximum sleep.
const MAX_SLEEP: Duration = Duration::from_secs(60);
/// The maximum number of log lines about missing permissions in one term.
const MAX_FORBIDDEN: usize = 10;
/// The kinds that this module writes.
const KINDS: [Kind; 2] = [Kind::SERVICE, Kind::ENDPOINT_SLICE];
/// The verb of a write that changed an object.
const CHANGED: &str = "changed";
/// What a controller without permission to write these kinds lacks.
const GRANT: &str =
    "grant create, patch, and delete on services and endpointslices (value gatewayAPI.manageServices of the chart)";

/// The reason why a Gateway cannot be programmed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    /// The reason of the condition `Programmed`, CamelCase.
    pub reason: &'static str,
    /// Details for people: lower case, no full stop.
    pub message: String,
}

impl Fault {
    /// Creates a fault.
    pub fn new(reason: &'static str, message: String) -> Self {
        Self { reason, message }
    }
}

/// The Gateways that cannot have a Service, with the reason. A clone shares all entries.
pub(super) type Faults = OrdMap<ObjectKey, Fault>;

/// The result of a write that the API server did not refuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Performed {
    /// The object was created, changed, or deleted.
    Written(&'static str),
    /// The object already had the desired content.
    Unchanged,
    /// The object belongs to another owner.
    Foreign,
}

/// The writer of the infrastructure of Gateways.
pub(super) struct Infrastructure {
    pub client: kube::Client,
    /// The field manager of this installation.
    pub manager: String,
    pub leader: Leader,
    pub inspected: watch::Receiver<Arc<Inspection>>,
    pub settings: watch::Receiver<WriterSettings>,
    /// The template of fleets. `None`: the controller creates no Envoys.
    pub template: Option<Arc<Template>>,
    /// The Gateways whose fleets cannot be written.
    pub fleet_faults: watch::Receiver<Faults>,
    /// The Envoys, which report whether a fleet has accepted its Gateway.
    pub envoys: AllEnvoys,
    /// Receives the Gateways that cannot have a Service, for their status.
    pub faults: watch::Sender<Faults>,
    pub metrics: Metrics,
}

/// The state of one term.
#[derive(Default)]
struct Term {
    known: Arc<Inspection>,
    chosen: WriterSettings,
    plan: Plan,
    work: Work,
    moves: Moves,
    /// The Services that the API server has refused, each with the fault of its Gateway.
    refused: BTreeMap<ObjectKey, Fault>,
    /// Whether the log contains the missing setting.
    is_setting_logged: bool,
    /// The kinds and namespaces that the controller may not write, as they were logged.
    forbidden: BTreeSet<(Kind, Arc<str>)>,
}

impl Infrastructure {
    /// Writes while this replica leads, forever.
    pub async fn run(mut self) {
        let leader = self.leader.clone();
        loop {
            leader.leading().await;
            leader.while_leading(self.reconcile()).await;
            KINDS.iter().for_each(|kind| self.metrics.set_status_pending(kind.as_str(), 0));
        }
    }

    /// Writes during one term. The state ends with the term, because another replica writes then.
    async fn reconcile(&mut self) {
        let mut term = Term::default();
        let mut writes = FuturesUnordered::new();
        let mut bucket = TokenBucket::new(RATE.0, RATE.1);
        let mut trouble = ApiBackoff::default();
        let (mut new, mut again, mut plan_at) = (true, true, Instant::now());
        // The Gateways that wait for the Envoys of their fleets, and the poll of these Envoys.
        let envoys = self.envoys.clone();
        let waiting = watch::Sender::new(Waiting::default());
        let mut polling = Box::pin(envoys.accepted(Kind::GATEWAY, waiting.subscribe()));
        loop {
            let now = Instant::now();
            if new && plan_at <= now {
                self.update_plan(&mut term, again, now);
                (new, again, plan_at) = (false, false, now + DEBOUNCE.max(now.elapsed() * REST));
                let now_waiting = term.moves.waiting(&term.plan, &term.known);
                send_if_changed(&waiting, now_waiting);
            }
            let mut wake = now + MAX_SLEEP;
            if writes.len() < PARALLEL {
                let at = bucket.next(now).max(trouble.until().unwrap_or(now));
                if at <= now
                    && let Some(write) = term.work.start(now)
                {
                    bucket.take(now);
                    writes.push(self.write(write));
                    continue;
                }
                wake = term.work.next(now).into_iter().chain(term.moves.next(now)).chain([wake]).min().unwrap_or(wake);
                wake = if at > now { wake.min(at) } else { wake };
            }
            for kind in KINDS {
                self.metrics.set_status_pending(kind.as_str(), term.work.count(kind));
            }
            tokio::select! {
                Some((write, written)) = writes.next() => {
                    self.finish(&mut term, write, written, &mut trouble);
                    // A plan costs time for every Gateway, so several finished writes lead to one plan.
                    (new, again) = (true, true);
                }
                accepted = &mut polling => {
                    accepted.into_iter().for_each(|(key, published, _)| term.moves.accept(key, published));
                    // The next plan determines the Gateways that still wait.
                    waiting.send_replace(Waiting::default());
                    polling.set(envoys.accepted(Kind::GATEWAY, waiting.subscribe()));
                    (new, again) = (true, true);
                }
                () = super::changed(&mut self.inspected), if !new => new = true,
                () = super::changed(&mut self.settings), if !new => new = true,
                () = super::changed(&mut self.fleet_faults) => (new, again) = (true, true),
                () = sleep_until(plan_at), if new => {}
                () = sleep_until(wake) => (new, again) = (true, true),
            }
        }
    }

    /// Updates the plan if one of its inputs may have changed, or if `again` is true.
    fn update_plan(&mut self, term: &mut Term, again: bool, now: Instant) {
        let inspection = self.inspected.borrow_and_update().clone();
        let chosen = self.settings.borrow_and_update().clone();
        if !inspection.complete {
            return;
        }
        let concerns = chosen != term.chosen || plan::concerns(&term.known, &inspection, &chosen, &term.plan);
        (term.known, term.chosen) = (inspection, chosen);
        if again || concerns {
            let outside = Outside {
                template: self.template.as_deref(),
                recent: term.work.recent(&term.known.objects, now),
                accepted: term.moves.accepted(&term.known),
                released: term.moves.released(now),
                drained: term.moves.drained(now),
            };
            term.plan = plan::plan(&term.known, &term.chosen, &outside);
            term.moves.update(&term.plan, &term.known, now);
            term.work.compare(&term.plan, &term.known.objects, now);
            self.publish(term);
        }
    }

    /// Publishes the faults of Gateways, and logs new faults.
    fn publish(&self, term: &mut Term) {
        let Term { chosen, plan, work, refused, is_setting_logged, .. } = term;
        // The refused content may no longer be wanted.
        refused.retain(|service, _| work.is_pending(&Kind::SERVICE.id(service.clone())));
        let gateway =
            |(service, fault): (&ObjectKey, &Fault)| Some((plan.services.get(service)?.clone(), fault.clone()));
        let faults = Faults::from_iter(refused.iter().filter_map(gateway))
            .union(plan.faults.clone())
            .union(self.fleet_faults.borrow().clone());
        let before = self.faults.send_replace(faults.clone());
        if chosen.envoy_service().is_none() {
            if !faults.is_empty() && !std::mem::replace(is_setting_logged, true) {
                tracing::warn!(
                    gateways = faults.len(),
                    "Gateways get no Service and no address: set `status.envoyService` to the Service in front of the Envoys"
                );
            }
            return;
        }
        for gateway in changed(&before, &faults) {
            if let Some(fault) = faults.get(gateway) {
                let ObjectKey { namespace, name } = gateway;
                tracing::warn!(kind = "Gateway", %namespace, %name, "the Gateway is not programmed: {}", fault.message);
            }
        }
    }

    /// Returns a future that performs a write.
    fn write(&self, write: Write) -> impl Future<Output = (Write, Result<Performed, Failure>)> + use<> {
        let (client, manager) = (self.client.clone(), self.manager.clone());
        async move {
            let performed = Failure::from_response(timeout(WRITE_TIMEOUT, perform(&client, &manager, &write)).await);
            (write, performed)
        }
    }

    /// Reports the end of a write to the log, the metrics, and the state machine.
    fn finish(&self, term: &mut Term, write: Write, written: Result<Performed, Failure>, trouble: &mut ApiBackoff) {
        let (kind, ObjectKey { namespace, name }) = (write.id.kind.as_str(), &write.id.key);
        let now = Instant::now();
        trouble.record(written.as_ref().err(), now);
        let is_service = write.id.kind == Kind::SERVICE;
        let outcome = match &written {
            Ok(performed) => {
                if is_service {
                    term.refused.remove(&write.id.key);
                }
                match performed {
                    Performed::Written(verb) => {
                        self.metrics.status_written(kind, super::outcome(None));
                        // Endpoints change with each pod.
                        if *verb == CHANGED {
                            tracing::debug!(kind, %namespace, %name, "{verb} for a Gateway");
                        } else {
                            tracing::info!(kind, %namespace, %name, "{verb} for a Gateway");
                        }
                    }
                    Performed::Unchanged => {}
                    Performed::Foreign => {
                        tracing::warn!(kind, %namespace, %name, "unchanged, because Lockgate did not create the object");
                    }
                }
                if *performed == Performed::Foreign { Outcome::Foreign } else { Outcome::Done }
            }
            Err(failure) => {
                self.metrics.status_written(kind, super::outcome(Some(failure)));
                let failures = term.work.failures(&write.id) + 1;
                let is_refused =
                    matches!(failure.code(), Some(400..=499)) && !matches!(failure.code(), Some(404 | 409));
                if is_service && is_refused && !failure.affects_all_writes() {
                    let reason = if failure.code() == Some(422) { "Invalid" } else { "NoResources" };
                    let message = format!("cannot write Service \"{}\": {failure}{}", write.id.key, help(failure));
                    term.refused.insert(write.id.key.clone(), Fault::new(reason, message));
                }
                // A missing permission concerns every Gateway.
                let is_new = match failure.code() {
                    Some(403) => {
                        term.forbidden.insert((write.id.kind, namespace.clone()))
                            && term.forbidden.len() <= MAX_FORBIDDEN
                    }
                    Some(409) => false,
                    _ => failures.is_power_of_two(),
                };
                if is_new {
                    let help = help(failure);
                    tracing::warn!(kind, %namespace, %name, failures, "cannot write the object of a Gateway: {failure}{help}");
                } else {
                    tracing::debug!(kind, %namespace, %name, failures, "cannot write the object of a Gateway: {failure}");
                }
                Outcome::Failed
            }
        };
        term.work.record(write, outcome, now);
    }
}

/// Returns what to do about a failure, as the end of its message.
fn help(failure: &Failure) -> String {
    if failure.code() == Some(403) { format!("; {GRANT}") } else { String::new() }
}

/// Performs a write.
async fn perform(client: &kube::Client, manager: &str, write: &Write) -> kube::Result<Performed> {
    let requests = Requests { client, manager, id: &write.id };
    match &write.content {
        Some(Content::Service(service)) if write.over.is_none() => requests.create(&service.object()).await,
        Some(Content::Slice(slice)) if write.over.is_none() => requests.create(&slice.object()).await,
        Some(Content::Service(service)) => {
            let is: core::Service = requests.read().await?;
            requests.change(service.owns(&is), service.patch(&is, manager)).await
        }
        Some(Content::Slice(slice)) => {
            let is: discovery::EndpointSlice = requests.read().await?;
            requests.change(Slice::owns(&is), slice.patch(&is)).await
        }
        None if write.id.kind == Kind::SERVICE => {
            let is: core::Service = requests.read().await?;
            let label = is.metadata.labels.as_ref().and_then(|labels| labels.get(MANAGED_BY.0));
            let is_managed = label.is_some_and(|value| value == MANAGED_BY.1);
            let owners = is.metadata.owner_references.as_deref().unwrap_or_default();
            let is_owned = owners.iter().any(|owner| owner.kind == Kind::GATEWAY.as_str());
            requests.delete(is_managed && is_owned, &is.metadata).await
        }
        None => {
            let is: discovery::EndpointSlice = requests.read().await?;
            requests.delete(Slice::owns(&is), &is.metadata).await
        }
    }
}

/// The requests about one object.
struct Requests<'a> {
    client: &'a kube::Client,
    manager: &'a str,
    id: &'a ObjectId,
}

impl Requests<'_> {
    fn path(&self) -> Request {
        Request::new(self.id.kind.path(Some(&self.id.key.namespace)))
    }

    async fn create(&self, object: &Value) -> kube::Result<Performed> {
        let params = PostParams { field_manager: Some(self.manager.to_owned()), ..PostParams::default() };
        let object = serde_json::to_vec(object).map_err(kube::Error::SerdeError)?;
        let request = self.path().create(&params, object).map_err(kube::Error::BuildRequest)?;
        self.client.request::<IgnoredAny>(request).await?;
        Ok(Performed::Written("created"))
    }

    async fn patch<T: DeserializeOwned>(&self, patch: Value) -> kube::Result<T> {
        let params = PatchParams { field_manager: Some(self.manager.to_owned()), ..PatchParams::default() };
        let request = self.path().patch(&self.id.key.name, &params, &Patch::Merge(patch));
        self.client.request(request.map_err(kube::Error::BuildRequest)?).await
    }

    /// Reads the object by an empty patch, which changes nothing and needs no additional permission.
    async fn read<T: DeserializeOwned>(&self) -> kube::Result<T> {
        self.patch(json!({})).await
    }

    async fn change(&self, is_ours: bool, patch: Option<Value>) -> kube::Result<Performed> {
        match patch {
            _ if !is_ours => Ok(Performed::Foreign),
            None => Ok(Performed::Unchanged),
            Some(patch) => self.patch::<IgnoredAny>(patch).await.map(|_| Performed::Written(CHANGED)),
        }
    }

    /// Deletes the object if it is ours and has not changed since the read.
    async fn delete(&self, is_ours: bool, is: &ObjectMeta) -> kube::Result<Performed> {
        if !is_ours {
            return Ok(Performed::Foreign);
        }
        let preconditions = Preconditions { resource_version: is.resource_version.clone(), uid: is.uid.clone() };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::background() };
        let request = self.path().delete(&self.id.key.name, &params).map_err(kube::Error::BuildRequest)?;
        self.client.request::<IgnoredAny>(request).await?;
        Ok(Performed::Written("deleted"))
    }
}
