//! The selection of Gateways with a dedicated fleet, and of the listeners that the shared Envoys do not serve.

use std::time::{Duration, Instant};

use super::gateway::{conditions, world_of};
use crate::objects::gateway::{EnvoyFleet, EnvoyFleetSpec, Infrastructure, LOCKGATE, ParametersRef};
use crate::objects::{Kind, Object, ObjectId, ObjectKey, Objects, Service};
use crate::settings::{Fleets, GatewaySettings, Settings};
use crate::testing::gateway::*;
use crate::testing::objects::meta;
use crate::translate::{ChangedInputs, Input, Translator};

fn settings(max: u32, max_per_namespace: u32) -> Settings {
    let fleets = Fleets { max, max_per_namespace, ..Fleets::default() };
    Settings { gateway: GatewaySettings { fleets, ..GatewaySettings::default() }, ..Settings::default() }
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
    accepted_of(translator, &Kind::GATEWAY.id(ObjectKey::new("shop", "public")))
}

fn accepted_of(translator: &Translator, id: &ObjectId) -> String {
    let verdicts = translator.verdicts().get(id);
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

/// The Secret with the key pairs of all fleets has data keys with the names of the Gateways. The API server rejects the
/// whole Secret if a single data key is too long. One Gateway would then prevent all other Gateways from getting key
/// pairs.
#[test]
fn a_gateway_whose_name_is_not_a_label_has_no_fleet() {
    let long = "g".repeat(253);
    let all = [fleet("own", 1)].into_iter().chain(with_fleet("public", 2, 10_000)).chain(with_fleet(&long, 1, 10_001));
    let translator = translated(&world_of(all), &settings(9, 9));
    assert_eq!(keys(&translator.dedicated().fleets), ["shop/public"]);
    let accepted = conditions(&translator, Kind::GATEWAY, &long);
    assert!(accepted.contains(&"Accepted=False InvalidParameters".to_owned()), "{accepted:?}");
}

#[test]
fn a_gateway_with_an_invalid_reference_is_not_served() {
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
fn a_new_or_changed_fleet_updates_its_gateways() {
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

/// A GatewayClass with the parameters `name` in this namespace.
fn class_with_fleet(namespace: Option<&str>, name: &str) -> Object {
    let reference = ParametersRef {
        group: LOCKGATE.into(),
        kind: "EnvoyFleet".into(),
        name: name.into(),
        namespace: namespace.map(str::to_owned),
    };
    gateway_class("lockgate").spec(|spec| spec.parameters_ref = Some(reference)).into()
}

#[test]
fn the_shared_envoys_serve_a_gateway_until_its_service_has_moved() {
    let of = |is_dedicated: bool| {
        let [gateway, service] = with_fleet("public", 1, 10_000);
        let service = service.with::<Service>(|service| {
            service.gateway.iter_mut().for_each(|gateway| gateway.is_dedicated = is_dedicated);
        });
        [gateway, service]
    };
    let mut objects = world_of(of(false).into_iter().chain([fleet("own", 1)]));
    let settings = settings(1, 1);
    let mut translator = translated(&objects, &settings);
    let id = "gateway/shop/public/80";
    let moving = |translator: &Translator| -> Vec<String> {
        translator.dedicated().moving.iter().map(|id| id.as_str().to_owned()).collect()
    };
    assert_eq!(moving(&translator), [id]);
    assert!(translator.dedicated().listeners.keys().any(|listener| listener.as_str() == id), "the fleet has it too");
    let [_, service] = of(true);
    let key = service.meta().key.clone();
    assert!(objects.apply(service));
    let mut changed = ChangedInputs::default();
    changed.insert(Input::new(Kind::SERVICE, key));
    translator.update(&objects, &settings, &changed);
    assert!(moving(&translator).is_empty() && translator.dedicated().draining.is_empty());
    assert_eq!(translator.dedicated(), translated(&objects, &settings).dedicated());
    let [_, service] = of(true);
    objects.apply(service.with::<Service>(|service| {
        service.gateway.iter_mut().for_each(|gateway| gateway.is_draining = true);
    }));
    translator.update(&objects, &settings, &changed);
    assert!(moving(&translator).is_empty() && translator.dedicated().draining.iter().any(|one| one.as_str() == id));
    // Beyond a limit, no Envoy serves the Gateway.
    let refused = translated(&world_of(of(false).into_iter().chain([fleet("own", 1)])), &self::settings(1, 0));
    assert!(moving(&refused).is_empty() && refused.dedicated().listeners.len() == 1);
}

#[test]
fn the_parameters_of_a_class_are_defaults_of_fleets() {
    let plain: [Object; 2] =
        [gateway("plain").created(2).listener("http", 80, "HTTP").into(), gateway_service("plain", &[(80, 10_001)])];
    let all = with_fleet("public", 1, 10_000).into_iter().chain(plain).chain([fleet("own", 3)]);
    let mut objects = world_of(all.chain([class_with_fleet(Some("infra"), "defaults")]));
    let settings = settings(2, 2);
    let mut translator = translated(&objects, &settings);
    let messages = |translator: &Translator| {
        let class = Kind::GATEWAY_CLASS.id(ObjectKey::new("", "lockgate"));
        [accepted_of(translator, &class), accepted(translator)]
    };
    for message in messages(&translator) {
        assert!(message.starts_with("False InvalidParameters"), "{message}");
        assert!(message.contains("EnvoyFleet \"infra/defaults\" does not exist"), "{message}");
    }
    assert!(!translator.model().listeners.keys().any(|id| id.as_str().starts_with("gateway")));

    let defaults = |concurrency, replicas| {
        let spec = EnvoyFleetSpec { replicas, concurrency: Some(concurrency), ..EnvoyFleetSpec::default() };
        Object::new(EnvoyFleet { meta: meta("infra/defaults"), spec })
    };
    for (change, expected) in [
        (Some(defaults(2, Some(4))), Some([(3, 2), (4, 2)])),
        (Some(defaults(1, None)), Some([(3, 1), (0, 1)])),
        (Some(defaults(1, Some(99))), None),
        (Some(defaults(1, Some(5))), Some([(3, 1), (5, 1)])),
        (None, None),
    ] {
        let key = ObjectKey::new("infra", "defaults");
        match change {
            Some(object) => drop(objects.apply(object)),
            None => drop(objects.delete(Kind::ENVOY_FLEET, &key)),
        }
        let mut changed = ChangedInputs::default();
        changed.insert(Input::new(Kind::ENVOY_FLEET, key));
        translator.update(&objects, &settings, &changed);
        let fleets = ["public", "plain"].map(|name| {
            let report = translator.gateways().get(&ObjectKey::new("shop", name)).unwrap();
            let spec = report.fleet.as_ref().map(|fleet| fleet.spec.clone());
            spec.map(|spec| (spec.replicas.unwrap_or_default(), spec.concurrency.unwrap_or_default()))
        });
        assert_eq!(fleets, expected.map_or([None; 2], |fleets| fleets.map(Some)));
        let [class, _] = messages(&translator);
        assert_eq!(class.starts_with("True"), expected.is_some(), "{class}");
        let scratch = translated(&objects, &settings);
        assert_eq!(translator.dedicated(), scratch.dedicated());
        assert_eq!(translator.gateways(), scratch.gateways());
        assert_eq!(translator.model(), scratch.model());
        assert_eq!(messages(&translator), messages(&scratch));
    }
}

#[test]
fn the_parameters_of_a_class_need_a_namespace() {
    for namespace in [None, Some("")] {
        let all = [fleet("own", 1), class_with_fleet(namespace, "own")].into_iter();
        let translator = translated(&world_of(all.chain(with_fleet("public", 1, 10_000))), &settings(1, 1));
        let accepted = accepted(&translator);
        assert!(accepted.contains("GatewayClass \"lockgate\": parametersRef.namespace: missing"), "{accepted}");
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

    // A fleet is removed. The limit of the namespace still applies.
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

#[test]
fn the_oldest_gateways_of_a_namespace_have_fleets_up_to_its_limit() {
    let fleets = ["shop/own", "a/own"].map(|name| fleet(name, 1));
    let gateways = [("shop/young", 9, 1), ("shop/old", 1, 2), ("shop/public", 5, 3), ("a/public", 10, 4)];
    let gateways = gateways.into_iter().flat_map(|(name, created, port)| with_fleet(name, created, 10_000 + port));
    let mut objects = world_of(fleets.into_iter().chain(gateways));
    let settings = settings(9, 2);
    let mut translator = translated(&objects, &settings);
    assert_eq!(keys(&translator.dedicated().fleets), ["a/public", "shop/old", "shop/public"]);
    let refused = &translator.dedicated().refused;
    assert_eq!(keys(refused.keys()), ["shop/young"], "other namespaces are not affected");
    assert!(refused.values().all(|limit| limit.contains("dedicatedFleets.maxPerNamespace)")), "{refused:?}");

    // The removal of a Gateway of another namespace does not make room. The removal of a Gateway of the same namespace
    // does.
    for (key, expected) in [
        (ObjectKey::new("a", "public"), &["shop/old", "shop/public"][..]),
        (ObjectKey::new("shop", "old"), &["shop/public", "shop/young"]),
    ] {
        objects.delete(Kind::GATEWAY, &key);
        let mut changed = ChangedInputs::default();
        changed.insert(Input::new(Kind::GATEWAY, key.clone()));
        translator.update(&objects, &settings, &changed);
        assert_eq!(keys(&translator.dedicated().fleets), expected, "without {key}");
        let scratch = translated(&objects, &settings);
        assert_eq!(translator.dedicated(), scratch.dedicated());
        assert_eq!(translator.gateways(), scratch.gateways());
    }
    assert!(translator.dedicated().refused.is_empty());
}

/// A tenant who moves Gateways to fleets and back all the time must not delay the changes of others.
#[test]
fn gateways_that_toggle_their_fleets_delay_no_others() {
    const GATEWAYS: u16 = 1000;
    let settings = settings(20, 3);
    let plain =
        |at: u16| -> Object { gateway(&format!("g{at}")).created(at.into()).listener("http", 80, "HTTP").into() };
    let toggling = |at: u16| with_fleet(&format!("g{at}"), at.into(), 10_000 + at);
    let other: Object = gateway("other/public").listener("http", 80, "HTTP").into();
    let all = (0..GATEWAYS).flat_map(toggling).chain([fleet("own", 1), other]);
    let mut objects = world_of(all);
    let mut translator = translated(&objects, &settings);
    let mut update = |objects: &Objects, keys: &mut dyn Iterator<Item = ObjectKey>| {
        let mut changed = ChangedInputs::default();
        keys.for_each(|key| changed.insert(Input::new(Kind::GATEWAY, key)));
        let started = Instant::now();
        translator.update(objects, &settings, &changed);
        started.elapsed()
    };
    let key = |at: u16| ObjectKey::new("shop", &format!("g{at}"));
    let mut single = Duration::ZERO;
    for at in 0..20 {
        objects.apply(plain(at));
        single += update(&objects, &mut [key(at)].into_iter());
    }
    // All of them in one pass, which is what another change waits for at most.
    for at in 20..GATEWAYS {
        objects.apply(plain(at));
    }
    let pass = update(&objects, &mut (20..GATEWAYS).map(key));
    println!("a change of one Gateway: {:?}; of {GATEWAYS}: {pass:?}", single / 20);
    assert!(single / 20 < Duration::from_millis(200) && pass < Duration::from_secs(10), "{single:?} {pass:?}");
}
