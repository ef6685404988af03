//! Expensive resources are paced, and their newest version is sent in the end.

use std::sync::Arc;

use super::harness::*;
use crate::protocol::Variant;
use crate::snapshot::{Resource, Store, Update};

const VARIANTS: [Variant; 2] = [Variant::Sotw, Variant::Delta];

/// Returns a client with a listener, its routes, a cluster, and endpoints, all of them large.
fn settled(variant: Variant) -> Bench {
    let store = Arc::new(Store::default());
    store.replace(vec![cluster("a"), endpoints("a"), routes("r", ["a"]), listener("l", "r"), listener("m", "r")]);
    let mut bench = Bench::pacing(store, variant, None, 0);
    bench.settled(CLUSTER, []);
    bench.settled(ENDPOINTS, ["a"]);
    bench.settled(LISTENER, []);
    bench.settled(ROUTES, ["r"]);
    bench
}

fn changed(number: u32) -> Resource {
    routes_for("r", &format!("host-{number}"), &["a"])
}

#[test]
fn o26_the_first_change_is_sent_at_once_and_the_newest_after_five_times_its_cost() {
    for variant in VARIANTS {
        let mut bench = settled(variant);
        let sent = bench.set([changed(1)]);
        assert_eq!(sent, "RDS{r}", "the first at once, for what the start cost says nothing");
        assert_eq!(bench.wait(ms(80)), "");
        bench.ack_all(&sent);
        for number in 2..5 {
            assert_eq!(bench.set([changed(number)]), "", "{variant:?}");
            assert_eq!(bench.wait(ms(100)), "", "{variant:?}");
        }
        assert_eq!(bench.set([endpoints_at("a", 7)]), "EDS{a}", "nothing else waits");
        let newest = bench.wait(ms(20));
        assert_eq!(newest, "RDS{r}", "400 ms after the last: {variant:?}");
        assert_eq!(newest.one().resources[0], Arc::new(changed(4)), "the latest wins");
        bench.ack_all(&newest);
        assert_eq!(bench.wait(ms(10_000)), "");
    }
}

#[test]
fn o26_requests_are_answered_during_a_pause_and_reverted_changes_are_not_sent() {
    let mut bench = settled(Variant::Delta);
    let sent = bench.set([changed(1)]);
    bench.wait(ms(100));
    bench.ack_all(&sent);
    bench.set([changed(2)]);
    assert_eq!(bench.set([changed(1)]), "");
    assert_eq!(bench.wait(ms(1000)), "");
    let sent = bench.set([changed(2)]);
    bench.wait(ms(100));
    bench.ack_all(&sent);
    bench.set([changed(3)]);
    assert_eq!(bench.subscribe(ROUTES, ["r"]), "RDS{r}");
}

#[test]
fn o26_a_cluster_stays_while_routes_that_use_it_are_paced() {
    for variant in VARIANTS {
        let mut bench = settled(variant);
        let sent = bench.set([changed(1)]);
        bench.wait(ms(100));
        bench.ack_all(&sent);
        let update = Update { set: vec![cluster("b"), routes("r", ["b"])], remove: vec![(CLUSTER, "a".into())] };
        bench.store.update(update);
        let sent = bench.catch_up();
        assert!(names(&sent.0[0]).contains(&"b") && sent.0[0].removed.is_empty(), "{variant:?}: {sent:?}");
        assert_eq!(bench.ack_all(&sent), "", "the routes wait: {variant:?}");
        let sent = bench.wait(ms(400));
        assert_eq!(sent, "RDS{r}", "{variant:?}");
        bench.ack_all(&sent);
        let gone = bench.wait(GRACE);
        assert_eq!(gone, if variant == Variant::Delta { "CDS-{a}" } else { "CDS{b}" });
    }
}

#[test]
fn o26_a_full_state_of_listeners_is_paced_as_a_whole_and_single_listeners_individually() {
    for (variant, other) in [(Variant::Sotw, ""), (Variant::Delta, "LDS{m}")] {
        let mut bench = settled(variant);
        let sent = bench.set([listener_at("l", "r", "1")]);
        bench.wait(ms(100));
        bench.ack_all(&sent);
        assert_eq!(bench.set([listener_at("l", "r", "2")]), "", "{variant:?}");
        let sent = bench.set([listener_at("m", "r", "2")]);
        assert_eq!(sent, other);
        bench.ack_all(&sent);
        let all = if variant == Variant::Sotw { "LDS{l,m}" } else { "LDS{l}" };
        let sent = bench.wait(ms(400));
        assert_eq!(sent, all, "{variant:?}");
        bench.wait(ms(100));
        bench.ack_all(&sent);
        let gone = if variant == Variant::Sotw { "" } else { "LDS-{m}" };
        assert_eq!(bench.remove([(LISTENER, "m")]), gone, "{variant:?}");
        if variant == Variant::Sotw {
            assert_eq!(bench.ask(LISTENER, ["*", "n"]), "LDS{l}", "an answer has it all");
        }
    }
}

#[test]
fn o26_virtual_hosts_wait_for_the_answer_to_large_listeners_to_measure_their_cost() {
    let store = Arc::new(Store::default());
    store.replace(vec![routes("r", []), listener("l", "r"), virtual_host("r/a", "a")]);
    let mut bench = Bench::pacing(store, Variant::Delta, None, 0);
    bench.settled(LISTENER, []);
    bench.settled(ROUTES, ["r"]);
    bench.settled(VIRTUAL_HOST, []);
    let sent = bench.set([listener_at("l", "r", "1"), virtual_host("r/b", "b")]);
    assert_eq!(sent, "LDS{l}");
    bench.store.update(Update::removing(vec![(VIRTUAL_HOST, "r/a".into())]));
    assert_eq!(bench.catch_up(), "", "nor do they go");
    let answer = bench.subscribe(VIRTUAL_HOST, ["r/c"]);
    assert_eq!(answer, "VirtualHost?{r/c}", "who asks is answered");
    assert_eq!(bench.ack(answer.one()), "");
    assert_eq!(bench.ack(sent.one()), "VirtualHost{r/b}-{r/a}");
}

#[test]
fn o26_the_time_of_a_starting_client_is_not_a_measurement() {
    let store = Arc::new(Store::default());
    store.replace(vec![routes("r", []), listener("l", "r"), secret("s")]);
    let mut bench = Bench::pacing(store, Variant::Delta, None, 0);
    bench.settled(LISTENER, []);
    bench.settled(ROUTES, ["r"]);
    let starting = bench.start(SECRET, ["s"]);
    let sent = bench.set([listener_at("l", "r", "1")]);
    assert_eq!(sent, "LDS{l}");
    bench.wait(ms(700));
    bench.ack_all(&starting);
    bench.ack_all(&sent);
    let sent = bench.set([listener_at("l", "r", "2")]);
    assert_eq!(sent, "LDS{l}", "at once");
    bench.wait(ms(100));
    bench.ack_all(&sent);
    assert_eq!(bench.set([listener_at("l", "r", "3")]), "", "that was one");
    assert_eq!(bench.wait(ms(400)), "LDS{l}");
}

/// Otherwise the listener would answer the first requests for the name of the scope with 404.
#[test]
fn o27_a_listener_waits_for_a_new_scope_that_is_paced() {
    for variant in VARIANTS {
        let store = Arc::new(Store::default());
        store.replace(vec![cluster("a"), endpoints("a"), routes("r", []), listener("l", "r"), scope_to("s1", ["a"])]);
        let mut bench = Bench::pacing(store, variant, None, 0);
        bench.settled(CLUSTER, []);
        bench.settled(ENDPOINTS, ["a"]);
        bench.settled(LISTENER, []);
        bench.settled(ROUTES, ["r"]);
        bench.settled(SCOPED_ROUTES, []);
        let sent = bench.set([scope_to("s2", ["a"])]);
        bench.wait(ms(100));
        bench.ack_all(&sent);
        let sent = bench.set([scope_to("s3", ["a"]), listener_at("l", "r", "for s3")]);
        // A full state is paced as a whole, and a new scope alone is not.
        let (at_once, later) = match variant {
            Variant::Sotw => ("", "ScopedRouteConfiguration{s1,s2,s3} LDS{l}"),
            Variant::Delta => ("ScopedRouteConfiguration{s3} LDS{l}", ""),
        };
        assert_eq!(sent, at_once, "{variant:?}");
        assert_eq!(bench.wait(ms(400)), later, "{variant:?}");
    }
}
