//! Small texts of a tenant that could take much time or memory, in the controller or in Envoy.

use std::collections::BTreeSet;

use crate::model::{Action, Retry, UpstreamProtocol};
use crate::objects::gateway::RetryPolicy;
use crate::objects::{Object, SERVICE_PORTS};
use crate::testing::gateway::*;
use crate::testing::model::{Shared, cluster_id};
use crate::testing::objects::*;
use crate::translate::endpoints_of;
use crate::translate::problem::MOST;

use super::gateway::{translated, world_of};

/// Returns the retry policy of the only route of a host.
fn retry_of(action: &Action) -> &Retry {
    let Action::Forward(forward) = action else { panic!("{action:?}") };
    forward.retry.as_ref().expect("a retry policy")
}

#[test]
fn a_condition_of_retries_counts_once() {
    // Each path of the Ingress has a copy.
    let list = "5xx, reset,".repeat(20_000);
    let ingress = ingress("i").annotation("projectcontour.io/retry-on", &list);
    let model = world().with(ingress.host("x.com").path("Prefix", "/", "a:80")).model();
    let host = model.http().values().next().expect("a host");
    assert_eq!(retry_of(&host.routes[0].action).on, "5xx,reset");
}

#[test]
fn a_status_of_retries_counts_once() {
    let retry = RetryPolicy { codes: [503, 500].repeat(10_000), ..RetryPolicy::default() };
    let route = http_route("r").parent("public").host("x.test").rule("/", "a:80");
    let route: Object = route.change(|rule| rule.retry = Some(retry)).into();
    let public: Object = gateway("public").listener("http", 80, "HTTP").into();
    let translator = translated(&world_of([public, gateway_service("public", &[(80, 10_000)]), route]));
    let host = translator.model().plain("gateway/shop/public/80").expect("a listener").hosts.values().next();
    assert_eq!(retry_of(&host.expect("a host").routes[0].action).status_codes, [500, 503]);
}

#[test]
fn a_long_list_of_protocols_is_read_up_to_its_limit() {
    let list: Vec<String> = (0..50_000).map(|at| format!("x{at}")).collect();
    let service = (0..SERVICE_PORTS as u16).fold(service("s"), |service, at| service.port(&format!("p{at}"), at + 1));
    let service = service
        .annotation("projectcontour.io/upstream-protocol.h2", &format!("p7,{}", list.join(",")))
        .annotation("projectcontour.io/upstream-protocol.h2c", &"9,".repeat(100_000));
    let paths = (1..=200)
        .fold(ingress("i").host("x.com"), |ingress, at| ingress.path("Exact", &format!("/{at}"), &format!("s:{at}")));
    let world = world().with(service).with(paths);
    let model = world.model();
    let protocol = |port: &str| model.clusters[&cluster_id(&format!("shop/s/{port}"))].policy.protocol;
    assert_eq!(
        (protocol("p7"), protocol("p8"), protocol("p9")),
        (UpstreamProtocol::H2, UpstreamProtocol::H2c, UpstreamProtocol::Http1)
    );
    let problems = world.problems();
    assert_eq!(problems.len(), MOST + 1, "{problems:?}");
    assert!(problems[MOST].contains("980 more problems"), "{}", problems[MOST]);
}

#[test]
fn a_port_beyond_the_limit_of_a_service_says_so() {
    let service = (0..SERVICE_PORTS as u16).fold(service("s"), |service, at| service.port(&format!("p{at}"), at + 1));
    let problems = world().with(service).with(ingress("i").host("x.com").path("Prefix", "/", "s:5000")).problems();
    assert!(problems[0].contains("no port \"5000\"; only its first 1000 ports count"), "{problems:?}");
}

#[test]
fn each_port_keeps_few_problems_of_its_endpoints() {
    let invalid =
        (0..1000).fold(slice("s-1", "s"), |slice, at| slice.ready(&format!("127.0.{}.{}", at / 250, at % 250)));
    let service = service("s").port("a", 80).port("b", 81);
    let ingress = ingress("i").host("x.com").path("Exact", "/a", "s:80").path("Exact", "/b", "s:81");
    let world = world().with(service).with(invalid.port("a", 8080).port("b", 8081)).with(ingress);
    let (_, problems) = endpoints_of(&objects(&world.objects), &cluster_id("shop/s/a").port).expect("endpoints");
    assert_eq!(problems.len(), MOST + 1);
    let problems = world.problems();
    assert_eq!(problems.len(), MOST + 1, "{problems:?}");
    assert!(problems[MOST].contains("980 more problems"), "{}", problems[MOST]);
}

#[test]
fn zones_are_in_order_however_many_there_are() {
    let many = (0..4000).fold(slice("s-1", "s"), |slice, at| {
        slice.ready(&format!("10.0.{}.{}", at / 250, at % 250)).zone(&format!("z{}", (at * 7919) % 4000))
    });
    let world = world().with(service("s").port("a", 80)).with(many.port("a", 8080));
    let (endpoints, _) = endpoints_of(&objects(&world.objects), &cluster_id("shop/s/a").port).expect("endpoints");
    let zones: BTreeSet<_> = endpoints.zones.iter().map(|(zone, _)| zone.clone()).collect();
    assert_eq!((zones.len(), endpoints.zones.len()), (4000, 4000));
    assert!(endpoints.zones.is_sorted_by_key(|(zone, _)| zone.clone()));
}
