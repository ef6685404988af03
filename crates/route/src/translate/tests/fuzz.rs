//! Fuzz tests of the translation of any objects: no panic, no dangling name, and no effect of their order.

use proptest::prelude::*;
use proptest::sample::select;

use crate::model::{Action, ClusterId, Discovery, Host, Model, VirtualHostRoutes};
use crate::objects::{AddressType, Object};
use crate::settings::{ExternalNames, NamespaceOwnership, Settings, TlsSettings};
use crate::testing::model::Shared as _;
use crate::testing::objects::*;
use crate::translate::{path, translate};

pub const HOSTS: [&str; 9] = ["", "x.com", "X.com", "a.x.com", "*.x.com", "*", "bad_host", "a.b.x.com", "*.b.x.com"];
const PATHS: [&str; 13] =
    ["", "/", "/a", "/a/", "/a/b", "/a.*", "/[", "/a?b", "a", "/a//b", "/(a|b)", "/\u{0}", "/(?=a)*"];
const TYPES: [&str; 5] = ["Exact", "Prefix", "ImplementationSpecific", "", "Nonsense"];
const BACKENDS: [&str; 10] = ["a:80", "a:http", "b:80", "e:443", "l:80", "gone:80", "a:1", "u:53", "Bucket/b", ""];
pub const SECRETS: [&str; 5] = ["", "good", "wild", "bad", "gone"];
const VALUES: [&str; 13] = [
    "",
    "shop",
    "other,third",
    "third,*",
    "true",
    "false",
    "1.2",
    "1.3",
    "5xx",
    "-1",
    "99999999999999",
    "1s",
    "infinity",
];
const KEYS: [&str; 14] = [
    DELEGATE_TO,
    DELEGATE_TO,
    "ingress.kubernetes.io/force-ssl-redirect",
    "kubernetes.io/ingress.allow-http",
    "kubernetes.io/ingress.class",
    "projectcontour.io/retry-on",
    "projectcontour.io/num-retries",
    "projectcontour.io/response-timeout",
    "projectcontour.io/tls-minimum-protocol-version",
    "projectcontour.io/tls-maximum-protocol-version",
    "projectcontour.io/tls-cert-namespace",
    "projectcontour.io/max-connections",
    "projectcontour.io/upstream-protocol.tls",
    "lockgate.dev/connect-timeout",
];

const DELEGATE_TO: &str = "lockgate.dev/delegate-to";

pub fn any_ownership() -> impl Strategy<Value = NamespaceOwnership> {
    select(vec![NamespaceOwnership::Strict, NamespaceOwnership::Strict, NamespaceOwnership::InterNamespaceAllowed])
}

pub fn annotations() -> impl Strategy<Value = Vec<(&'static str, &'static str)>> {
    prop::collection::vec((select(&KEYS[..]), select(&VALUES[..])), 0..3)
}

prop_compose! {
    pub fn any_ingress()(
        name in select(vec!["i1", "i2", "other/i1", "other/i2", "third/i1"]),
        created in 0i64..3,
        terminating in prop::bool::weighted(0.3),
        class in select(vec![Some("ours"), Some("ours"), Some("foreign"), None]),
        rules in prop::collection::vec(
            (select(&HOSTS[..]), prop::collection::vec((select(&TYPES[..]), select(&PATHS[..]), select(&BACKENDS[..])), 0..4)),
            0..4,
        ),
        wild_path in ".{0,8}",
        wild_host in "[*.a-zA-Z0-9_:]{0,8}",
        default in prop::option::of(select(&BACKENDS[..])),
        tls in prop::collection::vec((prop::collection::vec(select(&HOSTS[..]), 0..3), select(&SECRETS[..])), 0..3),
        annotations in annotations(),
    ) -> Object {
        let mut builder = ingress(name).created(created).class(class);
        if terminating {
            builder = builder.terminating();
        }
        for (host, paths) in rules {
            builder = builder.host(host);
            for (path_type, path, to) in paths {
                builder = builder.path(path_type, path, to);
            }
        }
        builder = builder.host(&wild_host).path("ImplementationSpecific", &wild_path, "a:80");
        if let Some(to) = default {
            builder = builder.default_backend(to);
        }
        for (hosts, secret) in tls {
            builder = builder.tls(&hosts, secret);
        }
        annotations.into_iter().fold(builder, |builder, (key, value)| builder.annotation(key, value)).into()
    }
}

prop_compose! {
    pub fn any_slice()(
        name in select(vec!["s1", "s2", "s3"]),
        family in select(vec![AddressType::Ipv4, AddressType::Ipv6, AddressType::Fqdn]),
        port in select(vec!["http", ""]),
        service in select(vec!["a", "a", "envoys"]),
        number in prop_oneof![any::<u16>(), Just(8080)],
        endpoints in prop::collection::vec(
            (select(vec!["10.0.0.1", "10.0.0.2", "fd00::1", "nonsense", "0.0.0.0"]), any::<[bool; 3]>(), select(vec!["", "z"])),
            0..4,
        ),
    ) -> Object {
        let builder = slice(name, service).address_type(family).port(port, number);
        let add = |builder: SliceBuilder, (address, conditions, zone)| builder.endpoint(address, conditions).zone(zone).pod("p");
        endpoints.into_iter().fold(builder, add).into()
    }
}

pub fn fixed(annotations: &[(&str, &str)]) -> Vec<Object> {
    let a =
        annotations.iter().fold(service("a").port("http", 80), |builder, (key, value)| builder.annotation(key, value));
    vec![
        class("ours").into(),
        class("foreign").controller("x").default_class().into(),
        a.into(),
        service("b").port("", 80).app_protocol("https").into(),
        service("e").external("example.com").into(),
        service("l").external("localhost").port("", 80).into(),
        service("u").port_of("UDP", "", 53).into(),
        service("other/a").port("http", 80).into(),
        service("third/a").port("http", 80).into(),
        secret("other/good", &["x.com", "*.x.com"]).into(),
        secret("third/wild", &["*.x.com", "*.b.x.com"]).into(),
        secret("good", &["x.com"]).into(),
        secret("wild", &["*.x.com"]).fault("expired").into(),
        secret("bad", &[]).fault("no key").without_pair().into(),
    ]
}

/// Checks the properties of every model.
fn check(model: &Model) {
    let hosts: Vec<&VirtualHostRoutes> =
        model.http().values().chain(model.https().values().flat_map(|tls| tls.virtual_hosts.values())).collect();
    for host in &hosts {
        assert!(!host.routes.is_empty());
        // Routes of several namespaces have another order.
        let sorted = host.routes.iter().all(|route| route.origin.namespace == host.routes[0].origin.namespace);
        assert!(host.one_label <= host.routes.len());
        for (at, pair) in host.routes.windows(2).enumerate().filter(|_| sorted) {
            let [a, b] = [(&pair[0], at), (&pair[1], at + 1)]
                .map(|(route, at)| (path::rank(&route.matches.path, false), at < host.one_label));
            assert!((a.1 && !b.1) || (a.1 == b.1 && a.0 < b.0), "{:?}", host.routes);
        }
        for route in &host.routes {
            let Action::Forward(forward) = &route.action else { continue };
            assert!(!forward.clusters.is_empty());
            for weighted in &forward.clusters {
                assert!(model.clusters.contains_key(&weighted.cluster), "{:?}", weighted.cluster);
            }
        }
    }
    for (name, cluster) in &model.clusters {
        assert_eq!(model.endpoints.contains_key(&name.port), cluster.discovery == Discovery::Eds);
    }
    assert!(model.endpoints.keys().all(|port| model.clusters.contains_key(&ClusterId::from(port.clone()))));
    for (host, tls) in model.https() {
        assert!(model.secrets.contains_key(&tls.secrets[0]), "{:?}", tls.secrets);
        assert!(tls.minimum <= tls.maximum);
        assert!(!tls.origins.is_empty());
        // An Ingress has one key pair and one virtual host for each server name.
        assert!(tls.secrets.len() == 1 && tls.virtual_hosts.keys().eq([host]) && tls.misdirected.is_empty());
    }
    for host in model.refused() {
        assert!(matches!(host, Host::Exact(_)) && !model.https().contains_key(host), "{host}");
    }
    assert!(model.secrets.keys().all(|name| model.https().values().any(|tls| tls.secrets.contains(name))));
}

/// Checks the properties of a model whose hosts belong to one namespace each.
fn check_owners(model: &Model) {
    let tls = model.https().values().flat_map(|tls| tls.virtual_hosts.iter());
    for (host, content) in model.http().iter().chain(tls).filter(|(host, _)| matches!(host, Host::Exact(_))) {
        let first = &content.routes[0].origin.namespace;
        assert!(content.routes.iter().all(|route| route.origin.namespace == *first), "{host}: {:?}", content.routes);
        let Some(tls) = model.https().get(host).filter(|_| model.http().contains_key(host)) else { continue };
        let namespace = &tls.secrets[0].object().namespace;
        let of_default = model.https().get(&Host::Any).is_some_and(|any| any.secrets == tls.secrets);
        assert!(of_default || namespace == first, "{host}: {:?}", tls.secrets);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn any_objects_are_served_in_any_order(
        ingresses in prop::collection::vec(any_ingress(), 0..5),
        slices in prop::collection::vec(any_slice(), 0..3),
        service_annotations in annotations(),
        default in prop::option::of(select(&SECRETS[..])),
        external in any::<bool>(),
        classless in any::<bool>(),
        namespace_ownership in any_ownership(),
        seed in any::<u64>(),
    ) {
        let mut list = fixed(&service_annotations);
        list.extend(ingresses);
        list.extend(slices);
        // If two objects have the same name, the later object is used. The order would have an effect.
        let mut seen = std::collections::BTreeSet::new();
        list.retain(|object| seen.insert(object.object_ref()));
        let settings = Settings {
            tls: TlsSettings { default_secret: default.map(|name| ("shop".to_owned(), name.to_owned())), ..TlsSettings::default() },
            external_names: ExternalNames { allow: external, cluster_local: false },
            ingress: crate::settings::IngressSettings { classless, ..Default::default() },
            namespace_ownership,
            ..Settings::default()
        };
        let translation = translate(&objects(&list), &settings);
        check(&translation.model);
        let delegated = list.iter().any(|object| object.meta().annotations.contains_key(DELEGATE_TO));
        if namespace_ownership == NamespaceOwnership::Strict && !delegated {
            check_owners(&translation.model);
        }
        for problem in &translation.problems {
            prop_assert!(!problem.message.is_empty() && !problem.consequence.is_empty());
        }
        let mut random = seed;
        for i in (1..list.len()).rev() {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            list.swap(i, (random >> 33) as usize % (i + 1));
        }
        prop_assert_eq!(translation, translate(&objects(&list), &settings));
    }
}
