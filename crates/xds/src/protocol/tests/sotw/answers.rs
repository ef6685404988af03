//! ACKs, NACKs, and answers to unknown responses.

use super::*;
use crate::protocol::Notice;

#[test]
fn s19_a_stale_request_is_ignored_completely() {
    for kind in KINDS {
        for mut bench in streams(kind, ["a", "b"]) {
            let first = bench.settled(kind, ["a"]);
            let second = bench.set(changed(kind, "a", 1));
            let mut stale = bench.next_request(kind);
            assert_eq!(stale.nonce, first.one().nonce);
            stale.subscribe.push("b".into());
            assert_eq!(bench.request(stale.clone()), "", "its names count for nothing");
            stale.error = Some("no".into());
            assert_eq!(bench.request(stale), "");
            assert_eq!(bench.nacks(), 0);
            assert_eq!(bench.set(changed(kind, "b", 1)), "", "b is not asked for");
            let answer = bench.ack_asking(second.one(), ["a", "b"]);
            assert_eq!(answer, says(kind, if FULL.contains(&kind) { "{a,b}" } else { "{b}" }));
        }
    }
}

#[test]
fn s21_an_unknown_nonce_with_nothing_in_flight_is_ignored() {
    for kind in KINDS {
        for mut bench in streams(kind, ["a", "b"]) {
            bench.settled(kind, ["a"]);
            for nonce in ["", "unknown", "999"] {
                let mut request = bench.next_request(kind);
                request.nonce = nonce.into();
                request.subscribe.push("b".into());
                assert_eq!(bench.request(request), "", "nonce {nonce:?}");
            }
            assert_eq!(bench.set(changed(kind, "b", 1)), "");
        }
    }
}

#[test]
fn s23_a_nack_gets_no_response() {
    for kind in KINDS {
        for mut bench in streams(kind, ["a"]) {
            bench.settled(kind, ["a"]);
            let sent = bench.set(changed(kind, "a", 1));
            assert_eq!(bench.nack(sent.one(), "bad a"), "");
            assert_eq!(bench.nacks(), 1);
            assert_eq!(bench.stream.describe()[kind.short_name()]["rejection"], "bad a");
            assert_eq!(bench.nack(sent.one(), "bad a"), "", "again");
            assert_eq!(bench.nacks(), 1, "one response, one NACK");
            assert_eq!(bench.wait(ms(60_000)), "");
        }
    }
}

#[test]
fn s23_a_wildcard_reply_with_the_version_that_was_sent_accepts_it_despite_an_old_error() {
    for kind in [ResourceType::CLUSTER, ResourceType::LISTENER] {
        for mut bench in streams(kind, ["a"]) {
            bench.settled(kind, []);
            let sent = bench.set(changed(kind, "a", 1));
            let accepts = bench.ack_request(sent.one());
            assert_eq!(bench.request(Request { error: Some("bad b".into()), ..accepts }), "");
            assert_eq!(bench.nacks(), 0);
            let is_old_error = |notice: &&Notice| matches!(notice, Notice::OldError { .. });
            assert_eq!(bench.notices.iter().filter(is_old_error).count(), 1, "the error is reported");
            // The previous content is a change again, and can be rejected. The reply then has the version before it.
            let sent = bench.set(changed(kind, "a", 0));
            assert_eq!(bench.nack(sent.one(), "bad a"), "");
            assert_eq!(bench.nacks(), 1);
        }
    }
}

#[test]
fn s23_a_late_wildcard_reply_with_the_version_that_was_sent_accepts_it_despite_an_old_error() {
    for kind in [ResourceType::CLUSTER, ResourceType::LISTENER] {
        for mut bench in streams(kind, ["a"]) {
            bench.settled(kind, []);
            // The client rejects the first response, applies the second, and delays its reply beyond the timeout of the
            // server.
            bench.set(changed(kind, "a", 1));
            bench.wait(ms(60_000));
            let second = bench.set(changed(kind, "a", 2));
            bench.wait(ms(60_000));
            let accepts = bench.ack_request(second.one());
            assert_eq!(bench.request(Request { error: Some("bad a".into()), ..accepts.clone() }), "");
            assert_eq!(bench.nacks(), 0);
            assert_eq!(bench.stream.describe()[kind.short_name()]["rejection"], serde_json::Value::Null);
            // The version is not new if the client has it from an earlier response.
            bench.set(changed(kind, "a", 1));
            bench.wait(ms(60_000));
            let again = bench.set(changed(kind, "a", 2));
            bench.request(Request { error: Some("bad a".into()), nonce: again.one().nonce.clone(), ..accepts });
            assert_eq!(bench.nacks(), 1);
        }
    }
}

/// gRPC adopts the new version when it uses one resource of a response and rejects another (observed: C-core).
#[test]
fn s23_a_named_reply_with_the_version_that_was_sent_is_a_nack_of_a_part() {
    for kind in KINDS {
        for mut bench in streams(kind, ["a"]) {
            bench.settled(kind, ["a"]);
            let sent = bench.set(changed(kind, "a", 1));
            let reply = bench.ack_request(sent.one());
            bench.request(Request { error: Some("bad a".into()), ..reply });
            assert_eq!(bench.nacks(), 1);
            assert_eq!(bench.stream.describe()[kind.short_name()]["rejection"], "bad a");
        }
    }
}

#[test]
fn s23_a_nack_of_the_first_response_has_no_version() {
    for kind in KINDS {
        for mut bench in streams(kind, ["a"]) {
            let sent = bench.ask(kind, ["a"]);
            assert_eq!(bench.nack_request(sent.one(), "bad").version, "");
            assert_eq!(bench.nack(sent.one(), "bad"), "");
            assert_eq!(bench.nacks(), 1);
        }
    }
}

#[test]
fn s24_after_a_nack_new_content_is_sent_at_once() {
    for kind in KINDS {
        for mut bench in streams(kind, ["a"]) {
            bench.settled(kind, ["a"]);
            let sent = bench.set(changed(kind, "a", 1));
            bench.nack(sent.one(), "bad a");
            let better = bench.set(changed(kind, "a", 2));
            assert_eq!(better, says(kind, "{a}"));
            assert_eq!(bench.ack(better.one()), "");
            assert!(bench.stream.describe()[kind.short_name()]["rejection"].is_null(), "the ACK clears the error");
        }
    }
}

#[test]
fn s24_after_a_nack_the_return_to_the_accepted_version_is_sent() {
    for kind in KINDS {
        for mut bench in streams(kind, ["a"]) {
            bench.settled(kind, ["a"]);
            let sent = bench.set(changed(kind, "a", 1));
            bench.nack(sent.one(), "bad a");
            assert_eq!(bench.set(changed(kind, "a", 0)), says(kind, "{a}"));
        }
    }
}

#[test]
fn s24_resources_rejected_with_the_culprit_follow_at_once() {
    for kind in PARTIAL {
        for mut bench in streams(kind, ["a", "b"]) {
            bench.settled(kind, ["a", "b"]);
            let sent = bench.set([any_kind(kind, "a", 1), any_kind(kind, "b", 1)]);
            let rest = bench.nack(sent.one(), "bad a");
            assert_eq!(rest, says(kind, "{b}"), "one bad resource voids its batch: b was not taken either");
            let alone = bench.ack(rest.one());
            assert_eq!(alone, says(kind, "{a}"));
            assert_eq!(bench.nack(alone.one(), "bad a"), "", "and then there is an end of it");
            let mended = bench.set(changed(kind, "a", 2));
            assert_eq!(mended, says(kind, "{a}"));
            assert_eq!(bench.ack(mended.one()), "");
        }
    }
}

#[test]
fn s26_a_nack_may_change_the_names() {
    for kind in KINDS {
        for mut bench in streams(kind, ["a", "b"]) {
            bench.settled(kind, ["a"]);
            let sent = bench.set(changed(kind, "a", 1));
            let mut nack = bench.nack_request(sent.one(), "bad a");
            nack.subscribe.push("b".into());
            assert_eq!(bench.request(nack), says(kind, if FULL.contains(&kind) { "{a,b}" } else { "{b}" }));
            assert_eq!(bench.nacks(), 1);
        }
    }
}

/// xDS protocol: nonces are per type.
#[test]
fn s19_a_nonce_answers_only_its_type() {
    let mut bench = Bench::sotw([cluster("a"), listener("l", "r")]);
    let clusters = bench.ask(CLUSTER, []);
    let listeners = bench.ask(LISTENER, []);
    let crossed = Request { nonce: clusters.one().nonce.clone(), ..bench.ack_request(listeners.one()) };
    assert_eq!(bench.request(crossed), "");
    assert!(bench.notices.is_empty(), "{:?}", bench.notices);
}
