//! Invalid input: the state of a stream handles it without a panic, and stays bounded.

use std::collections::BTreeMap;
use std::time::Instant;

use proptest::prelude::*;
use prost::Message;

use super::harness::*;
use crate::protocol::{Locator, Node, Request, Stream, Timing, Variant};

/// Decodes `bytes` as a request of either variant, like the service.
fn decoded(variant: Variant, bytes: &[u8]) -> Option<Request> {
    use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DiscoveryRequest};
    match variant {
        Variant::Sotw => DiscoveryRequest::decode(bytes).ok().map(Request::from),
        Variant::Delta => DeltaDiscoveryRequest::decode(bytes).ok().map(Request::from),
    }
}

fn variants() -> impl Strategy<Value = Variant> {
    prop_oneof![Just(Variant::Sotw), Just(Variant::Delta)]
}

/// A name that a careless or hostile client could send.
fn names() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[ab]",
        1 => Just("*".to_owned()),
        1 => Just(String::new()),
        1 => Just("xdstp://authority/type/*".to_owned()),
        1 => Just("xdstp://".to_owned()),
        1 => Just("a/b".to_owned()),
        1 => Just("/".to_owned()),
        1 => "\\PC{0,8}",
        1 => Just("x".repeat(10_000)),
    ]
}

fn types() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => (0..KINDS.len()).prop_map(|i| KINDS[i].url().to_owned()),
        1 => Just("type.googleapis.com/envoy.config.route.v3.VirtualHost".to_owned()),
        1 => Just("type.googleapis.com/google.protobuf.Any".to_owned()),
        1 => Just("somewhere.else/envoy.config.cluster.v3.Cluster".to_owned()),
        1 => "\\PC{0,12}",
    ]
}

prop_compose! {
    fn requests()(
        with_node in any::<bool>(),
        type_url in types(),
        nonce in prop_oneof![Just(String::new()), (0..6_u32).prop_map(|n| n.to_string()), "\\PC{0,4}"],
        error in proptest::option::of("\\PC{0,8}"),
        version in prop_oneof![Just(String::new()), "[0-9a-f]{16}", "\\PC{0,4}"],
        subscribe in proptest::collection::vec(names(), 0..4),
        unsubscribe in proptest::collection::vec(names(), 0..4),
        initial in proptest::collection::btree_map(names(), "[0-9a-f]{0,17}", 0..3),
        located in proptest::collection::vec(names(), 0..2),
        lost in proptest::collection::vec(names(), 0..2),
    ) -> Request {
        let locators = |names: Vec<String>| {
            let parameters = |name: &String| BTreeMap::from([("key".to_owned(), name.clone())]);
            names.into_iter().map(|name| Locator { parameters: parameters(&name), name }).collect()
        };
        Request {
            node: with_node.then(Node::default),
            type_url,
            nonce,
            error,
            version,
            subscribe,
            unsubscribe,
            locators: locators(located),
            locators_unsubscribe: locators(lost),
            initial_versions: initial,
            held: None,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_are_a_request_or_an_error(variant in variants(), bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Some(request) = decoded(variant, &bytes) {
            let mut stream = Stream::new(variant, true, Timing::default(), Default::default());
            let _ = stream.on_request(request, None, Instant::now());
        }
    }

    /// A mutated request gets further than random bytes.
    #[test]
    fn damaged_requests_are_requests_or_errors(
        variant in variants(),
        request in requests(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = encoded(variant, &request);
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(cut.index(bytes.len()) + 1);
        if let Some(request) = decoded(variant, &bytes) {
            let mut stream = Stream::new(variant, true, Timing::default(), Default::default());
            let _ = stream.on_request(request, None, Instant::now());
        }
    }

    #[test]
    fn no_sequence_of_requests_stops_a_stream(
        variant in variants(),
        aggregated in any::<bool>(),
        steps in proptest::collection::vec((requests(), 0..4_u8), 1..20),
    ) {
        let store = crate::snapshot::Store::default();
        store.replace(vec![cluster("a"), endpoints("a"), listener("l", "r"), routes("r", ["a"]), secret("s")]);
        let mut now = Instant::now();
        let mut stream = Stream::new(variant, aggregated, Timing::default(), store.newest().unwrap());
        let implied = (!aggregated).then_some(ENDPOINTS);
        let mut nonces = std::collections::BTreeSet::new();
        for (i, (mut request, then)) in steps.into_iter().enumerate() {
            if i == 0 {
                request.node = Some(Node::default());
            }
            let mut outputs = stream.on_request(request, implied, now).unwrap_or_default();
            match then {
                1 => {
                    let set = vec![cluster_at("a", i as i64 + 10), endpoints_at("b", i as u32)];
                    store.update(crate::snapshot::Update { set, remove: Vec::new() });
                    outputs.extend(stream.on_snapshot(store.newest().unwrap(), now));
                }
                2 => {
                    now += ms(7_000);
                    outputs.extend(stream.on_time(now));
                }
                _ => {}
            }
            for output in outputs {
                if let crate::protocol::Output::Send(response) = output {
                    prop_assert!(nonces.insert(response.nonce.clone()), "nonce {} came twice", response.nonce);
                }
            }
            let _ = stream.describe();
            stream.each_resource(&mut |_| ());
        }
    }
}

fn encoded(variant: Variant, request: &Request) -> Vec<u8> {
    use envoy_types::pb::envoy::config::core::v3 as core_v3;
    use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DiscoveryRequest};
    let node = Some(core_v3::Node { id: "n".into(), ..Default::default() });
    match variant {
        Variant::Sotw => DiscoveryRequest {
            node,
            type_url: request.type_url.clone(),
            response_nonce: request.nonce.clone(),
            version_info: request.version.clone(),
            resource_names: request.subscribe.clone(),
            ..Default::default()
        }
        .encode_to_vec(),
        Variant::Delta => DeltaDiscoveryRequest {
            node,
            type_url: request.type_url.clone(),
            response_nonce: request.nonce.clone(),
            resource_names_subscribe: request.subscribe.clone(),
            resource_names_unsubscribe: request.unsubscribe.clone(),
            initial_resource_versions: request.initial_versions.clone().into_iter().collect(),
            ..Default::default()
        }
        .encode_to_vec(),
    }
}
