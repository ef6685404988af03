//! A: rules of every stream, of both variants. [`super::grpc`] tests the rules that need a connection.

use super::harness::*;
use crate::protocol::{Node, Refusal, Request, Variant};
use crate::snapshot::{ApiVersion, Resource, ResourceType};

const VARIANTS: [Variant; 2] = [Variant::Sotw, Variant::Delta];

fn world() -> [Resource; 6] {
    [cluster("a"), cluster("b"), endpoints("a"), routes("r", ["a", "b"]), listener("l", "r"), secret("s")]
}

/// Returns the names of [`world`] that a client requests: all resources of the types with wildcards.
fn asked(kind: ResourceType) -> &'static [&'static str] {
    match kind {
        ENDPOINTS => &["a"],
        ROUTES => &["r"],
        SECRET => &["s"],
        _ => &[],
    }
}

/// Returns an aggregated stream, and one for each type.
fn streams(variant: Variant) -> Vec<(Bench, Vec<ResourceType>)> {
    let mut streams = vec![(Bench::new(variant, None, world()), KINDS.to_vec())];
    streams.extend(KINDS.map(|kind| (Bench::new(variant, Some(kind), world()), vec![kind])));
    streams
}

fn request(kind: ResourceType, node: Option<&str>, names: &[&str]) -> Request {
    Request {
        node: node.map(|id| Node { id: id.into(), ..Node::default() }),
        type_url: kind.url().into(),
        subscribe: names.iter().map(|name| (*name).to_owned()).collect(),
        ..Request::default()
    }
}

#[test]
fn a1_the_node_of_the_first_request_counts() {
    for variant in VARIANTS {
        for (mut bench, kinds) in streams(variant) {
            let kind = kinds[0];
            let sent = bench.request(request(kind, Some("n"), asked(kind)));
            assert_eq!(bench.stream.node().unwrap().id, "n");
            let ack = bench.ack_request(sent.one());
            let other = Some(Node { id: "other".into(), ..Node::default() });
            assert_eq!(bench.request(Request { node: other, ..ack }), "");
            assert_eq!(bench.stream.node().unwrap().id, "n", "a later node is ignored");
        }
    }
}

#[test]
fn a2_a_first_request_without_node_is_refused() {
    for variant in VARIANTS {
        for (mut bench, kinds) in streams(variant) {
            let kind = kinds[0];
            let refused = bench.stream.on_request(request(kind, None, asked(kind)), bench.only, bench.now);
            assert_eq!(refused.unwrap_err(), Refusal::NoNode);
        }
    }
}

#[test]
fn a3_two_streams_of_one_node_are_independent() {
    for variant in VARIANTS {
        let mut one = Bench::new(variant, None, [cluster("a"), cluster("b")]);
        let mut other = Bench::over(one.store.clone(), variant, None);
        assert_eq!(one.start(CLUSTER, ["a"]), "CDS{a}");
        assert_eq!(other.start(CLUSTER, ["b"]), "CDS{b}");
        one.set([cluster_at("a", 1)]);
        assert_eq!(other.catch_up(), "", "b did not change");
        let mut third = Bench::over(one.store.clone(), variant, None);
        assert_eq!(third.start(CLUSTER, ["a", "b"]), "CDS{a,b}", "what others were sent does not count");
        drop(other);
        third.set([endpoints("a")]);
        assert_eq!(third.start(ENDPOINTS, ["a"]), "EDS{a}");
    }
}

#[test]
fn a5_a_stream_of_one_type_implies_it_and_refuses_others() {
    for variant in VARIANTS {
        for kind in KINDS {
            let mut bench = Bench::new(variant, Some(kind), world());
            let implied = Request { type_url: String::new(), ..request(kind, Some("n"), asked(kind)) };
            let sent = bench.request(implied);
            assert_eq!(&*sent.one().type_url, kind.url());
            let other = if kind == CLUSTER { ENDPOINTS } else { CLUSTER };
            let refused = bench.try_request(request(other, None, &[])).unwrap_err();
            assert_eq!(refused, Refusal::OtherType { served: kind.url(), asked: other.url().into() });
        }
        let mut aggregated = Bench::new(variant, None, world());
        let untyped = Request { type_url: String::new(), ..request(CLUSTER, Some("n"), &[]) };
        assert_eq!(aggregated.try_request(untyped).unwrap_err(), Refusal::NoType);
    }
}

#[test]
fn a6_an_unknown_type_gets_no_response_and_does_not_affect_others() {
    let unknown = |names: &[&str]| Request {
        type_url: "type.googleapis.com/example.NoSuchType".into(),
        subscribe: names.iter().map(|name| (*name).to_owned()).collect(),
        ..Request::default()
    };
    for client in [Bench::sotw(world()), Bench::sotw(world()).into_grpc()] {
        let mut bench = client;
        assert_eq!(bench.request(unknown(&["x"])), "");
        assert_eq!(bench.request(unknown(&[])), "");
        assert_eq!(bench.start(CLUSTER, []), "CDS{a,b}");
    }
    let mut bench = Bench::delta(world());
    assert_eq!(bench.request(unknown(&["x", "*"])), "type.googleapis.com/example.NoSuchType-{x}");
    assert_eq!(bench.request(unknown(&[])), "");
    assert_eq!(bench.start(CLUSTER, []), "CDS{a,b}");
}

#[test]
fn a6_a_type_without_resources_gets_no_response() {
    const RUNTIME: &str = "type.googleapis.com/envoy.service.runtime.v3.Runtime";
    let runtime = || Request { type_url: RUNTIME.into(), subscribe: vec!["layer".into()], ..Request::default() };
    for client in [Bench::sotw(world()), Bench::sotw(world()).into_grpc()] {
        let mut bench = client;
        assert_eq!(bench.request(runtime()), "");
        assert_eq!(bench.start(CLUSTER, []), "CDS{a,b}");
    }
    let mut bench = Bench::delta(world());
    assert_eq!(bench.request(runtime()), "Runtime-{layer}");
    assert_eq!(bench.start(CLUSTER, []), "CDS{a,b}");
}

/// The bench checks every response of every test (type URL, each `Any`, names, nonces, identifier). This test has many
/// responses.
#[test]
fn a7_every_response_is_well_formed_with_a_unique_nonce() {
    for variant in VARIANTS {
        for (mut bench, kinds) in streams(variant) {
            let mut responses = 0;
            for &kind in &kinds {
                bench.settled(kind, []);
                match asked(kind) {
                    [] => {}
                    [name] => drop(bench.settled(kind, [name])),
                    _ => unreachable!(),
                }
            }
            for round in 1..20 {
                for &kind in &kinds {
                    let name = asked(kind).first().copied().unwrap_or(if kind == CLUSTER { "a" } else { "l" });
                    let mut sent = bench.set([any_kind(kind, name, round)]);
                    while !sent.is_empty() {
                        responses += sent.len();
                        sent = bench.ack_all(&sent);
                    }
                }
            }
            assert!(responses >= 19 * kinds.len(), "{variant:?} {kinds:?}: {responses}");
        }
    }
}

#[test]
fn a8_a_type_that_was_not_requested_is_never_sent() {
    for variant in VARIANTS {
        let mut bench = Bench::new(variant, None, world());
        assert_eq!(bench.settled(CLUSTER, []), "CDS{a,b}");
        let everything_else =
            [endpoints_at("a", 1), routes("r", ["b"]), listener_at("l", "r", "new"), secret_at("s", "new")];
        assert_eq!(bench.set(everything_else), "");
        let sent = bench.set([cluster_at("a", 9)]);
        assert_eq!(sent.iter().map(|r| &*r.type_url).collect::<Vec<_>>(), [CLUSTER.url()], "no endpoints either");
    }
}

/// Constants, because any other process, machine, or build must produce the same versions.
#[test]
fn a14_versions_are_equal_in_every_process() {
    let store = crate::snapshot::Store::default();
    store.replace(world().into());
    let newest = store.newest().unwrap();
    let versions = [
        newest.get(CLUSTER, "a").unwrap().version(),
        newest.get(ENDPOINTS, "a").unwrap().version(),
        newest.get(ROUTES, "r").unwrap().version(),
        newest.get(LISTENER, "l").unwrap().version(),
        newest.get(SECRET, "s").unwrap().version(),
        newest.version(CLUSTER),
    ];
    assert_eq!(versions.map(|version| version.to_string()), GOLDEN_VERSIONS);
}

const GOLDEN_VERSIONS: [&str; 6] = [
    "64e29498778172cf",
    "05547d093eac410d",
    "676b77472ec459eb",
    "ea7293aa970a0b08",
    "f4252a12be79e54b",
    "21c636d5f729ac9e",
];

/// Protobuf maps are hash maps in memory, so equal values can have different orders.
#[test]
fn a14_equal_content_has_equal_bytes() {
    use envoy_types::pb::envoy::config::cluster::v3::Cluster;
    use envoy_types::pb::envoy::config::core::v3::Metadata;
    use envoy_types::pb::google::protobuf::{Struct, Value, value::Kind};
    let text = |text: String| Value { kind: Some(Kind::StringValue(text)) };
    let build = || {
        let fields = || Struct { fields: (0..20).map(|i| (format!("key-{i}"), text(format!("{i}")))).collect() };
        let metadata = Metadata {
            filter_metadata: (0..20).map(|i| (format!("filter-{i}"), fields())).collect(),
            ..Default::default()
        };
        Resource::new("a", &Cluster { name: "a".into(), metadata: Some(metadata), ..Default::default() }, vec![])
    };
    let first = build();
    for _ in 0..20 {
        let other = build();
        assert_eq!(
            (other.version(), other.delta_field(ApiVersion::V3)),
            (first.version(), first.delta_field(ApiVersion::V3))
        );
    }
}
