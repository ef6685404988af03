//! Clients that reconnect, clients with many streams, and reports of missing resources.

use super::*;

#[test]
fn s29_a_current_client_may_get_no_response_after_a_reconnect() {
    for kind in FULL {
        for mut bench in streams(kind, ["a", "b"]).map(Bench::into_grpc) {
            bench.settled(kind, []);
            bench.reconnect();
            assert_eq!(bench.ask(kind, []), "");
            assert_eq!(bench.set(changed(kind, "a", 1)), says(kind, "{a,b}"), "and changes come");
        }
        for mut bench in streams(kind, ["a", "b"]).map(Bench::into_grpc) {
            bench.settled(kind, []);
            bench.set(changed(kind, "b", 1));
            bench.reconnect();
            assert_eq!(bench.ask(kind, []), says(kind, "{a,b}"), "not current");
        }
        for mut bench in streams(kind, ["a", "b"]).map(Bench::into_grpc) {
            bench.settled(kind, ["a", "b"]);
            bench.reconnect();
            assert_eq!(bench.ask(kind, ["a", "b"]), says(kind, "{a,b}"), "names are answered");
        }
    }
    for kind in PARTIAL {
        for mut bench in streams(kind, ["a", "b"]).map(Bench::into_grpc) {
            bench.settled(kind, ["a", "b"]);
            bench.reconnect();
            assert_eq!(bench.ask(kind, ["a", "b"]), says(kind, "{a,b}"));
        }
    }
}

#[test]
fn s29_a_returning_client_lets_the_stream_sleep() {
    for kind in KINDS {
        for mut bench in streams(kind, ["a"]) {
            bench.settled(kind, ["a"]);
            bench.reconnect();
            bench.settled(kind, ["a"]);
            let late = bench.wait(ms(30_000));
            bench.ack_all(&late);
            assert_eq!(bench.wait(ms(60_000)), "");
            assert_eq!(bench.stream.deadline(), None, "nothing is waited for");
        }
    }
}

#[test]
fn s31_many_streams_of_one_client_are_independent() {
    let first = Bench::new(SOTW, Some(ENDPOINTS), [endpoints("a"), endpoints("b"), endpoints("c")]);
    let store = first.store.clone();
    let mut streams: Vec<(&str, Bench)> =
        ["a", "b", "c"].map(|name| (name, Bench::over(store.clone(), SOTW, Some(ENDPOINTS)))).into();
    for (name, stream) in &mut streams {
        assert_eq!(stream.settled(ENDPOINTS, [name]), format!("EDS{{{name}}}"));
    }
    streams[1].1.set([endpoints_at("b", 1)]);
    assert_eq!(streams[0].1.catch_up(), "");
    assert_eq!(streams[2].1.catch_up(), "");
    for (_, stream) in &streams {
        assert_eq!(stream.stream.describe()[ENDPOINTS.short_name()]["named"], 1, "no stream knows the others' names");
    }
}

#[test]
fn s32_a_missing_resource_is_reported_once_and_cleared_by_the_resource() {
    for kind in [LISTENER, CLUSTER, ROUTES, ENDPOINTS] {
        for bench in streams(kind, ["a"]) {
            let mut bench = bench.into_grpc();
            let sent = bench.ask(kind, ["a", "nx"]);
            assert_eq!(sent, says(kind, "{a}?{nx}"));
            assert_eq!(bench.ack(sent.one()), "");
            let next = bench.set(changed(kind, "a", 1));
            assert_eq!(next, says(kind, "{a}"), "once");
            bench.ack(next.one());
            let created = bench.set(changed(kind, "nx", 0));
            assert_eq!(created, says(kind, if FULL.contains(&kind) { "{a,nx}" } else { "{nx}" }));
            bench.ack(created.one());
        }
    }
}

#[test]
fn s32_the_error_says_not_found_and_names_the_resource() {
    use envoy_types::pb::envoy::service::discovery::v3::DiscoveryResponse;
    use prost::Message;
    let mut bench = Bench::sotw([]).into_grpc();
    let sent = bench.ask(LISTENER, ["nx"]);
    let bytes = crate::protocol::encode::response(sent.one(), SOTW, "me").into_bytes();
    let decoded = DiscoveryResponse::decode(bytes).unwrap();
    let [error] = &decoded.resource_errors[..] else { panic!("{decoded:?}") };
    assert_eq!(error.resource_name.as_ref().unwrap().name, "nx");
    assert_eq!(error.error_detail.as_ref().unwrap().code, 5);
}

#[test]
fn a_deleted_cluster_is_absent_or_named() {
    for kind in [CLUSTER, LISTENER] {
        let mut bench = Bench::sotw([any_kind(kind, "a", 0), any_kind(kind, "b", 0)]).into_grpc();
        bench.settled(kind, ["a", "b"]);
        let sent = bench.remove([(kind, "a")]);
        assert_eq!(sent, says(kind, "{b}?{a}"));
        assert_eq!(bench.ack(sent.one()), "");
    }
}
