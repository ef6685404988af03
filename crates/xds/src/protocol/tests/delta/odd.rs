//! Unusual sequences that clients produce.

use super::*;

#[test]
fn d3_a_star_after_its_unsubscription_requests_everything() {
    for kind in WILD {
        for mut bench in streams(kind, ["a", "b"]) {
            bench.settled(kind, ["*"]);
            assert_eq!(bench.unsubscribe(kind, ["*"]), "");
            assert_eq!(bench.set(changed(kind, "a", 1)), "");
            assert_eq!(bench.settled(kind, ["*"]), says(kind, "{a,b}"));
            assert_eq!(bench.remove([(kind, "a")]), says(kind, "-{a}"));
        }
    }
}

#[test]
fn d3_unsubscribing_a_star_keeps_earlier_names() {
    for kind in WILD {
        for mut bench in streams(kind, ["a", "b"]) {
            bench.settled(kind, ["a"]);
            bench.settled(kind, ["*"]);
            assert_eq!(bench.unsubscribe(kind, ["*"]), "");
            assert_eq!(bench.set([any_kind(kind, "a", 1), any_kind(kind, "b", 1)]), says(kind, "{a}"));
        }
    }
}

#[test]
fn d5_a_first_request_that_only_unsubscribes_requests_nothing() {
    for kind in KINDS {
        for mut bench in streams(kind, ["a", "b"]) {
            assert_eq!(bench.unsubscribe(kind, ["never"]), "");
            assert_eq!(bench.set(changed(kind, "a", 1)), "");
            assert_eq!(bench.subscribe(kind, ["a"]), says(kind, "{a}"));
        }
    }
}

#[test]
fn d8_an_absent_name_under_the_wildcard_is_reported_and_sent_when_created() {
    for kind in WILD {
        for mut bench in streams(kind, ["a"]) {
            bench.settled(kind, []);
            let told = bench.subscribe(kind, ["nx"]);
            assert_eq!(told, says(kind, "-{nx}"));
            bench.ack(told.one());
            assert_eq!(bench.set(changed(kind, "nx", 0)), says(kind, "{nx}"));
        }
    }
}

#[test]
fn d10_a_repeated_name_in_a_request_is_sent_once() {
    for kind in KINDS {
        for mut bench in streams(kind, ["a", "b"]) {
            assert_eq!(bench.subscribe(kind, ["a", "a", "b", "a"]), says(kind, "{a,b}"));
        }
    }
}

#[test]
fn d11_a_name_unsubscribed_twice_and_subscribed_once_is_subscribed() {
    for kind in KINDS {
        for mut bench in streams(kind, ["a"]) {
            bench.settled(kind, ["a"]);
            assert_eq!(bench.unsubscribe(kind, ["a", "a"]), "");
            assert_eq!(bench.unsubscribe(kind, ["a"]), "");
            assert_eq!(bench.settled(kind, ["a"]), says(kind, "{a}"));
            assert_eq!(bench.set(changed(kind, "a", 1)), says(kind, "{a}"));
        }
    }
}

#[test]
fn d11_an_unsubscribed_name_with_a_delayed_change_is_not_sent() {
    for kind in KINDS {
        for mut bench in streams(kind, ["a", "b"]) {
            bench.settled(kind, ["a", "b"]);
            let first = bench.set(changed(kind, "b", 1));
            assert_eq!(bench.set(changed(kind, "a", 1)), "", "one in flight");
            assert_eq!(bench.unsubscribe(kind, ["a"]), "");
            assert_eq!(bench.ack(first.one()), "");
        }
    }
}

#[test]
fn d13_an_ack_of_an_older_nonce_accepts_only_that_response() {
    for kind in KINDS {
        for mut bench in streams(kind, ["a", "b"]) {
            let first = bench.subscribe(kind, ["a"]);
            let second = bench.subscribe(kind, ["b"]);
            // Both responses are in flight. Answers in order count, and repeated answers do not.
            assert_eq!(bench.ack(first.one()), "");
            assert_eq!(bench.ack(second.one()), "");
            let heard = bench.notices.len();
            assert_eq!(heard, 2);
            assert_eq!(bench.ack(first.one()), "");
            assert_eq!(bench.nack(second.one(), "too late"), "");
            assert_eq!(bench.notices.len(), heard);
            assert_eq!(bench.set(changed(kind, "a", 1)), says(kind, "{a}"));
        }
    }
}

#[test]
fn d15_after_a_nack_and_a_reconnect_the_client_receives_missing_resources() {
    for kind in NAMED {
        for mut bench in streams(kind, ["a"]) {
            bench.settled(kind, ["a"]);
            let accepted = bench.version(kind, "a");
            let sent = bench.set(changed(kind, "a", 1));
            bench.nack(sent.one(), "bad a");
            bench.reconnect();
            let again = bench.resume(kind, &["a"], [("a", accepted)]);
            assert_eq!(again, says(kind, "{a}"), "a new stream knows of no rejection");
            assert_eq!(bench.nack(again.one(), "bad a"), "");
            assert_eq!(bench.wait(ms(60_000)), "");
        }
    }
}

#[test]
fn d15_a_withdrawn_rejected_resource_is_not_sent_with_another() {
    for kind in WILD {
        for mut bench in streams(kind, ["a", "b"]) {
            let first = bench.subscribe(kind, []);
            let second = bench.subscribe(kind, ["a"]);
            bench.unsubscribe(kind, ["*"]);
            assert_eq!(bench.nack(first.one(), "bad b"), "");
            assert_eq!(bench.ack(second.one()), "", "b was rejected beside a, but nobody asks for it any more");
        }
    }
}

#[test]
fn d15_an_individually_rejected_resource_is_not_sent_again() {
    for kind in WILD {
        for mut bench in streams(kind, ["a", "b"]) {
            let both = bench.subscribe(kind, []);
            let good = bench.subscribe(kind, ["a"]);
            assert_eq!(bench.nack(both.one(), "bad b"), "", "one trial at a time, and a is under way");
            assert_eq!(bench.subscribe(kind, ["b"]), "");
            let alone = bench.ack(good.one());
            assert_eq!(alone, says(kind, "{b}"));
            assert_eq!(bench.nack(alone.one(), "bad b"), "");
        }
    }
}

#[test]
fn d16_versions_of_a_name_that_is_absent_are_answered_with_its_removal() {
    for kind in KINDS {
        for mut bench in streams(kind, []) {
            bench.reconnect();
            let sent = bench.resume(kind, &["gone"], [("gone", "0123456789abcdef".into())]);
            assert_eq!(sent, says(kind, "-{gone}"));
            bench.ack(sent.one());
            assert_eq!(bench.set(changed(kind, "gone", 0)), says(kind, "{gone}"));
        }
    }
}

#[test]
fn d17_a_wildcard_and_names_are_restored_together() {
    for kind in WILD {
        for mut bench in streams(kind, ["a", "b"]) {
            let (a, b) = (bench.version(kind, "a"), bench.version(kind, "b"));
            bench.reconnect();
            let versions = [("a", a), ("b", b), ("gone", "0123456789abcdef".into())];
            let sent = bench.resume(kind, &["*", "a", "nx"], versions);
            assert_eq!(sent, says(kind, "-{gone,nx}"));
        }
    }
}

#[test]
fn d3_d7_a_removal_in_flight_during_a_wildcard_request_is_reported() {
    for kind in WILD {
        for mut bench in streams(kind, ["a", "b"]) {
            // The resource is in flight while the client unsubscribes, the resource is deleted, and a glob covers it
            // again. The client accepts the response.
            let first = bench.subscribe(kind, ["a"]);
            bench.unsubscribe(kind, ["a"]);
            bench.remove([(kind, "a")]);
            assert_eq!(first, says(kind, "{a}"));
            assert_eq!(bench.subscribe(kind, ["*"]), says(kind, "{b}-{a}"));
        }
    }
}

#[test]
fn d22_a_removal_between_parts_of_a_first_response_is_sent() {
    let long = "x".repeat(70_000);
    let routes = |name| routes_for(name, &long, &["somewhere"]);
    let mut bench = Bench::new(Variant::Delta, Some(ROUTES), [routes("a"), routes("b")]);
    let parts = bench.subscribe(ROUTES, ["*"]);
    assert_eq!(parts, "RDS{a} RDS{b}");
    assert_eq!(bench.ack(&parts.0[0]), "");
    assert_eq!(bench.publish([routes("b"), routes("bad")]), "", "one answer at a time");
    let news = bench.ack(&parts.0[1]);
    assert_eq!(news, "RDS{bad}-{a}");
    assert_eq!(bench.nack(news.one(), "bad"), "RDS-{a}", "the client still has it");
}
