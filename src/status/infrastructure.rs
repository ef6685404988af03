//! The plan of the Services in front of Gateways, and of their EndpointSlices. [`plan`] decides which objects the Gateways need, and
//! `requests` writes one of them.
//!
//! The Service of a Gateway stores the ports on which Envoy listens for the Gateway. The ports therefore stay the same in every
//! replica and after a restart. Objects of other owners never change.

mod content;
mod moves;
mod plan;
mod ports;
mod requests;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use lockgate_route::objects::{Kind, Object, ObjectId, ObjectKey, Objects};
use tokio::sync::watch;
use tokio::time::Instant;
use xxhash_rust::xxh3::xxh3_64;

use super::envoys::{Accepted, AllEnvoys, Envoys};
use super::failure::Failure;
use super::fault::{Fault, Faults};
use super::fleets::Template;
use super::plan::{Limits, OBJECTS, Performed, Performing, Plan};
use super::queue::{Base, DueWrite, Queue, QueueItem};
use super::sender::Sender;
use super::settings::WriterSettings;
use super::waiting::Waiting;
use crate::channel::{changed, send_if_changed};
use crate::inspection::{self, Inspection};
use content::DesiredObject;
use moves::Moves;
use plan::{Needs, Outside, Ports, observed};

/// The kinds that this plan writes.
const KINDS: [Kind; 2] = [Kind::SERVICE, Kind::ENDPOINT_SLICE];
/// What a controller without permission to write these kinds lacks.
const GRANT: &str =
    "; grant create, patch, and delete on services and endpointslices (value gatewayAPI.manageServices of the chart)";

/// The desired content of an object. `None`: the object is to be deleted.
type Goal = Option<DesiredObject>;

/// The plan of the infrastructure of Gateways.
pub(super) struct Infrastructure {
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
    pub term: Term,
}

/// The state of one term.
pub(super) struct Term {
    known: Arc<Inspection>,
    chosen: WriterSettings,
    needs: Needs,
    moves: Moves,
    /// The Gateways that wait for the Envoys of their fleets, and the poll of these Envoys.
    waiting: watch::Sender<Waiting>,
    polling: BoxFuture<'static, Accepted>,
    /// The time of the next step of a move.
    next_move: Option<Instant>,
    /// Whether the needed objects may differ although no object has changed.
    is_outdated: bool,
    confirmed: Confirmed,
    /// The Services that the API server has refused, each with the fault of its Gateway.
    refused: BTreeMap<ObjectKey, Fault>,
    /// Whether the log contains the missing setting.
    is_setting_logged: bool,
}

impl Default for Term {
    fn default() -> Self {
        Self {
            known: Arc::default(),
            chosen: WriterSettings::default(),
            needs: Needs::default(),
            moves: Moves::default(),
            waiting: watch::Sender::default(),
            polling: std::future::pending().boxed(),
            next_move: None,
            is_outdated: true,
            confirmed: Confirmed::default(),
            refused: BTreeMap::new(),
            is_setting_logged: false,
        }
    }
}

impl Infrastructure {
    /// Begins to poll the Envoys of fleets.
    fn poll(&mut self) {
        let (envoys, waiting) = (self.envoys.clone(), self.term.waiting.subscribe());
        self.term.polling = async move { envoys.accepted(Kind::GATEWAY, waiting).await }.boxed();
    }

    /// Publishes the faults of Gateways, and logs new faults.
    fn publish_faults(&mut self, queue: &Queue<Goal>) {
        let Term { chosen, needs, refused, is_setting_logged, .. } = &mut self.term;
        // The refused content may no longer be wanted.
        refused.retain(|service, _| queue.contains(&Kind::SERVICE.id(service.clone())));
        let gateway =
            |(service, fault): (&ObjectKey, &Fault)| Some((needs.services.get(service)?.clone(), fault.clone()));
        let faults = Faults::from_iter(refused.iter().filter_map(gateway))
            .union(needs.faults.clone())
            .union(self.fleet_faults.borrow_and_update().clone());
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
        for gateway in inspection::changed(&before, &faults) {
            if let Some(fault) = faults.get(gateway) {
                let ObjectKey { namespace, name } = gateway;
                tracing::warn!(kind = "Gateway", %namespace, %name, "the Gateway is not programmed: {}", fault.message);
            }
        }
    }
}

impl Plan for Infrastructure {
    type Goal = Goal;
    const NAME: &'static str = "the object of a Gateway";
    const LIMITS: Limits = OBJECTS;

    fn kinds(&self) -> &[Kind] {
        &KINDS
    }

    async fn begin(&mut self, _sender: &Sender) -> Result<(), Failure> {
        self.term = Term::default();
        self.poll();
        Ok(())
    }

    async fn changed(&mut self) {
        let Self { inspected, settings, fleet_faults, term, .. } = self;
        tokio::select! {
            accepted = &mut term.polling => {
                accepted.into_iter().for_each(|(key, published, _)| term.moves.accept(key, published));
                // The next update determines the Gateways that still wait.
                term.waiting.send_replace(Waiting::default());
                term.is_outdated = true;
                self.poll();
            }
            () = changed(fleet_faults) => term.is_outdated = true,
            () = changed(inspected) => {}
            () = changed(settings) => {}
        }
    }

    fn update(&mut self, queue: &mut Queue<Goal>, now: Instant) -> Option<Instant> {
        let inspection = self.inspected.borrow_and_update().clone();
        let chosen = self.settings.borrow_and_update().clone();
        if !inspection.complete {
            return None;
        }
        let term = &mut self.term;
        let is_outdated = std::mem::take(&mut term.is_outdated)
            || term.next_move.is_some_and(|at| at <= now)
            || chosen != term.chosen
            || plan::concerns(&term.known, &inspection, &chosen, &term.needs);
        (term.known, term.chosen) = (inspection, chosen);
        if is_outdated {
            let outside = Outside {
                template: self.template.as_deref(),
                recent: recent(queue, &term.known.objects),
                accepted: term.moves.accepted(&term.known),
                released: term.moves.released(now),
                drained: term.moves.drained(now),
            };
            term.needs = plan::plan(&term.known, &term.chosen, &outside);
            term.moves.update(&term.needs, &term.known, now);
            queue.replace(term.confirmed.differences(&term.needs, &term.known.objects), now);
            self.publish_faults(queue);
        }
        let term = &mut self.term;
        send_if_changed(&term.waiting, term.moves.waiting(&term.needs, &term.known));
        term.next_move = term.moves.next(now);
        term.next_move
    }

    fn perform(&mut self, sender: Sender, write: &DueWrite<Goal>) -> Performing {
        let DueWrite { id, item, .. } = write.clone();
        requests::perform(sender, id, item.goal, item.base != Base::Object(None)).boxed()
    }

    fn finished(
        &mut self,
        _queue: &mut Queue<Goal>,
        write: &DueWrite<Goal>,
        result: Result<Performed, &Failure>,
        _now: Instant,
    ) {
        let (kind, key, refused) = (write.id.kind, &write.id.key, &mut self.term.refused);
        let ObjectKey { namespace, name } = key;
        self.term.is_outdated = true;
        match result {
            Ok(performed) => {
                if kind == Kind::SERVICE {
                    refused.remove(key);
                }
                self.term.confirmed.insert(write);
                match performed {
                    // Endpoints change with each pod.
                    Performed::Written(verb) if verb == requests::CHANGED => {
                        tracing::debug!(kind = kind.as_str(), %namespace, %name, "{verb} for a Gateway");
                    }
                    Performed::Written(verb) => {
                        tracing::info!(kind = kind.as_str(), %namespace, %name, "{verb} for a Gateway");
                    }
                    Performed::Unchanged => {}
                }
            }
            Err(failure) => {
                let is_refused =
                    matches!(failure.code(), Some(400..=499)) && !matches!(failure.code(), Some(404 | 409));
                if kind == Kind::SERVICE && is_refused && !failure.affects_all_writes() {
                    let reason = if failure.code() == Some(422) { "Invalid" } else { "NoResources" };
                    let advice = Self::advice(failure);
                    let message = format!("cannot write Service \"{key}\": {failure}{advice}");
                    refused.insert(key.clone(), Fault::new(reason, message));
                }
            }
        }
    }

    fn advice(failure: &Failure) -> &'static str {
        if failure.code() == Some(403) { GRANT } else { "" }
    }
}

/// Returns the ports of the Services whose last write the watch has not reported yet.
fn recent(queue: &Queue<Goal>, objects: &Objects) -> BTreeMap<ObjectKey, Ports> {
    let is_unreported = |id: &ObjectId, base: &Base| *base == Base::Object(observed(objects, id).cloned());
    let service = |(id, goal, base)| match goal {
        &Some(DesiredObject::Service(ref service)) if is_unreported(id, base) => {
            Some((id.key.clone(), service.ports.clone()))
        }
        _ => None,
    };
    queue.unreported().filter_map(service).collect()
}

/// The content of each object that was written or read in this term.
#[derive(Debug, Default)]
struct Confirmed(BTreeMap<ObjectId, DesiredObject>);

impl Confirmed {
    /// Records a successful write.
    fn insert(&mut self, write: &DueWrite<Goal>) {
        match &write.item.goal {
            Some(content) => drop(self.0.insert(write.id.clone(), content.clone())),
            None => drop(self.0.remove(&write.id)),
        }
    }

    /// Returns the writes of objects that differ from the needed ones. At the beginning of a term, every object is written, because
    /// the source does not observe all fields.
    fn differences(&mut self, needs: &Needs, objects: &Objects) -> BTreeMap<ObjectId, QueueItem<Goal>> {
        self.0.retain(|id, _| needs.wanted.contains_key(id));
        let differs = |(id, content): &(&ObjectId, &DesiredObject)| {
            let is_right = observed(objects, id).is_some_and(|object| content.matches(object));
            !is_right || self.0.get(*id) != Some(*content)
        };
        let wanted = needs.wanted.iter().filter(differs).map(|(id, content)| (id, Some(content.clone())));
        let obsolete = needs.obsolete.iter().filter(|id| observed(objects, id).is_some()).map(|id| (id, None));
        wanted.chain(obsolete).map(|(id, goal)| (id.clone(), item(goal, observed(objects, id)))).collect()
    }
}

/// Returns the item of a write. Writes of different contents do not delay each other.
fn item(goal: Goal, observed: Option<&Object>) -> QueueItem<Goal> {
    let series = Some(xxh3_64(format!("{goal:?}").as_bytes()));
    QueueItem { series, ..QueueItem::new(goal, Base::Object(observed.cloned())) }
}

#[cfg(test)]
mod tests;
