//! Incremental translations of any sequence of changes give the same result as one final translation, and report all
//! changes.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::sample::select;

use super::fuzz::{HOSTS, SECRETS, annotations, any_ingress, any_ownership, any_slice, fixed};
use crate::model::{Host, ListenerId, Model, Touched};
use crate::objects::gateway::{BodyMode, UnknownLength};
use crate::objects::{
    EndpointSlice, Ingress, Kind, LoadBalancingAlgorithm, Namespace, Object, ObjectId, ObjectKey, Objects,
    PreferredZones, ProxyProtocolVersion, RetryBudgetSpec, claim_shard,
};
use crate::settings::{ExternalNames, Hosts, Module, ServiceAddress, Settings, Tenants, TlsSettings};
use crate::testing::backend_policies::{backend_policy, traffic_policy};
use crate::testing::gateway::{HttpPolicyBuilder, http_policy, labeled_namespace};
use crate::testing::host_grants::{HostGrantBuilder, host_grant};
use crate::testing::model::Shared as _;
use crate::testing::objects::*;
use crate::translate::{ChangedInputs, Input, Translator, translate};

/// The descriptors of the service `shop.v1.Books` with two methods.
const BOOKS: &str = "Ct4BCgtzbWFsbC5wcm90bxIHc2hvcC52MRocZ29vZ2xlL2FwaS9hbm5vdGF0aW9ucy5wcm90byIwCgRCb29rEhIKBG5hbWUYASABKAlSBG5hbW\
    USFAoFcGFnZXMYAiABKAVSBXBhZ2VzMm4KBUJvb2tzEj0KA0dldBINLnNob3AudjEuQm9vaxoNLnNob3AudjEuQm9vayIYgtPkkwISEhAvdjEv\
    Ym9va3Mve25hbWV9EiYKBkNyZWF0ZRINLnNob3AudjEuQm9vaxoNLnNob3AudjEuQm9va2IGcHJvdG8z";

#[derive(Debug, Clone)]
pub(super) enum Step {
    Apply(Object),
    Delete(Kind, ObjectKey),
    Settings(Box<Settings>),
}

/// Generates a Service or a Secret: a changed version of an initial object, or a new object.
fn any_service() -> impl Strategy<Value = Object> {
    // The name of a port may be a number, like the reference to an unnamed port.
    let port = select(vec![("http", 80), ("web", 80), ("", 80), ("80", 80), ("http", 81), ("", 443)]);
    let external =
        select(vec![None, None, Some("example.com"), Some("cart.shop"), Some("cart.new"), Some("localhost")]);
    let protocol = select(vec![None, None, Some("https"), Some("kubernetes.io/h2c")]);
    let close = prop::bool::weighted(0.3);
    (select(vec!["a", "b", "e", "envoys", "gone"]), port, external, protocol, annotations(), close).prop_map(
        |(name, (port, number), external, protocol, annotations, close)| {
            let builder = service(name).port(port, number).prefers_close(close);
            let builder = external.into_iter().fold(builder, |builder, external| builder.external(external));
            let builder = protocol.into_iter().fold(builder, |builder, protocol| builder.app_protocol(protocol));
            annotations.into_iter().fold(builder, |builder, (key, value)| builder.annotation(key, value)).into()
        },
    )
}

fn any_secret() -> impl Strategy<Value = Object> {
    let names = select(vec![vec!["x.com"], vec!["*.x.com"], vec!["a.x.com", "b.x.com"], vec![]]);
    let authorities = select(vec![None, None, Some("one"), Some("other")]);
    (select(vec!["good", "wild", "bad", "gone", "other/good", "third/wild"]), names, authorities, 0..4).prop_map(
        |(name, names, authorities, form)| {
            let builder = secret(name, &names);
            let builder =
                authorities.into_iter().fold(builder, |builder, authorities| builder.authorities(authorities));
            match form {
                0 => builder.fault("expired").into(),
                1 => builder.fault("no key").without_pair().into(),
                _ => builder.into(),
            }
        },
    )
}

fn any_class() -> impl Strategy<Value = Object> {
    (select(vec!["ours", "foreign", "third"]), any::<bool>(), any::<bool>()).prop_map(|(name, ours, default)| {
        let builder = class(name);
        let builder = if ours { builder } else { builder.controller("x") };
        if default { builder.default_class().into() } else { builder.into() }
    })
}

fn any_namespace() -> impl Strategy<Value = Object> {
    let labels = select(vec![vec![], vec![("team", "front")]]);
    (select(vec!["shop", "other", "third", "new"]), labels, any::<bool>()).prop_map(|(name, labels, terminating)| {
        labeled_namespace(name, &labels).with::<Namespace>(|one| one.meta.terminating = terminating)
    })
}

/// Generates a HostGrant.
pub fn any_host_grant(hosts: &'static [&'static str]) -> impl Strategy<Value = Object> {
    let hosts = prop::collection::vec(select(hosts), 0..3);
    let names = prop::collection::vec(select(vec!["shop", "other", "third"]), 0..2);
    (select(vec!["one", "two", "three"]), hosts, names, prop::bool::weighted(0.3)).prop_map(
        |(name, hosts, names, by_label)| {
            let grant = hosts.into_iter().fold(host_grant(name), HostGrantBuilder::host);
            let grant = names.into_iter().fold(grant, HostGrantBuilder::name);
            if by_label { grant.label("team", "front").into() } else { grant.into() }
        },
    )
}

/// Generates a BackendPolicy for one of these Services.
pub fn any_backend_policy(services: &'static [&'static str]) -> impl Strategy<Value = Object> {
    let target = (select(services), select(vec![None, None, Some("http"), Some("80"), Some("443"), Some("gone")]));
    let targets = prop::collection::vec(target, 0..3);
    let feature = prop::collection::vec(0..15u8, 0..4);
    let names = select(vec!["one", "two", "three", "other/four"]);
    (names, 1i64..3, targets, feature, prop::bool::weighted(0.1)).prop_map(
        |(name, created, targets, features, terminating)| {
            let policy = backend_policy(name).created(created);
            let policy = targets.into_iter().fold(policy, |policy, (service, port)| policy.target(service, port));
            let policy = features.into_iter().fold(policy, |policy, feature| match feature {
                0 => policy.consecutive_5xx(3),
                1 => policy.consecutive_5xx(0),
                2 => policy.http_check("/ready", None),
                3 => policy.http_check("/ready", Some(9000)),
                4 => policy.grpc_check("shop.Cart"),
                5 => policy.hash_on_header(LoadBalancingAlgorithm::Maglev, "x-user"),
                6 => policy.hash_on_header(LoadBalancingAlgorithm::RoundRobin, "x-user"),
                7 => policy.zones(PreferredZones::Local),
                8 => policy.zones(PreferredZones::Any),
                9 => policy.spec(|spec| spec.retry_budget = Some(RetryBudgetSpec::default().into())),
                10 => policy.http3(true),
                11 => policy.http3(false),
                12 => policy.http3_of("web.shop.svc"),
                13 => policy.spec(|spec| spec.proxy_protocol = Some(ProxyProtocolVersion::V2.into())),
                _ => policy.idle_timeout("1m"),
            });
            if terminating { policy.terminating().into() } else { policy.into() }
        },
    )
}

/// Generates an XBackendTrafficPolicy for one of these Services.
pub fn any_traffic_policy(services: &'static [&'static str]) -> impl Strategy<Value = Object> {
    let targets = prop::collection::vec(select(services), 0..3);
    let retries = select(vec![None, Some((20, 10, "1s")), Some((50, 3, "0s")), Some((0, 90_000, "1s"))]);
    let session =
        select(vec![None, None, Some(("Cookie", None)), Some(("Header", Some("x-cart"))), Some(("Odd", None))]);
    let names = select(vec!["one", "two", "three", "other/four"]);
    (names, 1i64..3, targets, retries, session, prop::bool::weighted(0.1)).prop_map(
        |(name, created, targets, retries, session, terminating)| {
            let mut policy =
                targets.into_iter().fold(traffic_policy(name).created(created), |all, one| all.target(one));
            if let Some((percent, count, interval)) = retries {
                policy = policy.retries(percent, count, interval);
            }
            if let Some((kind, name)) = session {
                policy = policy.session(kind, name);
            }
            if terminating { policy.terminating().into() } else { policy.into() }
        },
    )
}

/// Generates an HTTPPolicy of Ingresses, or of a namespace.
fn any_http_policy() -> impl Strategy<Value = Object> {
    let kind = select(vec!["Ingress", "Ingress", "Ingress", "Namespace", "HTTPRoute"]);
    let section = select(vec![None, None, Some("x.com"), Some("*.x.com"), Some("A.x.com"), Some("gone.com")]);
    let name = select(vec!["i1", "i2", "i1", "i2", "shop", "other", "gone"]);
    let targets = prop::collection::vec((kind, name, section), 0..3);
    let rate = select(vec![None, Some(0), Some(1), Some(2)]);
    let ranges = select(vec![None, Some("192.0.2.0/24"), Some("?")]);
    let per_client = prop::bool::weighted(0.2);
    let overriding = prop::bool::weighted(0.3);
    let names = select(vec!["p1", "p2", "other/p1", "third/p1"]);
    (names, 1i64..3, targets, rate, ranges, per_client, (overriding, any_authentication())).prop_map(
        |(name, created, targets, rate, ranges, per_client, (overriding, authenticated))| {
            let policy = http_policy(name).created(created);
            let policy = targets.into_iter().fold(policy, |policy, (kind, name, section)| {
                section.into_iter().fold(policy.target(kind, name), HttpPolicyBuilder::section)
            });
            let policy = rate
                .into_iter()
                .fold(policy, |policy, rate| if per_client { policy.rate_per_client(rate) } else { policy.rate(rate) });
            let policy = ranges.into_iter().fold(policy, |policy, range| policy.allow(&[range]));
            let policy = authenticated.into_iter().fold(policy, with_authentication);
            if overriding { policy.overriding().into() } else { policy.into() }
        },
    )
}

/// Generates a feature of a policy, see [`with_authentication`].
pub(super) fn any_authentication() -> impl Strategy<Value = Option<u8>> {
    prop::option::weighted(0.4, 0..52u8)
}

/// Adds a feature with a Secret or a Service to a policy.
pub(super) fn with_authentication(policy: HttpPolicyBuilder, kind: u8) -> HttpPolicyBuilder {
    match kind {
        0 => policy.users_of("users"),
        1 => policy.users_of("other/users"),
        2 => policy.api_keys_of(&["clients"]),
        3 => policy.api_keys_of(&["clients", "users"]),
        4 => policy.keys_of("http://login.test/keys", "a"),
        5 => policy.keys_of("https://login.test/keys", "a"),
        6 => policy.keys_of("http://login.test/keys", "other/gone"),
        7 => policy.headers("x-team", "front"),
        8 => policy.pages(&["*.x.com", "app.x.com:8443"]),
        9 => policy.scripts_of(&["https://app.x.com", "https://*.x.com:8443"]),
        10 => policy.retries(3),
        11 => policy.retries(20).overriding(),
        12 => policy.timeouts(Some("5s"), None),
        13 => policy.timeouts(Some("soon"), Some("1m")),
        14 => policy.rewrite("/a/(.*)", r"/\1"),
        15 => policy.rewrite("/(a|b)*", r"/\1").overriding(),
        16 => policy.rewrite("/a(", "/"),
        17 => policy.mirror("a"),
        18 => policy.mirror("b").overriding(),
        19 => policy.mirror("other/a"),
        20 => policy.mirror("gone"),
        21 => policy.login_of("users", "a"),
        22 => policy.login_of("other/users", "other/gone"),
        23 => policy.login_of("clients", "a").keys_of("http://login.test/keys", "a"),
        24 => policy.error_responses("500-599", "busy"),
        25 => policy.error_responses("404", "gone").overriding(),
        26 => policy.error_responses("200", "odd"),
        27 => policy.buffered("64KiB"),
        28 => policy.buffered("1GiB").body("1KiB").overriding(),
        29 => policy.faults("1s", 503),
        30 => policy.faults("1h", 200).overriding(),
        31 => {
            policy.faults("1s", 503).buffered("64KiB").keys_of("http://login.test/keys", "a").login_of("clients", "a")
        }
        32 => policy.counted_by("x-user"),
        33 => policy.counted_by("no header").overriding(),
        34 => policy.processed_by("a", BodyMode::None),
        35 => policy.processed_by("other/a", BodyMode::Streamed).overriding(),
        36 => policy.processed_by("gone", BodyMode::Buffered),
        37 => policy.processed_by("a", BodyMode::Buffered).buffered("1KiB").faults("1s", 503),
        38 => policy.host_in("x-host").headers("x-host", "a b"),
        39 => policy.host_in("x-team").overriding(),
        40 => policy.host_of_path("/([a-z]+)(/.*)?", r"\1.inner.test"),
        41 => policy.host_of_path("/(.*)", r"\1.inner.test"),
        42 => policy.module("waf"),
        43 => policy.module("waf").processed_by("a", BodyMode::None),
        44 => policy.module("gone").overriding(),
        45 => policy.responses("1MiB", UnknownLength::Refuse),
        46 => policy.responses("10B", UnknownLength::Allow).module("waf").overriding(),
        47 => policy.grpc_json(BOOKS, &["shop.v1.Books"]),
        48 => policy.grpc_json(BOOKS, &["shop.v1.Books"]).buffered("1KiB").module("waf"),
        49 => policy.grpc_json(BOOKS, &["shop.v1.Shops"]).overriding(),
        50 => {
            policy.grpc_json(BOOKS, &["shop.v1.Books"]).host_of_path("/([a-z]+)(/.*)?", r"\1.inner.test").overriding()
        }
        _ => policy.scripts_of(&["*"]).overriding(),
    }
}

/// Generates a Secret with credentials.
pub(super) fn any_credentials() -> impl Strategy<Value = Object> {
    (select(vec!["users", "clients", "other/users"]), 0..6u8).prop_map(|(name, kind)| {
        let builder = secret(name, &[]).without_pair();
        match kind {
            0 => builder.into(),
            1 => builder.password("ann").into(),
            4 => builder.client_secret("one").into(),
            5 => builder.client_secret("two").password("ann").into(),
            2 => builder.password("ann").password("bob").credential_fault("data[\".htpasswd\"] line 3: odd").into(),
            _ => builder.api_key("app", "one").api_key("batch", "two").api_key("again", "one").into(),
        }
    })
}

/// Generates one of the ConfigMaps with claims.
fn any_claims() -> impl Strategy<Value = Object> {
    let claimants = select(vec!["", "shop", "shop", "other", "third", "new"]);
    (select(&HOSTS[..]), prop::collection::vec(claimants, HOSTS.len())).prop_filter_map(
        "a host",
        |(host, claimants)| {
            let parse = |text: &&str| crate::translate::host::parse(text).ok().filter(|host| *host != Host::Any);
            let wanted = claim_shard(&parse(&host)?);
            let all = HOSTS
                .into_iter()
                .zip(claimants)
                .filter(|(text, claimant)| parse(text).is_some() && !claimant.is_empty());
            claims(&all.collect::<Vec<_>>()).into_iter().nth(wanted)
        },
    )
}

pub(super) fn any_object() -> impl Strategy<Value = Object> {
    let object = prop_oneof![
        3 => any_claims(),
        4 => any_http_policy(),
        8 => any_ingress(),
        4 => any_service(),
        4 => any_slice(),
        3 => any_secret(),
        3 => any_credentials(),
        1 => any_class(),
        2 => any_namespace(),
        4 => any_backend_policy(&["a", "b", "e", "gone"]),
        4 => any_traffic_policy(&["a", "b", "e", "gone"]),
        3 => any_host_grant(&["x.com", "a.x.com", "*.x.com", "**.x.com", "**.com", "**", "?"]),
    ];
    (object, 1i64..3).prop_map(|(object, generation)| {
        let object = object.with(|ingress: &mut Ingress| ingress.meta.generation = generation);
        object.with(|slice: &mut EndpointSlice| slice.meta.generation = generation)
    })
}

pub(super) fn any_settings() -> impl Strategy<Value = Settings> {
    let secret = || prop::option::of(select(&SECRETS[1..]).prop_map(|name| ("shop".to_owned(), name.to_owned())));
    let stats = (prop::option::of(9000u16..9002), secret(), secret());
    // One or some copies of one rule fit into a namespace, one wildcard with TLS, one limit for each client, or everything.
    let limit = select(vec![200, 600, 1000, 7 << 10, 1 << 20, Tenants::default().max_configuration_per_namespace]);
    let require_grant = prop::bool::weighted(0.2);
    let of_clients = (secret(), secret(), any::<bool>(), limit, require_grant);
    let envoys = prop::option::of(Just(("shop".to_owned(), "envoys".to_owned())));
    (of_clients, secret(), any::<bool>(), any::<bool>(), stats, (any_ownership(), envoys)).prop_map(
        |(
            of_clients,
            client_certificate,
            allow,
            classless,
            (port, stats_secret, client_ca),
            (ownership, envoy_service),
        )| {
            let (default_secret, fallback_secret, redirect, limit, require_grant) = of_clients;
            let tls = TlsSettings { default_secret, fallback_secret, redirect, ..TlsSettings::default() };
            let mut settings = Settings {
                tls,
                external_names: ExternalNames { allow, cluster_local: false },
                ingress: crate::settings::IngressSettings { classless, ..Default::default() },
                namespace_ownership: ownership,
                hosts: Hosts { require_grant },
                envoy_service,
                ..Settings::default()
            };
            settings.tenants.max_configuration_per_namespace = limit;
            settings.tenants.active_health_checks = allow;
            settings.http.error_responses = allow;
            let module = Module { file: "/wasm/waf.wasm".to_owned(), ..Module::default() };
            settings.wasm.modules.extend(allow.then(|| ("waf".to_owned(), module)));
            settings.tenants.global_rate_limits = allow;
            settings.tenants.max_grpc_json_bytes = if allow { 1 << 10 } else { 0 };
            settings.rate_limit.endpoint = Some(ServiceAddress { host: "limits.test".to_owned(), port: 8081 });
            settings.upstream.client_certificate = client_certificate;
            let stats = &mut settings.listeners.stats_tls;
            (stats.at.port, stats.secret, stats.client_ca) = (port.unwrap_or(0), stats_secret, client_ca);
            settings
        },
    )
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        24 => any_object().prop_map(Step::Apply),
        8 => any_object().prop_map(|object| Step::Delete(object.kind(), object.meta().key.clone())),
        1 => any_settings().prop_map(|settings| Step::Settings(Box::new(settings))),
    ]
}

/// Applies `step` to `objects` like the loop.
pub(super) fn take(step: Step, objects: &mut Objects, settings: &mut Settings, changed: &mut ChangedInputs) {
    let (kind, key) = match &step {
        Step::Apply(object) => (object.kind(), object.meta().key.clone()),
        Step::Delete(kind, key) => (*kind, key.clone()),
        Step::Settings(other) => {
            *settings = Settings::clone(other);
            *changed = ChangedInputs::everything();
            return;
        }
    };
    let before = Input::of_object(objects, kind, &key);
    match step {
        Step::Apply(object) => drop(objects.apply(object)),
        Step::Delete(..) => drop(objects.delete(kind, &key)),
        Step::Settings(_) => {}
    }
    let after = Input::of_object(objects, kind, &key);
    before.into_iter().chain(after).for_each(|input| changed.insert(input));
}

/// Returns the keys whose entries differ.
fn differing<K: Ord + Clone, V: PartialEq>(
    before: &std::collections::BTreeMap<K, V>,
    now: &std::collections::BTreeMap<K, V>,
) -> BTreeSet<K> {
    before.keys().chain(now.keys()).filter(|key| before.get(*key) != now.get(*key)).cloned().collect()
}

pub(super) fn difference(before: &Model, now: &Model) -> Touched {
    let http = differing(before.http(), now.http());
    let https = &differing(before.https(), now.https()) | &(before.refused() ^ now.refused());
    let hosts =
        [(ListenerId::HTTP, http), (ListenerId::HTTPS, https)].into_iter().filter(|(_, hosts)| !hosts.is_empty());
    Touched {
        listeners: BTreeSet::new(),
        hosts: hosts.map(|(id, hosts)| (ListenerId::new(id), hosts)).collect(),
        clusters: differing(&before.clusters, &now.clusters),
        endpoints: differing(&before.endpoints, &now.endpoints),
        secrets: differing(&before.secrets, &now.secrets),
        stats_tls: before.stats_tls != now.stats_tls,
    }
}

/// Returns the Ingresses that have lost all their routes.
pub(super) fn lost_of(translator: &Translator) -> BTreeSet<ObjectId> {
    translator.sources().filter(|key| translator.has_lost(key)).collect()
}

#[test]
fn a_port_with_its_number_as_its_name_has_other_endpoints() {
    let port = |name: &str| Object::from(service("a").port(name, 80));
    let path = ingress("shop").host("x.com").path("Prefix", "/", "a:80");
    let endpoint = slice("s", "a").port("", 8080).endpoint("10.0.0.1", [true, true, false]);
    let mut objects = objects(&[class("ours").into(), path.into(), port(""), endpoint.into()]);
    let (mut settings, mut changed) = (Settings::default(), ChangedInputs::default());
    let mut translator = Translator::default();
    translator.update(&objects, &settings, &ChangedInputs::everything());
    let before = translator.model().clone();
    take(Step::Apply(port("80")), &mut objects, &mut settings, &mut changed);
    translator.update(&objects, &settings, &changed);
    assert_ne!(translator.model().endpoints, before.endpoints);
    assert_eq!(translator.model(), &translate(&objects, &settings).model);
}

#[test]
fn a_changed_class_affects_only_its_members() {
    let of = |name: &str, class: &str| {
        let host = format!("{name}.com");
        ingress(name).class(Some(class)).host(&host).path("Prefix", "/", "a:80").into()
    };
    let mut objects = objects(&fixed(&[]));
    for object in [of("one", "ours"), of("two", "other"), of("three", "other")] {
        objects.apply(object);
    }
    let (mut settings, mut changed) = (Settings::default(), ChangedInputs::default());
    let mut translator = Translator::default();
    translator.update(&objects, &settings, &ChangedInputs::everything());
    let members = ["three", "two"].map(|name| ObjectId::new(Kind::INGRESS, "shop", name));
    for step in [Step::Apply(class("other").into()), Step::Delete(Kind::INGRESS_CLASS, ObjectKey::new("", "other"))] {
        take(step, &mut objects, &mut settings, &mut changed);
        let update = translator.update(&objects, &settings, &std::mem::take(&mut changed));
        assert!(update.sources.iter().eq(&members), "{:?}", update.sources);
        assert_eq!(update.touched.hosts_of(ListenerId::HTTP).len(), 2, "{:?}", update.touched);
        assert_eq!(translator.model(), &translate(&objects, &settings).model);
    }
}

#[test]
fn a_secret_of_the_settings_affects_only_its_dependents() {
    let of = |name: &str| ingress(name).host(&format!("{name}.com")).path("Prefix", "/", &format!("{name}:80"));
    let mut objects = objects(&[class("ours").into()]);
    for object in
        [of("plain").into(), of("tls").tls(&["tls.com"], "").into(), of("other").tls(&["other.com"], "own").into()]
    {
        objects.apply(object);
    }
    objects.apply(secret("own", &["other.com"]).into());
    objects.apply(service("plain").port("http", 80).into());
    objects.apply(service("tls").port("http", 80).app_protocol("https").into());
    let name = |name: &str| Some(("shop".to_owned(), name.to_owned()));
    let mut settings = Settings {
        tls: TlsSettings { default_secret: name("default"), ..TlsSettings::default() },
        ..Settings::default()
    };
    settings.upstream.client_certificate = name("client");
    let mut translator = Translator::default();
    translator.update(&objects, &settings, &ChangedInputs::everything());
    let mut apply = |object: Object| {
        let mut changed = ChangedInputs::default();
        take(Step::Apply(object), &mut objects, &mut settings, &mut changed);
        let update = translator.update(&objects, &settings, &changed);
        assert_eq!(translator.model(), &translate(&objects, &settings).model);
        update
    };
    // The default certificate: sources with TLS entries, and clients without a known server name.
    let update = apply(secret("default", &["tls.com"]).into());
    let asking = ["other", "tls"].map(|name| ObjectId::new(Kind::INGRESS, "shop", name));
    assert!(update.sources.iter().eq(&asking), "{:?}", update.sources);
    let hosts = [Host::Exact("tls.com".into()), Host::Any];
    assert!(update.touched.hosts_of(ListenerId::HTTPS).iter().eq(&hosts), "{:?}", update.touched);
    // The client certificate: sources of backends with TLS.
    let update = apply(secret("client", &[]).into());
    assert!(update.sources.iter().eq(&asking[1..]), "{:?}", update.sources);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn incremental_changes_equal_one_translation(
        settings in any_settings(),
        first in prop::collection::vec(any_object(), 0..10),
        passes in prop::collection::vec(prop::collection::vec(any_step(), 1..4), 1..20),
    ) {
        let mut settings = settings;
        let mut objects = objects(&fixed(&[]));
        let namespaces = ["shop", "other", "third"].map(|name| namespace(name, false));
        for object in namespaces.into_iter().chain(first) {
            objects.apply(object);
        }
        // The verdicts include conflicts.
        let mut translator = Translator::new(&super::verdicts::DIALECTS);
        translator.update(&objects, &settings, &ChangedInputs::everything());
        let mut lost = lost_of(&translator);
        for steps in passes {
            let (mut changed, before) = (ChangedInputs::default(), translator.model().clone());
            for step in steps.clone() {
                let mut one = ChangedInputs::default();
                take(step, &mut objects, &mut settings, &mut one);
                changed.extend(one);
            }
            let update = translator.update(&objects, &settings, &changed);
            let whole = translate(&objects, &settings);
            prop_assert_eq!(translator.model(), &whole.model, "after {:?}", steps);
            let problems: Vec<_> = translator.problems().iter().map(|problem| (**problem).clone()).collect();
            prop_assert_eq!(problems, whole.problems, "after {:?}", steps);
            prop_assert_eq!(translator.sources().collect::<BTreeSet<_>>(), whole.sources);
            let mut anew = Translator::new(&super::verdicts::DIALECTS);
            anew.update(&objects, &settings, &ChangedInputs::everything());
            prop_assert_eq!(translator.verdicts(), anew.verdicts(), "after {:?}", steps);
            prop_assert_eq!(translator.unsettled_hosts(), anew.unsettled_hosts(), "after {:?}", steps);
            let lost_before = std::mem::replace(&mut lost, lost_of(&translator));
            prop_assert_eq!(&lost, &lost_of(&anew), "after {:?}", steps);
            let told = |id: &&ObjectId| update.sources.contains(*id);
            prop_assert!(lost_before.symmetric_difference(&lost).all(|key| told(&key)), "untold after {:?}", steps);
            let changed = difference(&before, translator.model());
            let mut both = update.touched.clone();
            both.extend(changed);
            prop_assert_eq!(&both, &update.touched, "something changed untold after {:?}", steps);
        }
    }
}
