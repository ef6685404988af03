use lockgate_route::objects::gateway::EnvoyFleetSpec;
use lockgate_route::objects::{Kind, Object, Objects, gateway};
use lockgate_route::translate::Dedicated;
use lockgate_route::translate::gateway::{FleetReport, Report};
use serde_json::json;

use super::super::template::tests::{gateway as meta, template};
use super::*;

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
        inspection.gateways.insert(key, Arc::new(Report { fleet, ..Report::default() }));
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

const LISTED: [Part; 3] = [Part::Service, Part::Deployment, Part::PodDisruptionBudget];

fn names(wanted: &Wanted) -> Vec<(Part, String)> {
    wanted.iter().map(|((part, _), (gateway, _))| (*part, gateway.name.to_string())).collect()
}

#[test]
fn each_gateway_with_a_fleet_has_its_objects() {
    let wanted = wanted(&inspection(&["a", "b"]), &template(), &json!({}));
    let of_both = |part| [(part, "a".to_owned()), (part, "b".to_owned())];
    let expected = [Part::Service, Part::Deployment, Part::PodDisruptionBudget].map(of_both);
    assert_eq!(names(&wanted), expected.as_flattened());
}

#[test]
fn an_object_is_due_while_it_differs_and_is_wanted() {
    let all = wanted(&inspection(&["a"]), &template(), &json!({}));
    let Some((id, (_, object))) = all.first_key_value() else { unreachable!("no object") };
    let observed = |object: Value| BTreeMap::from([(id.clone(), object)]);
    assert!(is_due(id, &all, &BTreeMap::new()) && is_due(id, &all, &observed(json!({ "spec": {} }))));
    assert!(!is_due(id, &all, &observed(object.clone())) && !is_due(id, &Wanted::new(), &BTreeMap::new()));
}

#[test]
fn objects_are_created_repaired_and_deleted() {
    let template = template();
    let all = wanted(&inspection(&["a"]), &template, &json!({}));
    let (mut past, mut now) = (Past::default(), Instant::now());
    let mut observed = BTreeMap::new();
    assert_eq!(past.next(&all, &observed, &[], now), Err(None), "the existing objects are not listed yet");
    for expected in LISTED {
        let Ok((id, Write::Apply(gateway, object))) = past.next(&all, &observed, &LISTED, now) else {
            unreachable!("nothing to write")
        };
        assert_eq!(id.0, expected);
        past.written(&id, &Write::Apply(gateway, object.clone()), now);
        observed.insert(id, object);
    }
    assert_eq!(past.next(&all, &observed, &LISTED, now), Err(None));

    // Somebody scales the Deployment.
    now += FIGHT;
    let deployment = all.keys().find(|id| id.0 == Part::Deployment).cloned();
    let deployment = deployment.unwrap_or_else(|| unreachable!());
    observed.entry(deployment.clone()).and_modify(|is| is["spec"]["replicas"] = 9.into());
    for expected in [BACKOFF.0, BACKOFF.0 * 2, BACKOFF.0 * 4] {
        let Ok((id, write)) = past.next(&all, &observed, &LISTED, now) else { unreachable!("nothing to repair") };
        assert!(matches!(&write, Write::Apply(..)) && id == deployment);
        past.written(&deployment, &write, now);
        // If another writer repeats its change, the repair slows down.
        assert_eq!(past.next(&all, &observed, &LISTED, now), Err(Some(now + expected)));
        now += expected;
    }

    // That does not delay a change of the EnvoyFleet.
    now -= Duration::from_millis(1);
    let mut changed = all.clone();
    changed.entry(deployment.clone()).and_modify(|(_, object)| object["spec"]["replicas"] = 4.into());
    let Ok((id, _)) = past.next(&changed, &observed, &LISTED, now) else { unreachable!("the change waits") };
    assert_eq!(id, deployment);

    // The Gateway is gone.
    now += FIGHT;
    let none = Wanted::new();
    for _ in LISTED {
        let Ok((id, Write::Delete)) = past.next(&none, &observed, &LISTED, now) else {
            unreachable!("nothing to delete")
        };
        past.written(&id, &Write::Delete, now);
        observed.remove(&id);
    }
    assert_eq!(past.next(&none, &observed, &LISTED, now), Err(None));
}
