//! Tests of the isolation of rejected resources. A rejected response is divided until the valid resources are accepted,
//! and the invalid resources are rejected individually.

use super::harness::*;
use crate::protocol::{Notice, Rejection, RejectionScope, Response, Variant};
use crate::snapshot::{Resource, ResourceType, Version};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// Returns streams that have accepted four resources of a type, and the response in which all of them have changed.
fn changed(variant: Variant, kind: ResourceType) -> Vec<(Bench, Response)> {
    let benches = Bench::both(variant, kind, NAMES.map(|name| any_kind(kind, name, 0)));
    let changed = |mut bench: Bench| {
        bench.settled_list(kind, &NAMES);
        let sent = bench.set(NAMES.map(|name| any_kind(kind, name, 1)));
        let response = sent.one().clone();
        (bench, response)
    };
    benches.into_iter().map(changed).collect()
}

fn is_full(variant: Variant, kind: ResourceType) -> bool {
    variant == Variant::Sotw && kind.full_state()
}

/// Returns the names in `response` with the content `variation`. In a full state, the other resources are unchanged.
fn new_in(response: &Response, variant: Variant, kind: ResourceType, variation: u32) -> Vec<String> {
    let is_new = |resource: &&std::sync::Arc<Resource>| {
        resource.version() == any_kind(kind, resource.name(), variation).version()
    };
    if is_full(variant, kind) {
        assert_eq!(names(response), NAMES, "absence is deletion");
    } else {
        assert!(response.resources.iter().all(|resource| is_new(&resource)), "{}", line(response));
    }
    response.resources.iter().filter(is_new).map(|resource| resource.name().to_string()).collect()
}

fn rejected(bench: &Bench) -> Vec<(String, Option<Version>)> {
    let rejected = bench.notices.iter().filter_map(|notice| match notice {
        Notice::Rejected(Rejection { scope: RejectionScope::Resource { last_good, .. }, suspects, .. }) => {
            Some((suspects[0].name().to_string(), *last_good))
        }
        _ => None,
    });
    rejected.collect()
}

fn recovered(bench: &Bench) -> usize {
    bench.notices.iter().filter(|notice| matches!(notice, Notice::Recovered { .. })).count()
}

fn the_good_is_delivered_at_once(variant: Variant) {
    for kind in KINDS {
        for (mut bench, all) in changed(variant, kind) {
            let good = bench.nack(&all, "Error adding/updating cluster(s) c: no");
            assert_eq!(new_in(good.one(), variant, kind, 1), ["a", "b", "d"]);
            let alone = bench.ack(good.one());
            if is_full(variant, kind) {
                assert_eq!(alone, "", "with it, it would be what was rejected");
            } else {
                assert_eq!(new_in(alone.one(), variant, kind, 1), ["c"], "a name in a text is no proof");
                assert!(rejected(&bench).is_empty());
                assert_eq!(bench.nack(alone.one(), "c: no"), "");
            }
            let old = any_kind(kind, "c", 0).version();
            assert_eq!(rejected(&bench), [("c".to_owned(), Some(old))]);
            assert_eq!(bench.wait(ms(60_000)), "");
            // Other resources change, and the rejected one is omitted.
            let other = bench.set([any_kind(kind, "a", 2)]);
            assert_eq!(new_in(other.one(), variant, kind, 2), ["a"]);
            assert!(other.one().resources.iter().all(|r| r.version() != any_kind(kind, "c", 1).version()));
            assert_eq!(bench.ack(other.one()), "");
            assert_eq!(bench.stream.describe()[kind.short_name()]["rejected"][0]["name"], "c");
            // New content is tried individually.
            let better = bench.set([any_kind(kind, "c", 2)]);
            assert!(better.one().resources.iter().any(|r| r.version() == any_kind(kind, "c", 2).version()));
            assert_eq!((bench.ack(better.one()).to_string(), recovered(&bench)), (String::new(), 1));
        }
    }
}

#[test]
fn s34_valid_resources_of_a_rejected_response_are_delivered_at_once() {
    the_good_is_delivered_at_once(Variant::Sotw);
}

#[test]
fn d32_valid_resources_of_a_rejected_response_are_delivered_at_once() {
    the_good_is_delivered_at_once(Variant::Delta);
}

/// NACK messages without a name, and with the name of a valid resource.
fn a_culprit_is_found_by_halving(variant: Variant) {
    for kind in KINDS {
        for text in ["no", "[resource index 0: a: no]"] {
            for (mut bench, all) in changed(variant, kind) {
                let bad = any_kind(kind, "c", 1).version();
                let mut messages = 0;
                let mut queue = vec![all];
                while let Some(response) = queue.pop() {
                    let is_bad = response.resources.iter().any(|resource| resource.version() == bad);
                    let more = if is_bad { bench.nack(&response, text) } else { bench.ack(&response) };
                    messages += more.len();
                    queue.extend(more.0);
                }
                assert!(messages <= 6, "{messages} for {kind:?}, of which 2·log2(4)+2 are to be expected");
                assert_eq!(rejected(&bench).len(), 1, "{:?}", bench.notices);
                assert_eq!(rejected(&bench)[0].0, "c");
            }
        }
    }
}

#[test]
fn s34_an_unnamed_culprit_is_found_by_halving() {
    a_culprit_is_found_by_halving(Variant::Sotw);
}

#[test]
fn d32_an_unnamed_culprit_is_found_by_halving() {
    a_culprit_is_found_by_halving(Variant::Delta);
}

fn suspects_are_sent_last_and_individually(variant: Variant) {
    for kind in KINDS {
        for (mut bench, all) in changed(variant, kind) {
            let good = bench.nack(&all, "in c");
            let alone = bench.ack(good.one());
            alone.iter().for_each(|alone| drop(bench.nack(alone, "in c")));
            // A new client receives the last good version first.
            let mut fresh = Bench::over(bench.store.clone(), variant, Some(kind));
            let first = match variant {
                Variant::Sotw => fresh.ask_list(kind, &NAMES),
                Variant::Delta => fresh.request(delta_request(kind, &NAMES, &[])),
            };
            assert_eq!(names(first.one()), NAMES);
            assert_eq!(first.one().resources[2].version(), any_kind(kind, "c", 0).version());
            let second = fresh.ack(first.one());
            assert!(new_in(second.one(), variant, kind, 1).contains(&"c".to_owned()));
            assert_eq!(fresh.ack(second.one()), "", "it may take it");
            assert!(rejected(&fresh).is_empty());
        }
    }
}

#[test]
fn s34_resources_that_another_client_rejected_are_sent_last_and_individually() {
    suspects_are_sent_last_and_individually(Variant::Sotw);
}

#[test]
fn d32_resources_that_another_client_rejected_are_sent_last_and_individually() {
    suspects_are_sent_last_and_individually(Variant::Delta);
}

/// A client answers after the timeout. Another response is sent in the meantime, and only the first one is invalid.
#[test]
fn s34_a_late_rejection_counts() {
    for variant in [Variant::Sotw, Variant::Delta] {
        for kind in KINDS {
            for (mut bench, all) in changed(variant, kind) {
                assert_eq!(bench.wait(GATE_TIMEOUT), "");
                let next = bench.set([any_kind(kind, "a", 2)]);
                let next = next.one().clone();
                let mut queue = bench.nack(&all, "no").0;
                // The full state contains all earlier resources.
                queue.extend(if is_full(variant, kind) { bench.nack(&next, "no") } else { bench.ack(&next) }.0);
                let bad = any_kind(kind, "c", 1).version();
                while let Some(response) = queue.pop() {
                    let is_bad = response.resources.iter().any(|resource| resource.version() == bad);
                    queue.extend(if is_bad { bench.nack(&response, "no") } else { bench.ack(&response) }.0);
                }
                let old = any_kind(kind, "c", 0).version();
                assert_eq!(rejected(&bench), [("c".to_owned(), Some(old))], "{variant:?} {kind:?}");
                for name in NAMES.into_iter().filter(|name| *name != "c") {
                    let newest = bench.newest().get(kind, name).cloned().unwrap();
                    assert!(
                        bench.stream.state.types[&kind].known(name).accepted == newest,
                        "{variant:?} {kind:?} {name}"
                    );
                }
            }
        }
    }
}

/// Envoy treats the bytes of a secret or scope that it has just rejected as unchanged. It acknowledges an invalid one,
/// and does not use a valid one.
#[test]
fn s34_rejected_bytes_that_envoy_stores_are_sent_in_another_encoding() {
    for variant in [Variant::Sotw, Variant::Delta] {
        for kind in [SECRET, SCOPED_ROUTES] {
            let mut bench = Bench::new(variant, Some(kind), NAMES.map(|name| any_kind(kind, name, 0)));
            bench.settled_list(kind, &NAMES);
            let changed = NAMES.map(|name| any_kind(kind, name, 2));
            let sent = bench.set(changed.clone());
            let mut queue = vec![sent.one().clone()];
            let mut rejected: Vec<Resource> = Vec::new();
            let mut again = 0;
            while let Some(response) = queue.pop() {
                let known = &bench.stream.state.types[&kind];
                let is_news = |resource: &&std::sync::Arc<Resource>| {
                    changed.contains(resource) && known.known(resource.name()).accepted != **resource
                };
                for resource in response.resources.iter().filter(is_news) {
                    let last = rejected.iter().rev().find(|last| *last == &**resource);
                    let same = last.is_some_and(|last| last.message() == resource.message());
                    assert!(!same, "{variant:?} {}", line(&response));
                    again += usize::from(last.is_some());
                }
                let is_bad = response.resources.iter().any(|resource| **resource == changed[2]);
                rejected.extend(response.resources.iter().filter(|_| is_bad).map(|resource| (**resource).clone()));
                queue.extend(if is_bad { bench.nack(&response, "no") } else { bench.ack(&response) }.0);
            }
            assert!(again >= 3, "{variant:?} {kind:?}: {again}");
            assert_eq!(super::isolation::rejected(&bench).len(), 1);
        }
    }
}

#[test]
fn o28_routes_to_valid_clusters_do_not_wait_for_suspects() {
    for variant in [Variant::Sotw, Variant::Delta] {
        let before = [
            cluster("a"),
            endpoints("a"),
            routes("r", ["a"]),
            listener("l", "r"),
            routes("s", ["a"]),
            listener("m", "s"),
        ];
        let mut bench = Bench::new(variant, None, before);
        bench.settled(CLUSTER, []);
        bench.settled(ENDPOINTS, ["a"]);
        bench.settled(LISTENER, []);
        bench.settled(ROUTES, ["r", "s"]);
        let both = bench.set([cluster("bad"), cluster("good"), routes("r", ["good"]), routes("s", ["bad"])]);
        let good = bench.nack(&both[CLUSTER], "bad: no");
        assert!(names(&good[CLUSTER]).contains(&"good") && !names(&good[CLUSTER]).contains(&"bad"), "{good}");
        let next = bench.ack(&good[CLUSTER]);
        assert!(next.to_string().ends_with("RDS{r}"), "{next}");
        bench.ack(&next[ROUTES]);
        if variant == Variant::Delta {
            assert_eq!(bench.nack(&next[CLUSTER], "bad: no"), "", "s stays where it was");
        }
        let mended = bench.set([cluster_at("bad", 1)]);
        assert_eq!(bench.ack(&mended[CLUSTER]), "RDS{s}");
    }
}

/// Fact 2: a changed cluster warms until it receives its endpoints, even if the newest endpoints are invalid.
#[test]
fn o28_a_changed_cluster_gets_the_last_good_endpoints() {
    for variant in [Variant::Sotw, Variant::Delta] {
        let mut bench = Bench::new(variant, None, [cluster("a"), endpoints("a")]);
        bench.settled(CLUSTER, []);
        bench.settled(ENDPOINTS, ["a"]);
        let bad = bench.set([endpoints_at("a", 1)]);
        assert_eq!(bench.nack(bad.one(), "no"), "");
        let changed = bench.set([cluster_at("a", 1)]);
        assert_eq!(changed, "CDS{a} EDS{a}");
        assert_eq!(changed[ENDPOINTS].resources[0].version(), endpoints("a").version());
        bench.ack(&changed[ENDPOINTS]);
        assert_eq!(bench.ack(&changed[CLUSTER]), "");
        assert_eq!(rejected(&bench).len(), 1);
        let better = bench.set([endpoints_at("a", 2)]);
        assert_eq!(better, "EDS{a}");
        bench.ack(better.one());
        assert_eq!(recovered(&bench), 1);
    }
}

#[test]
fn d32_a_removed_culprit_is_reported_as_recovered() {
    for kind in KINDS {
        for (mut bench, all) in changed(Variant::Delta, kind) {
            let good = bench.nack(&all, "c");
            let alone = bench.ack(good.one());
            bench.nack(alone.one(), "c");
            let gone = bench.remove([(kind, "c")]);
            assert!(gone.one().removed.iter().any(|name| &**name == "c"), "{gone}");
            assert_eq!((bench.ack(gone.one()).to_string(), recovered(&bench)), (String::new(), 1));
        }
    }
}
