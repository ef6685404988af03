//! The objects of all fleets, as a function of the Gateways, and the next write. No I/O; time is an argument.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lockgate_route::objects::gateway::Gateway;
use lockgate_route::objects::{Kind, ObjectKey};
use serde_json::Value;
use tokio::time::Instant;

use super::template::{Template, has};
use crate::inspection::Inspection;

/// The first and the longest wait between two writes of one object.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// After this time, a write of the same object is independent of the last one.
const FIGHT: Duration = Duration::from_secs(120);

/// The kind of an object of a fleet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The Service with the Envoys.
    Service,
    /// The Deployment of the Envoys.
    Deployment,
    /// The limit of Envoys that node drains evict at the same time.
    PodDisruptionBudget,
    /// The autoscaler of the Deployment.
    HorizontalPodAutoscaler,
}

impl Part {
    /// Returns the name of the kind.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Service => Kind::SERVICE.as_str(),
            Self::Deployment => "Deployment",
            Self::PodDisruptionBudget => "PodDisruptionBudget",
            Self::HorizontalPodAutoscaler => "HorizontalPodAutoscaler",
        }
    }

    /// Returns the API version.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::Service => "v1",
            Self::Deployment => "apps/v1",
            Self::PodDisruptionBudget => "policy/v1",
            Self::HorizontalPodAutoscaler => "autoscaling/v2",
        }
    }
}

/// An object of a fleet, by its name in the namespace of the controller.
pub type Id = (Part, Arc<str>);

/// The desired objects, each with its Gateway.
pub type Wanted = BTreeMap<Id, (ObjectKey, Value)>;

/// Returns the objects that the Gateways with fleets need.
pub fn wanted(inspection: &Inspection, template: &Template, owner: &Value) -> Wanted {
    let mut wanted = Wanted::new();
    for key in inspection.dedicated.fleets.iter() {
        let gateway = inspection.objects.get::<Gateway>(key);
        let fleet = inspection.gateways.get(key).and_then(|report| report.fleet.as_ref());
        let Some((gateway, fleet)) = gateway.zip(fleet) else { continue };
        let name = template.key(&gateway.meta).name;
        let service = template.service(&gateway.meta, owner);
        let deployment = template.deployment(&gateway.meta, &fleet.spec, owner);
        wanted.insert((Part::Service, name.clone()), (key.clone(), service));
        wanted.insert((Part::Deployment, name.clone()), (key.clone(), deployment));
        let budget = template.disruption_budget(&gateway.meta, &fleet.spec, owner);
        wanted.insert((Part::PodDisruptionBudget, name.clone()), (key.clone(), budget));
        if let Some(autoscaler) = template.autoscaler(&gateway.meta, &fleet.spec, owner) {
            wanted.insert((Part::HorizontalPodAutoscaler, name), (key.clone(), autoscaler));
        }
    }
    wanted
}

/// Returns whether an object is desired and differs.
pub fn is_due(id: &Id, wanted: &Wanted, observed: &BTreeMap<Id, Value>) -> bool {
    wanted.get(id).is_some_and(|(_, object)| !observed.get(id).is_some_and(|is| has(is, object)))
}

/// A write that is due.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// Creates or changes an object, which this Gateway needs.
    Apply(ObjectKey, Value),
    /// Deletes an object.
    Delete,
}

/// The past writes of each object: the last write, its consecutive repetitions, and its time.
#[derive(Debug, Default)]
pub struct Past(BTreeMap<Id, (Write, u32, Instant)>);

impl Past {
    /// Returns the next write that may happen now. If all writes must wait, returns the time of the first.
    ///
    /// `observed` contains the objects with the labels of fleets, of the kinds whose initial list is complete (`listed`). Other
    /// kinds are not written.
    pub fn next(
        &self,
        wanted: &Wanted,
        observed: &BTreeMap<Id, Value>,
        listed: &[Part],
        now: Instant,
    ) -> Result<(Id, Write), Option<Instant>> {
        let wanted_now = wanted.iter().filter(|(id, _)| listed.contains(&id.0));
        let applies = wanted_now.filter(|(id, _)| is_due(id, wanted, observed));
        let applies = applies.map(|(id, (gateway, object))| (id, Write::Apply(gateway.clone(), object.clone())));
        let deletes = observed.keys().filter(|id| !wanted.contains_key(*id)).map(|id| (id, Write::Delete));
        let mut first = None::<Instant>;
        for (id, write) in applies.chain(deletes) {
            let same = self.0.get(id).filter(|(last, ..)| *last == write);
            match same.map(|(_, times, at)| *at + wait(*times)).filter(|until| *until > now) {
                None => return Ok((id.clone(), write)),
                Some(until) => first = Some(first.map_or(until, |first| first.min(until))),
            }
        }
        Err(first)
    }

    /// Records a write at `now`, and returns the number of consecutive equal writes. The wait between them increases, because they
    /// fail, or another writer disagrees.
    pub fn written(&mut self, id: &Id, write: &Write, now: Instant) -> u32 {
        self.0.retain(|_, (.., at)| now < *at + FIGHT);
        let times = self.0.get(id).filter(|(last, ..)| last == write).map_or(0, |(_, times, _)| *times) + 1;
        self.0.insert(id.clone(), (write.clone(), times, now));
        times
    }
}

/// Returns the wait after this number of consecutive writes.
fn wait(times: u32) -> Duration {
    BACKOFF.0.saturating_mul(1 << times.saturating_sub(1).min(16)).min(BACKOFF.1)
}

#[cfg(test)]
mod tests;
