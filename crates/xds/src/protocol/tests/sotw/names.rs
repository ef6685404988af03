//! Subscriptions: to all resources, to names, to other names, and to missing names.

use super::*;

#[test]
fn s1_a_first_request_is_answered_at_once() {
    for kind in KINDS {
        for mut bench in streams(kind, ["a", "b"]) {
            let sent = bench.ask(kind, ["a", "b"]);
            assert_eq!(sent, says(kind, "{a,b}"));
            assert!(!sent.one().version.is_empty() && !sent.one().nonce.is_empty());
        }
    }
}

#[test]
fn s2_an_empty_list_requests_everything() {
    for kind in FULL {
        for mut bench in streams(kind, ["a", "b"]) {
            let sent = bench.ask(kind, []);
            assert_eq!(sent, says(kind, "{a,b}"));
            assert_eq!(bench.ack(sent.one()), "");
            assert_eq!(bench.set(changed(kind, "c", 0)), says(kind, "{a,b,c}"));
        }
    }
}

#[test]
fn s3_a_star_requests_everything_until_it_is_left_out() {
    for kind in FULL {
        for mut bench in streams(kind, ["a", "b"]) {
            let sent = bench.ask(kind, ["*"]);
            assert_eq!(sent, says(kind, "{a,b}"));
            bench.ack(sent.one());
        }
        for mut bench in streams(kind, ["a", "b"]) {
            let sent = bench.ask(kind, ["*", "a"]);
            assert_eq!(sent, says(kind, "{a,b}"), "a comes once");
            bench.ack(sent.one());
            let smaller = bench.ask(kind, ["a"]);
            assert!(smaller.is_empty() || smaller == says(kind, "{a}"), "{smaller}");
            smaller.iter().for_each(|response| drop(bench.ack(response)));
            assert_eq!(bench.set(changed(kind, "b", 1)), "", "b is no longer asked for");
            assert_eq!(bench.ask(kind, []), "", "an empty list after names asks for nothing");
            assert_eq!(bench.set(changed(kind, "a", 1)), "");
            assert_eq!(bench.set(changed(kind, "new", 1)), "");
        }
    }
}

#[test]
fn s3_an_empty_list_after_a_star_is_not_a_wildcard() {
    for kind in FULL {
        for mut bench in streams(kind, ["a", "b"]) {
            let sent = bench.ask(kind, ["*"]);
            bench.ack(sent.one());
            assert_eq!(bench.ask(kind, []), "");
            assert_eq!(bench.set(changed(kind, "a", 1)), "");
            assert_eq!(bench.ask(kind, ["*"]), says(kind, "{a,b}"), "asked again");
        }
    }
}

#[test]
fn s4_an_empty_list_of_endpoints_routes_or_secrets_requests_nothing() {
    for kind in PARTIAL {
        for mut bench in streams(kind, ["a", "b"]) {
            assert_eq!(bench.ask(kind, []), "");
            assert_eq!(bench.set(changed(kind, "a", 1)), "");
            assert_eq!(bench.ask(kind, ["a"]), says(kind, "{a}"), "names may follow");
        }
    }
}

#[test]
fn s4_secrets_cannot_be_listed() {
    for mut bench in streams(SECRET, ["a", "b"]) {
        assert_eq!(bench.ask(SECRET, ["*"]), "");
        assert_eq!(bench.ask(SECRET, ["*", "a"]), "SDS{a}");
    }
}

#[test]
fn s5_a_named_request_is_answered_with_these_names() {
    for kind in KINDS {
        for mut bench in streams(kind, ["a", "b", "c"]) {
            assert_eq!(bench.ask(kind, ["a", "c", "nx"]).one().resources.len(), if kind == ENDPOINTS { 3 } else { 2 });
        }
        for mut bench in streams(kind, ["a", "b", "c"]) {
            let sent = bench.ask(kind, ["c", "a", "c"]);
            assert_eq!(sent, says(kind, "{a,c}"), "a name given twice comes once");
        }
    }
}

#[test]
fn s6_an_ack_gets_no_response() {
    for kind in KINDS {
        for mut bench in streams(kind, ["a"]) {
            let sent = bench.ask(kind, ["a"]);
            assert_eq!(bench.ack(sent.one()), "");
            assert_eq!(bench.ack(sent.one()), "", "nor does a repeated one get an answer");
            assert_eq!(bench.wait(ms(60_000)), "");
        }
    }
}

#[test]
fn s8_an_added_name_is_sent_or_for_clusters_and_listeners_all_names() {
    for kind in KINDS {
        for mut bench in streams(kind, ["a", "b"]) {
            let first = bench.ask(kind, ["a"]);
            bench.ack(first.one());
            let second = bench.ask(kind, ["a", "b"]);
            assert_eq!(second, says(kind, if FULL.contains(&kind) { "{a,b}" } else { "{b}" }));
            assert_eq!(second.one().version, first.one().version);
            assert_ne!(second.one().nonce, first.one().nonce);
        }
    }
}

#[test]
fn s8_names_added_in_an_ack_are_answered() {
    for kind in KINDS {
        for mut bench in streams(kind, ["a", "b"]) {
            let first = bench.ask(kind, ["a"]);
            assert_eq!(
                bench.ack_asking(first.one(), ["a", "b"]),
                says(kind, if FULL.contains(&kind) { "{a,b}" } else { "{b}" })
            );
        }
    }
}

#[test]
fn s9_a_resource_sent_without_a_request_is_sent_again_when_requested() {
    let mut bench = Bench::sotw([cluster("a"), endpoints("a")]);
    bench.settled(CLUSTER, []);
    bench.settled(ENDPOINTS, ["a"]);
    let ahead = bench.set([cluster("b"), endpoints("b")]);
    assert_eq!(ahead, "CDS{a,b} EDS{b}", "before the client asks for b");
    assert_eq!(bench.ack_asking(&ahead[ENDPOINTS], ["a", "b"]), "EDS{b}");
}

#[test]
fn s11_names_left_out_get_no_response() {
    for kind in KINDS {
        for mut bench in streams(kind, ["a", "b"]) {
            let sent = bench.ask(kind, ["a", "b"]);
            bench.ack(sent.one());
            let smaller = bench.ask(kind, ["b"]);
            assert!(smaller.is_empty() || (FULL.contains(&kind) && smaller == says(kind, "{b}")), "{smaller}");
            smaller.iter().for_each(|response| drop(bench.ack(response)));
            assert_eq!(bench.set(changed(kind, "a", 1)), "");
            assert_eq!(bench.set(changed(kind, "b", 1)), says(kind, "{b}"));
        }
    }
}

#[test]
fn s11_a_name_left_out_and_requested_again_is_sent_again() {
    for kind in KINDS {
        for mut bench in streams(kind, ["a", "b"]) {
            bench.settled(kind, ["a", "b"]);
            bench.settled(kind, ["b"]);
            let again = bench.ask(kind, ["a", "b"]);
            assert_eq!(again, says(kind, if FULL.contains(&kind) { "{a,b}" } else { "{a}" }));
        }
    }
}

#[test]
fn s12_an_absent_cluster_or_listener_delays_nothing() {
    for kind in FULL {
        for mut bench in streams(kind, ["a"]) {
            let sent = bench.ask(kind, ["a", "nx"]);
            assert_eq!(sent, says(kind, "{a}"));
            bench.ack(sent.one());
            assert_eq!(bench.set(changed(kind, "nx", 0)), says(kind, "{a,nx}"), "without a new request");
        }
        for mut bench in streams(kind, []) {
            assert_eq!(bench.ask(kind, ["nx"]), says(kind, "{}"), "answered even with nothing");
        }
        for mut bench in streams(kind, []) {
            assert_eq!(bench.ask(kind, []), says(kind, "{}"), "answered even with nothing");
        }
    }
}

#[test]
fn s12_absent_endpoints_are_empty_ones_so_that_envoy_ends_warming() {
    for mut bench in streams(ENDPOINTS, ["a"]) {
        let sent = bench.ask(ENDPOINTS, ["a", "nx"]);
        assert_eq!(sent, "EDS{a,nx}");
        let empty = any_kind(ENDPOINTS, "nx", 0).message();
        assert!(sent.one().resources[1].message().len() < empty.len(), "no endpoints in it");
        bench.ack(sent.one());
        assert_eq!(bench.set(changed(ENDPOINTS, "nx", 0)), "EDS{nx}", "without a new request");
    }
}

#[test]
fn s12_absent_routes_and_secrets_get_no_response_until_they_exist() {
    for kind in [ROUTES, SECRET] {
        for mut bench in streams(kind, []) {
            assert_eq!(bench.ask(kind, ["nx"]), "");
            assert_eq!(bench.ask(kind, ["nx", "other"]), "", "with no response yet, the nonce stays empty");
            assert_eq!(bench.set(changed(kind, "nx", 0)), says(kind, "{nx}"), "without a new request");
        }
    }
}

#[test]
fn empty_names_are_ignored() {
    for kind in KINDS {
        for mut bench in streams(kind, ["a"]) {
            assert_eq!(bench.ask(kind, ["", "a"]), says(kind, "{a}"));
        }
    }
}

#[test]
fn names_in_another_order_are_not_a_change() {
    for kind in KINDS {
        for mut bench in streams(kind, ["a", "b"]) {
            bench.settled(kind, ["a", "b"]);
            assert_eq!(bench.ask(kind, ["b", "a", "b"]), "");
        }
    }
}

/// A client that names its clusters, like gRPC. Each change of the names is answered with the whole set.
#[test]
fn s8_clusters_by_name_follow_the_names_at_one_version() {
    let mut bench = Bench::sotw(["c", "d"].map(cluster)).into_grpc();
    let first = bench.settled(CLUSTER, ["c"]);
    assert_eq!(first, "CDS{c}");
    let second = bench.ask(CLUSTER, ["c", "d"]);
    assert_eq!(second, "CDS{c,d}");
    bench.ack(second.one());
    let third = bench.ask(CLUSTER, ["d"]);
    assert!(third.is_empty() || third == "CDS{d}");
    assert!(third.iter().all(|response| response.version == first.one().version));
}
