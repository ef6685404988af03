//! HostGrants: the namespaces that may define a host, for each kind of object.

use super::gateway::{conditions, translated, world_of};
use crate::model::{Host, ListenerId, Traffic};
use crate::objects::{Kind, Object, ObjectId, Objects};
use crate::settings::Settings;
use crate::testing::gateway::*;
use crate::testing::host_grants::{HostGrantBuilder, host_grant};
use crate::testing::model::Shared as _;
use crate::testing::objects::*;
use crate::translate::{ChangedInputs, Input, Translator, host};

/// Returns the world with Services in the namespaces `evil` and `team` too.
fn tenants() -> World {
    ["evil/a", "team/a"].into_iter().fold(world(), |world, name| world.with(service(name).port("http", 80)))
}

/// Returns an Ingress with the path `/` for a host.
fn of_host(name: &str, created: i64, host: &str) -> IngressBuilder {
    ingress(name).created(created).host(host).path("Prefix", "/", "a:80")
}

fn shop() -> HostGrantBuilder {
    host_grant("shop").host("x.com").host("**.x.com").name("shop")
}

const GRANTED: &str = "is granted to other namespaces by HostGrant \"shop\"";

#[test]
fn an_older_ingress_of_another_namespace_does_not_take_a_granted_host() {
    let world = tenants().with(of_host("evil/old", 1, "x.com").host("evil.com").path("Prefix", "/", "a:80"));
    let world = world.with(of_host("shop/young", 9, "x.com"));
    assert_eq!(world.http("x.com"), ["/* evil/a/http"], "without a HostGrant, the older rule owns the host");
    let world = world.with(shop());
    assert_eq!(world.http("x.com"), ["/* shop/a/http"]);
    assert_eq!(world.http("evil.com"), ["/* evil/a/http"], "the other hosts of the Ingress are served");
    assert_eq!(world.problems(), [format!("Ingress evil/old: spec.rules[0]: host \"x.com\" {GRANTED}; rule left out")]);
}

#[test]
fn a_refused_host_is_served_as_without_the_object() {
    let world = tenants().with(shop()).with(of_host("evil/old", 1, "x.com"));
    assert!(!world.model().http().contains_key(&host::parse("x.com").unwrap()));
    let ids = [ObjectId::new(Kind::INGRESS, "evil", "old")];
    let mut translator = Translator::default();
    translator.update(&objects(&world.objects), &world.settings, &ChangedInputs::everything());
    assert!(ids.iter().all(|id| translator.has_lost(id)), "the Ingress has no address");
    // The wildcard above the host serves it.
    let world = world.with(of_host("shop/wild", 5, "*.x.com")).with(of_host("evil/a", 1, "a.x.com"));
    assert!(!world.model().http().contains_key(&host::parse("a.x.com").unwrap()));
    assert_eq!(world.http("*.x.com"), ["1: /* shop/a/http"]);
}

#[test]
fn delegation_does_not_extend_a_grant() {
    let delegating = of_host("shop/web", 1, "x.com").annotation("lockgate.dev/delegate-to", "evil");
    let world =
        tenants().with(delegating).with(ingress("evil/more").created(9).host("x.com").path("Prefix", "/more", "a:80"));
    assert_eq!(world.http("x.com").len(), 2);
    assert_eq!(world.with(shop()).http("x.com"), ["/* shop/a/http"]);
}

#[test]
fn a_refused_tls_entry_presents_no_certificate() {
    let certificates = [secret("evil/cert", &["x.com", "evil.com"]), secret("cert", &["x.com"])];
    let world = certificates.into_iter().fold(tenants(), World::with);
    let world = world.with(ingress("evil/old").created(1).tls(&["x.com", "evil.com"], "cert"));
    assert_eq!(world.chains(), ["evil.com evil/cert", "x.com evil/cert"]);
    let world = world.with(shop());
    assert_eq!(world.chains(), ["evil.com evil/cert"]);
    let refused = format!("Ingress evil/old: spec.tls[0].hosts[0]: host \"x.com\" {GRANTED}; host left out");
    assert_eq!(world.problems(), [refused.as_str()]);
    // An entry without permitted hosts does not become an entry for all hosts.
    let all = ingress("evil/all").host("evil.com").path("Prefix", "/", "a:80").tls(&["x.com"], "cert");
    let world = tenants().with(secret("evil/cert", &["x.com", "evil.com"])).with(shop()).with(all);
    assert_eq!(world.https("evil.com"), ["/* evil/a/http"]);
    assert!(!world.chains().iter().any(|chain| chain.starts_with("x.com")), "{:?}", world.chains());
}

#[test]
fn a_wildcard_with_granted_names_below_it_is_refused() {
    let world = tenants().with(of_host("evil/wild", 1, "*.com")).with(of_host("evil/far", 1, "*.org")).with(shop());
    assert!(!world.model().http().contains_key(&host::parse("*.com").unwrap()));
    assert!(world.model().http().contains_key(&host::parse("*.org").unwrap()));
    let message = "no HostGrant covers host \"*.com\", which has hosts of HostGrant \"shop\" below it";
    assert_eq!(world.problems(), [format!("Ingress evil/wild: spec.rules[0]: {message}; rule left out")]);
    let world = world.with(host_grant("wild").host("*.com").name("evil"));
    assert!(world.model().http().contains_key(&host::parse("*.com").unwrap()));
}

#[test]
fn the_owner_of_a_wildcard_does_not_own_a_name_with_a_grant() {
    let world = tenants().with(of_host("team/wild", 1, "*.x.com")).with(of_host("shop/web", 9, "a.x.com"));
    assert!(!world.model().http().contains_key(&host::parse("a.x.com").unwrap()), "an older wildcard owns the name");
    let wild = host_grant("wild").host("*.x.com").name("team").name("shop");
    let world = world.with(wild);
    assert!(!world.model().http().contains_key(&host::parse("a.x.com").unwrap()), "both may define the name");
    let mut objects = objects(&world.objects);
    let mut translator = Translator::default();
    translator.update(&objects, &Settings::default(), &ChangedInputs::everything());
    let touched = step(&mut translator, &mut objects, host_grant("name").host("a.x.com").name("shop"), true);
    assert_eq!(touched, ["a.x.com"]);
    assert_eq!(routes(&translator.model().http()[&host::parse("a.x.com").unwrap()]), ["/* shop/a/http"]);
    assert!(translator.problems().is_empty());
    step(&mut translator, &mut objects, host_grant("name"), false);
}

#[test]
fn a_setting_requires_grants() {
    let rule_less = ingress("shop/default").default_backend("b:80");
    let mut world = tenants().with(of_host("shop/web", 1, "x.com")).with(of_host("shop/other", 1, "y.org"));
    world = world.with(rule_less).with(shop());
    assert_eq!(world.model().http().len(), 3);
    world.settings.hosts.require_grant = true;
    let hosts: Vec<String> = world.model().http().keys().map(ToString::to_string).collect();
    assert_eq!(hosts, ["x.com"]);
    assert_eq!(
        world.problems(),
        [
            "Ingress shop/default: spec.defaultBackend: no HostGrant has the host \"**\" for requests without a named host, \
             and \"hosts.requireGrant\" is true; default backend not used",
            "Ingress shop/other: spec.rules[0]: no HostGrant covers host \"y.org\", and \"hosts.requireGrant\" is true; \
             rule left out",
        ]
    );
    // The default backend remains the backend of its own rules.
    let own = ingress("shop/own").default_backend("c:80").host("a.x.com");
    let with_own = World { objects: world.objects.clone(), settings: world.settings.clone() }.with(own);
    assert_eq!(with_own.http("a.x.com"), ["/* shop/c/http"]);
    assert_eq!(with_own.problems().len(), 2);
    let world = world.with(host_grant("all").host("**").name("shop"));
    assert_eq!((world.model().http().len(), world.problems()), (3, Vec::new()));
}

/// The Gateway `shop/public`, to which routes of all namespaces may attach, and its Service.
fn public() -> [Object; 2] {
    let gateway = gateway("public").listener("http", 80, "HTTP").routes_from("All");
    let gateway = gateway.listener("tls", 443, "TLS").tls_mode("Passthrough").routes_from("All");
    let gateway = gateway.listener("tcp", 5432, "TCP").routes_from("All");
    [gateway.into(), gateway_service("public", &[(80, 10_000), (443, 10_001), (5432, 10_002)])]
}

/// Returns the names that the HTTP listener serves with the first route of each.
fn served(translator: &Translator) -> Vec<String> {
    let plain = translator.model().plain("gateway/shop/public/80").unwrap();
    plain.hosts.iter().map(|(host, content)| format!("{host} {}", routes(content)[0])).collect()
}

fn text(translator: &Translator) -> Vec<String> {
    translator.problems().iter().map(|problem| problem.to_string()).collect()
}

fn accepted_of(translator: &Translator, kind: Kind, namespace: &str, name: &str) -> String {
    let verdicts = &translator.verdicts()[&ObjectId::new(kind, namespace, name)];
    let verdict = verdicts.iter().find(|one| one.condition == "Accepted").unwrap();
    format!("{} {}", verdict.status.as_str(), verdict.reason)
}

#[test]
fn routes_do_not_define_hosts_that_are_granted_to_others() {
    let grpc = |name: &str, host: &str| -> Object {
        let route = Object::from(http_route(name).parent("shop/public").host(host));
        let route = route.get::<crate::objects::gateway::HttpRoute>().unwrap().clone();
        let parent_refs = route.spec.parent_refs.clone();
        let spec = crate::objects::gateway::GrpcRouteSpec {
            parent_refs,
            hostnames: route.spec.hostnames.clone(),
            ..Default::default()
        };
        Object::new(crate::objects::gateway::GrpcRoute {
            meta: route.meta,
            spec,
            status: Default::default(),
            version: "".into(),
        })
    };
    let evil = http_route("evil/old").created(1).parent("shop/public").host("x.com").rule("/", "a:80");
    let partly = http_route("evil/partly").parent("shop/public").host("a.x.com").host("evil.com").rule("/", "a:80");
    let own = http_route("shop/web").created(9).parent("public").host("x.com").rule("/", "a:80");
    let tls = tls_route("evil/tls").parent("shop/public").host("x.com").backend("a:80");
    let tcp = tcp_route("evil/tcp").parent("shop/public").section("tcp").backend("a:80");
    let list: Vec<Object> =
        vec![evil.into(), partly.into(), own.into(), tls.into(), tcp.into(), grpc("evil/grpc", "x.com"), shop().into()];
    let service = service("evil/a").port("http", 80).into();
    let translator = translated(&world_of(public().into_iter().chain(list).chain([service])));
    assert_eq!(served(&translator), ["evil.com /* evil/a/http", "x.com /* shop/a/http", "* /* 404"]);
    let refused = "False NotAllowedByListeners";
    for (kind, namespace, name, expected) in [
        (Kind::HTTP_ROUTE, "evil", "old", refused),
        (Kind::GRPC_ROUTE, "evil", "grpc", refused),
        (Kind::TLS_ROUTE, "evil", "tls", refused),
        (Kind::HTTP_ROUTE, "evil", "partly", "True Accepted"),
        (Kind::HTTP_ROUTE, "shop", "web", "True Accepted"),
        (Kind::TCP_ROUTE, "evil", "tcp", "True Accepted"),
    ] {
        assert_eq!(accepted_of(&translator, kind, namespace, name), expected, "{name}");
    }
    let Traffic::Tls(names) = &translator.model().listeners["gateway/shop/public/443"].traffic else { panic!("TLS") };
    assert!(!names.contains_key(&host::parse("x.com").unwrap()));
    let whole =
        |object: &str| format!("{object}: spec.parentRefs[0]: host \"x.com\" {GRANTED}; not attached to this Gateway");
    assert_eq!(
        text(&translator),
        [
            whole("GRPCRoute evil/grpc"),
            whole("HTTPRoute evil/old"),
            format!("HTTPRoute evil/partly: spec.hostnames: host \"a.x.com\" {GRANTED}; host left out"),
            whole("TLSRoute evil/tls"),
        ]
    );
}

#[test]
fn the_hostname_of_the_listener_counts_for_a_route_without_hosts() {
    let [_, service] = public();
    let gateway = gateway("public").listener("one", 80, "HTTP").hostname("x.com").routes_from("All");
    let gateway = gateway.listener("wild", 80, "HTTP").hostname("*.org").routes_from("All");
    let route = http_route("evil/all").parent("shop/public").rule("/", "shop/a:80");
    let objects = world_of([gateway.into(), service, route.into(), shop().into()]);
    let translator = translated(&objects);
    assert_eq!(served(&translator), ["x.com /* 404", "*.org /* 500"]);
    let verdicts = &translator.verdicts()[&ObjectId::new(Kind::HTTP_ROUTE, "evil", "all")];
    assert!(
        verdicts.iter().any(|one| one.condition == "PartiallyInvalid" && one.message.contains("x.com")),
        "{verdicts:?}"
    );
}

#[test]
fn a_listener_set_of_another_namespace_does_not_add_a_granted_hostname() {
    let [_, service] = public();
    let gateway = gateway("public").listener("http", 80, "HTTP").sets_from("All");
    let set = |name: &str| listener_set(name, "shop/public").listener("mine", 80, "HTTP").hostname("x.com");
    let own = http_route("shop/web").parent("public").host("x.com").rule("/", "a:80");
    let objects = world_of([gateway.into(), service, set("evil/set").into(), own.into(), shop().into()]);
    let translator = translated(&objects);
    assert_eq!(served(&translator), ["x.com /* shop/a/http", "* /* 404"]);
    let verdicts = &translator.verdicts()[&ObjectId::new(Kind::LISTENER_SET, "evil", "set")];
    let of_listener = verdicts.iter().find(|one| one.listener.is_some() && one.condition == "Accepted").unwrap();
    assert_eq!((of_listener.status.as_str(), of_listener.reason), ("False", "HostNotGranted"));
    // A Gateway offers hostnames to routes, and its own namespace may add listeners by a ListenerSet.
    let mut all = objects.clone();
    all.apply(set("shop/own").into());
    assert!(
        conditions(&translated(&all), Kind::LISTENER_SET, "own").contains(&"mine: Accepted=True Accepted".to_owned())
    );
}

/// Applies or deletes an object, and compares the result with a translation from scratch.
fn step(translator: &mut Translator, objects: &mut Objects, object: impl Into<Object>, applied: bool) -> Vec<String> {
    let object = object.into();
    let (kind, key) = (object.kind(), object.meta().key.clone());
    match applied {
        true => drop(objects.apply(object)),
        false => drop(objects.delete(kind, &key)),
    }
    let mut changed = ChangedInputs::default();
    changed.insert(Input::new(kind, key));
    let settings = Settings::default();
    let update = translator.update(objects, &settings, &changed);
    let unaffected = ObjectId::new(Kind::INGRESS, "evil", "other");
    assert!(!update.sources.contains(&unaffected), "it names no host of a HostGrant");
    let mut anew = Translator::default();
    anew.update(objects, &settings, &ChangedInputs::everything());
    assert_eq!(translator.model(), anew.model());
    assert_eq!((translator.problems(), translator.verdicts()), (anew.problems(), anew.verdicts()));
    update.touched.hosts_of(ListenerId::HTTP).iter().map(Host::to_string).collect()
}

#[test]
fn changes_of_grants_and_of_labels_affect_only_their_hosts() {
    let world = tenants().with(of_host("evil/old", 1, "x.com")).with(of_host("shop/young", 9, "x.com"));
    let world = world.with(of_host("evil/other", 1, "evil.com"));
    let mut objects = objects(&world.objects);
    let mut translator = Translator::default();
    translator.update(&objects, &Settings::default(), &ChangedInputs::everything());
    let owner = |translator: &Translator| routes(&translator.model().http()[&host::parse("x.com").unwrap()])[0].clone();
    let by_label = || host_grant("shop").host("x.com").label("team", "shop");
    let labels = |name: &str, team: &str| labeled_namespace(name, &[("team", team)]);
    assert_eq!(owner(&translator), "/* evil/a/http");
    for (object, applied, expected, touched) in [
        (Object::from(shop()), true, "shop", true),
        (host_grant("far").host("y.com").name("team").into(), true, "shop", false),
        (host_grant("more").host("x.com").name("evil").into(), true, "evil", true),
        (shop().into(), false, "evil", false),
        (host_grant("more").host("x.com").name("evil").into(), false, "evil", false),
        (labels("shop", "shop"), true, "evil", false),
        (by_label().into(), true, "shop", true),
        (labels("evil", "shop"), true, "evil", true),
        (labels("evil", "other"), true, "shop", true),
        (by_label().into(), false, "evil", true),
    ] {
        let name = format!("{} {}", object.kind().as_str(), object.meta().key);
        let hosts = step(&mut translator, &mut objects, object, applied);
        assert_eq!(owner(&translator), format!("/* {expected}/a/http"), "{name}");
        assert_eq!(hosts, if touched { vec!["x.com"] } else { vec![] }, "{name}");
    }
}

#[test]
fn a_grant_has_a_status_and_problems() {
    let mut objects = objects(&[host_grant("bad").host("a_b.com").name("shop").into(), shop().into()]);
    let mut translator = Translator::default();
    translator.update(&objects, &Settings::default(), &ChangedInputs::everything());
    assert_eq!(accepted_of(&translator, Kind::HOST_GRANT, "", "bad"), "False HostGrantNotValid");
    assert_eq!(accepted_of(&translator, Kind::HOST_GRANT, "", "shop"), "True Accepted");
    assert_eq!(text(&translator), ["HostGrant bad: spec.hosts[0]: host \"a_b.com\" is not a DNS name; covers no host"]);
    let id = ObjectId::new(Kind::HOST_GRANT, "", "bad");
    assert!(translator.serves(&id) && translator.sources().any(|source| source == id));
    step(&mut translator, &mut objects, host_grant("bad"), false);
    assert!(!translator.serves(&id) && translator.problems().is_empty() && !translator.verdicts().contains_key(&id));
}
