//! Policies of Envoy Gateway: they close their targets and nothing else.

use super::gateway::{conditions, translated, world_of};
use crate::model::{Action, Host, PathMatch, Traffic};
use crate::objects::{Kind, Object, ObjectId, Objects};
use crate::settings::{RestrictingPolicies, Settings};
use crate::testing::foreign_policies::{foreign_policy, security_policy};
use crate::testing::gateway::*;
use crate::testing::objects::service;
use crate::translate::{ChangedInputs, Input, Reason, Translator};

/// The Gateway `shop/public` with the listeners `http` and `more`, and the HTTPRoutes `one` and `two` of the hosts `one.test` and
/// `two.test`. The route `two` has the label `team: front`, and each has the rules `all` and `admin`.
fn shop(more: impl IntoIterator<Item = Object>) -> Objects {
    let public: Object = gateway("public").listener("http", 80, "HTTP").listener("more", 81, "HTTP").into();
    let route = |name: &str| {
        let route = http_route(name).parent("public").host(&format!("{name}.test"));
        route.rule("/", "a:80").rule_name("all").rule("/admin", "a:80").rule_name("admin")
    };
    let two = route("two").label_of_object("team", "front");
    let base = [public, gateway_service("public", &[(80, 10_000), (81, 10_001)]), route("one").into(), two.into()];
    world_of(base.into_iter().chain(more))
}

/// Returns the closed paths, such as `80 one.test /`.
fn closed(translator: &Translator) -> Vec<String> {
    let mut closed = Vec::new();
    for (id, listener) in &translator.model().listeners {
        let Traffic::Http(plain) = &listener.traffic else { continue };
        let port = id.as_str().rsplit('/').next().unwrap_or_default();
        for (host, content) in &plain.hosts {
            let denied =
                |one: &&std::sync::Arc<crate::model::Route>| matches!(one.action, Action::Respond { status: 403, .. });
            for route in content.routes.iter().filter(denied) {
                let (PathMatch::SeparatedPrefix(path) | PathMatch::Prefix(path)) = &route.matches.path else {
                    continue;
                };
                closed.push(format!("{port} {host} {path}"));
            }
        }
    }
    closed.sort();
    closed
}

const EVERYTHING: [&str; 8] = [
    "80 one.test /",
    "80 one.test /admin",
    "80 two.test /",
    "80 two.test /admin",
    "81 one.test /",
    "81 one.test /admin",
    "81 two.test /",
    "81 two.test /admin",
];

fn with(word: &str) -> Vec<&'static str> {
    EVERYTHING.into_iter().filter(|one| one.split(' ').any(|part| part == word)).collect()
}

#[test]
fn a_policy_that_restricts_access_closes_its_targets_and_nothing_else() {
    let base = || security_policy("auth");
    let [gateway, route, grpc] = [Kind::GATEWAY, Kind::HTTP_ROUTE, Kind::GRPC_ROUTE];
    for (policy, expected) in [
        (base().target(route, "one", None), with("one.test")),
        (base().target(route, "one", Some("admin")), vec!["80 one.test /admin", "81 one.test /admin"]),
        (base().target(route, "one", Some("gone")), vec![]),
        (base().target(grpc, "one", None), vec![]),
        (base().target(gateway, "public", None), EVERYTHING.to_vec()),
        (base().target(gateway, "public", Some("more")), with("81")),
        (base().target(gateway, "public", Some("gone")), vec![]),
        (base().target(gateway, "other", None), vec![]),
        (base().select(route, &[("team", "front")]), with("two.test")),
        (base().select(route, &[("team", "back")]), vec![]),
        (base().select(route, &[]), EVERYTHING.to_vec()),
        (base().select(gateway, &[]), EVERYTHING.to_vec()),
        (base().select(gateway, &[("team", "front")]), vec![]),
        (security_policy("other/auth").target(route, "one", None).target(gateway, "public", None), vec![]),
        (security_policy("other/auth").select(route, &[]).select(gateway, &[]), vec![]),
    ] {
        let policy = Object::from(policy);
        let translator = translated(&shop([policy.clone()]));
        assert_eq!(closed(&translator), expected, "{policy:?}");
    }
}

#[test]
fn a_closed_route_names_the_policy_in_a_problem_and_a_condition() {
    let policy = security_policy("auth").target(Kind::HTTP_ROUTE, "one", None);
    let translator = translated(&shop([policy.into()]));
    let [problem] = &translator.problems().iter().map(ToString::to_string).collect::<Vec<_>>()[..] else {
        panic!("{:?}", translator.problems())
    };
    let expected = "HTTPRoute shop/one: SecurityPolicy \"shop/auth\" of Envoy Gateway restricts access and is not enforced; \
                    answered 403; protect the routes in another way and remove the policy, or see the settings \
                    gateway.restrictingPolicies and gateway.ignoredPolicies";
    assert_eq!(problem, expected);
    let found = conditions(&translator, Kind::HTTP_ROUTE, "one");
    assert!(found.contains(&"0: PartiallyInvalid=True UnsupportedValue".to_owned()), "{found:?}");
    assert!(!conditions(&translator, Kind::HTTP_ROUTE, "two").iter().any(|one| one.contains("PartiallyInvalid")));
}

#[test]
fn a_policy_of_a_gateway_closes_the_routes_of_all_namespaces() {
    let edge = gateway("edge/public").listener("http", 80, "HTTP").routes_from("All");
    let route = http_route("one").parent("edge/public").host("one.test").rule("/", "a:80");
    let of = |name: &str| -> Object { security_policy(name).target(Kind::GATEWAY, "public", None).into() };
    let base = [edge.into(), gateway_service("edge/public", &[(80, 10_000)]), route.into()];
    let translator = translated(&world_of(base.clone().into_iter().chain([of("edge/auth")])));
    assert_eq!(closed(&translator), ["80 one.test /"]);
    let problems: Vec<String> = translator.problems().iter().map(ToString::to_string).collect();
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(
        problems[0].starts_with("Gateway edge/public: SecurityPolicy \"edge/auth\" of Envoy Gateway restricts access")
    );
    assert!(
        problems[1].starts_with("HTTPRoute shop/one: spec.parentRefs[0]: SecurityPolicy \"edge/auth\""),
        "{problems:?}"
    );
    let translator = translated(&world_of(base.into_iter().chain([of("shop/auth")])));
    assert!(closed(&translator).is_empty() && translator.problems().is_empty());
}

#[test]
fn a_policy_without_restriction_leaves_the_traffic_and_is_reported() {
    for kind in [Kind::BACKEND_TRAFFIC_POLICY, Kind::CLIENT_TRAFFIC_POLICY, Kind::SECURITY_POLICY] {
        let policy = foreign_policy(kind, "tuning").target(Kind::HTTP_ROUTE, "one", None);
        let translator = translated(&shop([policy.target(Kind::GATEWAY, "public", Some("http")).into()]));
        assert!(closed(&translator).is_empty());
        let problems: Vec<String> = translator.problems().iter().map(ToString::to_string).collect();
        let name = kind.as_str();
        let expected = |object: &str, to: &str| {
            format!("{object}: {name} \"shop/tuning\" of Envoy Gateway is not applied{to}; served without the policy")
        };
        let [gateway, route] =
            [expected("Gateway shop/public", " to listener \"http\""), expected("HTTPRoute shop/one", "")];
        assert_eq!(problems, [gateway, route]);
        assert!(translator.problems().iter().all(|one| one.reason == Reason::UnsupportedPolicy));
    }
}

#[test]
fn the_settings_can_ignore_restrictions() {
    let policy = security_policy("auth").target(Kind::HTTP_ROUTE, "one", None).target(Kind::GATEWAY, "public", None);
    let mut settings = Settings::default();
    settings.gateway.restricting_policies = RestrictingPolicies::Ignore;
    let mut translator = Translator::default();
    translator.update(&shop([policy.into()]), &settings, &ChangedInputs::everything());
    assert!(closed(&translator).is_empty());
    let problems: Vec<String> = translator.problems().iter().map(ToString::to_string).collect();
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(
        problems.iter().all(|one| one.ends_with("because of the setting gateway.restrictingPolicies")),
        "{problems:?}"
    );
}

#[test]
fn the_settings_can_ignore_one_policy() {
    let of = |name: &str, route: &str| -> Object { security_policy(name).target(Kind::HTTP_ROUTE, route, None).into() };
    let mut settings = Settings::default();
    settings.gateway.ignored_policies =
        vec![("shop".to_owned(), "one".to_owned()), ("other".to_owned(), "two".to_owned())];
    let mut translator = Translator::default();
    translator.update(&shop([of("one", "one"), of("two", "two")]), &settings, &ChangedInputs::everything());
    assert_eq!(closed(&translator), with("two.test"));
    assert_eq!(translator.problems().len(), 1);
}

#[test]
fn a_policy_of_an_object_that_is_not_served_has_no_effect() {
    let policy = security_policy("auth").target(Kind::HTTP_ROUTE, "gone", None).target(Kind::GATEWAY, "theirs", None);
    let theirs: Object = gateway("theirs").class("else").listener("http", 80, "HTTP").into();
    let route: Object = http_route("theirs").parent("theirs").host("x.test").rule("/", "a:80").into();
    let policy = policy.target(Kind::HTTP_ROUTE, "theirs", None);
    let translator = translated(&shop([policy.into(), theirs, route]));
    assert!(closed(&translator).is_empty() && translator.problems().is_empty(), "{:?}", translator.problems());
}

#[test]
fn routes_without_http_are_closed() {
    let edge: Object = gateway("edge").listener("tcp", 90, "TCP").listener("udp", 91, "UDP").into();
    let of =
        |kind, port: &str| -> Object { stream_route(kind, "all").parent("edge").section(port).backend("a:80").into() };
    let services = with_udp_ports(gateway_service("edge", &[(90, 10_002)]), &[(91, 10_003)]);
    let base = [edge, services, of(Kind::TCP_ROUTE, "tcp")];
    let destinations = |policy: Option<Object>| -> Vec<usize> {
        let translator = translated(&world_of(base.clone().into_iter().chain(policy)));
        let traffic = translator.model().listeners.values().map(|listener| &listener.traffic);
        let to =
            traffic.filter_map(|traffic| if let Traffic::Tcp(to) = traffic { Some(to.clusters.len()) } else { None });
        to.collect()
    };
    assert_eq!(destinations(None), [1]);
    for target in [(Kind::TCP_ROUTE, "all", None), (Kind::GATEWAY, "edge", None), (Kind::GATEWAY, "edge", Some("tcp"))]
    {
        let (kind, name, section) = target;
        assert_eq!(destinations(Some(security_policy("auth").target(kind, name, section).into())), [0], "{target:?}");
    }
    assert_eq!(destinations(Some(security_policy("auth").target(Kind::GATEWAY, "edge", Some("udp")).into())), [1]);
}

#[test]
fn a_policy_of_a_listener_set_closes_its_listeners() {
    let edge: Object = gateway("edge").sets_from("Same").into();
    let set: Object = listener_set("more", "shop/edge").listener("http", 80, "HTTP").routes_from("All").into();
    let route: Object = http_route("one").parent_set("more").host("one.test").rule("/", "a:80").into();
    let base = [edge, set, route, gateway_service("edge", &[(80, 10_000)])];
    for (kind, name, section, expected) in [
        (Kind::LISTENER_SET, "more", None, 1),
        (Kind::LISTENER_SET, "more", Some("http"), 1),
        (Kind::LISTENER_SET, "more", Some("gone"), 0),
        (Kind::GATEWAY, "edge", None, 1),
        (Kind::GATEWAY, "edge", Some("http"), 0),
    ] {
        let policy: Object = security_policy("auth").target(kind, name, section).into();
        let translator = translated(&world_of(base.clone().into_iter().chain([policy])));
        assert_eq!(closed(&translator).len(), expected, "{kind:?} {section:?}");
    }
}

#[test]
fn a_change_touches_only_the_hosts_of_the_targets() {
    let routes = (0..50).map(|at| -> Object {
        http_route(&format!("r{at}")).parent("public").host(&format!("r{at}.test")).rule("/", "a:80").into()
    });
    let mut objects = shop(routes);
    let settings = Settings::default();
    let mut translator = Translator::default();
    translator.update(&objects, &settings, &ChangedInputs::everything());
    let mut apply = |object: Object| {
        let mut changed = ChangedInputs::default();
        let ObjectId { kind, key } = object.id();
        objects.apply(object);
        changed.insert(Input::new(kind, key));
        let update = translator.update(&objects, &settings, &changed);
        let count = |port: u16| update.touched.hosts_of(&format!("gateway/shop/public/{port}")).len();
        (update.sources.len(), count(80), count(81))
    };
    let of = |kind, name, section| -> Object { security_policy("auth").target(kind, name, section).into() };
    assert_eq!(apply(of(Kind::HTTP_ROUTE, "r7", None)), (1, 1, 1));
    assert_eq!(apply(of(Kind::HTTP_ROUTE, "r8", None)), (2, 2, 2), "the old and the new target");
    assert_eq!(apply(of(Kind::HTTP_ROUTE, "gone", None)), (1, 1, 1));
    assert_eq!(apply(of(Kind::HTTP_ROUTE, "gone", Some("x"))), (0, 0, 0));
    let (_, http, more) = apply(of(Kind::GATEWAY, "public", Some("more")));
    assert!(http == 0 && more >= 52, "{http} {more}");
    // The labels of the route change, and the policy stays.
    apply(security_policy("auth").select(Kind::HTTP_ROUTE, &[("team", "front")]).into());
    let route = http_route("r9").parent("public").host("r9.test").rule("/", "a:80").label_of_object("team", "front");
    assert_eq!(apply(route.into()), (1, 1, 1));
}

#[test]
fn many_policies_by_label_cannot_hide_a_restriction() {
    let policies = |count: usize| {
        (0..count).map(|at| -> Object {
            let policy = foreign_policy(Kind::BACKEND_TRAFFIC_POLICY, &format!("p{at:03}"));
            policy.select(Kind::HTTP_ROUTE, &[("other", "label")]).into()
        })
    };
    let last: Object = security_policy("zzz").select(Kind::HTTP_ROUTE, &[("team", "front")]).into();
    assert_eq!(closed(&translated(&shop(policies(40).chain([last.clone()])))), with("two.test"));
    assert_eq!(closed(&translated(&shop(policies(100).chain([last])))), EVERYTHING, "beyond the limit, all are closed");
}

#[test]
fn many_policies_by_name_cannot_hide_a_restriction() {
    let policy = |at: usize, section| -> Object {
        security_policy(&format!("p{at:03}")).target(Kind::HTTP_ROUTE, "one", section).into()
    };
    let policies: Vec<Object> = (0..100).map(|at| policy(at, Some("gone"))).chain([policy(100, None)]).collect();
    assert_eq!(closed(&translated(&shop(policies.clone()))), with("one.test"));
    let mut settings = Settings::default();
    settings.gateway.ignored_policies = (0..100).map(|at| ("shop".to_owned(), format!("p{at:03}"))).collect();
    let mut translator = Translator::default();
    translator.update(&shop(policies), &settings, &ChangedInputs::everything());
    assert_eq!(closed(&translator), with("one.test"), "policies that are ignored do not hide others");
}

#[test]
fn annotations_of_other_controllers_close_routes_of_gateway_api() {
    let annotated = http_route("one").parent("public").host("one.test").rule("/", "a:80");
    let annotated = annotated.annotation("konghq.com/plugins", "key-auth");
    let translator = translated(&shop([annotated.into(), service("a").port("http", 80).into()]));
    assert_eq!(closed(&translator), ["80 one.test /", "81 one.test /"]);
    let problem = translator.problems().iter().next().map(ToString::to_string).unwrap_or_default();
    assert!(
        problem.contains("metadata.annotations: annotations of another ingress controller restrict access"),
        "{problem}"
    );
    let host = Host::Exact("one.test".into());
    let body = |translator: &Translator| {
        let plain = translator.model().plain("gateway/shop/public/80").expect("a listener");
        format!("{:?}", plain.hosts[&host].routes[0].action)
    };
    assert!(body(&translator).contains("not enforced: konghq.com/plugins"), "{}", body(&translator));
    // Other annotations are not reported, because other programs may read them.
    let route = http_route("one").parent("public").host("one.test").rule("/", "a:80");
    let route = route.annotation("nginx.ingress.kubernetes.io/proxy-body-size", "1m");
    let translator = translated(&shop([route.into()]));
    assert!(closed(&translator).is_empty() && translator.problems().is_empty());
}
