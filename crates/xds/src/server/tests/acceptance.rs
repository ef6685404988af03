//! The progress of clients, for [`crate::server::Registry::acceptance`].

use crate::protocol::Variant;
use crate::protocol::tests::harness::*;
use crate::snapshot::{Resource, ResourceType};

const VARIANTS: [Variant; 2] = [Variant::Sotw, Variant::Delta];

/// Returns a stream whose client has accepted one listener, its routes, and a cluster.
fn settled(variant: Variant) -> Bench {
    let world = [cluster("a"), endpoints("a"), routes("r", ["a"]), listener("l", "r")];
    let mut bench = Bench::new(variant, None, world);
    bench.settled(CLUSTER, []);
    bench.settled(ENDPOINTS, ["a"]);
    bench.settled(LISTENER, []);
    bench.settled(ROUTES, ["r"]);
    bench
}

/// Returns whether the client has answered all responses.
fn is_level(bench: &Bench) -> bool {
    bench.stream.level(&bench.newest()) >= Some(bench.newest().generation())
}

fn rejected(bench: &Bench) -> Vec<(ResourceType, String)> {
    let mut rejected = Vec::new();
    bench.stream.each_rejected(|kind, name| rejected.push((kind, name.to_string())));
    rejected.dedup();
    rejected
}

#[test]
fn a_starting_client_is_current_with_its_last_answer() {
    for variant in VARIANTS {
        let mut bench = Bench::new(variant, None, [cluster("a"), routes("r", ["a"]), listener("l", "r")]);
        assert!(!is_level(&bench), "it has asked for nothing");
        let clusters = bench.start(CLUSTER, []);
        assert!(!is_level(&bench));
        bench.ack_all(&clusters);
        let listeners = bench.start(LISTENER, []);
        assert!(!is_level(&bench));
        bench.ack_all(&listeners);
        assert!(!is_level(&bench), "{variant:?}: its listener has no routes");
        let routes = bench.start(ROUTES, ["r"]);
        assert!(!is_level(&bench));
        bench.ack_all(&routes);
        assert!(is_level(&bench));
    }
}

#[test]
fn a_change_counts_when_all_steps_of_it_are_answered() {
    for variant in VARIANTS {
        let mut bench = settled(variant);
        assert!(is_level(&bench));
        let before = bench.newest().generation();
        let clusters = bench.set([cluster("b"), routes("r", ["a", "b"])]);
        assert!(!is_level(&bench));
        assert!(bench.stream.level(&bench.newest()) >= Some(before), "what was before is not taken back");
        let routes = bench.ack_all(&clusters);
        assert_eq!(names(&routes.0[0]), ["r"]);
        assert!(!is_level(&bench));
        bench.ack_all(&routes);
        assert!(is_level(&bench));
    }
}

#[test]
fn changes_of_other_resources_have_no_effect() {
    let mut bench = settled(Variant::Delta);
    // The stream is not woken.
    bench.store.update(crate::snapshot::Update { set: vec![secret("s")], remove: Vec::new() });
    assert!(is_level(&bench));
    bench.store.update(crate::snapshot::Update { set: vec![endpoints_at("a", 7)], remove: Vec::new() });
    assert!(!is_level(&bench));
    let sent = bench.catch_up();
    assert!(!is_level(&bench));
    bench.ack_all(&sent);
    assert!(is_level(&bench));
}

#[test]
fn progress_continues_under_constant_change() {
    for variant in VARIANTS {
        let mut bench = settled(variant);
        let mut sent = bench.set([endpoints_at("a", 1)]);
        for port in 2..20 {
            let generation = bench.newest().generation();
            // Each change arrives before the answer to the previous one.
            assert!(bench.set([endpoints_at("a", port)]).0.is_empty());
            assert!(bench.stream.level(&bench.newest()) < Some(generation));
            sent = bench.ack_all(&sent);
            assert!(bench.stream.level(&bench.newest()) >= Some(generation), "{variant:?} {port}");
            assert!(!is_level(&bench));
        }
    }
}

#[test]
fn rejections_are_recorded_and_reported() {
    for variant in VARIANTS {
        let mut bench = settled(variant);
        let sent = bench.set([routes("r", ["a", "a"])]);
        assert!(rejected(&bench).is_empty());
        bench.nack(&sent.0[0], "no");
        assert!(is_level(&bench), "{variant:?}");
        assert_eq!(rejected(&bench), [(ROUTES, "r".to_owned())], "{variant:?}");
        let sent = bench.set([routes("r", ["a"])]);
        bench.ack_all(&sent);
        assert!(is_level(&bench) && rejected(&bench).is_empty(), "{variant:?}");
        let sent = bench.set([cluster_at("a", 7)]);
        bench.nack(&sent.0[0], "no");
        assert_eq!(rejected(&bench), [(CLUSTER, "a".to_owned())], "{variant:?}");
    }
}

#[test]
fn removals_are_not_waited_for() {
    for variant in VARIANTS {
        let mut bench = settled(variant);
        let sent = bench.set([cluster("b")]);
        bench.ack_all(&sent);
        let sent = bench.set([routes("r", ["b"])]);
        bench.ack_all(&sent);
        assert!(is_level(&bench));
        bench.remove([(CLUSTER, "a")]);
        assert!(is_level(&bench), "{variant:?}: a is kept for a while");
    }
}

#[test]
fn a_timeout_counts_as_an_answer() {
    let mut bench = settled(Variant::Delta);
    bench.set([endpoints_at("a", 1)]);
    assert!(!is_level(&bench));
    bench.wait(GATE_TIMEOUT);
    assert!(is_level(&bench));
}

#[test]
fn a_new_listener_is_warming_without_its_routes() {
    for variant in VARIANTS {
        let mut bench = settled(variant);
        let sent = bench.set([listener("m", "n"), routes("n", ["a"])]);
        bench.ack_all(&sent);
        assert!(!is_level(&bench), "{variant:?}");
        let sent = match variant {
            Variant::Sotw => bench.ask(ROUTES, ["r", "n"]),
            Variant::Delta => bench.subscribe(ROUTES, ["n"]),
        };
        assert!(!is_level(&bench), "{variant:?}");
        bench.ack_all(&sent);
        assert!(is_level(&bench), "{variant:?}");
    }
}

#[test]
fn a_stream_of_one_type_counts_that_type() {
    let world: [Resource; 2] = [endpoints("a"), endpoints("b")];
    let mut bench = Bench::new(Variant::Delta, Some(ENDPOINTS), world);
    bench.settled(ENDPOINTS, ["a"]);
    assert!(is_level(&bench));
    bench.set([endpoints_at("b", 1)]);
    assert!(is_level(&bench));
}
