//! TLS of Gateways beyond key pairs of listeners: BackendTLSPolicies, validation of clients, and client certificates.

use super::gateway::{conditions, report, world_of};
use crate::model::{
    Action, Authorities, ClientValidation, ClusterId, Host, ListenerId, Material, SecretId, TrafficPolicy,
};
use crate::objects::{Kind, Object, ObjectId, ObjectKey, Objects};
use crate::settings::Settings;
use crate::testing::gateway::*;
use crate::testing::objects::{secret, service};
use crate::translate::{ChangedInputs, Input, Translator, Update};

/// Objects with their translation, changed step by step.
struct World {
    objects: Objects,
    translator: Translator,
}

impl World {
    fn new(list: impl IntoIterator<Item = Object>) -> Self {
        let (objects, mut translator) = (world_of(list), Translator::default());
        translator.update(&objects, &Settings::default(), &ChangedInputs::everything());
        Self { objects, translator }
    }

    fn apply(&mut self, object: impl Into<Object>) -> Update {
        let object = object.into();
        let id = object.id();
        self.objects.apply(object);
        self.update(id)
    }

    fn delete(&mut self, kind: Kind, name: &str) -> Update {
        let id = ObjectId::new(kind, "shop", name);
        self.objects.delete(kind, &id.key);
        self.update(id)
    }

    fn update(&mut self, id: ObjectId) -> Update {
        let mut changed = ChangedInputs::default();
        changed.insert(Input::new(id.kind, id.key));
        self.translator.update(&self.objects, &Settings::default(), &changed)
    }

    /// Returns the clusters of the Service `shop/name`.
    fn clusters(&self, name: &str) -> Vec<(&ClusterId, &TrafficPolicy)> {
        let clusters = self.translator.model().clusters.iter();
        let clusters = clusters.filter(|(id, _)| *id.port.service() == ObjectKey::new("shop", name));
        clusters.map(|(id, cluster)| (id, &cluster.policy)).collect()
    }

    /// Returns the server names by which the Service `shop/name` is verified; `-` without verification.
    fn verified(&self, name: &str) -> Vec<String> {
        let verification = |(_, policy): (&ClusterId, &TrafficPolicy)| {
            policy.verification.as_ref().map_or("-".to_owned(), |verification| verification.server_name.to_string())
        };
        self.clusters(name).into_iter().map(verification).collect()
    }

    fn conditions(&self, kind: Kind, name: &str) -> Vec<String> {
        conditions(&self.translator, kind, name)
    }

    fn policy(&self, name: &str) -> Vec<String> {
        self.conditions(Kind::BACKEND_TLS_POLICY, name)
    }
}

#[test]
fn no_backend_is_served_while_policies_cannot_be_read() {
    for kind in [Kind::BACKEND_TLS_POLICY, Kind::HTTP_POLICY] {
        let mut world = World::new(public().into_iter().chain(routes()));
        let mut permit = |namespace: &str, readable| {
            assert!(world.objects.set_readable(kind, &namespace.into(), readable));
            assert!(!world.objects.set_readable(kind, &namespace.into(), readable), "no change");
            world.translator.update(&world.objects, &Settings::default(), &ChangedInputs::everything());
            world.verified("a")
        };
        assert_eq!(permit("pay", false), ["-"], "another namespace");
        assert_eq!(permit("shop", false), [""; 0], "a policy may require TLS or restrict the route");
        assert_eq!(permit("", false), [""; 0]);
        assert_eq!(permit("shop", true), [""; 0]);
        assert_eq!(permit("", true), ["-"]);
    }
}

fn public() -> [Object; 2] {
    [gateway("public").listener("http", 80, "HTTP").into(), gateway_service("public", &[(80, 10_000)])]
}

fn routes() -> [Object; 2] {
    let route = |name: &str| http_route(name).parent("public").host(&format!("{name}.test"));
    [route("a").rule("/", "a:80").into(), route("b").rule("/", "b:80").into()]
}

fn ca(text: &str) -> Object {
    config_map("ca", Ok(text))
}

fn bundle(name: &str) -> SecretId {
    SecretId::of_config_maps([ObjectKey::new("shop", name)].into()).unwrap()
}

const ACCEPTED: [&str; 2] = ["Accepted=True Accepted", "ResolvedRefs=True ResolvedRefs"];

#[test]
fn a_policy_moves_only_the_routes_of_its_service_to_another_cluster() {
    let mut world = World::new(public().into_iter().chain(routes()).chain([ca("one")]));
    assert_eq!(world.verified("a"), ["-"]);
    let plain = world.clusters("a")[0].0.clone();
    let update = world.apply(backend_tls_policy("tls").target("a", None).config_map("ca"));
    assert_eq!(world.verified("a"), ["backend.test"]);
    let (id, policy) = world.clusters("a")[0];
    assert!(policy.protocol.is_tls());
    assert_eq!(policy.verification.as_ref().unwrap().authorities, Authorities::Secret(bundle("ca")));
    assert_eq!((&id.port, id == &plain), (&plain.port, false), "the endpoints stay");
    let hosts = update.touched.hosts_of("gateway/shop/public/80");
    assert_eq!(hosts.iter().map(ToString::to_string).collect::<Vec<_>>(), ["a.test"]);
    assert_eq!(world.verified("b"), ["-"]);
    assert_eq!(world.policy("tls"), ACCEPTED);
    let update = world.delete(Kind::BACKEND_TLS_POLICY, "tls");
    assert_eq!(world.verified("a"), ["-"]);
    assert!(world.policy("tls").is_empty() && world.translator.policies().is_empty());
    assert!(update.sources.contains(&ObjectId::new(Kind::BACKEND_TLS_POLICY, "shop", "tls")));
    assert!(world.translator.model().secrets.is_empty());
}

#[test]
fn new_authorities_change_a_secret_and_neither_clusters_nor_listeners() {
    let gateway = gateway("public").listener("https", 443, "HTTPS").certificate("good").validation(None, "ca", None);
    let of_gateway = gateway_service("public", &[(443, 10_000)]);
    let policy = backend_tls_policy("tls").target("a", None).config_map("ca");
    let world = [gateway.into(), of_gateway, secret("good", &["a.test"]).into(), policy.into(), ca("one")];
    let mut world = World::new(routes().into_iter().chain(world));
    let authorities = |world: &World| world.translator.model().secrets[&bundle("ca")].material.clone();
    assert_eq!(authorities(&world), Material::Authorities("one".into()));
    let update = world.apply(ca("two"));
    assert_eq!(authorities(&world), Material::Authorities("two".into()));
    assert_eq!(update.touched.secrets, [bundle("ca")].into());
    assert!(update.touched.clusters.is_empty() && update.touched.listeners.is_empty());
    assert!(update.touched.hosts_of("gateway/shop/public/443").is_empty());
}

#[test]
fn a_service_with_an_invalid_policy_receives_no_requests() {
    let policy = backend_tls_policy("tls").target("a", None).config_map("ca");
    let mut world = World::new(public().into_iter().chain(routes()).chain([policy.clone().into()]));
    let invalid = ["Accepted=False NoValidCACertificate", "ResolvedRefs=False InvalidCACertificateRef"];
    assert!(world.clusters("a").is_empty());
    assert_eq!(world.policy("tls"), invalid);
    assert_eq!(world.conditions(Kind::HTTP_ROUTE, "a")[1], "0: ResolvedRefs=True ResolvedRefs");
    let problems = world.translator.problems().iter().map(ToString::to_string).collect::<Vec<_>>();
    assert!(problems.iter().any(|text| text.starts_with("HTTPRoute shop/a: spec.rules[0].backendRefs[0]: BackendTLS")));
    world.apply(ca("one"));
    assert_eq!(
        (world.verified("a"), world.policy("tls").as_slice()),
        (vec!["backend.test".to_owned()], &ACCEPTED.map(str::to_owned)[..])
    );
    world.apply(config_map("ca", Err("not PEM")));
    assert!(world.clusters("a").is_empty());
    world.apply(policy.clone().config_map("other"));
    assert_eq!(world.policy("tls"), invalid);
    world.apply(config_map("other", Ok("two")));
    assert_eq!(world.policy("tls"), ["Accepted=True Accepted", "ResolvedRefs=False InvalidCACertificateRef"]);
    assert_eq!(world.verified("a"), ["backend.test"]);
    world.apply(policy.well_known("System"));
    assert_eq!(world.policy("tls")[0], "Accepted=False Invalid", "both are set");
}

#[test]
fn the_oldest_policy_for_a_target_is_in_effect() {
    let policy = |name: &str, created, port: Option<&str>| {
        backend_tls_policy(name).created(created).target("a", port).config_map("ca").hostname(&format!("{name}.test"))
    };
    let conflict = "Accepted=False Conflicted";
    let mut world = World::new(public().into_iter().chain(routes()).chain([ca("one"), policy("new", 2, None).into()]));
    assert_eq!(world.verified("a"), ["new.test"]);
    world.apply(policy("old", 1, None));
    assert_eq!((world.verified("a"), world.policy("new")[0].as_str()), (vec!["old.test".to_owned()], conflict));
    let late = world.apply(policy("late", 4, None));
    let affected: Vec<String> = late.sources.iter().map(|id| id.key.name.to_string()).collect();
    assert_eq!(
        (affected, world.policy("late")[0].as_str()),
        (vec!["late".to_owned()], conflict),
        "no route, no other policy"
    );
    world.delete(Kind::BACKEND_TLS_POLICY, "late");
    world.apply(policy("port", 3, Some("http")));
    assert_eq!(
        (world.verified("a"), world.policy("port")),
        (vec!["port.test".to_owned()], ACCEPTED.map(str::to_owned).to_vec())
    );
    assert_eq!(world.policy("old"), ACCEPTED, "another target");
    world.delete(Kind::BACKEND_TLS_POLICY, "port");
    world.apply(policy("old", 1, None).terminating());
    assert_eq!((world.verified("a"), world.policy("old")[0].as_str()), (vec!["new.test".to_owned()], conflict));
    world.apply(policy("old", 1, Some("gone")));
    assert_eq!(world.policy("old")[0], "Accepted=False TargetNotFound");
    assert_eq!(world.policy("new"), ACCEPTED);
}

#[test]
fn the_ancestors_of_a_policy_are_the_gateways_of_the_routes_to_its_service() {
    let other = [gateway("other").listener("http", 80, "HTTP").into(), gateway_service("other", &[(80, 10_001)])];
    let policy = backend_tls_policy("tls").target("a", None).config_map("ca");
    let mut world = World::new(public().into_iter().chain(other).chain([ca("one"), policy.into()]));
    let ancestors = |world: &World| {
        let policies = world.translator.policies().get(&ObjectKey::new("shop", "tls"));
        policies.into_iter().flat_map(|all| all.iter().map(ToString::to_string)).collect::<Vec<_>>()
    };
    assert!(ancestors(&world).is_empty() && world.policy("tls").is_empty());
    let [a, b] = routes();
    world.apply(b);
    assert!(ancestors(&world).is_empty(), "another Service");
    world.apply(a.clone());
    assert_eq!(ancestors(&world), ["shop/public"]);
    world.apply(http_route("second").parent("public").parent("other").rule("/", "a:80"));
    assert_eq!(ancestors(&world), ["shop/other", "shop/public"]);
    world.delete(Kind::HTTP_ROUTE, "second");
    assert_eq!(ancestors(&world), ["shop/public"]);
    assert_eq!(world.policy("tls"), ACCEPTED);
    world.delete(Kind::GATEWAY, "public");
    assert!(ancestors(&world).is_empty() && world.policy("tls").is_empty());
}

#[test]
fn connections_are_encrypted_again_only_if_a_listener_decrypts_them() {
    let gateway = gateway("public").listener("pass", 443, "TLS").tls_mode("Passthrough").hostname("pass.test");
    let gateway = gateway.listener("term", 443, "TLS").certificate("good").hostname("term.test");
    let of_gateway = gateway_service("public", &[(443, 10_000)]);
    let route = |name: &str| -> Object {
        let route = tls_route(name).parent("public").section(name).host(&format!("{name}.test"));
        route.backend("a:80").into()
    };
    let policy = backend_tls_policy("tls").target("a", None).config_map("ca");
    let others = [gateway.into(), of_gateway, secret("good", &["term.test"]).into(), ca("one"), policy.into()];
    let mut world = World::new(others);
    world.apply(route("pass"));
    assert_eq!((world.verified("a"), world.policy("tls").is_empty()), (vec!["-".to_owned()], true));
    world.apply(route("term"));
    assert_eq!(world.verified("a"), ["-", "backend.test"]);
    assert_eq!(world.policy("tls"), ACCEPTED);
    world.delete(Kind::TLS_ROUTE, "pass");
    assert_eq!(world.verified("a"), ["backend.test"]);
}

#[test]
fn each_gateway_presents_its_own_certificate_to_backends_with_tls() {
    let other = gateway("other").listener("http", 80, "HTTP");
    let [public, of_public] = public();
    let both = [public, of_public, other.clone().into(), gateway_service("other", &[(80, 10_001)])];
    let policy = backend_tls_policy("tls").target("a", None).config_map("ca");
    let route = http_route("a").parent("public").parent("other").rule("/", "a:80").rule("/b", "b:80");
    let mut world = World::new(both.into_iter().chain([ca("one"), policy.into(), route.into()]));
    assert_eq!(world.clusters("a").len(), 1);
    let certificates = |world: &World| -> Vec<String> {
        let certificate = |policy: &TrafficPolicy| policy.client_certificate.as_ref().map(ToString::to_string);
        let mut all: Vec<_> = world.clusters("a").iter().map(|(_, one)| certificate(one).unwrap_or_default()).collect();
        all.sort();
        all
    };
    world.apply(other.clone().client_certificate("pair"));
    assert_eq!(certificates(&world), [""], "no request of the other Gateway is sent there");
    assert_eq!(world.conditions(Kind::GATEWAY, "other")[1], "ResolvedRefs=False InvalidClientCertificateRef");
    world.apply(secret("pair", &["client.test"]));
    assert_eq!(certificates(&world), ["", "shop/pair"]);
    assert_eq!(world.conditions(Kind::GATEWAY, "other")[1], "ResolvedRefs=True ResolvedRefs");
    assert_eq!(world.clusters("b").len(), 1, "without TLS");
    let of = |world: &World, gateway: &str| {
        let plain = world.translator.model().plain(&format!("gateway/shop/{gateway}/80")).unwrap();
        let routes = plain.hosts.values().flat_map(|host| &host.routes).flat_map(|route| route.action.clusters());
        routes.filter(|id| &*id.port.service().name == "a").cloned().collect::<Vec<_>>()
    };
    assert_ne!(of(&world, "public"), of(&world, "other"));
    world.apply(other);
    assert_eq!((certificates(&world), world.translator.model().secrets.len()), (vec![String::new()], 1));
}

#[test]
fn a_listener_without_valid_authorities_for_clients_is_not_served() {
    let https = |gateway: GatewayBuilder| gateway.listener("https", 443, "HTTPS").certificate("good");
    let public = |gateway: GatewayBuilder| https(gateway.listener("http", 80, "HTTP"));
    let of_gateway = gateway_service("public", &[(80, 10_000), (443, 10_001)]);
    let start = public(gateway("public")).validation(None, "ca", None);
    let mut world = World::new([start.into(), of_gateway, secret("good", &["a.test"]).into()]);
    let id = ListenerId::new("gateway/shop/public/443");
    let clients = |world: &World| {
        let tls = world.translator.model().tls(id.as_str())?;
        Some(tls.hosts.values().next()?.clients.clone())
    };
    assert_eq!(clients(&world), None);
    let serves = |world: &World| report(&world.translator).listeners.iter().map(|one| one.serves).collect::<Vec<_>>();
    assert_eq!(serves(&world), [true, false]);
    let of_listener = world.conditions(Kind::GATEWAY, "public");
    assert!(of_listener.contains(&"https: Accepted=False NoValidCACertificate".to_owned()), "{of_listener:?}");
    world.apply(ca("one"));
    let validation = |required| Some(Some(ClientValidation::new(bundle("ca"), required)));
    assert_eq!((clients(&world), serves(&world)), (validation(true), vec![true, true]));
    let insecure = public(gateway("public")).validation(None, "ca", Some("AllowInsecureFallback"));
    let update = world.apply(insecure);
    assert_eq!(clients(&world), validation(false));
    assert!(!update.touched.hosts_of(id.as_str()).is_empty());
    let condition = "InsecureFrontendValidationMode=True ConfigurationChanged".to_owned();
    assert!(world.conditions(Kind::GATEWAY, "public").contains(&condition));
    world.apply(public(gateway("public")).validation(None, "gone", None).validation(Some(443), "ca", None));
    assert_eq!(clients(&world), validation(true));
    assert!(!world.conditions(Kind::GATEWAY, "public").contains(&condition));
    world.delete(Kind::CONFIG_MAP, "ca");
    assert_eq!(clients(&world), None, "the listener is gone");
    world.apply(public(gateway("public")));
    assert_eq!((clients(&world), world.translator.model().secrets.len()), (Some(None), 1));
}

#[test]
fn the_authorities_of_another_namespace_need_a_grant() {
    let gateway = gateway("public").listener("https", 443, "HTTPS").certificate("good");
    let gateway = gateway.validation(None, "other/ca", None);
    let others = [gateway_service("public", &[(443, 10_000)]), secret("good", &["a.test"]).into()];
    let mut world = World::new([gateway.into(), config_map("other/ca", Ok("one"))].into_iter().chain(others));
    let refused = "https: ResolvedRefs=False RefNotPermitted".to_owned();
    assert!(world.conditions(Kind::GATEWAY, "public").contains(&refused));
    let grant = reference_grant("other/grant").from("Gateway", "shop").to("ConfigMap", "ca");
    world.objects.apply(grant.into());
    world.update(ObjectId { kind: Kind::REFERENCE_GRANT, key: ObjectKey::new("", "other") });
    assert!(!world.conditions(Kind::GATEWAY, "public").contains(&refused));
    let policy = backend_tls_policy("tls").target("a", None).config_map("other/ca");
    world.objects.apply(reference_grant("other/all").from("BackendTLSPolicy", "shop").to("ConfigMap", "").into());
    world.apply(service("a").port("http", 80));
    world.apply(policy);
    world.apply(http_route("a").parent("public").rule("/", "a:80"));
    assert_eq!(world.policy("tls")[0], "Accepted=False NoValidCACertificate", "no grant can permit it");
}

#[test]
fn a_policy_has_no_effect_on_services_of_other_namespaces() {
    let mut world = World::new(public().into_iter().chain(routes()).chain([config_map("other/ca", Ok("one"))]));
    let update = world.apply(backend_tls_policy("other/tls").target("a", None).config_map("ca"));
    assert_eq!(world.verified("a"), ["-"]);
    assert!(update.touched.clusters.is_empty() && world.translator.policies().is_empty());
}

/// An Envoy has a copy of the authorities for each port of each Service.
#[test]
fn certificate_authorities_beyond_the_limit_of_a_namespace_close_the_backends_of_its_younger_policies() {
    let text = "x".repeat(1 << 19);
    let service_of = |at: i64| service(&format!("s{at}")).port("http", 80).port("admin", 81).into();
    let policy = |at: i64| {
        let policy = backend_tls_policy(&format!("p{at}")).created(at).target(&format!("s{at}"), None);
        policy.config_map("ca")
    };
    let small = backend_tls_policy("other/small").created(99).target("a", None).well_known("System");
    let route = |at: i64| {
        http_route(&format!("r{at}"))
            .parent("public")
            .host(&format!("r{at}.test"))
            .rule("/", &format!("s{at}:80"))
            .into()
    };
    let other: Object = service("other/a").port("http", 80).into();
    let of_other: Object = http_route("other/r").parent("shop/public").host("other.test").rule("/", "a:80").into();
    let gateway = gateway("public").listener("http", 80, "HTTP").routes_from("All").into();
    let objects = [gateway, gateway_service("public", &[(80, 10_000)]), ca(&text), other, of_other, small.into()];
    let objects = objects.into_iter().chain((0..30).flat_map(|at| [service_of(at), policy(at).into(), route(at)]));
    let mut world = World::new(objects);
    // A policy takes 2 * 512 KiB.
    let accepted = |world: &World| (0..30).filter(|at| world.policy(&format!("p{at}")) == ACCEPTED).count();
    assert_eq!(accepted(&world), 8);
    assert_eq!(world.policy("p29"), ["Accepted=False PolicyTooExpensive", "ResolvedRefs=True ResolvedRefs"]);
    let problems = world.translator.problems().iter().map(ToString::to_string).collect::<Vec<_>>();
    let problem = "BackendTLSPolicy shop/p8: the certificate authorities for all ports of its targets take 1024 KiB of configuration, \
                   more than older policies of the namespace leave of the limit tenants.maxConfigurationPerNamespace; \
                   requests to its Services are answered 503";
    assert!(problems.iter().any(|one| one == problem), "{problems:?}");
    let plain = world.translator.model().plain("gateway/shop/public/80").expect("a listener");
    let action = |host: &str| plain.hosts[&Host::Exact(host.into())].routes[0].action.clone();
    assert_eq!((action("r29.test"), matches!(action("r0.test"), Action::Forward(_))), (Action::respond(503), true));
    world.delete(Kind::BACKEND_TLS_POLICY, "p3");
    assert_eq!(world.policy("p8"), ACCEPTED);
    world.apply(ca("small"));
    assert_eq!(accepted(&world), 29);
}
