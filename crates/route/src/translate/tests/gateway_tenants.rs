//! Gateway API and tenants: attempts of the author of a route or a Gateway to take resources of other namespaces.

use super::gateway::{conditions, translated, world_of};
use crate::model::{Host, ListenerId};
use crate::objects::gateway::{
    GrpcMatch, GrpcMethod, GrpcRoute, GrpcRouteSpec, GrpcRule, HttpBackendRef, HttpFilter, MirrorFilter, ParentRef,
};
use crate::objects::{Kind, Meta, Namespace, Object, ObjectId, Objects};
use crate::settings::Settings;
use crate::testing::gateway::*;
use crate::testing::objects::{class, ingress, meta, routes, secret, service};
use crate::translate::problem::Reason;
use crate::translate::verdict::Status;
use crate::translate::{ChangedInputs, Input, Translator, host};

/// A Gateway of the namespace `infra`, to whose listener `http` every namespace may attach routes.
fn shared() -> [Object; 2] {
    let shared = gateway("infra/shared").listener("http", 80, "HTTP").routes_from("All");
    [shared.into(), gateway_service("infra/shared", &[(80, 10_000)])]
}

/// A route for `x.test` on the shared Gateway. The age is its rank among all routes.
fn route(name: &str, age: i64) -> HttpRouteBuilder {
    http_route(name).created(age).parent("infra/shared").host("x.test")
}

/// The shared Gateway, the Services `victim/v` and `evil/e`, and these objects.
fn world(list: impl IntoIterator<Item = Object>) -> Objects {
    let services = ["victim/v", "evil/e", "third/t"].map(|name| service(name).port("http", 80).into());
    world_of(shared().into_iter().chain(services).chain(list))
}

/// Returns the routes of `x.test`, or of another host of the shared Gateway.
fn served(translator: &Translator, name: &str) -> Vec<String> {
    let plain = translator.model().plain("gateway/infra/shared/80").unwrap();
    plain.hosts.get(&host::parse(name).unwrap()).map(routes).unwrap_or_default()
}

fn of_x(list: impl IntoIterator<Item = Object>) -> Vec<String> {
    served(&translated(&world(list)), "x.test")
}

/// Returns the status and the reason of a condition of a route for its first parent.
fn condition(translator: &Translator, name: &str, condition: &str) -> (Status, &'static str) {
    let (namespace, name) = name.split_once('/').unwrap();
    let verdicts = &translator.verdicts()[&ObjectId::new(Kind::HTTP_ROUTE, namespace, name)];
    let one = verdicts.iter().find(|one| one.condition == condition).unwrap();
    (one.status, one.reason)
}

/// Applies a changed object, and translates the change.
fn apply(translator: &mut Translator, objects: &mut Objects, object: Object) {
    change(translator, objects, &object.id(), Some(object.clone()));
}

/// Deletes an object, and translates the change.
fn delete(translator: &mut Translator, objects: &mut Objects, id: &ObjectId) {
    change(translator, objects, id, None);
}

fn change(translator: &mut Translator, objects: &mut Objects, id: &ObjectId, now: Option<Object>) {
    let before = Input::of_object(objects, id.kind, &id.key);
    match now {
        Some(object) => drop(objects.apply(object)),
        None => drop(objects.delete(id.kind, &id.key)),
    }
    let after = Input::of_object(objects, id.kind, &id.key);
    let mut changed = ChangedInputs::default();
    before.into_iter().chain(after).for_each(|input| changed.insert(input));
    translator.update(objects, &Settings::default(), &changed);
}

#[test]
fn a_regular_expression_takes_no_requests_from_prefixes_of_another_namespace() {
    let victim = || route("victim/old", 1).rule("/", "victim/v:80").rule("/api", "victim/v:80");
    let evil = |text: &str| route("evil/young", 2).rule("", "evil/e:80").path("RegularExpression", text);
    for text in ["/.*", ".*", "/api(/.*)?", "/(api|x).*", "/[a-z]+/.*", "/(?i)api/.*"] {
        let regex = format!("~ {text} evil/e/http");
        let routes = of_x([victim().into(), evil(text).into()]);
        let before: Vec<&str> = routes.iter().take_while(|route| **route != regex).map(String::as_str).collect();
        assert!(before.contains(&"/api/ victim/v/http"), "{text}: {routes:?}");
        let takes_all = !text.starts_with("/api");
        assert_eq!(before.contains(&"/* victim/v/http"), takes_all, "{text}: {routes:?}");
    }
    // Without `victim`, `evil` is the first namespace.
    assert_eq!(of_x([evil("/.*").rule("/", "evil/e:80").into()]), ["~ /.* evil/e/http", "/* evil/e/http"]);
}

#[test]
fn a_regular_expression_of_another_namespace_ranks_like_the_prefix_of_its_elements() {
    let first =
        route("victim/old", 1).rule("/", "victim/v:80").rule("", "victim/v:80").path("RegularExpression", "/v.*");
    let evil = route("evil/young", 2).rule("/api", "evil/e:80").rule("/api/x", "evil/e:80");
    let evil = evil.rule("", "evil/e:80").path("RegularExpression", "/api/v[0-9]+/.*");
    let exact = route("evil/exact", 3).rule("", "evil/e:80").path("Exact", "/v1");
    let third = || route("third/young", 4).rule("/api", "third/t:80").header("x-a", "1");
    let (first, evil, exact): (Object, Object, Object) = (first.into(), evil.into(), exact.into());
    let own = of_x([first.clone(), evil.clone(), exact.clone()]);
    let expected = [
        "= /v1 evil/e/http",
        "~ /v.* victim/v/http",
        "/api/x/ evil/e/http",
        "~ /api/v[0-9]+/.* evil/e/http",
        "/api/ evil/e/http",
        "/* victim/v/http",
    ];
    assert_eq!(own, expected);
    let contested = of_x([first, evil, exact, third().into()]);
    assert_eq!(contested[3..6], ["/api/ third/t/http", "/api/ evil/e/http", "~ /api/v[0-9]+/.* evil/e/http"]);
}

#[test]
fn the_first_namespace_uses_the_budget_of_regular_expressions_first() {
    let limit = Settings::default().regexes.max_per_host;
    let regexes = |mut start: HttpRouteBuilder, place: &str, to: &str| -> Object {
        for index in 0..limit {
            start = start.rule("", to).path("RegularExpression", &format!("/{place}{index}/.*"));
        }
        start.into()
    };
    let objects = world([
        route("victim/oldest", 1).rule("/", "victim/v:80").into(),
        regexes(route("evil/older", 2), "e", "evil/e:80"),
        regexes(route("victim/younger", 3), "v", "victim/v:80"),
    ]);
    let translator = translated(&objects);
    let routes = served(&translator, "x.test");
    assert_eq!(routes.len(), limit as usize + 1, "{routes:?}");
    assert!(routes.iter().all(|route| route.ends_with("victim/v/http")), "{routes:?}");
    let problems = translator.problems();
    let refused = problems.iter().filter(|problem| problem.reason == Reason::RegexTooExpensive);
    assert!(refused.clone().all(|problem| &*problem.object.namespace == "evil"), "{problems:?}");
    assert!(refused.count() > 0);
    // The status of the object of the owner reports it too.
    assert_eq!(condition(&translator, "evil/older", "PartiallyInvalid"), (Status::True, "UnsupportedValue"));
    let of_victim = &translator.verdicts()[&ObjectId::new(Kind::HTTP_ROUTE, "victim", "younger")];
    assert!(of_victim.iter().all(|verdict| verdict.condition != "PartiallyInvalid"), "{of_victim:?}");
}

#[test]
fn regular_expressions_of_all_places_have_a_budget() {
    const EXPENSIVE: &str = "/(a|b)*a(a|b){20}";
    let regex = |name: &str| crate::objects::gateway::NamedMatch {
        r#type: Some("RegularExpression".to_owned()),
        name: name.to_owned(),
        value: EXPENSIVE.to_owned(),
    };
    let plain = || route("evil/route", 1).rule("/", "evil/e:80");
    let of_http = [
        route("evil/route", 1).rule("", "evil/e:80").path("RegularExpression", EXPENSIVE),
        plain().change(|rule| rule.matches[0].headers.push(regex("x-a"))),
        plain().change(|rule| rule.matches[0].query_params.push(regex("a"))),
    ];
    let method = |service: bool| {
        let text = Some(EXPENSIVE.to_owned());
        let (service, method) = if service { (text, None) } else { (None, text) };
        let method = GrpcMethod { r#type: Some("RegularExpression".to_owned()), service, method };
        grpc_route("evil/route", GrpcMatch { method: Some(method), ..GrpcMatch::default() })
    };
    let of_grpc = [method(true), method(false)];
    for object in of_http.into_iter().map(Object::from).chain(of_grpc) {
        let translator = translated(&world([object]));
        let reasons: Vec<Reason> = translator.problems().iter().map(|problem| problem.reason).collect();
        assert_eq!(reasons, [Reason::RegexTooExpensive]);
        assert_eq!(served(&translator, "x.test"), ["/* 404"]);
    }
}

/// Returns a GRPCRoute for `x.test` with one match.
fn grpc_route(name: &str, one: GrpcMatch) -> Object {
    let backend = HttpBackendRef { backend: backend_ref("evil/e:80"), ..HttpBackendRef::default() };
    let rule = GrpcRule { matches: vec![one], backend_refs: vec![backend], ..GrpcRule::default() };
    let parent = ParentRef { namespace: Some("infra".into()), name: "shared".into(), ..ParentRef::default() };
    let spec = GrpcRouteSpec { parent_refs: vec![parent], hostnames: vec!["x.test".into()], rules: vec![rule] };
    Object::new(GrpcRoute { meta: meta(name), spec, status: Default::default(), version: "".into() })
}

#[test]
fn a_method_of_any_service_precedes_only_routes_without_either() {
    let method = |service: Option<&str>, method: Option<&str>| {
        let text = |text: Option<&str>| text.map(str::to_owned);
        let method = GrpcMethod { service: text(service), method: text(method), ..GrpcMethod::default() };
        GrpcMatch { method: Some(method), ..GrpcMatch::default() }
    };
    let all = [
        route("evil/all", 1).rule("/", "evil/e:80").into(),
        grpc_route("evil/method", method(None, Some("C"))),
        grpc_route("evil/service", method(Some("a.B"), None)),
    ];
    let paths = of_x(all);
    let paths: Vec<&str> = paths.iter().filter_map(|route| route.rsplit_once(' ')).map(|(path, _)| path).collect();
    assert_eq!(paths, ["/a.B/", "~ /[^/]+/C", "/*"]);
}

#[test]
fn the_older_of_equal_matches_of_two_namespaces_is_served() {
    let victim = || route("victim/a", 1).rule("/", "victim/v:80");
    let evil = || route("evil/a", 2).rule("/", "evil/e:80");
    assert_eq!(of_x([victim().into(), evil().into()]), ["/* victim/v/http"]);
    let older = victim().created(3);
    assert_eq!(of_x([older.into(), evil().into()]), ["/* evil/e/http"]);
    let same = [victim().created(2).into(), evil().into()];
    assert_eq!(of_x(same), ["/* evil/e/http"], "of the same age, the lower name");
}

#[test]
fn a_route_that_is_being_deleted_loses_to_all_others() {
    let gone = route("evil/a", 1).rule("/", "evil/e:80").terminating();
    let victim = || route("victim/a", 2).rule("/", "victim/v:80");
    assert_eq!(of_x([gone.into(), victim().into()]), ["/* victim/v/http"]);
    let meta = Meta { terminating: true, key: crate::objects::ObjectKey::new("", "evil"), ..meta("evil") };
    let namespace = Object::new(Namespace { meta, labels: Default::default() });
    let held = route("evil/a", 1).rule("/", "evil/e:80");
    assert_eq!(of_x([held.into(), victim().into(), namespace]), ["/* victim/v/http"]);
}

#[test]
fn more_specific_matches_of_another_namespace_precede_as_specified() {
    let victim = route("victim/a", 1).rule("/", "victim/v:80").rule("/pay", "victim/v:80");
    let evil = route("evil/a", 2).rule("/pay/now", "evil/e:80").rule("", "evil/e:80").path("Exact", "/pay");
    let evil = evil.rule("/pay", "evil/e:80").method("POST").rule("/", "evil/e:80").header("x-a", "1");
    assert_eq!(
        of_x([victim.into(), evil.into()]),
        [
            "= /pay evil/e/http",
            "/pay/now/ evil/e/http",
            "/pay/ evil/e/http",
            "/pay/ victim/v/http",
            "/* evil/e/http",
            "/* victim/v/http",
        ]
    );
    let wildcard = http_route("victim/wild").parent("infra/shared").host("*.test").rule("/", "victim/v:80");
    let below = http_route("evil/below").created(9).parent("infra/shared").host("y.test").rule("/", "evil/e:80");
    let translator = translated(&world([wildcard.into(), below.into()]));
    assert_eq!(served(&translator, "y.test"), ["/* evil/e/http"]);
    assert_eq!(served(&translator, "*.test"), ["/* victim/v/http"]);
}

#[test]
fn a_listener_decides_which_namespaces_and_kinds_attach() {
    let attached = |change: fn(GatewayBuilder) -> GatewayBuilder, namespace: &str| {
        let gateway = change(gateway("infra/shared").listener("http", 80, "HTTP"));
        let route = http_route(&format!("{namespace}/r")).parent("infra/shared").host("x.test").rule("/", "a:80");
        let objects = world_of([gateway.into(), gateway_service("infra/shared", &[(80, 10_000)]), route.into()]);
        let translator = translated(&objects);
        let accepted = condition(&translator, &format!("{namespace}/r"), "Accepted");
        assert_eq!(accepted.0 == Status::True, !served(&translator, "x.test").is_empty());
        assert!(accepted.0 == Status::True || accepted.1 == "NotAllowedByListeners", "{accepted:?}");
        accepted.0 == Status::True
    };
    type Change = fn(GatewayBuilder) -> GatewayBuilder;
    let cases: [(Change, bool, bool); 6] = [
        (|one| one, true, false),
        (|one| one.routes_from("Same"), true, false),
        (|one| one.routes_from("All"), true, true),
        (|one| one.routes_from("None"), false, false),
        (|one| one.routes_from_labels(&[("team", "front")]), false, false),
        (|one| one.routes_from("All").route_kind("GRPCRoute"), false, false),
    ];
    for (index, (change, own, other)) in cases.into_iter().enumerate() {
        assert_eq!((attached(change, "infra"), attached(change, "evil")), (own, other), "case {index}");
    }
}

#[test]
fn a_namespace_that_loses_its_label_loses_its_routes() {
    let shared = gateway("infra/shared").listener("http", 80, "HTTP").routes_from_labels(&[("team", "front")]);
    let with = |labels: &[(&str, &str)]| labeled_namespace("evil", labels);
    let mut objects =
        world([shared.into(), route("evil/a", 1).rule("/", "evil/e:80").into(), with(&[("team", "front")])]);
    let mut translator = translated(&objects);
    assert_eq!(served(&translator, "x.test"), ["/* evil/e/http"]);
    apply(&mut translator, &mut objects, with(&[("team", "back")]));
    assert_eq!(served(&translator, "x.test"), [""; 0]);
    assert_eq!(condition(&translator, "evil/a", "Accepted"), (Status::False, "NotAllowedByListeners"));
    apply(&mut translator, &mut objects, with(&[("team", "front")]));
    assert_eq!(served(&translator, "x.test"), ["/* evil/e/http"]);
}

#[test]
fn a_host_outside_of_the_listener_is_not_served() {
    let shared = gateway("infra/shared").listener("http", 80, "HTTP").hostname("*.shop.test").routes_from("All");
    let route = http_route("evil/a").parent("infra/shared").rule("/", "evil/e:80");
    let route = route.host("bank.test").host("shop.test").host("*.test").host("a.shop.test");
    let translator = translated(&world([shared.into(), route.into()]));
    let plain = translator.model().plain("gateway/infra/shared/80").unwrap();
    let hosts: Vec<String> = plain.hosts.keys().map(ToString::to_string).collect();
    assert_eq!(hosts, ["a.shop.test", "*.shop.test"], "`*.test` is reduced to the names of the listener");
    assert_eq!(served(&translator, "*.shop.test"), ["/* evil/e/http"]);
}

#[test]
fn a_service_of_another_namespace_needs_a_grant_for_requests_and_for_copies() {
    let mirror = HttpFilter {
        r#type: "RequestMirror".to_owned(),
        request_mirror: Some(MirrorFilter { backend_ref: backend_ref("victim/v:80"), ..MirrorFilter::default() }),
        ..HttpFilter::default()
    };
    let grant = reference_grant("victim/grant").from("HTTPRoute", "evil").to("Service", "");
    let direct = route("evil/direct", 1).rule("/direct", "victim/v:80");
    let copies = route("evil/copies", 2).rule("/copies", "evil/e:80").filter(mirror);
    let mut objects = world([direct.into(), copies.into(), grant.into()]);
    let mut translator = translated(&objects);
    let uses_victim =
        |translator: &Translator| translator.model().clusters.keys().any(|id| id.to_string() == "victim/v/http");
    assert_eq!(served(&translator, "x.test"), ["/direct/ victim/v/http", "/copies/ evil/e/http"]);
    delete(&mut translator, &mut objects, &ObjectId::new(Kind::REFERENCE_GRANT, "victim", "grant"));
    assert_eq!(served(&translator, "x.test"), ["/direct/ 500", "/copies/ evil/e/http"]);
    assert!(!uses_victim(&translator), "no copies either");
    for name in ["evil/direct", "evil/copies"] {
        assert_eq!(condition(&translator, name, "ResolvedRefs"), (Status::False, "RefNotPermitted"));
    }
}

#[test]
fn a_backend_with_an_unknown_filter_gets_no_requests() {
    let unknown = HttpFilter { r#type: "ExtensionRef".to_owned(), ..HttpFilter::default() };
    let guarded =
        route("victim/a", 1).rule("/", "victim/v:80").change(|rule| rule.backend_refs[0].filters.push(unknown));
    let translator = translated(&world([guarded.clone().into()]));
    assert_eq!(served(&translator, "x.test"), ["/* 500"]);
    assert_eq!(condition(&translator, "victim/a", "PartiallyInvalid"), (Status::True, "UnsupportedValue"));
    let half = guarded.backend("victim/v:80");
    assert_eq!(of_x([half.into()]), ["/* victim/v/http", "/* 500"]);
}

#[test]
fn a_certificate_of_another_namespace_needs_a_grant() {
    let public = gateway("public").listener("https", 443, "HTTPS").certificate("victim/good");
    let grant = reference_grant("victim/grant").from("Gateway", "shop").to("Secret", "good");
    let pair = secret("victim/good", &["x.test"]);
    let service = gateway_service("public", &[(443, 10_001)]);
    let mut objects = world([public.into(), service, pair.into(), grant.into()]);
    let mut translator = translated(&objects);
    assert_eq!(translator.model().secrets.len(), 1);
    delete(&mut translator, &mut objects, &ObjectId::new(Kind::REFERENCE_GRANT, "victim", "grant"));
    assert!(translator.model().secrets.is_empty() && translator.model().tls("gateway/shop/public/443").is_none());
    let found = conditions(&translator, Kind::GATEWAY, "public");
    assert!(found.contains(&"https: ResolvedRefs=False RefNotPermitted".to_owned()), "{found:?}");
}

#[test]
fn a_gateway_serves_hosts_only_on_its_own_listeners() {
    let victim = ingress("victim/site").host("x.test").path("Prefix", "/", "v:80");
    let on_shared = route("victim/a", 1).rule("/", "victim/v:80");
    let evil = gateway("evil/gate").listener("http", 80, "HTTP");
    let own = http_route("evil/a").created(0).parent("evil/gate").host("x.test").rule("/", "evil/e:80");
    let translator = translated(&world([
        class("ours").into(),
        victim.into(),
        on_shared.into(),
        evil.into(),
        gateway_service("evil/gate", &[(80, 10_001)]),
        own.into(),
    ]));
    assert_eq!(served(&translator, "x.test"), ["/* victim/v/http"]);
    let on = |listener: &str| {
        let plain = translator.model().plain(listener).unwrap();
        plain.hosts.get(&Host::Exact("x.test".into())).map(routes).unwrap_or_default()
    };
    assert_eq!(on(ListenerId::HTTP), ["/* victim/v/http"]);
    assert_eq!(on("gateway/evil/gate/80"), ["/* evil/e/http"]);
}

#[test]
fn a_service_that_is_not_of_the_gateway_opens_no_port() {
    let gate = || Object::from(gateway("evil/gate").listener("http", 80, "HTTP"));
    let listens = |service: Object| {
        let translator = translated(&world([gate(), service]));
        translator.model().listeners.contains_key("gateway/evil/gate/80")
    };
    assert!(listens(gateway_service("evil/gate", &[(80, 10_001)])));
    // The labels of a Service of another Gateway, and a Service without labels.
    let of_other = gateway_service("evil/gate", &[(80, 10_001)]).with::<crate::objects::Service>(|service| {
        service.gateway.as_mut().unwrap().name = "other".into();
    });
    assert!(!listens(of_other));
    assert!(!listens(service("evil/gate-lockgate").port("tcp-80", 80).into()));
}

#[test]
fn an_older_gateway_does_not_take_a_port_of_the_home_of_another() {
    let aged = |name: &str, uid: &str, age: i64| {
        let gateway = Object::from(gateway(name).created(age).listener("http", 80, "HTTP"));
        gateway.with::<crate::objects::gateway::Gateway>(|gateway| gateway.meta.uid = uid.into())
    };
    let port = crate::translate::gateway::home("victim");
    let (old, victim) = (aged("evil/old", "old", 1), aged("victim/young", "victim", 2));
    let mut objects = world([
        old,
        victim.clone(),
        gateway_service("evil/old", &[(80, port)]),
        gateway_service("victim/young", &[(80, port)]),
    ]);
    let mut translator = translated(&objects);
    let owners = |translator: &Translator| {
        ["gateway/victim/young/80", "gateway/evil/old/80"].map(|id| translator.model().listeners.contains_key(id))
    };
    assert_eq!(owners(&translator), [true, false]);
    let verdicts = translator.verdicts()[&ObjectId::new(Kind::GATEWAY, "evil", "old")].clone();
    assert!(verdicts.iter().any(|one| one.reason == "PortUnavailable" && one.status == Status::False), "{verdicts:?}");
    let revision = |translator: &Translator| translator.revision(&ObjectId::new(Kind::GATEWAY, "evil", "old")).unwrap();
    let before = revision(&translator);
    delete(&mut translator, &mut objects, &victim.id());
    assert_eq!(owners(&translator), [false, true], "nobody else asks for it");
    assert_ne!(revision(&translator), before, "Envoys have not accepted the listener yet");
    apply(&mut translator, &mut objects, victim);
    assert_eq!(owners(&translator), [true, false]);
}

#[test]
fn a_gateway_in_a_terminating_namespace_loses_its_port() {
    let aged = |name: &str, age: i64| Object::from(gateway(name).created(age).listener("http", 80, "HTTP"));
    let services = ["evil/old", "victim/young"].map(|name| gateway_service(name, &[(80, 10_500)]));
    let mut objects = world(
        [aged("evil/old", 1), aged("victim/young", 2), labeled_namespace("evil", &[])].into_iter().chain(services),
    );
    let mut translator = translated(&objects);
    let owners = |translator: &Translator| {
        ["gateway/evil/old/80", "gateway/victim/young/80"].map(|id| translator.model().listeners.contains_key(id))
    };
    assert_eq!(owners(&translator), [true, false]);
    let deleted = labeled_namespace("evil", &[]).with::<Namespace>(|namespace| namespace.meta.terminating = true);
    apply(&mut translator, &mut objects, deleted);
    assert_eq!(owners(&translator), owners(&translated(&objects)), "as from scratch");
    assert_eq!(owners(&translator), [false, true]);
}
