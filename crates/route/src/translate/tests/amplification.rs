//! Small texts of a tenant that could take much time or memory, in the controller or in Envoy.

use std::collections::BTreeSet;

use crate::model::{Action, Model, Retry, UpstreamProtocol};
use crate::objects::gateway::HttpRouteRetry;
use crate::objects::{AddressType, Kind, Object, ObjectKey, SERVICE_PORTS};
use crate::testing::gateway::*;
use crate::testing::model::{Shared, cluster_id};
use crate::testing::objects::*;
use crate::translate::endpoints::{MAX_ENDPOINTS, PortShare, endpoints_of};
use crate::translate::envoys::Envoys;
use crate::translate::problem::MOST;
use crate::translate::{ChangedInputs, Input, Translator};

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
    let retry = HttpRouteRetry { codes: [503, 500].repeat(10_000), ..HttpRouteRetry::default() };
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
fn the_ports_of_a_service_report_its_endpoints_once() {
    let (mut all, service) =
        (world(), (0..50).fold(service("s"), |service, at| service.port(&format!("p{at}"), at + 1)));
    for of in 0..50 {
        let empty = slice(&format!("s-{of}"), "s");
        all = all.with((0..10).fold(empty, |slice, at| slice.ready(&format!("127.0.{of}.{at}"))));
    }
    let world = all.with(service).with(paths(50));
    let objects = objects(&world.objects);
    let problems = |reports| {
        let share = PortShare { used: 50, reports };
        endpoints_of(&objects, &Envoys::default(), &cluster_id("shop/s/p7").port, share).expect("endpoints").1.len()
    };
    assert_eq!((problems(true), problems(false), world.problems().len()), (500, 0, 500));
}

#[test]
fn endpoints_that_cannot_be_used_are_not_read_without_limit() {
    let service = (0..1000).fold(service("s"), |service, at| service.port(&format!("p{at}"), at + 1));
    let unready = (0..1000).fold(slice("s-1", "s"), |slice, at| {
        slice.endpoint(&format!("10.0.{}.{}", at / 250, at % 250), [false, false, false])
    });
    let ready = slice("s-2", "s").ready("10.1.0.1");
    let with_ports = |slice: SliceBuilder| (0..1000).fold(slice, |slice, at| slice.port(&format!("p{at}"), 8000 + at));
    let world = world().with(service).with(with_ports(unready)).with(with_ports(ready)).with(paths(1000));
    assert_eq!(count(&world.model()), 0);
    assert!(world.problems()[0].contains("has more than 100 endpoints"), "{:?}", world.problems()[0]);
}

#[test]
fn each_port_keeps_few_problems_of_its_endpoints() {
    let invalid =
        (0..1000).fold(slice("s-1", "s"), |slice, at| slice.ready(&format!("127.0.{}.{}", at / 250, at % 250)));
    let service = service("s").port("a", 80).port("b", 81);
    let ingress = ingress("i").host("x.com").path("Exact", "/a", "s:80").path("Exact", "/b", "s:81");
    let world = world().with(service).with(invalid.port("a", 8080).port("b", 8081)).with(ingress);
    let (_, problems) =
        endpoints_of(&objects(&world.objects), &Envoys::default(), &cluster_id("shop/s/a").port, PortShare::ALL)
            .expect("endpoints");
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
    let (endpoints, _) =
        endpoints_of(&objects(&world.objects), &Envoys::default(), &cluster_id("shop/s/a").port, PortShare::ALL)
            .expect("endpoints");
    let zones: BTreeSet<_> = endpoints.zones.iter().map(|(zone, _)| zone.clone()).collect();
    assert_eq!((zones.len(), endpoints.zones.len()), (4000, 4000));
    assert!(endpoints.zones.is_sorted_by_key(|(zone, _)| zone.clone()));
}

/// Returns a Service with this number of ports, an Ingress for the first `used` ports, and EndpointSlices of 1,000 endpoints for
/// all ports.
fn with_ports(ports: u16, used: u16, slices: u16) -> World {
    let service = (0..ports).fold(service("s"), |service, at| service.port(&format!("p{at}"), at + 1));
    let slices = (0..slices).map(|of| {
        let name = format!("s-{of}");
        let slice =
            (0..1000).fold(slice(&name, "s"), |slice, at| slice.ready(&format!("10.{of}.{}.{}", at / 250, at % 250)));
        Object::from((0..ports).fold(slice, |slice, at| slice.port(&format!("p{at}"), 8000 + at)))
    });
    slices.fold(world().with(service).with(paths(used)), World::with)
}

/// Returns an Ingress with a path for each of the first `used` ports.
fn paths(used: u16) -> IngressBuilder {
    (0..used)
        .fold(ingress("i").host("x.com"), |ingress, at| ingress.path("Exact", &format!("/{at}"), &format!("s:p{at}")))
}

fn count(model: &Model) -> usize {
    model.endpoints.values().flat_map(|port| &port.zones).map(|(_, members)| members.len()).sum()
}

#[test]
fn all_ports_of_a_service_have_a_limited_number_of_endpoints() {
    let world = with_ports(100, 100, 20);
    assert_eq!(count(&world.model()), 100_000);
    let problem = "Service shop/s: spec.ports: port \"p0\" has more than 1000 endpoints; the 100 used ports of this Service have \
                   at most 100000; only 2000 entries of its EndpointSlices are read, and at most 1000 endpoints are used";
    assert!(world.problems().iter().any(|one| one == problem), "{:?}", world.problems());
}

#[test]
fn a_service_with_30_ports_and_1000_endpoints_is_within_the_limit() {
    let world = with_ports(30, 30, 1);
    assert_eq!((count(&world.model()), world.problems().len()), (30_000, 0));
}

/// Returns the addresses and the number of problems of a Service with two endpoints at most. Pods with these numbers have an IPv4
/// address, and pods with those an IPv6 address.
fn of_two_families(four: &[u16], six: &[u16], ipv6_first: bool) -> (Vec<String>, usize) {
    let slices = [(AddressType::Ipv4, four, "10.0.0."), (AddressType::Ipv6, six, "fd00::")];
    let slices = slices.map(|(family, pods, prefix)| {
        let empty = slice(&format!("{family:?}"), "s").address_type(family).port("a", 8080);
        pods.iter().fold(empty, |slice, pod| slice.ready(&format!("{prefix}{pod}")).pod(&format!("shop/{pod}")))
    });
    let world = world().with(service("s").port("a", 80).ipv6_families(&[ipv6_first, !ipv6_first]));
    let objects = objects(&slices.into_iter().fold(world, World::with).objects);
    let share = PortShare { used: MAX_ENDPOINTS / 2, reports: true };
    let (endpoints, problems) =
        endpoints_of(&objects, &Envoys::default(), &cluster_id("shop/s/a").port, share).expect("endpoints");
    let addresses = endpoints.zones.iter().flat_map(|(_, members)| members.iter().map(|one| one.address.to_string()));
    (addresses.collect(), problems.len())
}

#[test]
fn beyond_the_limit_endpoints_of_the_preferred_family_are_used() {
    let pods = [1, 2, 3, 4, 5];
    assert_eq!(of_two_families(&pods, &pods, true), (vec!["fd00::1".to_owned(), "fd00::2".to_owned()], 1));
    assert_eq!(of_two_families(&pods, &pods, false), (vec!["10.0.0.1".to_owned(), "10.0.0.2".to_owned()], 1));
}

#[test]
fn two_addresses_of_each_pod_are_within_the_limit_of_endpoints() {
    let two = vec!["10.0.0.1".to_owned(), "10.0.0.2".to_owned()];
    assert_eq!(of_two_families(&[1, 2], &[1, 2], false), (two.clone(), 0));
    // Exactly the limit is left without the second family, but an endpoint was not read.
    assert_eq!(of_two_families(&[1, 2], &[1, 2, 3], false), (two, 1));
}

#[test]
fn ports_that_nothing_uses_do_not_count() {
    let world = with_ports(100, 2, 20);
    assert_eq!((count(&world.model()), world.problems().len()), (40_000, 0));
}

#[test]
fn ports_that_come_into_use_share_the_limit_with_the_others() {
    let world = with_ports(60, 2, 4);
    let (mut objects, settings) = (objects(&world.objects), &world.settings);
    let mut translator = Translator::default();
    translator.update(&objects, settings, &ChangedInputs::everything());
    let before = translator.model().clone();
    for used in [60, 2] {
        objects.apply(paths(used).into());
        let mut changed = ChangedInputs::default();
        changed.insert(Input::new(Kind::INGRESS, ObjectKey::new("shop", "i")));
        translator.update(&objects, settings, &changed);
        let most = if used == 60 { 1666 } else { 4000 };
        assert_eq!(count(translator.model()), most * usize::from(used));
    }
    assert!(translator.problems().is_empty() && *translator.model() == before);
}
