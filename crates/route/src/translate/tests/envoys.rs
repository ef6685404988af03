//! Backends that are Envoys of this installation.

use crate::model::{Endpoint, Model};
use crate::objects::{Kind, Object, ObjectKey, Service};
use crate::settings::Settings;
use crate::testing::gateway::gateway_service;
use crate::testing::objects::*;
use crate::translate::{ChangedInputs, Input, Translation, Translator, translate};

fn settings() -> Settings {
    Settings { envoy_service: Some(("infra".into(), "envoy".into())), ..Settings::default() }
}

/// Formats the endpoints of all clusters.
fn endpoints(model: &Model) -> Vec<String> {
    let all = model.endpoints.values().flat_map(|endpoints| endpoints.zones.iter().flat_map(|(_, zone)| zone));
    all.map(|Endpoint { address, port, .. }| format!("{address}:{port}")).collect()
}

/// The Envoys `10.0.0.1` and `10.0.0.3`, the Service `shop/a` with these addresses and ports, and an Ingress for it.
fn installation(endpoints: &[(&str, u16)]) -> Vec<Object> {
    let envoys =
        [slice("infra/e", "envoy").port("http", 8080).ready("10.0.0.1"), slice("infra/f", "fleet").ready("10.0.0.3")];
    let mut objects: Vec<Object> = vec![
        class("ours").default_class().into(),
        service("infra/envoy").port("http", 80).into(),
        Object::from(service("infra/fleet").port("http", 80)).with(|fleet: &mut Service| fleet.is_of_fleet = true),
        service("a").port("http", 80).into(),
        ingress("i").host("x.com").path("Prefix", "/", "a:80").into(),
    ];
    objects.extend(envoys.map(Object::from));
    for (number, (address, port)) in endpoints.iter().enumerate() {
        objects.push(slice(&format!("s{number}"), "a").port("http", *port).ready(address).into());
    }
    objects
}

#[test]
fn an_address_of_an_envoy_is_no_endpoint() {
    let all = [("10.0.0.1", 8080), ("10.0.0.1", 9000), ("10.0.0.2", 8080), ("10.0.0.3", 8443), ("10.0.0.3", 8002)];
    let objects = objects(&installation(&all));
    let Translation { model, problems, .. } = translate(&objects, &settings());
    // A process in the network of Envoy's node has other ports.
    assert_eq!(endpoints(&model), ["10.0.0.1:9000", "10.0.0.2:8080"]);
    let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let expected = "EndpointSlice shop/s0: endpoints[0].addresses[0]: address \"10.0.0.1\" is an Envoy of this installation; \
                    endpoint left out";
    assert!(problems.iter().any(|problem| problem == expected), "{problems:#?}");
    assert_eq!(problems.len(), 3, "{problems:#?}");
    let Translation { model, .. } = translate(&objects, &Settings::default());
    assert_eq!(endpoints(&model).len(), 5, "the Service in front of the Envoys is unknown");
}

#[test]
fn a_new_envoy_is_removed_from_the_endpoints_of_others() {
    let mut objects = objects(&installation(&[("10.0.0.9", 8080), ("10.0.0.2", 8080)]));
    let mut translator = Translator::default();
    translator.update(&objects, &settings(), &ChangedInputs::everything());
    assert_eq!(endpoints(translator.model()), ["10.0.0.2:8080", "10.0.0.9:8080"]);
    let key = ObjectKey::new("infra", "e");
    for (now, expected) in [("10.0.0.9", vec!["10.0.0.2:8080"]), ("10.0.0.1", vec!["10.0.0.2:8080", "10.0.0.9:8080"])] {
        objects.apply(slice("infra/e", "envoy").port("http", 8080).ready(now).into());
        let mut changed = ChangedInputs::default();
        Input::of_object(&objects, Kind::ENDPOINT_SLICE, &key).into_iter().for_each(|input| changed.insert(input));
        let update = translator.update(&objects, &settings(), &changed);
        assert_eq!(endpoints(translator.model()), expected);
        assert_eq!(update.touched.endpoints.len(), 1);
    }
}

#[test]
fn a_service_in_front_of_envoys_is_no_backend() {
    let mut objects = objects(&installation(&[]));
    objects.apply(gateway_service("public", &[(80, 10_080)]));
    let to = [("infra/i", "envoy:80", "this installation"), ("infra/j", "fleet:80", "this installation")];
    for (name, backend, of) in to.into_iter().chain([("j", "public-lockgate:80", "Gateway \"shop/public\"")]) {
        let host = format!("{}.com", name.replace('/', "-"));
        objects.apply(ingress(name).host(&host).path("Prefix", "/", backend).into());
        let Translation { model, problems, .. } = translate(&objects, &settings());
        assert!(model.clusters.keys().all(|id| *id.port.service().name == *"a"), "{:?}", model.clusters.keys());
        let expected = format!("leads to the Envoys of {of}, and a request would go around in a loop; answered 503");
        assert!(problems.iter().any(|problem| problem.to_string().ends_with(&expected)), "{problems:?}");
    }
}

#[test]
fn an_installation_is_identified_by_its_cluster_and_its_controllers() {
    let of = |uid: &str, settings: &Settings| {
        let cluster = namespace("kube-system", false).with(|namespace: &mut crate::objects::Namespace| {
            namespace.meta.uid = uid.into();
        });
        translate(&objects(&[cluster]), settings).model.installation
    };
    let settings = Settings::default();
    let mut other = Settings::default();
    other.gateway.controller = "example.com/other".to_owned();
    assert!(of("1", &settings).is_some() && of("1", &settings) == of("1", &settings));
    assert_ne!(of("1", &settings), of("2", &settings));
    assert_ne!(of("1", &settings), of("1", &other));
    assert_eq!(translate(&objects(&[]), &settings).model.installation, None);
}
