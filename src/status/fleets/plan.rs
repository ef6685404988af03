//! The objects of all fleets, as a function of the Gateways, and the writes that they need.

use std::collections::BTreeMap;
use std::sync::Arc;

use lockgate_route::objects::gateway::Gateway;
use lockgate_route::objects::{Kind, ObjectId, ObjectKey};
use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64;

use super::observed::Observed;
use super::template::{Template, has};
use crate::inspection::Inspection;
use crate::status::kinds::{DEPLOYMENT, HORIZONTAL_POD_AUTOSCALER, POD_DISRUPTION_BUDGET};
use crate::status::queue::{Base, QueueItem};

/// The desired objects, each with its Gateway.
pub type FleetObjects = BTreeMap<ObjectId, (ObjectKey, Value)>;

/// The content of a write.
#[derive(Debug, Clone, PartialEq)]
pub enum Goal {
    /// Creates or changes an object, which this Gateway needs.
    Apply(ObjectKey, Value),
    /// Deletes an object.
    Delete,
}

/// Returns whether two inspections may need different objects.
pub fn differs(before: &Inspection, now: &Inspection) -> bool {
    let specs =
        |inspection: &Inspection, key: &ObjectKey| inspection.gateways.get(key).and_then(|report| report.fleet.clone());
    !Arc::ptr_eq(&before.dedicated, &now.dedicated)
        || now.dedicated.fleets.iter().any(|key| specs(before, key) != specs(now, key))
}

/// Returns the objects that the Gateways with fleets need.
pub fn wanted(inspection: &Inspection, template: &Template, owner: &Value) -> FleetObjects {
    let mut wanted = FleetObjects::new();
    for key in inspection.dedicated.fleets.iter() {
        let gateway = inspection.objects.get::<Gateway>(key);
        let fleet = inspection.gateways.get(key).and_then(|report| report.fleet.as_ref());
        let Some((gateway, fleet)) = gateway.zip(fleet) else { continue };
        let (meta, spec) = (&gateway.meta, &fleet.spec);
        let objects = [
            (Kind::SERVICE, Some(template.service(meta, owner))),
            (DEPLOYMENT, Some(template.deployment(meta, spec, owner))),
            (POD_DISRUPTION_BUDGET, Some(template.disruption_budget(meta, spec, owner))),
            (HORIZONTAL_POD_AUTOSCALER, template.autoscaler(meta, spec, owner)),
        ];
        for (kind, object) in objects {
            wanted.extend(object.map(|object| (kind.id(template.key(meta)), (key.clone(), object))));
        }
    }
    wanted
}

/// Returns whether an object is desired and differs.
pub fn is_due(id: &ObjectId, wanted: &FleetObjects, observed: &Observed) -> bool {
    wanted.get(id).is_some_and(|(_, object)| !observed.get(id).is_some_and(|is| has(is, object)))
}

/// Returns the writes of all objects that differ. Kinds whose initial list is not complete are not written.
pub fn items(wanted: &FleetObjects, observed: &Observed) -> BTreeMap<ObjectId, QueueItem<Goal>> {
    let due = wanted.iter().filter(|(id, _)| observed.is_listed(id.kind) && is_due(id, wanted, observed));
    let applies = due.map(|(id, (gateway, object))| (id, Goal::Apply(gateway.clone(), object.clone())));
    let deletes = observed.ids().filter(|id| !wanted.contains_key(*id)).map(|id| (id, Goal::Delete));
    applies.chain(deletes).map(|(id, goal)| (id.clone(), item(goal, observed.get(id)))).collect()
}

/// Returns the item of a write. Writes of different contents do not delay each other.
fn item(goal: Goal, observed: Option<&Value>) -> QueueItem<Goal> {
    let version = observed.and_then(|is| is["metadata"]["resourceVersion"].as_str()).map(Arc::from);
    let series = Some(xxh3_64(format!("{goal:?}").as_bytes()));
    QueueItem { series, ..QueueItem::new(goal, Base::Observed(version)) }
}

#[cfg(test)]
mod tests;
