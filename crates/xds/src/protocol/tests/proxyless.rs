//! P: gRPC clients without a proxy. `e2e/tests/grpc.rs` tests the same with real clients.

use std::time::Duration;

use super::harness::*;
use crate::protocol::{Node, Request};
use crate::snapshot::{Lease, Resource};

/// Returns a client that calls the target `t`, whose routes `r` use the cluster `a`.
fn calling() -> Bench {
    let mut bench = Bench::sotw([listener("t", "r"), routes("r", ["a"]), cluster("a"), endpoints("a")]).into_grpc();
    for (kind, name) in [(LISTENER, "t"), (ROUTES, "r"), (CLUSTER, "a"), (ENDPOINTS, "a")] {
        let sent = bench.ask(kind, [name]);
        assert_eq!(sent, format!("{}{{{name}}}", short(kind)));
        assert_eq!(bench.ack(sent.one()), "");
    }
    bench
}

#[test]
fn p1_each_request_is_answered_and_an_ack_gets_no_response() {
    let mut bench = calling();
    assert_eq!(bench.wait(Duration::from_secs(60)), "");
    assert_eq!(bench.stream.deadline(), None);
}

#[test]
fn p2_a_route_to_another_cluster_is_followed_by_names_at_one_version() {
    let mut bench = calling();
    bench.set([cluster("d"), endpoints("d")]);
    let first = bench.ask(CLUSTER, ["a"]);
    let turn = bench.set([routes("r", ["d"])]);
    assert_eq!(turn, "RDS{r}", "the client asks for the cluster when it knows of it");
    assert_eq!(bench.ack(turn.one()), "");
    let both = bench.ask(CLUSTER, ["a", "d"]);
    assert_eq!(both, "CDS{a,d}", "what is missing counts as deleted");
    for earlier in first.iter() {
        assert_eq!(both.one().version, earlier.version);
    }
    assert_eq!(bench.ack(both.one()), "");
    let added = bench.ask(ENDPOINTS, ["a", "d"]);
    assert_eq!(added, "EDS{d}");
    bench.ack(added.one());
    let one = bench.ask(CLUSTER, ["d"]);
    assert_eq!(one, "CDS{d}");
    assert_eq!(one.one().version, both.one().version);
    assert_eq!(bench.ack(one.one()), "");
    assert_eq!(bench.ask(ENDPOINTS, ["d"]), "");
    assert_eq!(bench.set([cluster_at("d", 9)]), "CDS{d} EDS{d}");
}

#[test]
fn p2_a_removed_cluster_is_not_reported_while_calls_may_use_it() {
    let mut bench = calling();
    let turn = bench.publish([listener("t", "r"), routes("r", ["d"]), cluster("d"), endpoints("d")]);
    assert_eq!(turn, "RDS{r}");
    bench.ack(turn.one());
    let both = bench.ask(CLUSTER, ["a", "d"]);
    assert_eq!(both, "CDS{a,d}");
    bench.ack(both.one());
    bench.settled(ENDPOINTS, ["a", "d"]);
    bench.settled(CLUSTER, ["d"]);
    bench.settled(ENDPOINTS, ["d"]);
    assert_eq!(bench.wait(Duration::from_secs(60)), "", "of `a` nothing more is said");
}

#[test]
fn p4_new_endpoints_are_one_message_and_endpoints_follow_a_changed_cluster() {
    let mut bench = calling();
    let sent = bench.set([endpoints_at("a", 9090)]);
    assert_eq!(sent, "EDS{a}");
    assert_eq!(bench.ack(sent.one()), "");
    let sent = bench.set([cluster_at("a", 9)]);
    assert_eq!(sent, "CDS{a} EDS{a}");
    assert_eq!(bench.ack_all(&sent), "");
}

#[test]
fn p5_after_a_nack_nothing_is_sent_until_something_changes() {
    let mut bench = calling();
    let sent = bench.set([cluster_at("a", 9)]);
    let why = "xDS response validation errors: [resource index 0: a: INVALID_ARGUMENT: no]";
    assert_eq!(bench.nack(&sent[CLUSTER], why), "");
    bench.ack(&sent[ENDPOINTS]);
    let told = bench
        .rejections()
        .any(|rejection| *rejection.message == *why && rejection.versions().any(|(name, _)| &**name == "a"));
    assert!(told, "{:?}", bench.notices);
    assert_eq!(bench.set([endpoints_at("a", 9090)]), "EDS{a}", "its endpoints go on");
    let mended = bench.set([cluster_at("a", 10)]);
    assert!(mended.to_string().starts_with("CDS{a}"), "{mended}");
}

#[test]
fn p11_a_wrapper_is_sent_to_clients_that_announce_support() {
    let lease = Lease { ttl: Some(Duration::from_secs(3600)), ..Lease::default() };
    let plain = endpoints("a");
    let leased = Resource::with_lease(ENDPOINTS, "a", &plain.message(), lease, vec![]);
    for (features, wrapped) in [
        // grpcio 1.85 supports the wrapper, but not TTLs.
        (vec!["envoy.lb.does_not_support_overprovisioning", "xds.config.resource-in-sotw"], false),
        (vec!["xds.config.resource-in-sotw", "xds.config.supports-resource-ttl"], true),
    ] {
        let mut bench = Bench::sotw([leased.clone()]).into_grpc();
        let node = Node {
            id: "one".into(),
            user_agent: "gRPC C-core linux".into(),
            features: features.into_iter().map(str::to_owned).collect(),
            ..Node::default()
        };
        let request = Request {
            node: Some(node),
            type_url: ENDPOINTS.url().into(),
            subscribe: vec!["a".into()],
            ..Request::default()
        };
        let sent = bench.request(request);
        assert_eq!(sent, "EDS{a}");
        assert_eq!(sent.one().leases, wrapped);
    }
}

#[test]
fn p12_an_unknown_target_is_reported_at_once_and_sent_when_it_exists() {
    let mut bench = calling();
    let told = bench.ask(LISTENER, ["nx", "t"]);
    assert_eq!(told, "LDS{t}?{nx}");
    assert_eq!(bench.ack(told.one()), "");
    let created = bench.set([listener("nx", "r")]);
    assert_eq!(created, "LDS{nx,t}");
}

#[test]
fn p14_a_server_requests_the_listener_of_its_address() {
    let name = "grpc/server?xds.resource.listening_address=127.0.0.1:50051";
    let mut bench = Bench::sotw([]).into_grpc();
    let told = bench.ask(LISTENER, [name]);
    assert_eq!(told, format!("LDS?{{{name}}}"));
    assert_eq!(bench.ack(told.one()), "");
    assert_eq!(bench.set([listener(name, "r")]), format!("LDS{{{name}}}"));
}

#[test]
fn grpc_libraries_are_recognized_by_their_user_agent() {
    let is_grpc = |agent: &str| Node { user_agent: agent.into(), ..Node::default() }.is_grpc();
    for agent in ["gRPC C-core linux Python", "gRPC Go", "gRPC Java", "grpc-node"] {
        assert!(is_grpc(agent), "{agent}");
    }
    for agent in ["envoy", "", "gRP", "groß"] {
        assert!(!is_grpc(agent), "{agent}");
    }
}
