//! Gateways and HTTPRoutes: attachment, hosts, order of routes, references, conditions.

use crate::model::{Action, Host, ListenerId, Traffic, UpstreamProtocol};
use crate::objects::gateway::{
    GrpcMatch, GrpcMethod, GrpcRoute, GrpcRouteSpec, GrpcRule, HttpBackendRef, HttpFilter, ParentRef,
};
use crate::objects::{Kind, Object, ObjectId, Objects};
use crate::settings::Settings;
use crate::testing::gateway::*;
use crate::testing::objects::{meta, objects, routes, secret, service};
use crate::translate::gateway::GatewayReport;
use crate::translate::verdict::Status;
use crate::translate::{ChangedInputs, Translator, host};

/// The GatewayClass, the Services `a`, `b`, and `c` with port 80, and `list`.
pub fn world_of(list: impl IntoIterator<Item = Object>) -> Objects {
    let services = ["a", "b", "c"].map(|name| service(name).port("http", 80).into());
    let all: Vec<Object> = [gateway_class("lockgate").into()].into_iter().chain(services).chain(list).collect();
    objects(&all)
}

pub fn translated(objects: &Objects) -> Translator {
    let mut translator = Translator::default();
    translator.update(objects, &Settings::default(), &ChangedInputs::everything());
    translator
}

/// Returns the routes of a host on port 80 of the Gateway `shop/public`.
fn of_host(translator: &Translator, name: &str) -> Vec<String> {
    let host = if name == "*" { Host::Any } else { host::parse(name).unwrap() };
    let plain = translator.model().plain("gateway/shop/public/80").unwrap();
    plain.hosts.get(&host).map(routes).unwrap_or_default()
}

/// Returns the conditions of an object that hold or do not hold unexpectedly: `listener or parent: condition=status reason`.
pub fn conditions(translator: &Translator, kind: Kind, name: &str) -> Vec<String> {
    let verdicts = translator.verdicts().get(&ObjectId::new(kind, "shop", name)).cloned().unwrap_or_default();
    let text = |verdict: &crate::translate::Verdict| {
        let place = verdict.listener.as_deref().map(str::to_owned).or(verdict.parent.map(|parent| parent.to_string()));
        let place = place.map(|place| format!("{place}: ")).unwrap_or_default();
        format!("{place}{}={} {}", verdict.condition, verdict.status.as_str(), verdict.reason)
    };
    verdicts.iter().map(text).collect()
}

fn public() -> [Object; 2] {
    [gateway("public").listener("http", 80, "HTTP").into(), gateway_service("public", &[(80, 10_000)])]
}

pub fn report(translator: &Translator) -> &GatewayReport {
    translator.gateways().values().next().unwrap()
}

#[test]
fn a_gateway_listens_on_the_target_port_of_its_service() {
    let [one, of_gateway] = public();
    let unbound = translated(&world_of([one.clone()]));
    assert!(!unbound.model().listeners.keys().any(|id| id.as_str().starts_with("gateway")));
    assert_eq!(report(&unbound).ports.len(), 1);
    assert!(!report(&unbound).listeners[0].serves);
    let bound = translated(&world_of([one.clone(), of_gateway]));
    assert_eq!(bound.model().listeners["gateway/shop/public/80"].bind.port, 10_000);
    assert!(report(&bound).listeners[0].serves);
    let mut of_operator = world_of([one]);
    of_operator.from_operator = true;
    assert_eq!(translated(&of_operator).model().listeners["gateway/shop/public/80"].bind.port, 80);
}

#[test]
fn the_ports_on_which_envoy_listens_belong_to_the_revision_of_a_gateway() {
    let revision = |target: Option<u16>| {
        let service = target.map(|target| gateway_service("public", &[(80, target)]));
        let translator = translated(&world_of([public()[0].clone()].into_iter().chain(service)));
        translator.revision(&ObjectId::new(Kind::GATEWAY, "shop", "public")).unwrap()
    };
    assert_eq!(revision(Some(10_000)), revision(Some(10_000)));
    assert_ne!(revision(Some(10_000)), revision(Some(10_001)));
    assert_ne!(revision(Some(10_000)), revision(None));
}

#[test]
fn a_gateway_of_another_controller_is_ignored() {
    let route = http_route("cart").parent("public").rule("/", "a:80");
    let foreign = gateway_class("lockgate").controller("example.com/other");
    let world = world_of(public().into_iter().chain([route.into(), foreign.into()]));
    let translator = translated(&world);
    assert!(translator.gateways().is_empty() && translator.verdicts().is_empty());
    assert!(!translator.sources().any(|id| id.kind != Kind::INGRESS));
}

#[test]
fn routes_are_tried_in_the_order_of_the_specification() {
    let old = http_route("old").created(1).parent("public").host("x.test");
    let old = old.rule("/", "a:80").rule("/foo", "a:80").path("Exact", "/foo").rule("/foo", "b:80").method("GET");
    let young = http_route("young").created(2).parent("public").host("x.test");
    let young = young.rule("/foo", "c:80").rule("/foo", "c:80").header("x-a", "1").rule("/foo/bar", "c:80");
    let translator = translated(&world_of(public().into_iter().chain([young.into(), old.into()])));
    assert_eq!(
        of_host(&translator, "x.test"),
        [
            "= /foo shop/a/http",
            "/foo/bar/ shop/c/http",
            "/foo/ shop/b/http",
            "/foo/ shop/c/http",
            "/foo/ shop/a/http",
            "/* shop/a/http",
        ]
    );
    assert_eq!(
        conditions(&translator, Kind::HTTP_ROUTE, "young"),
        ["0: Accepted=True Accepted", "0: ResolvedRefs=True ResolvedRefs"]
    );
}

#[test]
fn the_most_specific_listener_serves_a_host() {
    let public = gateway("public").listener("any", 80, "HTTP").listener("wild", 80, "HTTP").hostname("*.test");
    let public = public.listener("one", 80, "HTTP").hostname("one.test");
    let of_any = http_route("any").parent("public").section("any").host("one.test").host("a.test").host("a.other");
    let of_wild = http_route("wild").parent("public").section("wild").rule("/", "b:80");
    let objects =
        [public.into(), gateway_service("public", &[(80, 10_000)]), of_any.rule("/", "a:80").into(), of_wild.into()];
    let translator = translated(&world_of(objects));
    assert_eq!(of_host(&translator, "a.other"), ["/* shop/a/http"]);
    assert_eq!(of_host(&translator, "a.test"), [""; 0], "the listener for *.test serves it");
    assert_eq!(of_host(&translator, "*.test"), ["/* shop/b/http"]);
    assert_eq!(of_host(&translator, "one.test"), ["/* 404"], "its listener has no route");
    assert_eq!(of_host(&translator, "*"), ["/* 404"]);
}

#[test]
fn a_route_that_is_not_attached_reports_the_reason() {
    let wanted = [
        ("section", "NoMatchingParent"),
        ("port", "NoMatchingParent"),
        ("other/namespace", "NotAllowedByListeners"),
        ("hostname", "NoMatchingListenerHostname"),
    ];
    let public = gateway("public").listener("http", 80, "HTTP").hostname("*.test");
    let routes = wanted.map(|(name, _)| {
        let route = http_route(name).parent("shop/public").rule("/", "a:80");
        Object::from(match name {
            "section" => route.section("https"),
            "port" => route.parent_port(81),
            "hostname" => route.host("a.other"),
            _ => route.host("a.test"),
        })
    });
    let world = world_of([public.into(), gateway_service("public", &[(80, 10_000)])].into_iter().chain(routes));
    let translator = translated(&world);
    for (name, reason) in wanted {
        let (namespace, name) = name.split_once('/').unwrap_or(("shop", name));
        let verdicts = &translator.verdicts()[&ObjectId::new(Kind::HTTP_ROUTE, namespace, name)];
        let accepted = verdicts.iter().find(|verdict| verdict.condition == "Accepted").unwrap();
        assert_eq!((accepted.status, accepted.reason), (Status::False, reason), "{name}");
    }
    assert_eq!(report(&translator).listeners[0].attached_routes, 0);
    assert_eq!(of_host(&translator, "*.test"), ["/* 404"]);
}

#[test]
fn namespaces_are_allowed_by_their_labels() {
    let labels = [("team", "front")];
    let public = gateway("public").listener("http", 80, "HTTP").routes_from_labels(&labels);
    let route = http_route("front/cart").parent("shop/public").host("x.test").rule("/", "a:80");
    let objects = [public.into(), gateway_service("public", &[(80, 10_000)]), route.into()];
    let with = |labels: &[(&str, &str)]| {
        translated(&world_of(objects.clone().into_iter().chain([labeled_namespace("front", labels)])))
    };
    assert_eq!(of_host(&with(&labels), "x.test"), ["/* 500"], "its Service does not exist");
    assert_eq!(of_host(&with(&[]), "x.test"), [""; 0]);
}

#[test]
fn no_route_leads_to_the_service_of_a_gateway() {
    let route = http_route("cart").parent("public").host("x.test").rule("/", "public-lockgate:80");
    let denied = translated(&world_of(public().into_iter().chain([route.into()])));
    assert_eq!(of_host(&denied, "x.test"), ["/* 500"]);
    assert_eq!(conditions(&denied, Kind::HTTP_ROUTE, "cart")[1], "0: ResolvedRefs=False RefNotPermitted");
}

#[test]
fn a_reference_across_namespaces_needs_a_grant() {
    let route = http_route("cart").parent("public").host("x.test").rule("/", "other/d:80");
    let there: Object = service("other/d").port("http", 80).into();
    let world = |grant: Option<ReferenceGrantBuilder>| {
        let grant = grant.map(Object::from);
        translated(&world_of(public().into_iter().chain([route.clone().into(), there.clone()]).chain(grant)))
    };
    let denied = world(None);
    assert_eq!(of_host(&denied, "x.test"), ["/* 500"]);
    assert_eq!(conditions(&denied, Kind::HTTP_ROUTE, "cart")[1], "0: ResolvedRefs=False RefNotPermitted");
    let grant = || reference_grant("other/grant").from("HTTPRoute", "shop");
    for permitting in [grant().to("Service", ""), grant().to("Service", "d")] {
        assert_eq!(of_host(&world(Some(permitting)), "x.test"), ["/* other/d/http"]);
    }
    let useless = [
        grant().to("Service", "e"),
        grant().to("Secret", ""),
        reference_grant("other/grant").from("HTTPRoute", "third").to("Service", ""),
        reference_grant("other/grant").from("Gateway", "shop").to("Service", ""),
        reference_grant("shop/grant").from("HTTPRoute", "shop").to("Service", ""),
    ];
    for useless in useless {
        assert_eq!(of_host(&world(Some(useless)), "x.test"), ["/* 500"]);
    }
}

#[test]
fn invalid_backends_answer_500_for_their_share() {
    let route = http_route("cart").parent("public").host("x.test");
    let some = route.clone().rule("/", "a:80").weight(3).backend("gone:80").weight(1);
    let translator = translated(&world_of(public().into_iter().chain([some.into()])));
    assert_eq!(of_host(&translator, "x.test"), ["/* shop/a/http", "/* 500"]);
    let plain = translator.model().plain("gateway/shop/public/80").unwrap();
    let share = plain.hosts[&Host::Exact("x.test".into())].routes[0].matches.conditions().unwrap().share.unwrap();
    assert_eq!(share.millionths(), 750_000);
    assert_eq!(conditions(&translator, Kind::HTTP_ROUTE, "cart")[1], "0: ResolvedRefs=False BackendNotFound");
    for none in [route.clone().rule("/", ""), route.clone().rule("/", "a:80").weight(0), route.rule("/", "gone:80")] {
        let translator = translated(&world_of(public().into_iter().chain([none.into()])));
        assert_eq!(of_host(&translator, "x.test"), ["/* 500"]);
    }
}

#[test]
fn an_unknown_filter_fails_only_its_rule() {
    let unknown = HttpFilter { r#type: "ExtensionRef".to_owned(), ..HttpFilter::default() };
    let route =
        http_route("cart").parent("public").host("x.test").rule("/a", "a:80").filter(unknown).rule("/b", "b:80");
    let translator = translated(&world_of(public().into_iter().chain([route.into()])));
    assert_eq!(of_host(&translator, "x.test"), ["/a/ 500", "/b/ shop/b/http"]);
    assert!(
        conditions(&translator, Kind::HTTP_ROUTE, "cart").contains(&"0: PartiallyInvalid=True UnsupportedValue".into())
    );
}

#[test]
fn a_redirect_leads_to_the_port_of_the_listener() {
    use crate::objects::gateway::RedirectFilter;
    let redirect = HttpFilter {
        r#type: "RequestRedirect".to_owned(),
        request_redirect: Some(RedirectFilter { hostname: Some("y.test".into()), ..RedirectFilter::default() }),
        ..HttpFilter::default()
    };
    let public = gateway("public").listener("http", 80, "HTTP").listener("other", 8080, "HTTP");
    let route = http_route("cart").parent("public").host("x.test").rule("/", "").filter(redirect);
    let service = gateway_service("public", &[(80, 10_000), (8080, 10_001)]);
    let translator = translated(&world_of([public.into(), service, route.into()]));
    let port = |listener: &str| {
        let plain = translator.model().plain(listener).unwrap();
        match &plain.hosts[&Host::Exact("x.test".into())].routes[0].action {
            Action::Redirect(redirect) => redirect.port,
            _ => None,
        }
    };
    assert_eq!((port("gateway/shop/public/80"), port("gateway/shop/public/8080")), (None, Some(8080)));
}

#[test]
fn listeners_report_their_faults() {
    let public = gateway("public").listener("ok", 80, "HTTP").listener("again", 80, "HTTP");
    let public = public.listener("tls", 80, "HTTPS").certificate("good").listener("sctp", 81, "SCTP");
    let public = public.listener("bare", 443, "HTTPS").listener("gone", 444, "HTTPS").certificate("gone");
    let public = public
        .listener("foreign", 445, "HTTPS")
        .certificate("other/good")
        .listener("kind", 82, "HTTP")
        .route_kind("TCPRoute");
    let secrets = ["good", "other/good"].map(|name| Object::from(secret(name, &["x.test"])));
    let translator = translated(&world_of([public.into()].into_iter().chain(secrets)));
    let found = conditions(&translator, Kind::GATEWAY, "public");
    for expected in [
        "Accepted=True ListenersNotValid",
        "again: Conflicted=True HostnameConflict",
        "again: Accepted=False HostnameConflict",
        "tls: Conflicted=True ProtocolConflict",
        "sctp: Accepted=False UnsupportedProtocol",
        "bare: ResolvedRefs=False InvalidCertificateRef",
        "gone: ResolvedRefs=False InvalidCertificateRef",
        "foreign: ResolvedRefs=False RefNotPermitted",
        "kind: ResolvedRefs=False InvalidRouteKinds",
        "ok: Conflicted=False NoConflicts",
    ] {
        assert!(found.iter().any(|one| one == expected), "{expected}: {found:#?}");
    }
    assert_eq!(report(&translator).ports.iter().map(|(_, port)| *port).collect::<Vec<_>>(), [80, 82]);
}

#[test]
fn a_listener_of_a_gateway_has_separate_plain_hosts() {
    let route = http_route("cart").parent("public").host("x.test").rule("/", "a:80");
    let translator = translated(&world_of(public().into_iter().chain([route.into()])));
    let listeners = &translator.model().listeners;
    assert!(matches!(&listeners[ListenerId::HTTP].traffic, Traffic::Http(plain) if plain.hosts.is_empty()));
    assert!(translator.model().clusters.keys().any(|id| id.to_string() == "shop/a/http"));
    assert_eq!(report(&translator).listeners[0].attached_routes, 1);
    assert!(translator.problems().is_empty(), "{:?}", translator.problems());
}

#[test]
fn hosts_behind_tls_belong_to_the_most_specific_listener() {
    let public = gateway("public").listener("any", 443, "HTTPS").certificate("good");
    let public = public.listener("wild", 443, "HTTPS").hostname("*.test").certificate("good").certificate("other");
    let route = |name: &str, section: &str, host: &str| -> Object {
        http_route(name).parent("public").section(section).host(host).rule("/", "a:80").into()
    };
    let objects = [
        public.into(),
        gateway_service("public", &[(443, 10_000)]),
        secret("good", &["x.test"]).into(),
        secret("other", &["*.test"]).into(),
        route("one", "any", "a.other"),
        route("two", "any", "a.test"),
        route("three", "wild", "b.test"),
        route("four", "wild", "*.deep.test"),
    ];
    let translator = translated(&world_of(objects));
    let tls = translator.model().tls("gateway/shop/public/443").unwrap();
    let behind = |name: &str| {
        let name = if name == "*" { Host::Any } else { host::parse(name).unwrap() };
        tls.hosts[&name].virtual_hosts.keys().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(behind("*"), ["a.other"], "the listener for *.test serves a.test");
    assert_eq!(behind("*.test"), ["b.test", "*.deep.test"]);
    let secrets = |host: &Host| tls.hosts[host].secrets.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(secrets(&Host::Wildcard("test".into())), ["shop/good", "shop/other"]);
    assert_eq!(translator.model().secrets.len(), 2);
}

#[test]
fn the_methods_of_a_grpc_route_are_paths_over_http2() {
    let method = GrpcMethod { service: Some("a.B".into()), method: Some("C".into()), ..GrpcMethod::default() };
    let matches = vec![GrpcMatch { method: Some(method), ..GrpcMatch::default() }];
    let backend = |to: &str| HttpBackendRef { backend: backend_ref(to), ..HttpBackendRef::default() };
    let rule = GrpcRule { matches, backend_refs: vec![backend("a:80"), backend("d:80")], ..GrpcRule::default() };
    let route = |meta| {
        let parent_refs = vec![ParentRef { name: "public".into(), ..ParentRef::default() }];
        let spec = GrpcRouteSpec { parent_refs, hostnames: vec!["x.test".into()], rules: vec![rule] };
        Object::new(GrpcRoute { meta, spec, status: Default::default(), version: "".into() })
    };
    let of_http = http_route("cart").parent("public").host("x.test").rule("/", "b:80");
    let named = service("d").port("grpc", 80).app_protocol("kubernetes.io/h2c");
    let world = public().into_iter().chain([route(meta("cart")), of_http.into(), named.into()]);
    let translator = translated(&world_of(world));
    let routes = of_host(&translator, "x.test");
    assert_eq!(routes.len(), 2);
    assert!(routes[0].starts_with("= /a.B/C shop/a/http/") && routes[0].ends_with("+shop/d/grpc"), "{routes:?}");
    assert_eq!(routes[1], "/* shop/b/http");
    let protocols: Vec<_> = translator.model().clusters.values().map(|cluster| cluster.policy.protocol).collect();
    assert_eq!(protocols, [UpstreamProtocol::H2c, UpstreamProtocol::Http1, UpstreamProtocol::H2c]);
    assert_eq!(report(&translator).listeners[0].attached_routes, 2);
}

#[test]
fn a_service_cannot_take_a_port_of_another_gateway_or_listener() {
    let old = gateway("public").created(1).listener("http", 80, "HTTP");
    let young = gateway("other/evil").created(2).listener("http", 80, "HTTP");
    let world = |target: u16, old: Option<GatewayBuilder>| {
        let services = [gateway_service("public", &[(80, 10_000)]), gateway_service("other/evil", &[(80, target)])];
        translated(&world_of(services.into_iter().chain(old.map(Object::from)).chain([young.clone().into()])))
    };
    let listens = |translator: &Translator, id: &str| translator.model().listeners.contains_key(id);
    let (ours, theirs) = ("gateway/shop/public/80", "gateway/other/evil/80");
    let taken = world(10_000, Some(old.clone()));
    assert!(listens(&taken, ours) && !listens(&taken, theirs));
    let verdicts = &taken.verdicts()[&ObjectId::new(Kind::GATEWAY, "other", "evil")];
    assert!(verdicts.iter().any(|one| one.reason == "PortUnavailable" && one.status == Status::False), "{verdicts:?}");
    assert!(listens(&world(10_000, None), theirs), "nobody else asks for it");
    // The ports of the listeners for Ingresses, of statistics, and of other programs beside Envoy.
    for port in [8080, 8443, 9901, 80] {
        assert!(!listens(&world(port, None), theirs), "{port}");
    }
    let mut of_operator = world_of([gateway("public").listener("http", 8080, "HTTP").into()]);
    of_operator.from_operator = true;
    let reserved = translated(&of_operator);
    assert!(!listens(&reserved, "gateway/shop/public/8080"));
    assert!(
        conditions(&reserved, Kind::GATEWAY, "public").contains(&"http: Accepted=False PortUnavailable".to_owned())
    );
}
