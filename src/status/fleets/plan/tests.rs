use lockgate_route::objects::gateway::EnvoyFleetSpec;
use lockgate_route::objects::{Object, Objects, gateway};
use lockgate_route::translate::Dedicated;
use lockgate_route::translate::gateway::{FleetReport, GatewayReport};
use serde_json::json;

use tokio::time::{Duration, Instant};

use super::super::observed::Seen;
use super::super::template::tests::{gateway as meta, template};
use super::*;
use crate::status::queue::{Queue, WriteOutcome};

/// Returns the state of a loop with these Gateways, each with a fleet.
fn inspection(names: &[&str]) -> Inspection {
    let mut inspection = Inspection { complete: true, ..Inspection::default() };
    let mut dedicated = Dedicated::default();
    let mut objects = Vec::new();
    for name in names {
        let meta = meta(name);
        let key = meta.key.clone();
        dedicated.fleets.insert(key.clone());
        let fleet = Some(FleetReport { spec: Arc::new(EnvoyFleetSpec::default()), refused: None });
        inspection.gateways.insert(key, Arc::new(GatewayReport { fleet, ..GatewayReport::default() }));
        let spec = gateway::GatewaySpec::default();
        objects.push(Object::new(Gateway {
            meta,
            spec,
            status: gateway::GatewayStatus::default(),
            version: "1".into(),
        }));
    }
    let mut all = Objects::default();
    all.replace(Kind::GATEWAY, objects);
    (inspection.objects, inspection.dedicated) = (all, Arc::new(dedicated));
    inspection
}

const KINDS: [Kind; 3] = [DEPLOYMENT, POD_DISRUPTION_BUDGET, Kind::SERVICE];

/// Returns these objects, as the watch delivers them.
fn observed(objects: impl IntoIterator<Item = (ObjectId, Value)>) -> Observed {
    let mut observed = Observed::default();
    KINDS.into_iter().for_each(|kind| observed.apply(Seen::All(kind, BTreeMap::new())));
    objects.into_iter().for_each(|(id, object)| observed.apply(Seen::One(id, Some(object))));
    observed
}

#[test]
fn each_gateway_with_a_fleet_has_its_objects() {
    let wanted = wanted(&inspection(&["a", "b"]), &template(), &json!({}));
    let mut names: Vec<_> = wanted.iter().map(|(id, (gateway, _))| (id.kind, gateway.name.to_string())).collect();
    names.sort();
    let of_both = |kind| [(kind, "a".to_owned()), (kind, "b".to_owned())];
    assert_eq!(names, KINDS.map(of_both).as_flattened());
}

#[test]
fn an_object_is_due_while_it_differs_and_is_wanted() {
    let all = wanted(&inspection(&["a"]), &template(), &json!({}));
    let Some((id, (_, object))) = all.first_key_value() else { unreachable!("no object") };
    let observed = |object: Value| observed([(id.clone(), object)]);
    assert!(is_due(id, &all, &Observed::default()) && is_due(id, &all, &observed(json!({ "spec": {} }))));
    assert!(!is_due(id, &all, &observed(object.clone())) && !is_due(id, &FleetObjects::new(), &Observed::default()));
}

#[test]
fn objects_are_created_repaired_and_deleted() {
    let all = wanted(&inspection(&["a"]), &template(), &json!({}));
    let (mut queue, mut now) = (Queue::new(None), Instant::now());
    assert!(items(&all, &Observed::default()).is_empty(), "the existing objects are not listed yet");
    queue.replace(items(&all, &observed([])), now);
    let writes: Vec<_> = std::iter::from_fn(|| queue.start(now)).collect();
    assert_eq!(writes.iter().map(|write| write.id.kind).collect::<Vec<_>>(), KINDS);
    writes.iter().for_each(|write| queue.finish(write, WriteOutcome::Done, now));
    let with = |name: &str, value: Value| {
        let object = |(id, (_, object)): (&ObjectId, &(ObjectKey, Value))| (id.clone(), object.clone());
        let mut all: BTreeMap<ObjectId, Value> = all.iter().map(object).collect();
        let deployment = all.iter_mut().find(|(id, _)| id.kind == DEPLOYMENT).unwrap_or_else(|| unreachable!());
        deployment.1["spec"]["replicas"] = value;
        deployment.1["metadata"]["resourceVersion"] = name.into();
        observed(all)
    };
    queue.replace(items(&all, &with("1", 2.into())), now);
    assert!(KINDS.iter().all(|kind| queue.count(*kind) == 0), "the objects exist");

    // Somebody scales the Deployment repeatedly, and the repair slows down.
    let mut repairs = 0;
    let end = now + Duration::from_secs(60);
    for version in 2.. {
        queue.replace(items(&all, &with(&version.to_string(), 9.into())), now);
        let write = loop {
            if now > end {
                break None;
            }
            match queue.start(now) {
                Some(write) => break Some(write),
                None => now = queue.next(now).unwrap_or_else(|| unreachable!("nothing to repair")).max(now),
            }
        };
        let Some(write) = write else { break };
        assert!(write.id.kind == DEPLOYMENT && matches!(write.item.goal, Goal::Apply(..)));
        queue.finish(&write, WriteOutcome::Done, now);
        repairs += 1;
    }
    assert!((3..10).contains(&repairs), "{repairs}");

    // That does not delay a change of the EnvoyFleet.
    let mut changed = all.clone();
    let fleet = changed.iter_mut().find(|(id, _)| id.kind == DEPLOYMENT).unwrap_or_else(|| unreachable!());
    fleet.1.1["spec"]["replicas"] = 4.into();
    queue.replace(items(&changed, &with("x", 9.into())), end);
    assert_eq!(queue.start(end).map(|write| write.id.kind), Some(DEPLOYMENT));

    // The Gateway is gone.
    let mut queue = Queue::new(None);
    queue.replace(items(&FleetObjects::new(), &with("y", 2.into())), now);
    let deletes: Vec<_> = std::iter::from_fn(|| queue.start(now)).collect();
    assert!(deletes.len() == KINDS.len() && deletes.iter().all(|write| write.item.goal == Goal::Delete));
    deletes.iter().for_each(|write| queue.finish(write, WriteOutcome::Done, now));
    queue.replace(items(&FleetObjects::new(), &observed([])), now);
    assert!(KINDS.iter().all(|kind| queue.count(*kind) == 0));
}
