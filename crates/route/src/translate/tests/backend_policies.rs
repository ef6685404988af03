//! BackendPolicies: their effect on clusters, whichever route leads there, and the parts that they must not affect.

use std::sync::Arc;
use std::time::Duration;

use super::gateway::{conditions, world_of};
use crate::model::{
    Algorithm, BackendFeatures, Cluster, ClusterId, HashOn, HashPart, Model, Probe, TlsVersion, ZonePreference,
};
use crate::objects::{
    GrpcProbeSpec, HealthCheckSpec, Kind, LoadBalancingAlgorithm, Object, ObjectKey, Objects, PreferredZones,
    ProxyProtocolVersion,
};
use crate::settings::Settings;
use crate::testing::backend_policies::backend_policy;
use crate::testing::gateway::*;
use crate::testing::model::cluster_id;
use crate::testing::objects::*;
use crate::translate::{ChangedInputs, Input, Translator, translate};

/// Returns settings that allow active health checks.
fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.tenants.active_health_checks = true;
    settings
}

fn translated(objects: &Objects) -> Translator {
    let mut translator = Translator::default();
    translator.update(objects, &settings(), &ChangedInputs::everything());
    translator
}

/// An Ingress, an HTTPRoute, a GRPCRoute's protocol by `appProtocol`, and a TCPRoute that lead to the port `shop/web:80`.
fn shop(more: impl IntoIterator<Item = Object>) -> Objects {
    let base: [Object; 6] = [
        gateway("public").listener("http", 80, "HTTP").listener("tcp", 81, "TCP").into(),
        gateway_service("public", &[(80, 10_000), (81, 10_001)]),
        service("web").port("http", 80).port("admin", 81).into(),
        http_route("web").parent("public").host("x.test").rule("/", "web:80").rule("/admin", "web:81").into(),
        ingress("web").host("y.test").path("Prefix", "/", "web:80").into(),
        slice("web-1", "web").port("http", 9080).port("admin", 9081).ready("10.0.0.1").into(),
    ];
    world_of(base.into_iter().chain([class("ours").into()]).chain(more))
}

/// Returns the clusters of a port of `shop/web`, with the features of each.
fn clusters(model: &Model, port: u16) -> Vec<(&ClusterId, &Arc<Cluster>)> {
    model.clusters.iter().filter(|(_, cluster)| cluster.port == port && &*cluster.origin.name == "web").collect()
}

/// Returns the features of the only cluster of a port of `shop/web`.
fn features(model: &Model, port: u16) -> Option<&BackendFeatures> {
    let [(_, cluster)] = clusters(model, port)[..] else { panic!("{:?}", clusters(model, port)) };
    cluster.policy.features.as_deref()
}

fn consecutive_5xx(model: &Model, port: u16) -> Option<u32> {
    features(model, port)?.outlier_detection.as_ref()?.consecutive_5xx
}

#[test]
fn a_policy_applies_to_the_service_whichever_route_leads_there() {
    let without = translated(&shop([]));
    assert!(without.model().clusters.contains_key(&cluster_id("shop/web/http")));
    let with = translated(&shop([backend_policy("p").target("web", None).consecutive_5xx(3).into()]));
    assert_eq!(consecutive_5xx(with.model(), 80), Some(3), "one cluster for the Ingress and the HTTPRoute");
    assert_eq!(consecutive_5xx(with.model(), 81), Some(3));
    assert_eq!(conditions(&with, Kind::BACKEND_POLICY, "p"), ["0: Accepted=True Accepted"]);
    assert!(!with.model().clusters.contains_key(&cluster_id("shop/web/http")), "the cluster has another identity");
}

#[test]
fn the_policy_of_a_port_takes_precedence_for_each_feature() {
    let of_service = backend_policy("service").target("web", None).consecutive_5xx(3).idle_timeout("1m");
    for port in ["admin", "81"] {
        let of_port = backend_policy("port").created(9).target("web", Some(port)).consecutive_5xx(7);
        let translator = translated(&shop([of_service.clone().into(), of_port.into()]));
        let model = translator.model();
        assert_eq!((consecutive_5xx(model, 80), consecutive_5xx(model, 81)), (Some(3), Some(7)));
        assert_eq!(features(model, 81).unwrap().idle_timeout, Some(Duration::from_secs(60)), "inherited");
        assert_eq!(features(model, 81).unwrap().origins.len(), 2);
        assert!(translator.problems().is_empty());
    }
}

#[test]
fn the_older_of_two_policies_for_a_target_applies() {
    let older = backend_policy("older").created(1).target("web", Some("http")).consecutive_5xx(3);
    let younger = backend_policy("younger").created(2).target("web", Some("80")).consecutive_5xx(7).idle_timeout("1m");
    let translator = translated(&shop([older.into(), younger.into()]));
    assert_eq!(consecutive_5xx(translator.model(), 80), Some(3));
    assert_eq!(features(translator.model(), 80).unwrap().idle_timeout, None);
    assert_eq!(conditions(&translator, Kind::BACKEND_POLICY, "older"), ["0: Accepted=True Accepted"]);
    assert_eq!(conditions(&translator, Kind::BACKEND_POLICY, "younger"), ["0: Accepted=False Conflicted"]);
}

#[test]
fn a_feature_that_is_not_valid_is_left_out_alone() {
    let bad = backend_policy("p").target("web", None).consecutive_5xx(0).http_check("ready", None).idle_timeout("1m");
    let translator = translated(&shop([bad.into()]));
    let features = features(translator.model(), 80).unwrap();
    assert!(features.outlier_detection.is_none() && features.health_check.is_none());
    assert_eq!(features.idle_timeout, Some(Duration::from_secs(60)));
    let problems: Vec<String> = translator.problems().iter().map(|problem| problem.to_string()).collect();
    assert_eq!(
        problems,
        [
            "BackendPolicy shop/p: spec.healthCheck.http.path: \"ready\" is not an absolute path; feature left out",
            "BackendPolicy shop/p: spec.outlierDetection.consecutive5xx: 0 is not a number from 1 to 1000; feature left out",
        ]
    );
    assert_eq!(conditions(&translator, Kind::BACKEND_POLICY, "p"), ["0: Accepted=False Invalid"]);
}

#[test]
fn without_a_valid_feature_the_cluster_keeps_its_identity() {
    let bad = backend_policy("p").target("web", None).idle_timeout("soon");
    assert_eq!(translated(&shop([bad.into()])).model().clusters, translated(&shop([])).model().clusters);
}

#[test]
fn a_policy_of_another_namespace_has_no_effect() {
    let stranger = backend_policy("other/p").target("web", None).consecutive_5xx(3);
    let translator = translated(&shop([stranger.into()]));
    assert_eq!(features(translator.model(), 80), None);
    let problem = translator.problems().iter().next().expect("a problem").to_string();
    assert!(problem.contains("Service \"other/web\" does not exist; no effect on this target"), "{problem}");
}

#[test]
fn active_health_checks_need_a_setting() {
    let policy = backend_policy("p").target("web", None).http_check("/", None).consecutive_5xx(3);
    let objects = shop([policy.into()]);
    let mut translator = translated(&objects);
    assert!(features(translator.model(), 80).is_some_and(|features| features.health_check.is_some()));
    translator.update(&objects, &Settings::default(), &ChangedInputs::everything());
    let features = features(translator.model(), 80).unwrap();
    assert!(features.health_check.is_none() && features.outlier_detection.is_some());
    let problem = translator.problems().iter().next().unwrap().to_string();
    let expected = "spec.healthCheck: the setting tenants.activeHealthChecks does not allow it; feature left out";
    assert!(problem.ends_with(expected), "{problem}");
}

#[test]
fn an_external_name_is_not_checked() {
    let external = service("web").external("example.com").port("http", 80).port("admin", 81);
    let policy = backend_policy("p").target("web", None).http_check("/", None).idle_timeout("1m");
    let settings =
        Settings { external_names: crate::settings::ExternalNames { allow: true, cluster_local: false }, ..settings() };
    let objects = shop([policy.into(), external.into()]);
    let translation = translate(&objects, &settings);
    let features = features(&translation.model, 80).unwrap();
    assert!(features.health_check.is_none() && features.idle_timeout.is_some());
    let problems: Vec<String> = translation.problems.iter().map(ToString::to_string).collect();
    let expected = "spec.healthCheck: Service \"shop/web\" has an external name, which Envoy does not check; left out for this \
                    Service";
    assert!(problems.iter().any(|problem| problem.ends_with(expected)), "{problems:#?}");
}

#[test]
fn the_port_of_health_checks_is_a_port_of_the_endpoints_and_not_of_an_envoy() {
    let envoys: [Object; 2] = [
        service("infra/envoy").port("http", 80).into(),
        slice("infra/e", "envoy").port("http", 8080).ready("10.0.0.1").into(),
    ];
    let settings = Settings { envoy_service: Some(("infra".into(), "envoy".into())), ..settings() };
    let checked = |port: u16| {
        let policy = backend_policy("p").target("web", Some("http")).http_check("/", Some(port));
        let model = translate(&shop(envoys.iter().cloned().chain([policy.into()])), &settings).model;
        let port_of = |name: &str| model.endpoints[&cluster_id(name).port].health_check_port;
        (port_of("shop/web/http"), port_of("shop/web/admin"))
    };
    assert_eq!(checked(9000), (Some(9000), None));
    let stats = settings.listeners.stats.port;
    assert_ne!(stats, 0);
    assert_eq!(checked(stats), (None, None), "the endpoint has the address of an Envoy");
}

#[test]
fn a_grpc_check_needs_http2() {
    let policy = |service: &str| -> Object { backend_policy("p").target(service, None).grpc_check("").into() };
    let translator = translated(&shop([policy("web")]));
    assert_eq!(features(translator.model(), 80), None, "Envoy rejects the cluster");
    let problem = translator.problems().iter().next().expect("a problem").to_string();
    assert!(problem.contains("spec.healthCheck.grpc: port 80 of Service \"shop/web\" speaks HTTP/1.1"), "{problem}");
    let h2c = service("web").port("http", 80).app_protocol("kubernetes.io/h2c").port("admin", 81);
    let translator = translated(&shop([policy("web"), h2c.into()]));
    assert!(features(translator.model(), 80).is_some_and(|features| features.health_check.is_some()));
}

#[test]
fn a_udp_port_is_no_target() {
    let policy = backend_policy("p").target("dns", Some("dns")).consecutive_5xx(3);
    let dns = service("dns").port_of("UDP", "dns", 53);
    let translator = translated(&shop([dns.into(), policy.into()]));
    assert_eq!(conditions(&translator, Kind::BACKEND_POLICY, "p"), ["0: Accepted=False TargetNotFound"]);
}

#[test]
fn every_part_of_a_request_can_be_hashed_only_with_a_hashing_algorithm() {
    let policy = |algorithm| backend_policy("p").target("web", None).hash_on_header(algorithm, "x-user").into();
    let translator = translated(&shop([policy(LoadBalancingAlgorithm::RingHash)]));
    let balancing = features(translator.model(), 80).unwrap().load_balancing.clone().unwrap();
    assert_eq!(balancing.algorithm, Algorithm::RingHash);
    assert!(
        matches!(&balancing.hash_on[..], [HashPart { on: HashOn::Header(name), is_terminal: true }] if name.as_str() == "x-user")
    );
    let translator = translated(&shop([policy(LoadBalancingAlgorithm::Random)]));
    assert_eq!(features(translator.model(), 80), None);
}

#[test]
fn a_changed_policy_affects_only_the_routes_of_its_services() {
    let of = |count| -> Object { backend_policy("p").created(1).target("web", None).consecutive_5xx(count).into() };
    let stays = ingress("other").host("other.test").path("Prefix", "/", "a:80").into();
    let mut objects = shop([of(3), stays]);
    let mut translator = translated(&objects);
    let before = clusters(translator.model(), 80)[0].0.clone();
    objects.apply(of(4));
    let mut changed = ChangedInputs::default();
    changed.insert(Input::new(Kind::BACKEND_POLICY, ObjectKey::new("shop", "p")));
    let update = translator.update(&objects, &settings(), &changed);
    let after = clusters(translator.model(), 80)[0].0.clone();
    assert_ne!(before, after);
    assert!(update.touched.clusters.contains(&before) && update.touched.clusters.contains(&after));
    let sources: Vec<String> = update.sources.iter().map(ToString::to_string).collect();
    assert_eq!(sources, ["BackendPolicy shop/p", "HTTPRoute shop/web", "Ingress shop/web"]);
    assert_eq!(translator.model(), &translate(&objects, &settings()).model);
    // A policy behind the older one affects no route.
    objects.apply(backend_policy("q").created(2).target("web", None).consecutive_5xx(9).into());
    let mut changed = ChangedInputs::default();
    changed.insert(Input::new(Kind::BACKEND_POLICY, ObjectKey::new("shop", "q")));
    let update = translator.update(&objects, &settings(), &changed);
    assert!(update.touched.clusters.is_empty(), "{:?}", update.touched);
}

#[test]
fn a_created_service_becomes_a_target() {
    let policy = backend_policy("p").target("late", Some("http")).grpc_check("");
    let route = ingress("late").host("late.test").path("Prefix", "/", "late:80");
    let mut objects = shop([policy.into(), route.into()]);
    let mut translator = translated(&objects);
    assert_eq!(conditions(&translator, Kind::BACKEND_POLICY, "p"), ["0: Accepted=False TargetNotFound"]);
    assert!(translator.is_dependency(&Input::new(Kind::SERVICE, ObjectKey::new("shop", "late"))));
    objects.apply(service("late").port("http", 80).app_protocol("kubernetes.io/h2c").into());
    let mut changed = ChangedInputs::default();
    changed.insert(Input::new(Kind::SERVICE, ObjectKey::new("shop", "late")));
    translator.update(&objects, &settings(), &changed);
    assert_eq!(conditions(&translator, Kind::BACKEND_POLICY, "p"), ["0: Accepted=True Accepted"]);
    let checks = translator
        .model()
        .clusters
        .values()
        .filter_map(|cluster| Some(cluster.policy.features.as_ref()?.health_check.as_ref()?.probe.clone()));
    assert_eq!(checks.collect::<Vec<_>>(), [Probe::Grpc { service: "".into() }]);
}

#[test]
fn the_preference_of_zones_is_that_of_the_policy_and_otherwise_of_the_service() {
    let close: Object = service("web").port("http", 80).port("admin", 81).prefers_close(true).into();
    let zones = |objects: Vec<Object>| {
        let translator = translated(&shop(objects));
        features(translator.model(), 80).and_then(|features| features.zones)
    };
    let local = Some(ZonePreference::Local { min_endpoints: 1 });
    let policy = |prefer| -> Object { backend_policy("p").target("web", Some("http")).zones(prefer).into() };
    assert_eq!(zones(vec![]), None);
    assert_eq!(zones(vec![close.clone()]), local);
    assert_eq!(zones(vec![policy(PreferredZones::Local)]), local);
    assert_eq!(zones(vec![close.clone(), policy(PreferredZones::Any)]), None);
    let of_service = backend_policy("q").target("web", None).idle_timeout("1m");
    assert_eq!(zones(vec![close, of_service.into()]), local, "a policy without the feature");
}

/// The port 80 of `shop/web` speaks TLS, with HTTP/2 or HTTP/1.1.
fn over_tls(http2: bool) -> Object {
    let web = service("web").port("http", 80).port("admin", 81);
    match http2 {
        true => web.annotation("projectcontour.io/upstream-protocol.h2", "80").into(),
        false => web.annotation("projectcontour.io/upstream-protocol.tls", "80").into(),
    }
}

/// Returns whether the port 80 has HTTP/3, the condition of the policy `p`, and the problems.
fn http3_of(objects: impl IntoIterator<Item = Object>, settings: &Settings) -> (bool, Vec<String>, Vec<String>) {
    let mut translator = Translator::default();
    translator.update(&shop(objects), settings, &ChangedInputs::everything());
    let is_over_http3 = clusters(translator.model(), 80).iter().any(|(_, cluster)| cluster.policy.is_over_http3());
    let problems = translator.problems().iter().map(ToString::to_string).collect();
    (is_over_http3, conditions(&translator, Kind::BACKEND_POLICY, "p"), problems)
}

#[test]
fn http3_needs_tls_and_neither_proxy_headers_nor_a_grpc_check() {
    let policy = || backend_policy("p").target("web", Some("http")).http3_of("web.shop.svc");
    let accepted = vec!["0: Accepted=True Accepted".to_owned()];
    let invalid = vec!["0: Accepted=False Invalid".to_owned()];
    for http2 in [false, true] {
        assert_eq!(http3_of([policy().into(), over_tls(http2)], &settings()), (true, accepted.clone(), vec![]));
    }
    let checked = policy().http_check("/ready", None);
    assert_eq!(http3_of([checked.into(), over_tls(false)], &settings()), (true, accepted.clone(), vec![]));
    let refused = |objects: Vec<Object>, problem: &str| {
        let problem = format!("BackendPolicy shop/p: spec.http3: {problem}");
        assert_eq!(http3_of(objects, &settings()), (false, invalid.clone(), vec![problem]));
    };
    let nameless = backend_policy("p").target("web", Some("http")).http3(true);
    let without_name = "BackendPolicy shop/p: spec.http3.serverName: port 80 of Service \"shop/web\" has a route that does not verify one \
                        DNS name, and no name is set; such routes do not use HTTP/3";
    let expected = (false, invalid.clone(), vec![without_name.to_owned()]);
    assert_eq!(http3_of([nameless.into(), over_tls(false)], &settings()), expected);
    let without_tls =
        "port 80 of Service \"shop/web\" has a route without TLS, which HTTP/3 requires; such routes do not use HTTP/3";
    refused(vec![policy().into()], without_tls);
    let announced = policy().spec(|spec| spec.proxy_protocol = Some(ProxyProtocolVersion::V2.into()));
    let with_headers = "port 80 of Service \"shop/web\" receives PROXY headers, which HTTP/3 does not support; its requests are sent \
                        over TCP, with PROXY headers";
    refused(vec![announced.into(), over_tls(false)], with_headers);
    let grpc = HealthCheckSpec { grpc: Some(GrpcProbeSpec::default()), ..HealthCheckSpec::default() };
    let checked = policy().spec(|spec| spec.health_check = Some(grpc.into()));
    let with_check = "port 80 of Service \"shop/web\" has a gRPC health check, which needs HTTP/2; its requests are sent over HTTP/2, \
                      and its endpoints are checked";
    refused(vec![checked.into(), over_tls(true)], with_check);
}

#[test]
fn http3_needs_settings_that_envoy_applies_to_quic() {
    let policy = || -> Object { backend_policy("p").target("web", Some("http")).http3_of("a.test").into() };
    let refused = |change: fn(&mut Settings), why: &str| {
        let mut settings = settings();
        change(&mut settings);
        let (is_over_http3, condition, problems) = http3_of([policy(), over_tls(false)], &settings);
        assert_eq!((is_over_http3, &*condition[0]), (false, "0: Accepted=False Invalid"));
        assert_eq!(problems, [format!("BackendPolicy shop/p: spec.http3: {why}; feature left out")]);
    };
    refused(
        |settings| settings.upstream.tls.maximum = TlsVersion::V1_2,
        "the setting upstream.tls.maximumVersion does not allow TLS 1.3, which HTTP/3 requires",
    );
    refused(
        |settings| settings.upstream.tls.curves = vec!["P-384".to_owned()],
        "Envoy does not apply the setting upstream.tls.curves to HTTP/3",
    );
}

#[test]
fn a_port_has_no_http3_if_its_own_policy_disables_it() {
    let general = backend_policy("p").target("web", None).http3_of("web.shop.svc");
    let of_port = backend_policy("q").target("web", Some("http")).http3(false);
    assert!(http3_of([general.clone().into(), over_tls(false)], &settings()).0);
    assert!(!http3_of([general.into(), of_port.into(), over_tls(false)], &settings()).0);
    // Without HTTP/3, the cluster has the identity of a Service without a policy.
    let disabled = backend_policy("p").target("web", None).http3(false);
    assert_eq!(translated(&shop([disabled.into()])).model().clusters, translated(&shop([])).model().clusters);
}

#[test]
fn the_condition_of_http3_follows_the_service() {
    let mut objects = shop([backend_policy("p").target("web", Some("http")).http3_of("a.test").into()]);
    let mut translator = translated(&objects);
    for (service, expected) in [
        (over_tls(false), "0: Accepted=True Accepted"),
        (service("web").port("http", 80).port("admin", 81).into(), "0: Accepted=False Invalid"),
    ] {
        objects.apply(service);
        let mut changed = ChangedInputs::default();
        changed.insert(Input::new(Kind::SERVICE, ObjectKey::new("shop", "web")));
        let update = translator.update(&objects, &settings(), &changed);
        assert_eq!(conditions(&translator, Kind::BACKEND_POLICY, "p"), [expected]);
        assert!(update.sources.iter().any(|source| source.kind == Kind::BACKEND_POLICY), "{:?}", update.sources);
    }
}

#[test]
fn the_bytes_of_clients_are_no_requests() {
    let route = tcp_route("t").parent("public").section("tcp").backend("web:80");
    let policy = backend_policy("p").target("web", Some("http")).http3_of("a.test");
    let (_, condition, problems) = http3_of([route.into(), policy.into(), over_tls(false)], &settings());
    assert_eq!((&*condition[0], &problems[..]), ("0: Accepted=True Accepted", &[][..]));
}
