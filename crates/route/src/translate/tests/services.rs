//! Backends, the annotations of Services, endpoints.

use std::time::Duration;

use crate::model::{Action, CircuitBreakers, Cluster, Discovery, Health, Host, UpstreamProtocol};
use crate::objects::{AddressType, Object};
use crate::testing::model::{Shared as _, cluster_id};
use crate::testing::objects::*;
use crate::translate::endpoints::{PortShare, endpoints_of};
use crate::translate::envoys::Envoys;

/// Returns the only cluster behind a path to `to`, with this Service.
fn cluster(service: impl Into<Object>, to: &str) -> Cluster {
    let model = world().with(service).with(ingress("i").host("x.com").path("Prefix", "/", to)).model();
    assert_eq!(model.clusters.len(), 1);
    Cluster::clone(&model.clusters.into_values().next().unwrap())
}

#[test]
fn a_backend_that_cannot_be_built_answers_503_in_its_place() {
    let world = world()
        .with(service("dns").port_of("UDP", "dns", 53))
        .with(service("dual").port_of("UDP", "dns", 53).port("dns-tcp", 53))
        .with(service("ext").external("example.com").port("http", 80))
        .with(
            ingress("i")
                .host("x.com")
                .path("Exact", "/1", "missing:80")
                .path("Exact", "/2", "a:81")
                .path("Exact", "/3", "a:nope")
                .path("Exact", "/4", "Bucket/b")
                .path("Exact", "/5", "dns:53")
                .path("Exact", "/6", "")
                .path("Exact", "/7", "ext:80")
                .path("Exact", "/8", "dual:53")
                .path("Prefix", "/", "a:80"),
        );
    assert_eq!(
        world.http("x.com"),
        [
            "= /8 shop/dual/dns-tcp",
            "= /7 503",
            "= /6 503",
            "= /5 503",
            "= /4 503",
            "= /3 503",
            "= /2 503",
            "= /1 503",
            "/* shop/a/http"
        ]
    );
    let field = |i: usize| format!("Ingress shop/i: spec.rules[0].http.paths[{i}].backend");
    assert_eq!(
        world.problems(),
        [
            format!("{}.service.name: Service \"shop/missing\" does not exist; answered 503", field(0)),
            format!("{}.service.port: Service \"shop/a\" has no port \"81\"; answered 503", field(1)),
            format!("{}.service.port: Service \"shop/a\" has no port \"nope\"; answered 503", field(2)),
            format!("{}.resource: backend of kind \"Bucket\", \"b\", is not served; answered 503", field(3)),
            format!(
                "{}.service.port: port \"dns\" of Service \"shop/dns\" has protocol \"UDP\"; answered 503",
                field(4)
            ),
            format!("{}: backend has neither a Service nor a resource; answered 503", field(5)),
            format!(
                "{}.service.name: external name \"example.com\" of Service \"shop/ext\" is not served: Services of \
                 type ExternalName are switched off; answered 503",
                field(6)
            ),
        ]
    );
}

#[test]
fn a_service_has_one_cluster_per_port_for_references_by_name_and_by_number() {
    let world = world().with(service("bare").port("", 8080)).with(
        ingress("i").host("x.com").path("Exact", "/1", "a:80").path("Exact", "/2", "a:http").path(
            "Exact",
            "/3",
            "bare:8080",
        ),
    );
    let names: Vec<_> = world.model().clusters.keys().map(ToString::to_string).collect();
    assert_eq!(names, ["shop/a/http", "shop/bare/8080"]);
    assert_eq!(world.model().endpoints.len(), 2);
}

#[test]
fn external_names() {
    let target = |name: &str| {
        let mut world =
            world().with(service("e").external(name)).with(ingress("i").host("x.com").path("Exact", "/", "e:443"));
        world.settings.external_names.allow = true;
        let model = world.model();
        assert!(model.endpoints.is_empty());
        model.clusters.into_values().next().map(|cluster| cluster.discovery.clone())
    };
    let hostname = "api.example.com".to_owned();
    assert_eq!(target("API.example.com."), Some(Discovery::Dns { hostname, port: 443 }));
    assert_eq!(target("10.1.2.3"), Some(Discovery::Static { address: [10, 1, 2, 3].into(), port: 443 }));
    assert_eq!(target("::ffff:127.0.0.1"), None);
    assert_eq!(target("localhost"), None);
}

#[test]
fn annotations_set_the_protocol_of_a_backend() {
    use UpstreamProtocol::{H2, H2c, Http1, Tls};
    let plain = || service("s").port("web", 80);
    let of = |builder| cluster(builder, "s:80").policy.protocol;
    let annotated =
        |key: &str, value: &str| plain().annotation(&format!("projectcontour.io/upstream-protocol.{key}"), value);
    assert_eq!(of(plain()), Http1);
    assert_eq!(of(annotated("h2", "web")), H2);
    assert_eq!(of(annotated("h2c", "80")), H2c);
    assert_eq!(of(annotated("tls", "other, web")), Tls);
    assert_eq!(of(annotated("tls", "81")), Http1);
    for (app_protocol, expected) in [
        ("https", Tls),
        ("kubernetes.io/wss", Tls),
        ("kubernetes.io/h2c", H2c),
        ("http", Http1),
        ("kubernetes.io/ws", Http1),
        ("example.com/own", H2),
    ] {
        assert_eq!(of(annotated("h2", "web").app_protocol(app_protocol)), expected, "{app_protocol}");
    }
}

#[test]
fn limits_and_connect_timeout_of_a_service() {
    let annotate = |pairs: &[(&str, &str)]| {
        pairs.iter().fold(service("s").port("", 80), |builder, (key, value)| builder.annotation(key, value))
    };
    let of = |pairs: &[(&str, &str)]| cluster(annotate(pairs), "s:80");
    let limits = of(&[
        ("projectcontour.io/max-connections", "1"),
        ("projectcontour.io/max-pending-requests", "2"),
        ("projectcontour.io/max-requests", "0"),
        ("projectcontour.io/max-retries", "many"),
        ("projectcontour.io/per-host-max-connections", "5"),
    ])
    .policy
    .limits;
    let expected = CircuitBreakers {
        max_connections: Some(1),
        max_pending_requests: Some(2),
        max_requests: None,
        max_retries: None,
        per_host_max_connections: Some(5),
    };
    assert_eq!(limits, expected);
    for (value, millis) in
        [("1500ms", 1500), ("2m", 120_000), ("soon", 2000), ("0", 2000), ("infinity", 2000), ("1ns", 1)]
    {
        let timeout = of(&[("lockgate.dev/connect-timeout", value)]).policy.connect_timeout;
        assert_eq!(timeout, Duration::from_millis(millis), "{value}");
    }
}

#[test]
fn annotations_of_used_services_are_reported_once() {
    let faulty = |name: &str| service(name).port("", 80).annotation("projectcontour.io/max-retries", "many");
    let world = world()
        .with(faulty("used"))
        .with(faulty("unused"))
        .with(ingress("i").host("x.com").path("Exact", "/1", "used:80").path("Exact", "/2", "used:80"));
    assert_eq!(
        world.problems(),
        ["Service shop/used: metadata.annotations[\"projectcontour.io/max-retries\"]: value \"many\" is not a number \
          from 0 to 4294967295; left out"]
    );
}

#[test]
fn circuit_breakers_and_retries_have_a_maximum() {
    let numbers = ["max-connections", "max-requests"].map(|name| format!("projectcontour.io/{name}"));
    let a = numbers.iter().fold(service("a").port("http", 80), |a, name| a.annotation(name, "4294967295"));
    let limits = cluster(a, "a:80").policy.limits;
    assert_eq!((limits.max_connections, limits.max_requests), (Some(10_000), Some(10_000)));
    let retried = ingress("i")
        .annotation("projectcontour.io/retry-on", "5xx")
        .annotation("projectcontour.io/num-retries", "2000000000")
        .host("x.com")
        .path("Prefix", "/", "a:80");
    let world = world().with(retried);
    let model = world.model();
    let routes = &model.http()[&Host::Exact("x.com".into())].routes;
    let retries = routes.iter().filter_map(|route| match &route.action {
        Action::Forward(forward) => forward.retry.as_ref(),
        _ => None,
    });
    assert_eq!(retries.map(|retry| retry.retries).collect::<Vec<_>>(), [10]);
    assert_eq!(
        world.problems(),
        [
            "Ingress shop/i: metadata.annotations[\"projectcontour.io/num-retries\"]: value \"2000000000\" is larger than 10, \
          the setting tenants.maxRetries; 10 retries"
        ]
    );
}

/// Formats the endpoints of `shop/a`, port `http`: `zone address:port`, with `-` before draining endpoints.
fn endpoints(slices: Vec<SliceBuilder>, ipv6_families: &[bool]) -> Vec<String> {
    let mut list: Vec<Object> = vec![service("a").port("http", 80).ipv6_families(ipv6_families).into()];
    list.extend(slices.into_iter().map(Into::into));
    let (endpoints, _) =
        endpoints_of(&objects(&list), &Envoys::default(), &cluster_id("shop/a/http").port, PortShare::ALL).unwrap();
    let line = |zone: &str, endpoint: &crate::model::Endpoint| {
        let mark = if endpoint.health == Health::Draining { "-" } else { "" };
        format!("{mark}{zone} {}:{}", endpoint.address, endpoint.port).trim_start().to_owned()
    };
    let zones = endpoints.zones.iter();
    zones.flat_map(|(zone, list)| list.iter().map(|endpoint| line(zone, endpoint)).collect::<Vec<_>>()).collect()
}

const SERVING: [bool; 3] = [false, true, true];
const TERMINATING: [bool; 3] = [false, false, true];
const STARTING: [bool; 3] = [false, false, false];

#[test]
fn ready_endpoints_serve_and_terminating_ones_drain() {
    let slice = slice("s", "a")
        .port("http", 8080)
        .ready("10.0.0.1")
        .endpoint("10.0.0.2", SERVING)
        .endpoint("10.0.0.3", TERMINATING)
        .endpoint("10.0.0.4", STARTING);
    assert_eq!(endpoints(vec![slice], &[]), ["10.0.0.1:8080", "- 10.0.0.2:8080", "- 10.0.0.3:8080"]);
}

#[test]
fn without_ready_endpoints_serving_ones_receive_requests() {
    let slice = || slice("s", "a").port("http", 8080).endpoint("10.0.0.3", TERMINATING).endpoint("10.0.0.4", STARTING);
    let serving = slice().endpoint("10.0.0.2", SERVING);
    assert_eq!(endpoints(vec![serving], &[]), ["10.0.0.2:8080", "- 10.0.0.3:8080"]);
    assert_eq!(endpoints(vec![slice()], &[]), ["- 10.0.0.3:8080"]);
}

#[test]
fn slices_are_merged_and_duplicates_count_once_with_the_better_readiness() {
    let one =
        slice("one", "a").port("http", 8080).endpoint("10.0.0.1", SERVING).zone("z1").ready("10.0.0.2").zone("z2");
    let two = slice("two", "a").port("http", 8080).ready("10.0.0.1").zone("z3");
    assert_eq!(endpoints(vec![one, two], &[]), ["z2 10.0.0.2:8080", "z3 10.0.0.1:8080"]);
}

#[test]
fn ports_go_by_name_and_may_differ_per_slice() {
    let one = slice("one", "a").port("http", 8080).port("metrics", 9090).ready("10.0.0.1");
    let two = slice("two", "a").port("http", 8081).ready("10.0.0.2");
    let three = slice("three", "a").port("", 80).ready("10.0.0.3");
    let other = slice("other", "b").port("http", 80).ready("10.0.0.4");
    assert_eq!(endpoints(vec![one, two, three, other], &[]), ["10.0.0.1:8080", "10.0.0.2:8081"]);
}

#[test]
fn a_pod_of_both_families_counts_once() {
    let v4 = || slice("four", "a").port("http", 8080).ready("10.0.0.1").pod("shop/p").ready("10.0.0.2");
    let v6 = |conditions| {
        slice("six", "a")
            .address_type(AddressType::Ipv6)
            .port("http", 8080)
            .endpoint("fd00::1", conditions)
            .pod("shop/p")
    };
    let ready = [true, true, false];
    assert_eq!(endpoints(vec![v4(), v6(ready)], &[]), ["10.0.0.1:8080", "10.0.0.2:8080"]);
    assert_eq!(endpoints(vec![v4(), v6(ready)], &[false, true]), ["10.0.0.1:8080", "10.0.0.2:8080"]);
    assert_eq!(endpoints(vec![v4(), v6(ready)], &[true, false]), ["10.0.0.2:8080", "fd00::1:8080"]);
    // An outdated slice does not remove the pod.
    assert_eq!(endpoints(vec![v4(), v6(SERVING)], &[true, false]), ["10.0.0.1:8080", "10.0.0.2:8080"]);
}

#[test]
fn an_invalid_address_is_reported_and_affects_only_itself() {
    let world = world()
        .with(
            slice("bad", "a")
                .port("http", 8080)
                .ready("nonsense")
                .ready("fd00::1")
                .ready("0.0.0.0")
                .ready("224.0.0.1")
                .ready("10.0.0.1"),
        )
        .with(slice("names", "a").address_type(AddressType::Fqdn).port("http", 8080).ready("example.com"))
        .with(slice("unused", "b").port("http", 8080).ready("nonsense"))
        .with(ingress("i").host("x.com").path("Prefix", "/", "a:80"));
    assert_eq!(
        world.problems(),
        [
            "EndpointSlice shop/bad: endpoints[0].addresses[0]: address \"nonsense\" is not an IP address; endpoint left out",
            "EndpointSlice shop/bad: endpoints[1].addresses[0]: address \"fd00::1\" is not an IPv4 address; endpoint left out",
            "EndpointSlice shop/bad: endpoints[2].addresses[0]: address \"0.0.0.0\" is the unspecified address; endpoint left out",
            "EndpointSlice shop/bad: endpoints[3].addresses[0]: address \"224.0.0.1\" is a multicast address; endpoint left out",
            "EndpointSlice shop/names: addressType: address type \"FQDN\" is not served; EndpointSlice left out",
        ]
    );
    let model = world.model();
    let endpoints = model.endpoints.values().next().unwrap();
    assert_eq!(endpoints.zones.iter().map(|(_, list)| list.len()).collect::<Vec<_>>(), [1]);
    let origins: Vec<_> = endpoints.origins.iter().map(ToString::to_string).collect();
    assert_eq!(origins, ["EndpointSlice shop/bad", "Service shop/a"]);
}

#[test]
fn removed_services_and_ports_have_no_endpoints() {
    let list = objects(&[service("a").port("http", 80).into(), service("e").external("x.com").port("", 80).into()]);
    for (name, known) in [("shop/a/http", true), ("shop/a/80", false), ("shop/b/http", false), ("shop/e/80", false)] {
        assert_eq!(
            endpoints_of(&list, &Envoys::default(), &cluster_id(name).port, PortShare::ALL).is_some(),
            known,
            "{name}"
        );
    }
}
