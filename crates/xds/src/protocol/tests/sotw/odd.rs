//! Unusual sequences that clients produce.

use std::sync::Arc;

use super::*;
use crate::snapshot::Update;

#[test]
fn s3_a_star_is_removed_and_added_while_the_names_stay() {
    for kind in FULL {
        for mut bench in streams(kind, ["a", "b"]) {
            bench.settled(kind, ["a"]);
            assert_eq!(bench.settled(kind, ["a", "*"]), says(kind, "{a,b}"));
            bench.settled(kind, ["a"]);
            assert_eq!(bench.set(changed(kind, "b", 1)), "");
            assert_eq!(bench.settled(kind, ["*", "a"]), says(kind, "{a,b}"), "again, with what b is now");
        }
    }
}

#[test]
fn s3_an_empty_list_after_names_requests_nothing_on_a_stream_of_one_type() {
    for kind in KINDS {
        for mut bench in streams(kind, ["a", "b"]) {
            bench.settled(kind, ["a"]);
            let none = bench.ask(kind, []);
            assert!(none.is_empty() || none == says(kind, "{}"), "{none}");
            none.iter().for_each(|response| drop(bench.ack(response)));
            assert_eq!(bench.set([any_kind(kind, "a", 1), any_kind(kind, "new", 0)]), "");
            assert_eq!(bench.ask(kind, ["b"]), says(kind, "{b}"));
        }
    }
}

#[test]
fn s4_a_wildcard_of_endpoints_and_routes_must_be_explicit() {
    for kind in [ENDPOINTS, ROUTES] {
        for mut bench in streams(kind, ["a", "b"]) {
            assert_eq!(bench.settled(kind, ["*"]), says(kind, "{a,b}"));
            assert_eq!(bench.settled(kind, []), "", "which takes it back");
            assert_eq!(bench.set(changed(kind, "a", 1)), "");
        }
    }
}

#[test]
fn s5_a_very_long_list_with_every_name_twice_is_answered_once() {
    let names: Vec<String> = (0..2000).map(|i| format!("n{i:04}")).collect();
    for kind in KINDS {
        for mut bench in streams(kind, []) {
            let set = names.iter().map(|name| any_kind(kind, name, 0)).collect();
            bench.store.update(crate::snapshot::Update { set, remove: Vec::new() });
            bench.catch_up();
            let twice: Vec<&str> = names.iter().chain(&names).map(String::as_str).collect();
            let sent = bench.settled_list(kind, &twice);
            assert_eq!(sent.one().resources.len(), 2000);
        }
    }
}

#[test]
fn s6_an_ack_with_a_version_of_another_server_is_an_ack() {
    for kind in KINDS {
        for mut bench in streams(kind, ["a"]) {
            let sent = bench.ask(kind, ["a"]);
            let ack = Request { version: "something-else".into(), ..bench.ack_request(sent.one()) };
            assert_eq!(bench.request(ack), "", "the nonce counts");
            assert_eq!(bench.set(changed(kind, "a", 1)), says(kind, "{a}"));
        }
    }
}

#[test]
fn s11_a_name_dropped_and_requested_again_during_a_response_is_sent() {
    for kind in KINDS {
        for mut bench in streams(kind, ["a", "b"]) {
            bench.settled(kind, ["a", "b"]);
            let news = bench.set(changed(kind, "b", 1));
            // The client unsubscribes from a before it receives the change, applies the response without a, and
            // subscribes to a again.
            assert_eq!(bench.ask(kind, ["b"]), "", "too old to count");
            let again = bench.ack_asking(news.one(), ["a", "b"]);
            assert!(names(again.one()).contains(&"a"), "{again}");
        }
    }
}

#[test]
fn s19_a_name_in_a_stale_request_ends_the_wildcard_of_empty_lists() {
    for kind in FULL {
        for mut bench in streams(kind, ["a", "b"]) {
            bench.settled(kind, []);
            let news = bench.set(changed(kind, "a", 1));
            assert_eq!(bench.ask(kind, ["a"]), "", "too old to count");
            bench.ack_asking(news.one(), []);
            assert_eq!(bench.set(changed(kind, "b", 1)), "", "it has given a name, so an empty list is nothing");
        }
    }
}

#[test]
fn s21_a_first_request_with_a_nonce_of_an_earlier_stream_is_a_first_request() {
    for kind in KINDS {
        for mut bench in streams(kind, ["a"]).map(Bench::into_grpc) {
            bench.set_names(kind, vec!["a".into()]);
            let request = Request { nonce: "17".into(), version: "old".into(), ..bench.next_request(kind) };
            assert_eq!(bench.request(request), says(kind, "{a}"));
        }
    }
}

#[test]
fn s23_a_nack_of_a_first_response_then_a_reconnect_gets_an_answer_again() {
    for kind in KINDS {
        for mut bench in streams(kind, ["a"]) {
            let sent = bench.ask(kind, ["a"]);
            assert_eq!(bench.nack(sent.one(), "bad"), "");
            bench.reconnect();
            let mut again = bench.ask(kind, ["a"]);
            if FULL.contains(&kind) {
                assert_eq!(again, says(kind, "{}"), "what is known to be bad comes last");
                again = bench.ack(again.one());
            }
            assert_eq!(again, says(kind, "{a}"), "a new stream knows of no rejection");
            assert_eq!(bench.nack(again.one(), "bad"), "", "and is silent after one");
        }
    }
}

#[test]
fn s24_resources_rejected_with_an_unsubscribed_name_follow() {
    for kind in PARTIAL {
        for mut bench in streams(kind, ["a", "b"]) {
            bench.settled(kind, ["a", "b"]);
            let sent = bench.set([any_kind(kind, "a", 1), any_kind(kind, "b", 1)]);
            let rest = bench.nack(sent.one(), "bad a");
            assert_eq!(rest, says(kind, "{b}"));
            assert_eq!(bench.ask(kind, ["b"]), "", "it is under way");
            assert_eq!(bench.ack(rest.one()), "", "a is not tried any more");
        }
        for mut bench in streams(kind, ["a", "b"]) {
            bench.settled(kind, ["a", "b"]);
            let sent = bench.set([any_kind(kind, "a", 1), any_kind(kind, "b", 1)]);
            let mut nack = bench.nack_request(sent.one(), "bad a");
            nack.subscribe = vec!["b".into()];
            bench.set_names(kind, vec!["b".into()]);
            assert_eq!(bench.request(nack), says(kind, "{b}"), "dropped with the NACK itself");
        }
    }
}

#[test]
fn s26_a_nack_that_drops_names_keeps_the_others() {
    for kind in KINDS {
        for mut bench in streams(kind, ["a", "b"]) {
            bench.settled(kind, ["a", "b"]);
            let sent = bench.set(changed(kind, "a", 1));
            let mut nack = bench.nack_request(sent.one(), "bad a");
            nack.subscribe = vec!["b".into()];
            bench.set_names(kind, vec!["b".into()]);
            let smaller = bench.request(nack);
            assert!(smaller.is_empty() || smaller == says(kind, "{b}"), "{smaller}");
            smaller.iter().for_each(|response| drop(bench.ack(response)));
            assert_eq!(bench.set(changed(kind, "a", 2)), "");
            assert_eq!(bench.set(changed(kind, "b", 1)), says(kind, "{b}"));
        }
    }
}

#[test]
fn s29_names_are_answered_after_a_reconnect_with_any_version() {
    for kind in KINDS {
        for bench in streams(kind, ["a", "b"]) {
            let mut bench = bench.into_grpc();
            bench.settled(kind, ["a"]);
            bench.reconnect();
            assert_eq!(bench.ask(kind, ["b"]), says(kind, "{b}"), "it never had b, though the version is equal");
        }
    }
}

#[test]
fn s24_a_removed_culprit_gets_no_trial() {
    for kind in PARTIAL {
        for mut bench in streams(kind, ["a", "b"]) {
            bench.settled(kind, ["a", "b"]);
            let sent = bench.set([any_kind(kind, "a", 1), any_kind(kind, "b", 1)]);
            let rest = bench.nack(sent.one(), "bad a");
            assert_eq!(bench.remove([(kind, "a")]), "");
            assert_eq!(bench.ack(rest.one()), "");
        }
    }
}

#[test]
fn s23_an_implicit_removal_is_not_rejected_with_other_changes() {
    for kind in PARTIAL {
        for mut bench in streams(kind, ["a", "b"]) {
            bench.settled(kind, ["a", "b"]);
            bench.store.update(Update::removing(vec![(kind, Arc::from("b"))]));
            let sent = bench.set(changed(kind, "a", 1));
            assert_eq!(bench.nack(sent.one(), "bad a"), "");
            let back = bench.set(changed(kind, "b", 1));
            assert_eq!(back, says(kind, "{b}"));
            assert_eq!(bench.ack(back.one()), "", "a alone was rejected");
        }
    }
}
