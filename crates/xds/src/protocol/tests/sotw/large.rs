//! Resources that are too large for one message.

use envoy_types::pb::envoy::config::core::v3::{Address, SocketAddress, address};
use envoy_types::pb::envoy::config::endpoint::v3 as endpoint_v3;

use super::*;
use crate::protocol::encode;
use crate::snapshot::Update;

/// The default maximum message size of gRPC libraries, in bytes. A larger message ends the stream.
const LARGEST_MESSAGE: usize = 4 << 20;

/// Returns a resource of about `bytes`.
fn of_size(kind: ResourceType, name: &str, bytes: usize, variation: u32) -> Resource {
    if kind == ROUTES {
        let (long, to) = ("x".repeat(bytes), format!("c{variation}"));
        return routes_for(name, &long, &[&to]);
    }
    let address = SocketAddress { address: "192.0.2.1".into(), ..Default::default() };
    let address = Address { address: Some(address::Address::SocketAddress(address)) };
    let hostname = format!("{variation}{}", "x".repeat(bytes));
    let endpoint = endpoint_v3::Endpoint { address: Some(address), hostname, ..Default::default() };
    let host_identifier = Some(endpoint_v3::lb_endpoint::HostIdentifier::Endpoint(endpoint));
    let endpoint = endpoint_v3::LbEndpoint { host_identifier, ..Default::default() };
    let locality = endpoint_v3::LocalityLbEndpoints { lb_endpoints: vec![endpoint], ..Default::default() };
    let message = endpoint_v3::ClusterLoadAssignment {
        cluster_name: name.into(),
        endpoints: vec![locality],
        ..Default::default()
    };
    Resource::new(name, &message, Vec::new())
}

/// Asserts that a gRPC library accepts each response in `sent`.
fn fits(sent: &Sent) {
    for response in sent.iter() {
        let bytes = encode::response(response, SOTW, "lockgate").len();
        assert!(bytes < LARGEST_MESSAGE, "{bytes} bytes: {sent:?}");
    }
}

/// Asserts that the responses fit while the client acknowledges them. Returns all names in order.
fn to_the_end(bench: &mut Bench, sent: Sent) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let mut sent = sent;
    while sent.iter().next().is_some() {
        fits(&sent);
        for response in sent.iter() {
            names.extend(response.resources.iter().map(|resource| resource.name().to_string()));
        }
        sent = bench.ack_all(&sent);
    }
    names
}

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

#[test]
fn s35_a_large_first_answer_has_several_responses() {
    for kind in [ENDPOINTS, ROUTES] {
        for mut bench in Bench::both(SOTW, kind, NAMES.map(|name| of_size(kind, name, 900_000, 0))) {
            let sent = bench.ask(kind, NAMES);
            assert_eq!(sent.iter().count(), 3, "{sent:?}");
            let versions: Vec<&String> = sent.iter().map(|response| &response.version).collect();
            assert!(versions.iter().all(|version| *version == versions[0]));
            assert_eq!(to_the_end(&mut bench, sent), NAMES);
            assert_eq!(bench.catch_up(), "", "nothing is owed");
        }
    }
}

#[test]
fn s35_many_changes_are_sent_in_several_responses_one_after_the_other() {
    for kind in [ENDPOINTS, ROUTES] {
        for mut bench in Bench::both(SOTW, kind, NAMES.map(|name| of_size(kind, name, 1, 0))) {
            bench.settled(kind, NAMES);
            let set = NAMES.map(|name| of_size(kind, name, 900_000, 1));
            let sent = bench.set(set);
            assert_eq!(sent.iter().count(), 1, "one at a time: {sent:?}");
            assert_eq!(to_the_end(&mut bench, sent), NAMES);
            assert_eq!(bench.catch_up(), "");
        }
    }
}

#[test]
fn s35_the_newest_version_of_a_change_in_several_responses_arrives() {
    for mut bench in Bench::both(SOTW, ENDPOINTS, NAMES.map(|name| of_size(ENDPOINTS, name, 1, 0))) {
        bench.settled(ENDPOINTS, NAMES);
        let first = bench.set(NAMES.map(|name| of_size(ENDPOINTS, name, 900_000, 1)));
        assert_eq!(first, "EDS{a,b}");
        bench.store.update(Update { set: vec![of_size(ENDPOINTS, "d", 1, 2)], remove: Vec::new() });
        assert_eq!(bench.catch_up(), "", "one at a time");
        let rest = bench.ack(first.one());
        assert_eq!(rest, "EDS{c,d,e}", "the newest of d is small");
        assert_eq!(bench.nack(rest.one(), "bad: c"), "EDS{d,e}", "the culprit is looked for as always");
    }
}

#[test]
fn s35_names_that_are_added_are_answered_at_once_in_several_responses() {
    for kind in [ENDPOINTS, ROUTES] {
        for mut bench in Bench::both(SOTW, kind, NAMES.map(|name| of_size(kind, name, 900_000, 0))) {
            bench.settled(kind, ["a"]);
            let sent = bench.ask(kind, NAMES);
            assert_eq!(sent.iter().count(), 2, "{sent:?}");
            assert_eq!(to_the_end(&mut bench, sent), &NAMES[1..]);
        }
    }
}

#[test]
fn s35_a_too_large_resource_is_sent_separately() {
    let sizes = [("a", 1), ("b", 5 << 20), ("c", 1)];
    let resources = sizes.map(|(name, bytes)| of_size(ENDPOINTS, name, bytes, 0));
    for mut bench in Bench::both(SOTW, ENDPOINTS, resources) {
        assert_eq!(bench.ask(ENDPOINTS, ["a", "b", "c"]), "EDS{a} EDS{b} EDS{c}");
    }
}
