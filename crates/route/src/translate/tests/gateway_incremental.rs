//! Tests that any sequence of changes of Gateways, routes, and policies gives the same result as one translation of all
//! objects.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::sample::select;

use super::gateway::world_of;
use super::incremental::{
    any_authentication, any_backend_policy, any_credentials, any_host_grant, any_traffic_policy, with_authentication,
};
use crate::model::{Model, Touched, Traffic};
use crate::objects::{FOREIGN_POLICIES, Kind, Namespace, Object, ObjectKey, Objects};
use crate::settings::Settings;
use crate::testing::foreign_policies::{ForeignPolicyBuilder, foreign_policy};
use crate::testing::gateway::*;
use crate::testing::objects::{ingress, secret, service};
use crate::translate::{ChangedInputs, Input, Translator};

const NAMES: [&str; 3] = ["a", "b", "other/c"];

/// The protocols of listeners, with the TLS mode.
const PROTOCOLS: [(&str, &str); 8] = [
    ("HTTP", ""),
    ("HTTP", ""),
    ("HTTPS", ""),
    ("TCP", ""),
    ("UDP", ""),
    ("TLS", "Terminate"),
    ("TLS", "Passthrough"),
    ("SCTP", ""),
];

/// The name, the port, and the protocol of a listener.
type Place = (&'static str, u16, (&'static str, &'static str));

fn any_gateway() -> impl Strategy<Value = Object> {
    let listener = (select(vec!["one", "two", "three"]), select(vec![80u16, 81]), select(PROTOCOLS.to_vec()));
    let host = select(vec![None, Some("*.test"), Some("x.test"), Some("*.b.test"), Some("?")]);
    let allowed = select(vec!["Same", "All", "Selector", "None"]);
    let listeners = prop::collection::vec((listener, host, allowed, any::<bool>()), 0..4);
    let validation = (select(vec![None, Some(80)]), select(vec!["ca", "shop/old"]), any::<bool>());
    let tls = (prop::option::of(validation), select(vec![None, None, Some("good"), Some("shop/good")]));
    let class = select(vec!["lockgate", "lockgate", "else"]);
    let sets = select(vec!["All", "All", "Same", "Selector", "None"]);
    (select(&NAMES[..]), class, sets, listeners, tls).prop_map(
        |(name, class, sets, listeners, (validation, certificate))| {
            let start = gateway(name).class(class).sets_from(sets);
            let start = validation.into_iter().fold(start, |start, (port, config_map, fallback)| {
                start.validation(port, config_map, fallback.then_some("AllowInsecureFallback"))
            });
            let start = certificate.into_iter().fold(start, GatewayBuilder::client_certificate);
            let add = |builder: GatewayBuilder,
                       ((name, port, (protocol, mode)), host, allowed, certificate): (
                Place,
                Option<&str>,
                &str,
                bool,
            )| {
                let builder = builder.listener(name, port, protocol);
                let builder = if mode.is_empty() { builder } else { builder.tls_mode(mode) };
                let builder = host.into_iter().fold(builder, GatewayBuilder::hostname);
                let builder = if certificate { builder.certificate("shop/good") } else { builder };
                match allowed {
                    "Selector" => builder.routes_from_labels(&[("team", "front")]),
                    from => builder.routes_from(from),
                }
            };
            listeners.into_iter().fold(start, add).into()
        },
    )
}

fn any_listener_set() -> impl Strategy<Value = Object> {
    let listener = (select(vec!["one", "two", "three"]), select(vec![80u16, 81]), select(PROTOCOLS.to_vec()));
    let host = select(vec![None, Some("*.test"), Some("x.test"), Some("a.b.test"), Some("?")]);
    let listeners = prop::collection::vec((listener, host, any::<bool>(), any::<bool>()), 0..3);
    let names = select(vec!["one", "two", "other/three"]);
    (names, select(vec!["shop/a", "shop/b", "other/c", "shop/gone"]), 1i64..3, listeners).prop_map(
        |(name, gateway, created, listeners)| {
            let start = listener_set(name, gateway).created(created);
            let add = |builder: ListenerSetBuilder,
                       ((name, port, (protocol, mode)), host, all, certificate): (
                Place,
                Option<&str>,
                bool,
                bool,
            )| {
                let builder = builder.listener(name, port, protocol);
                let builder = if mode.is_empty() { builder } else { builder.tls_mode(mode) };
                let builder = host.into_iter().fold(builder, ListenerSetBuilder::hostname);
                let builder = if certificate { builder.certificate("shop/good") } else { builder };
                if all { builder.routes_from("All") } else { builder }
            };
            listeners.into_iter().fold(start, add).into()
        },
    )
}

/// The parents of a route: the object, whether it is a ListenerSet, and the listener.
fn any_parents() -> impl Strategy<Value = Vec<(&'static str, bool, Option<&'static str>)>> {
    let gateway = select(vec!["shop/a", "shop/b", "other/c", "shop/gone"]).prop_map(|name| (name, false));
    let set = select(vec!["shop/one", "shop/two", "other/three", "shop/gone"]).prop_map(|name| (name, true));
    let parent = (prop_oneof![gateway, set], prop::option::of(select(vec!["one", "two"])));
    prop::collection::vec(parent.prop_map(|((name, is_set), section)| (name, is_set, section)), 0..3)
}

fn any_route() -> impl Strategy<Value = Object> {
    let parents = any_parents();
    let hosts = prop::collection::vec(select(vec!["x.test", "*.test", "a.b.test", "y.other", "?"]), 0..3);
    let backend = select(vec!["a:80", "b:80", "shop/c:80", "gone:80", ""]);
    let names = select(vec![None, Some("one"), Some("two")]);
    let rules = prop::collection::vec((select(vec!["/", "/a", "/a/b", "", "/~.*"]), backend, names), 0..3);
    (select(&NAMES[..]), 1i64..3, parents, hosts, rules).prop_map(|(name, created, parents, hosts, rules)| {
        let builder = http_route(name).created(created);
        let builder = parents.into_iter().fold(builder, |builder, (parent, is_set, section)| {
            let builder = if is_set { builder.parent_set(parent) } else { builder.parent(parent) };
            section.into_iter().fold(builder, HttpRouteBuilder::section)
        });
        let builder = hosts.into_iter().fold(builder, HttpRouteBuilder::host);
        let rule = |builder: HttpRouteBuilder, (path, backend, name): (&str, &str, Option<&str>)| {
            let builder = match path.contains('~') {
                true => builder.rule("", backend).path("RegularExpression", path),
                false => builder.rule(path, backend),
            };
            name.into_iter().fold(builder, HttpRouteBuilder::rule_name)
        };
        rules.into_iter().fold(builder, rule).into()
    })
}

fn any_stream_route() -> impl Strategy<Value = Object> {
    let kind = select(vec![Kind::TCP_ROUTE, Kind::UDP_ROUTE, Kind::TLS_ROUTE]);
    let parents = any_parents();
    let hosts = prop::collection::vec(select(vec!["x.test", "*.test", "a.b.test", "y.other", "?"]), 0..3);
    let backend = (select(vec!["a:80", "b:80", "shop/c:80", "c:53", "gone:80"]), 0u32..3);
    let backends = prop::collection::vec(backend, 0..3);
    (kind, select(&NAMES[..]), 1i64..3, parents, hosts, backends).prop_map(
        |(kind, name, created, parents, hosts, backends)| {
            let builder = stream_route(kind, name).created(created);
            let builder = parents.into_iter().fold(builder, |builder, (parent, is_set, section)| {
                let builder = if is_set { builder.parent_set(parent) } else { builder.parent(parent) };
                section.into_iter().fold(builder, StreamRouteBuilder::section)
            });
            let builder = hosts.into_iter().fold(builder, StreamRouteBuilder::host);
            backends.into_iter().fold(builder, |builder, (to, weight)| builder.backend(to).weight(weight)).into()
        },
    )
}

/// Returns a policy, or a ConfigMap.
fn any_policy() -> impl Strategy<Value = Object> {
    let target = (select(vec!["a", "b", "gone"]), select(vec![None, Some("http"), Some("gone")]));
    let targets = prop::collection::vec(target, 0..3);
    let config_maps = prop::collection::vec(select(vec!["ca", "old"]), 0..3);
    let system = prop::bool::weighted(0.1);
    let hostname = select(vec!["x.test", "y.test", "?"]);
    let policy = (select(&NAMES[..]), 1i64..3, targets, config_maps, system, hostname).prop_map(
        |(name, created, targets, config_maps, system, hostname)| {
            let policy = backend_tls_policy(name).created(created).hostname(hostname);
            let policy = targets.into_iter().fold(policy, |policy, (service, port)| policy.target(service, port));
            let policy = config_maps.into_iter().fold(policy, BackendTlsPolicyBuilder::config_map);
            if system { policy.well_known("System").into() } else { policy.into() }
        },
    );
    let authorities = select(vec![Ok("one"), Ok("two"), Err("not PEM")]);
    let content = (select(vec!["ca", "old", "other/ca"]), authorities);
    let config_map = content.prop_map(|(name, authorities)| config_map(name, authorities));
    prop_oneof![2 => policy, 1 => config_map]
}

/// Returns an HTTPPolicy.
fn any_http_policy() -> impl Strategy<Value = Object> {
    let section = select(vec![None, None, Some("one"), Some("two")]);
    let kind = select(vec!["Gateway", "HTTPRoute", "HTTPRoute", "TCPRoute", "Ingress", "Namespace"]);
    let targets = prop::collection::vec((kind, select(vec!["a", "b", "c", "gone", "shop", "other"]), section), 0..3);
    let rate = select(vec![None, Some(0), Some(1), Some(2)]);
    let ranges = select(vec![None, Some("192.0.2.0/24"), Some("?")]);
    let body = select(vec![None, Some("1MiB"), Some("much")]);
    let overriding = prop::bool::weighted(0.3);
    (select(&NAMES[..]), 1i64..3, targets, rate, ranges, body, (overriding, any_authentication())).prop_map(
        |(name, created, targets, rate, ranges, body, (overriding, authenticated))| {
            let policy = http_policy(name).created(created);
            let policy = targets.into_iter().fold(policy, |policy, (kind, name, section)| {
                section.into_iter().fold(policy.target(kind, name), HttpPolicyBuilder::section)
            });
            let policy = rate.into_iter().fold(policy, HttpPolicyBuilder::rate);
            let policy = ranges.into_iter().fold(policy, |policy, range| policy.allow(&[range]));
            let policy = body.into_iter().fold(policy, HttpPolicyBuilder::body);
            let policy = authenticated.into_iter().fold(policy, with_authentication);
            if overriding { policy.overriding().into() } else { policy.into() }
        },
    )
}

/// Returns a policy of Envoy Gateway.
fn any_foreign_policy() -> impl Strategy<Value = Object> {
    let section = select(vec![None, None, Some("one"), Some("two")]);
    let kinds = || {
        select(vec![
            Kind::GATEWAY,
            Kind::LISTENER_SET,
            Kind::HTTP_ROUTE,
            Kind::HTTP_ROUTE,
            Kind::TCP_ROUTE,
            Kind::UDP_ROUTE,
            Kind::TLS_ROUTE,
        ])
    };
    let names = select(vec!["a", "b", "c", "one", "two", "three", "gone"]);
    let targets = prop::collection::vec((kinds(), names, section), 0..3);
    let selectors = prop::collection::vec((kinds(), any::<bool>()), 0..2);
    (select(&FOREIGN_POLICIES[..]), select(&NAMES[..]), any::<bool>(), targets, selectors).prop_map(
        |(kind, name, restricts, targets, selectors)| {
            let policy = foreign_policy(kind, name).restricting(restricts);
            let policy =
                targets.into_iter().fold(policy, |policy, (kind, name, section)| policy.target(kind, name, section));
            let by_label = |policy: ForeignPolicyBuilder, (kind, are_all): (Kind, bool)| {
                policy.select(kind, if are_all { &[] } else { &[("team", "front")] })
            };
            selectors.into_iter().fold(policy, by_label).into()
        },
    )
}

/// Adds the label `team: front` to an object of any kind, and an annotation of another controller to some.
fn labeled(object: Object, (is_labeled, is_annotated): (bool, bool)) -> Object {
    let is_selectable = is_labeled && object.kind().info().selected_by_labels;
    let is_annotated = is_annotated && object.kind().info().foreign_annotations;
    object.with_meta(|meta| {
        if is_selectable {
            meta.labels.insert("team".into(), "front".into());
        }
        if is_annotated {
            meta.annotations.insert("konghq.com/plugins".into(), "key-auth".into());
        }
    })
}

fn any_object() -> impl Strategy<Value = Object> {
    let class = (select(vec!["lockgate", "else"]), any::<bool>()).prop_map(|(name, ours)| {
        let class = gateway_class(name);
        if ours { class.into() } else { class.controller("x").into() }
    });
    let ports = prop::collection::vec((select(vec![80u16, 81]), 10_000u16..10_003), 0..3);
    let of_gateway = (select(&NAMES[..]), ports, any::<bool>()).prop_map(|(name, ports, udp)| {
        with_udp_ports(gateway_service(name, &ports), if udp { &[(80, 10_004)] } else { &[] })
    });
    let services =
        (select(vec!["a", "b", "c"]), select(vec![80u16, 81]), any::<bool>()).prop_map(|(name, port, tls)| {
            let service = service(name).port("http", port);
            with_udp_port(if tls { service.app_protocol("https") } else { service }, "dns", 53)
        });
    let labels = select(vec![vec![], vec![("team", "front")]]);
    let namespace = (select(vec!["shop", "other"]), labels, prop::bool::weighted(0.2));
    let namespace = namespace.prop_map(|(name, labels, terminating)| {
        labeled_namespace(name, &labels).with::<Namespace>(|one| one.meta.terminating = terminating)
    });
    let grant = (
        select(vec!["shop/one", "shop/two"]),
        select(vec!["HTTPRoute", "TLSRoute", "Gateway", "ListenerSet", "HTTPPolicy"]),
        select(vec!["Service", "Secret", "ConfigMap"]),
    );
    let grant = grant.prop_map(|(name, from, to)| reference_grant(name).from(from, "other").to(to, "").into());
    let others = prop_oneof![
        Just(Object::from(secret("good", &["x.test"]))),
        Just(Object::from(secret("good", &["x.test"]).without_pair())),
        Just(Object::from(ingress("a").host("x.test").path("Prefix", "/", "a:80"))),
    ];
    let all = prop_oneof![6 => any_gateway(), 8 => any_foreign_policy(), 8 => any_listener_set(), 8 => any_route(), 8 => any_stream_route(), 8 => any_policy(), 8 => any_http_policy(), 6 => any_backend_policy(&["a", "b", "c", "gone"]), 6 => any_traffic_policy(&["a", "b", "c", "gone"]), 2 => class, 5 => of_gateway, 2 => services, 2 => namespace, 2 => grant, 1 => others, 2 => any_credentials(), 5 => any_host_grant(&["x.test", "*.test", "**.test", "a.b.test", "**"])];
    (all, (any::<bool>(), prop::bool::weighted(0.1))).prop_map(|(object, with)| labeled(object, with))
}

/// Applies or deletes `object` like the loop.
fn take(object: Object, applied: bool, objects: &mut Objects, changed: &mut ChangedInputs) {
    let (kind, key) = (object.kind(), object.meta().key.clone());
    let before = Input::of_object(objects, kind, &key);
    match applied {
        true => drop(objects.apply(object)),
        false => drop(objects.delete(kind, &key)),
    }
    let after = Input::of_object(objects, kind, &key);
    before.into_iter().chain(after).for_each(|input| changed.insert(input));
}

/// Returns whether `touched` has every difference of the listeners.
fn tells(touched: &Touched, before: &Model, now: &Model) -> bool {
    let ids: BTreeSet<_> = before.listeners.keys().chain(now.listeners.keys()).collect();
    ids.into_iter().all(|id| match (before.listeners.get(id.as_str()), now.listeners.get(id.as_str())) {
        (Some(old), Some(new)) => {
            let bind = old.bind == new.bind || touched.listeners.contains(id.as_str());
            let hosts = match (&old.traffic, &new.traffic) {
                (Traffic::Http(old), Traffic::Http(new)) => {
                    let both: BTreeSet<_> = old.hosts.keys().chain(new.hosts.keys()).collect();
                    let told = touched.hosts_of(id.as_str());
                    both.into_iter().all(|host| old.hosts.get(host) == new.hosts.get(host) || told.contains(host))
                }
                (Traffic::Https(old), Traffic::Https(new)) => {
                    let both: BTreeSet<_> = old.hosts.keys().chain(new.hosts.keys()).collect();
                    let told = touched.hosts_of(id.as_str());
                    both.into_iter().all(|host| old.hosts.get(host) == new.hosts.get(host) || told.contains(host))
                }
                (old, new) => old == new || touched.listeners.contains(id.as_str()),
            };
            bind && hosts
        }
        _ => touched.listeners.contains(id.as_str()),
    })
}

/// Applies the `passes` one by one. After each, the result is that of one translation of all objects.
pub fn step_by_step(
    mut objects: Objects,
    passes: Vec<Vec<(Object, bool)>>,
    settings: &Settings,
) -> Result<(), TestCaseError> {
    let mut translator = Translator::default();
    translator.update(&objects, settings, &ChangedInputs::everything());
    for steps in passes {
        let (mut changed, before) = (ChangedInputs::default(), translator.model().clone());
        for (object, applied) in steps.clone() {
            take(object, applied, &mut objects, &mut changed);
        }
        let update = translator.update(&objects, settings, &changed);
        let mut anew = Translator::default();
        anew.update(&objects, settings, &ChangedInputs::everything());
        prop_assert_eq!(translator.model(), anew.model(), "after {:?}", steps);
        prop_assert_eq!(translator.problems(), anew.problems(), "after {:?}", steps);
        prop_assert_eq!(translator.verdicts(), anew.verdicts(), "after {:?}", steps);
        prop_assert_eq!(translator.gateways(), anew.gateways(), "after {:?}", steps);
        prop_assert_eq!(translator.policies(), anew.policies(), "after {:?}", steps);
        let sources = |translator: &Translator| translator.sources().collect::<BTreeSet<_>>();
        prop_assert_eq!(sources(&translator), sources(&anew));
        prop_assert!(tells(&update.touched, &before, translator.model()), "untold after {:?}", steps);
        let (old, new) = (&before.secrets, &translator.model().secrets);
        let secrets = old.keys().chain(new.keys()).filter(|id| old.get(id) != new.get(id));
        prop_assert!(secrets.into_iter().all(|id| update.touched.secrets.contains(id)), "untold after {:?}", steps);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn incremental_changes_of_gateways_equal_one_translation(
        first in prop::collection::vec(any_object(), 0..12),
        passes in prop::collection::vec(prop::collection::vec((any_object(), prop::bool::weighted(0.75)), 1..4), 1..16),
        // In bytes: some routes of a namespace are left out, closed, or served; or the authorities of one or two BackendTLSPolicies fit.
        limit in select(vec![300, 600, 1200, 5 << 10, 220 << 10]),
        require_grant in prop::bool::weighted(0.2),
    ) {
        let mut settings = Settings::default();
        settings.hosts.require_grant = require_grant;
        // The second regular expression of a host is a conflict.
        settings.regexes.max_per_host = 1;
        settings.tenants.max_configuration_per_namespace = limit;
        step_by_step(world_of(first), passes, &settings)?;
    }
}

#[test]
fn a_route_changes_only_its_own_hosts() {
    let route = |name: &str, backend: &str| -> Object {
        http_route(name).parent("public").host(&format!("{name}.test")).rule("/", backend).into()
    };
    let public: Object = gateway("public").listener("http", 80, "HTTP").into();
    let routes = (0..50).map(|at| route(&format!("r{at}"), "a:80"));
    let mut objects = world_of([public, gateway_service("public", &[(80, 10_000)])].into_iter().chain(routes));
    let (mut translator, settings) = (Translator::default(), Settings::default());
    translator.update(&objects, &settings, &ChangedInputs::everything());
    let mut changed = ChangedInputs::default();
    take(route("r7", "b:80"), true, &mut objects, &mut changed);
    let update = translator.update(&objects, &settings, &changed);
    assert_eq!(update.touched.hosts_of("gateway/shop/public/80").len(), 1);
    assert!(update.touched.listeners.is_empty());
    assert_eq!(update.sources.len(), 1, "{:?}", update.sources);
    let grant = reference_grant("elsewhere/grant").from("HTTPRoute", "shop").to("Service", "");
    let mut changed = ChangedInputs::default();
    take(grant.into(), true, &mut objects, &mut changed);
    assert!(translator.update(&objects, &settings, &changed).sources.is_empty(), "nobody refers to that namespace");
    let mut changed = ChangedInputs::default();
    take(Object::from(gateway_class("else")), true, &mut objects, &mut changed);
    let update = translator.update(&objects, &settings, &changed);
    assert!(update.sources.iter().all(|id| *id == Kind::GATEWAY_CLASS.id(ObjectKey::new("", "else"))));
}

#[test]
fn a_removed_listener_releases_clusters_and_key_pairs() {
    let route = |kind, backend: &str| -> Object { stream_route(kind, "all").parent("public").backend(backend).into() };
    let public = gateway("public").listener("tcp", 80, "TCP").listener("udp", 80, "UDP");
    let public: Object = public.listener("tls", 443, "TLS").certificate("good").into();
    let of_gateway = with_udp_ports(gateway_service("public", &[(80, 10_000), (443, 10_001)]), &[(80, 10_002)]);
    let tls: Object = tls_route("all").parent("public").host("x.test").backend("b:80").into();
    let dns = with_udp_port(service("dns"), "dns", 53);
    let others = [secret("good", &["x.test"]).into(), dns, of_gateway, tls];
    let routes = [route(Kind::TCP_ROUTE, "a:80"), route(Kind::UDP_ROUTE, "dns:53")];
    let mut objects = world_of([public].into_iter().chain(others).chain(routes));
    let (mut translator, settings) = (Translator::default(), Settings::default());
    translator.update(&objects, &settings, &ChangedInputs::everything());
    assert_eq!((translator.model().clusters.len(), translator.model().secrets.len()), (3, 1));
    let routes = [Kind::TCP_ROUTE, Kind::UDP_ROUTE, Kind::TLS_ROUTE].map(|kind| kind.id(ObjectKey::new("shop", "all")));
    assert!(!routes.iter().any(|route| translator.has_lost(route)));
    let mut changed = ChangedInputs::default();
    take(gateway("public").listener("http", 80, "HTTP").into(), true, &mut objects, &mut changed);
    translator.update(&objects, &settings, &changed);
    assert!(translator.model().clusters.is_empty() && translator.model().secrets.is_empty());
    assert!(!routes.iter().any(|route| translator.has_lost(route)), "they ask for nothing");
}

#[test]
fn hosts_behind_https_follow_the_server_names_of_tls() {
    let public = |has_tls: bool| -> Object {
        let public = gateway("public").listener("https", 443, "HTTPS").hostname("web.test").certificate("good");
        match has_tls {
            true => public.listener("tls", 443, "TLS").hostname("pass.test").tls_mode("Passthrough").into(),
            false => public.into(),
        }
    };
    let route: Object = http_route("web").parent("public").host("web.test").rule("/", "a:80").into();
    let others = [gateway_service("public", &[(443, 10_000)]), secret("good", &["web.test"]).into(), route];
    let mut objects = world_of([public(false)].into_iter().chain(others));
    let (mut translator, settings) = (Translator::default(), Settings::default());
    translator.update(&objects, &settings, &ChangedInputs::everything());
    for has_tls in [true, false] {
        let mut changed = ChangedInputs::default();
        take(public(has_tls), true, &mut objects, &mut changed);
        translator.update(&objects, &settings, &changed);
        let tls = translator.model().tls("gateway/shop/public/443").unwrap();
        let misdirected: Vec<String> =
            tls.hosts.values().flat_map(|host| &host.misdirected).map(ToString::to_string).collect();
        assert_eq!(misdirected, if has_tls { vec!["pass.test"] } else { vec![] });
        assert_eq!(tls.connections.len(), usize::from(has_tls));
    }
}
