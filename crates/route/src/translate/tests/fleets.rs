//! The selection of Gateways with a dedicated fleet, and of the listeners that the shared Envoys do not serve.

use super::gateway::{conditions, world_of};
use crate::objects::gateway::{EnvoyFleet, EnvoyFleetSpec, Infrastructure, LOCKGATE, ParametersRef};
use crate::objects::{Kind, Object, ObjectKey, Objects};
use crate::settings::{Fleets, Gateway, Settings};
use crate::testing::gateway::*;
use crate::testing::objects::meta;
use crate::translate::{ChangedInputs, Input, Translator};

fn settings(max: u32, max_per_namespace: u32) -> Settings {
    let fleets = Fleets { max, max_per_namespace, ..Fleets::default() };
    Settings { gateway: Gateway { fleets, ..Gateway::default() }, ..Settings::default() }
}

fn fleet(name: &str, replicas: u16) -> Object {
    let spec = EnvoyFleetSpec { replicas: Some(replicas), ..EnvoyFleetSpec::default() };
    Object::new(EnvoyFleet { meta: meta(name), spec })
}

/// A Gateway that refers to the EnvoyFleet `own`, with its Service.
fn with_fleet(name: &str, created: i64, port: u16) -> [Object; 2] {
    let reference =
        ParametersRef { group: LOCKGATE.into(), kind: "EnvoyFleet".into(), name: "own".into(), namespace: None };
    let infrastructure = Infrastructure { parameters_ref: Some(reference), ..Infrastructure::default() };
    let gateway = gateway(name).created(created).listener("http", 80, "HTTP").spec(|spec| {
        spec.infrastructure = Some(infrastructure);
    });
    [gateway.into(), gateway_service(name, &[(80, port)])]
}

fn translated(objects: &Objects, settings: &Settings) -> Translator {
    let mut translator = Translator::default();
    translator.update(objects, settings, &ChangedInputs::everything());
    translator
}

fn keys<'a>(all: impl IntoIterator<Item = &'a ObjectKey>) -> Vec<String> {
    all.into_iter().map(ToString::to_string).collect()
}

/// Returns the message of the condition `Accepted` of the Gateway `shop/public`.
fn accepted(translator: &Translator) -> String {
    let verdicts = translator.verdicts().get(&Kind::GATEWAY.id(ObjectKey::new("shop", "public")));
    let mut all = verdicts.into_iter().flat_map(|all| all.iter());
    let one = all.find(|one| one.listener.is_none() && one.condition == "Accepted");
    one.map(|one| format!("{} {} {}", one.status.as_str(), one.reason, one.message)).unwrap_or_default()
}

#[test]
fn the_shared_envoys_do_not_serve_a_gateway_with_a_fleet() {
    let all = [fleet("own", 3)].into_iter().chain(with_fleet("public", 1, 10_000));
    let translator = translated(&world_of(all), &settings(1, 1));
    assert!(conditions(&translator, Kind::GATEWAY, "public").contains(&"Accepted=True Accepted".to_owned()));
    let dedicated = translator.dedicated();
    assert_eq!(keys(&dedicated.fleets), ["shop/public"]);
    let listeners: Vec<&str> = dedicated.listeners.keys().map(|id| id.as_str()).collect();
    assert_eq!(listeners, ["gateway/shop/public/80"]);
    let report = translator.gateways().values().next().unwrap();
    let fleet = report.fleet.as_ref().unwrap();
    assert_eq!((fleet.spec.replicas, &fleet.refused), (Some(3), &None));
    let of = |kind: Kind, name| translator.fleets_of(&kind.id(ObjectKey::new("shop", name)));
    assert_eq!(of(Kind::GATEWAY, "public"), [Some(ObjectKey::new("shop", "public"))].into());
    assert_eq!(of(Kind::INGRESS, "any"), [None].into());
}

#[test]
fn a_gateway_whose_reference_is_not_valid_is_served_by_nobody() {
    let own = || with_fleet("public", 1, 10_000).into_iter();
    for (objects, settings, message) in [
        (world_of(own().chain([fleet("own", 1)])), settings(0, 1), "gatewayAPI.dedicatedFleets.enabled"),
        (world_of(own()), settings(1, 1), "EnvoyFleet \"shop/own\" does not exist"),
        (world_of(own().chain([fleet("other/own", 1)])), settings(1, 1), "does not exist"),
        (world_of(own().chain([fleet("own", 99)])), settings(1, 1), "maxReplicas"),
    ] {
        let translator = translated(&objects, &settings);
        let accepted = accepted(&translator);
        assert!(accepted.starts_with("False InvalidParameters") && accepted.contains(message), "{accepted}");
        assert!(!translator.model().listeners.keys().any(|id| id.as_str().starts_with("gateway")), "{message}");
        assert_eq!(**translator.dedicated(), crate::translate::Dedicated::default(), "{message}");
    }
}

#[test]
fn a_fleet_that_appears_and_changes_updates_its_gateways() {
    let mut objects = world_of(with_fleet("public", 1, 10_000));
    let settings = settings(1, 1);
    let mut translator = translated(&objects, &settings);
    for (change, expected) in [(Some(2), true), (Some(99), false), (Some(5), true), (None, false)] {
        let key = ObjectKey::new("shop", "own");
        match change {
            Some(replicas) => drop(objects.apply(fleet("own", replicas))),
            None => drop(objects.delete(Kind::ENVOY_FLEET, &key)),
        }
        let mut changed = ChangedInputs::default();
        changed.insert(Input::new(Kind::ENVOY_FLEET, key));
        translator.update(&objects, &settings, &changed);
        assert_eq!(translator.dedicated().fleets.len(), usize::from(expected), "{change:?}");
        let scratch = translated(&objects, &settings);
        assert_eq!(translator.dedicated(), scratch.dedicated(), "{change:?}");
        assert_eq!(translator.gateways(), scratch.gateways(), "{change:?}");
        assert_eq!(translator.model(), scratch.model(), "{change:?}");
    }
}

#[test]
fn the_oldest_gateways_have_fleets_up_to_the_limits() {
    let fleets = ["shop/own", "a/own", "b/own"].map(|name| fleet(name, 1));
    let gateways =
        [("shop/young", 9, 1), ("shop/old", 1, 2), ("shop/public", 5, 3), ("a/public", 2, 4), ("b/public", 6, 5)];
    let gateways = gateways.into_iter().flat_map(|(name, created, port)| with_fleet(name, created, 10_000 + port));
    let mut objects = world_of(fleets.into_iter().chain(gateways));
    let settings = settings(3, 2);
    let mut translator = translated(&objects, &settings);
    assert_eq!(keys(&translator.dedicated().fleets), ["a/public", "shop/old", "shop/public"]);
    let refused = &translator.dedicated().refused;
    assert_eq!(keys(refused.keys()), ["b/public", "shop/young"]);
    assert!(refused.values().all(|limit| limit.contains("dedicatedFleets.max)")), "{refused:?}");
    // A refused Gateway is not served by the shared Envoys either.
    assert_eq!(translator.dedicated().listeners.len(), 5);

    // A place becomes free. The limit of the namespace holds on.
    objects.delete(Kind::GATEWAY, &ObjectKey::new("a", "public"));
    let mut changed = ChangedInputs::default();
    changed.insert(Input::new(Kind::GATEWAY, ObjectKey::new("a", "public")));
    translator.update(&objects, &settings, &changed);
    assert_eq!(keys(&translator.dedicated().fleets), ["b/public", "shop/old", "shop/public"]);
    let young = translator.gateways().get(&ObjectKey::new("shop", "young")).and_then(|report| report.fleet.clone());
    assert!(young.unwrap().refused.unwrap().contains("dedicatedFleets.max)"), "the total limit is reached first");
    let scratch = translated(&objects, &settings);
    assert_eq!(translator.dedicated(), scratch.dedicated());
    assert_eq!(translator.gateways(), scratch.gateways());
}
