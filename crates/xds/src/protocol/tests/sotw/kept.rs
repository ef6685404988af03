//! Returning clients with resources whose content the server does not know, because the controller has restarted.

use std::sync::Arc;

use super::*;
use crate::protocol::{Notice, RejectionScope, Response};
use crate::snapshot::Store;

/// Publishes `resources` by a new controller, to which the client returns. Returns the response of type `kind`.
fn restarted<const N: usize>(bench: &mut Bench, kind: ResourceType, resources: [Resource; N]) -> Response {
    bench.store = Arc::new(Store::default());
    bench.store.replace(resources.into());
    bench.reconnect();
    let mut sent = bench.ask(kind, []);
    if sent.is_empty() {
        sent = bench.wait(ms(1000)); // for the names of endpoints
    }
    sent.one().clone()
}

/// Returns streams to a new controller whose client has another version of a, and the first response.
fn returned(kind: ResourceType) -> Vec<(Bench, Response)> {
    let returned = |mut bench: Bench| {
        bench.settled(kind, []);
        let first = restarted(&mut bench, kind, [any_kind(kind, "a", 1), any_kind(kind, "b", 0)]);
        assert_eq!(names(&first), ["a", "b"]);
        (bench, first)
    };
    streams(kind, ["a", "b"]).into_iter().map(returned).collect()
}

fn list(kind: ResourceType, names: &str) -> String {
    let of = if kind == CLUSTER { "cluster(s)" } else { "listener(s)" };
    format!("Error adding/updating {of} {names}")
}

fn rejected(bench: &Bench) -> Vec<&str> {
    let rejected = bench.rejections().filter(|one| matches!(one.scope, RejectionScope::Resource { .. }));
    rejected.map(|one| &**one.suspects[0].name()).collect()
}

#[test]
fn s36_a_rejected_resource_stays_in_each_full_state_of_a_returning_client() {
    for kind in [CLUSTER, LISTENER] {
        for (mut bench, first) in returned(kind) {
            assert_eq!(bench.nack(&first, &list(kind, "a: no")), "");
            assert_eq!(bench.wait(ms(600_000)), "");
            assert_eq!(rejected(&bench), ["a"]);
            let known = &bench.stream.state.types[&kind];
            assert!(known.known("b").accepted.exists() && !known.known("a").accepted.exists());
            // Another tenant's resources are sent with it, and apply.
            let next = bench.set([any_kind(kind, "c", 0), any_kind(kind, "b", 2)]);
            assert_eq!(names(next.one()), ["a", "b", "c"]);
            assert_eq!(next.one().resources[0].version(), any_kind(kind, "a", 1).version());
            assert_eq!(bench.nack(next.one(), &list(kind, "a: no")), "");
            let known = &bench.stream.state.types[&kind];
            assert!(known.known("c").accepted == Arc::new(any_kind(kind, "c", 0)));
            // A second invalid resource does not take its last good version along.
            let worse = bench.set([any_kind(kind, "b", 3)]);
            assert_eq!(bench.nack(worse.one(), &list(kind, "a: no, b: no")), "");
            assert_eq!(rejected(&bench), ["a", "b"]);
            let mended = bench.set([any_kind(kind, "a", 4)]);
            assert_eq!(names(mended.one()), ["a", "b", "c"]);
            assert_eq!(mended.one().resources[1].version(), any_kind(kind, "b", 2).version());
            assert_eq!(bench.ack(mended.one()), "");
            assert!(bench.notices.iter().any(|one| matches!(one, Notice::Recovered { name, .. } if &**name == "a")));
            // From now on, the content is known.
            let bad = bench.set([any_kind(kind, "a", 5), any_kind(kind, "d", 0)]);
            let good = bench.nack(bad.one(), &list(kind, "a: no"));
            assert_eq!(good.one().resources[0].version(), any_kind(kind, "a", 4).version());
        }
    }
}

#[test]
fn s36_a_returning_client_gets_no_trials_after_a_message_without_a_list() {
    for kind in FULL {
        for (mut bench, first) in returned(kind) {
            assert_eq!(bench.nack(&first, "Proto constraint validation failed: name: \"a\""), "");
            assert_eq!(bench.wait(ms(600_000)), "");
            let next = bench.set([any_kind(kind, "c", 0)]);
            assert_eq!(names(next.one()), ["a", "b", "c"]);
            assert_eq!(bench.nack(next.one(), "no"), "");
            let mended = bench.set([any_kind(kind, "a", 2)]);
            assert_eq!(names(mended.one()), ["a", "b", "c"]);
            assert_eq!(bench.ack(mended.one()), "");
            let (newest, known) = (bench.newest(), &bench.stream.state.types[&kind]);
            assert!(newest.all(kind).all(|resource| known.known(resource.name()).accepted == *resource));
            let bad = bench.set([any_kind(kind, "a", 3), any_kind(kind, "b", 3)]);
            let half = bench.nack(bad.one(), "no");
            assert_eq!(names(half.one()), ["a", "b", "c"], "the last good versions are known");
        }
    }
}

#[test]
fn s36_a_late_rejection_of_the_first_response_removes_nothing() {
    for kind in FULL {
        for (mut bench, first) in returned(kind) {
            assert_eq!(bench.wait(GATE_TIMEOUT), "");
            assert_eq!(bench.nack(&first, "no"), "");
            let next = bench.set([any_kind(kind, "c", 0)]);
            assert_eq!(names(next.one()), ["a", "b", "c"]);
        }
    }
}

#[test]
fn s36_a_removed_resource_is_removed_from_a_returning_client() {
    for kind in FULL {
        for message in ["no".to_owned(), list(kind, "a: no")] {
            for (mut bench, first) in returned(kind) {
                assert_eq!(bench.nack(&first, &message), "");
                let mut gone = bench.remove([(kind, "a")]);
                if gone.is_empty() {
                    gone = bench.wait(ms(60_000)); // for the routes of the client
                }
                assert_eq!(names(gone.one()), ["b"], "{kind:?} {message}");
                assert_eq!(bench.ack(gone.one()), "");
                assert_eq!(bench.stream.state.types[&kind].tracked().count(), 0);
            }
        }
    }
}

/// The routes leave a cluster whose version at the client is unknown, and which is removed in the same change.
#[test]
fn s36_a_removed_cluster_of_unknown_content_stays_until_its_routes_have_moved() {
    let world = |to: &'static str| [routes("r", [to]), listener("l", "r")];
    let mut bench = Bench::sotw([cluster("a"), endpoints("a")]);
    bench.set(world("a"));
    bench.settled(CLUSTER, []);
    bench.store = Arc::new(Store::default());
    let [r, l] = world("a");
    bench.store.replace(vec![cluster_at("a", 1), endpoints("a"), cluster("b"), endpoints("b"), r, l]);
    bench.reconnect();
    assert_eq!(bench.ask(CLUSTER, []), "");
    let first = bench.ask(ENDPOINTS, ["a"]);
    assert_eq!(first, "CDS{a,b} EDS{a}");
    assert_eq!(bench.nack(&first[CLUSTER], "Error adding/updating cluster(s) a: no"), "");
    bench.settled(ENDPOINTS, ["a", "b"]);
    bench.settled(LISTENER, []);
    bench.settled(ROUTES, ["r"]);
    let [r, l] = world("b");
    let moved = bench.publish([cluster("b"), endpoints("b"), r, l]);
    assert_eq!(moved, "RDS{r}", "a stays");
    bench.ack(moved.one());
    assert_eq!(bench.wait(GRACE), "CDS{b}");
}
