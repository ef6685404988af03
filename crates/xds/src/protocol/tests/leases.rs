//! TTLs and aliases: the other fields of the protocol's `Resource` wrapper.

use std::time::Duration;

use envoy_types::pb::envoy::config::endpoint::v3 as endpoint_v3;
use envoy_types::pb::envoy::service::discovery::v3 as discovery_v3;
use prost::Message;

use super::harness::*;
use crate::protocol::encode;
use crate::protocol::message::{Node, Request, Response, Variant};
use crate::snapshot::{Lease, Resource, ResourceType};

const TTL: Duration = Duration::from_secs(10);

/// Returns endpoints with a TTL.
fn leased(name: &str, ttl: Option<Duration>, aliases: &[&str]) -> Resource {
    let assignment = endpoint_v3::ClusterLoadAssignment {
        cluster_name: name.to_owned(),
        ..endpoint_v3::ClusterLoadAssignment::default()
    };
    let lease = Lease { ttl, aliases: aliases.iter().map(|alias| (*alias).into()).collect(), constraints: None };
    Resource::with_lease(ResourceType::ENDPOINTS, name, &assignment.encode_to_vec(), lease, Vec::new())
}

fn delta_message(response: &Response) -> discovery_v3::DeltaDiscoveryResponse {
    discovery_v3::DeltaDiscoveryResponse::decode(encode::response(response, Variant::Delta, "test").into_bytes())
        .unwrap()
}

fn sotw_message(response: &Response) -> discovery_v3::DiscoveryResponse {
    discovery_v3::DiscoveryResponse::decode(encode::response(response, Variant::Sotw, "test").into_bytes()).unwrap()
}

fn ask_with(bench: &mut Bench, agent: &str, features: &[&str]) -> Response {
    let node = Node {
        id: "one".into(),
        user_agent: agent.into(),
        features: features.iter().map(|feature| (*feature).to_owned()).collect(),
        ..Node::default()
    };
    let subscribe = vec!["a".to_owned()];
    let type_url = ResourceType::ENDPOINTS.url().to_owned();
    bench.request(Request { node: Some(node), type_url, subscribe, ..Request::default() }).one().clone()
}

#[test]
fn s33_a_ttl_is_sent_only_to_clients_that_list_both_features() {
    let both = ["xds.config.supports-resource-ttl", "xds.config.resource-in-sotw"];
    for (agent, features, told) in [
        ("gRPC", &both[..], true),
        ("gRPC", &both[..1], false),
        ("gRPC", &both[1..], false),
        ("gRPC", &[], false),
        // Envoy 1.40 crashes when a TTL expires.
        ("envoy", &both[..], false),
    ] {
        let mut bench = Bench::sotw([leased("a", Some(TTL), &[])]);
        let message = sotw_message(&ask_with(&mut bench, agent, features));
        let any = &message.resources[0];
        assert_eq!(any.type_url.ends_with(".Resource"), told, "{agent} {features:?}");
        if told {
            let wrapper = discovery_v3::Resource::decode(&*any.value).unwrap();
            assert_eq!((&*wrapper.name, wrapper.ttl.unwrap().seconds), ("a", 10));
            assert!(wrapper.resource.unwrap().type_url.ends_with(".ClusterLoadAssignment"));
        }
        let renewed = bench.wait(TTL / 2);
        assert_eq!(!renewed.is_empty(), told, "{agent} {features:?}");
    }
}

#[test]
fn s33_a_heartbeat_has_the_version_and_no_content() {
    let both = ["xds.config.supports-resource-ttl", "xds.config.resource-in-sotw"];
    let mut bench = Bench::sotw([leased("a", Some(TTL), &[])]);
    let first = ask_with(&mut bench, "gRPC", &both);
    bench.set_names(ResourceType::ENDPOINTS, vec!["a".to_owned()]);
    bench.ack(&first);
    let heartbeat = sotw_message(bench.wait(TTL / 2).one());
    let wrapper = discovery_v3::Resource::decode(&*heartbeat.resources[0].value).unwrap();
    assert_eq!(wrapper.version, first.resources[0].version().to_string());
    assert!(wrapper.resource.is_none());
    assert_eq!(wrapper.ttl.unwrap().seconds, 10);
}

#[test]
fn d25_a_delta_client_receives_heartbeats() {
    let mut bench = Bench::delta([leased("a", Some(TTL), &[])]);
    let first = bench.subscribe(ResourceType::ENDPOINTS, ["a"]);
    let message = delta_message(first.one());
    assert_eq!(message.resources[0].ttl.as_ref().unwrap().seconds, 10);
    bench.ack(first.one());
    for _ in 0..3 {
        let heartbeat = bench.wait(TTL / 2);
        let message = delta_message(heartbeat.one());
        assert!(message.resources[0].resource.is_none());
        assert_eq!(&*message.resources[0].name, "a");
        assert!(message.removed_resources.is_empty());
        bench.ack(heartbeat.one());
    }
    // Without a TTL, nothing is renewed.
    let without = bench.publish([leased("a", None, &[])]);
    assert_eq!(without, "EDS{a}");
    bench.ack(without.one());
    assert_eq!(bench.wait(TTL * 2), "");
}

#[test]
fn d25_an_expired_resource_is_sent_again() {
    let mut bench = Bench::delta([leased("a", Some(TTL), &[]), leased("b", Some(TTL), &[])]);
    bench.settled(ResourceType::ENDPOINTS, ["a", "b"]);
    let b = bench.version(ResourceType::ENDPOINTS, "b");
    bench.reconnect();
    // The client reports both, but one has expired while it was disconnected.
    assert_eq!(bench.resume(ResourceType::ENDPOINTS, &["a", "b"], [("b", b)]), "EDS{a}");
}

#[test]
fn d26_an_alias_receives_the_resource_under_its_name() {
    let mut bench = Bench::delta([leased("a", None, &["x", "y"])]);
    let sent = bench.subscribe(ResourceType::ENDPOINTS, ["x"]);
    assert_eq!(sent, "EDS{a}");
    assert_eq!(delta_message(sent.one()).resources[0].aliases, ["x", "y"]);
    bench.ack(sent.one());
    let changed = bench.publish([leased("a", None, &["x"])]);
    assert_eq!(changed, "EDS{a}");
    bench.ack(changed.one());
    assert_eq!(bench.publish([]), "EDS-{a}");
}

#[test]
fn d26_name_and_alias_in_one_request_are_one_resource() {
    let mut bench = Bench::delta([leased("a", None, &["x"])]);
    assert_eq!(bench.subscribe(ResourceType::ENDPOINTS, ["x", "a"]), "EDS{a}");
}

#[test]
fn d26_a_later_alias_is_answered_when_it_exists() {
    let mut bench = Bench::delta([]);
    let absent = bench.subscribe(ResourceType::ENDPOINTS, ["x"]);
    assert_eq!(absent, "EDS-{x}");
    bench.ack(absent.one());
    assert_eq!(bench.publish([leased("a", None, &["x"])]), "EDS{a}");
}

#[test]
fn d26_either_name_unsubscribes() {
    for name in ["x", "a"] {
        let mut bench = Bench::delta([leased("a", None, &["x"])]);
        bench.settled(ResourceType::ENDPOINTS, ["x"]);
        assert_eq!(bench.unsubscribe(ResourceType::ENDPOINTS, [name]), "");
        assert_eq!(bench.publish([leased("a", None, &["x", "z"])]), "", "{name}");
    }
}

#[test]
fn d26_an_alias_does_not_hide_a_resource_of_that_name() {
    for names in [&["*", "b"][..], &["b"]] {
        let mut bench = Bench::delta([leased("b", None, &[])]);
        bench.settled_list(ResourceType::ENDPOINTS, names);
        let changed = bench.publish([leased("a", None, &["b"]), leased("b", Some(TTL), &[])]);
        assert_eq!(changed, if names.len() > 1 { "EDS{a,b}" } else { "EDS{b}" }, "{names:?}");
        bench.ack(changed.one());
        // A new subscription to the name also includes the resource with that name.
        assert_eq!(bench.subscribe(ResourceType::ENDPOINTS, ["b"]), "EDS{b}", "{names:?}");
    }
}

#[test]
fn d26_a_name_that_becomes_an_alias_is_removed() {
    for names in [&["*", "b"][..], &["b"]] {
        let mut bench = Bench::delta([leased("b", None, &[])]);
        bench.settled_list(ResourceType::ENDPOINTS, names);
        let changed = bench.publish([leased("a", None, &["b"])]);
        assert_eq!(changed, "EDS{a}-{b}", "{names:?}");
        bench.ack(changed.one());
        assert_eq!(bench.publish([leased("a", Some(TTL), &["b"])]), "EDS{a}", "{names:?}");
    }
}

#[test]
fn d26_a_moved_alias_receives_the_other_resource() {
    let mut bench = Bench::delta([leased("a", None, &["x"]), leased("c", None, &["x"])]);
    bench.settled(ResourceType::ENDPOINTS, ["x"]);
    // The first resource loses the alias, or is removed.
    let changed = bench.publish([leased("a", None, &[]), leased("c", None, &["x"])]);
    assert_eq!(changed, "EDS{a,c}");
    bench.ack(changed.one());
    let changed = bench.publish([leased("a", None, &[]), leased("d", None, &["x"])]);
    assert_eq!(changed, "EDS{d}-{c}");
    bench.ack(changed.one());
    assert_eq!(bench.unsubscribe(ResourceType::ENDPOINTS, ["x"]), "");
    assert_eq!(bench.publish([leased("a", None, &[]), leased("d", Some(TTL), &["x"])]), "");
}
