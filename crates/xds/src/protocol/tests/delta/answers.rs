//! ACKs, NACKs, and answers to unknown responses.

use super::*;

#[test]
fn d13_an_ack_that_changes_names_is_both() {
    for kind in KINDS {
        for mut bench in streams(kind, ["a", "b", "c"]) {
            let first = bench.subscribe(kind, ["a", "c"]);
            let mut ack = bench.ack_request(first.one());
            (ack.subscribe, ack.unsubscribe) = (vec!["b".into()], vec!["c".into()]);
            let second = bench.request(ack);
            assert_eq!(second, says(kind, "{b}"));
            assert_eq!(bench.notices.len(), 1, "it was an ACK: {:?}", bench.notices);
            assert_eq!(bench.set(changed(kind, "c", 1)), "");
            assert_eq!(bench.subscribe(kind, ["c"]), says(kind, "{c}"), "a message of its own, while one is in flight");
            assert_eq!(bench.notices.len(), 1, "which answers nothing");
        }
    }
}

#[test]
fn d13_a_nack_that_changes_names_is_both() {
    for kind in KINDS {
        for mut bench in streams(kind, ["a", "b"]) {
            let first = bench.subscribe(kind, ["a"]);
            let mut nack = bench.nack_request(first.one(), "bad");
            nack.subscribe = vec!["b".into()];
            assert_eq!(bench.request(nack), says(kind, "{b}"));
            assert_eq!(bench.nacks(), 1);
        }
    }
}

#[test]
fn d15_a_rejected_resource_is_sent_again_only_if_it_changes_or_is_requested() {
    for kind in KINDS {
        for mut bench in streams(kind, ["a"]) {
            bench.settled(kind, ["a"]);
            let sent = bench.set(changed(kind, "a", 1));
            assert_eq!(bench.nack(sent.one(), "bad a"), "");
            assert_eq!(bench.wait(ms(60_000)), "");
            assert_eq!(bench.stream.describe()[kind.short_name()]["rejection"], "bad a");
            assert_eq!(bench.set(changed(kind, "b", 0)), "", "others do not bring it back");
            let good = bench.subscribe(kind, ["a"]);
            assert_eq!(good, says(kind, "{a}"));
            assert_eq!(good.one().resources[0].version(), any_kind(kind, "a", 0).version(), "the last good one");
            let again = bench.ack(good.one());
            assert_eq!(again, says(kind, "{a}"));
            assert_eq!(bench.nack(again.one(), "bad a"), "");
            assert_eq!(bench.set(changed(kind, "a", 2)), says(kind, "{a}"));
        }
    }
}

#[test]
fn d15_a_return_to_the_accepted_version_is_sent() {
    for kind in KINDS {
        for mut bench in streams(kind, ["a"]) {
            bench.settled(kind, ["a"]);
            let sent = bench.set(changed(kind, "a", 1));
            bench.nack(sent.one(), "bad a");
            let back = bench.set(changed(kind, "a", 0));
            assert_eq!(back, says(kind, "{a}"));
            assert_eq!(bench.ack(back.one()), "");
            assert!(bench.stream.describe()[kind.short_name()]["rejection"].is_null());
        }
    }
}

#[test]
fn d15_resources_rejected_with_the_culprit_follow_at_once() {
    for kind in KINDS {
        for gone in [false, true] {
            for mut bench in streams(kind, ["a", "b", "c"]) {
                bench.settled(kind, ["a", "b", "c"]);
                let sent = bench.set([any_kind(kind, "a", 1), any_kind(kind, "b", 1)]);
                let rest = bench.nack(sent.one(), "bad a");
                assert_eq!(rest, says(kind, "{b}"));
                let alone = bench.ack(rest.one());
                assert_eq!(alone, says(kind, "{a}"));
                assert_eq!(bench.nack(alone.one(), "bad a"), "", "and then there is an end of it");
                let other = bench.set(changed(kind, "c", 1));
                assert_eq!(other, says(kind, "{c}"), "what has nothing to do with it");
                assert_eq!(bench.ack(other.one()), "", "changes nothing about it");
                let mended = if gone { bench.remove([(kind, "a")]) } else { bench.set(changed(kind, "a", 2)) };
                assert_eq!(mended, says(kind, if gone { "-{a}" } else { "{a}" }));
                assert_eq!(bench.ack(mended.one()), "");
            }
        }
    }
}

#[test]
fn an_answer_to_an_unsent_response_is_ignored() {
    for kind in KINDS {
        for mut bench in streams(kind, ["a", "b"]) {
            bench.settled(kind, ["a"]);
            let before = bench.notices.len();
            let stray = Request { nonce: "999".into(), error: Some("no".into()), ..delta_request(kind, &["b"], &[]) };
            assert_eq!(bench.request(stray), says(kind, "{b}"), "its names count: each message is a difference");
            assert_eq!(bench.notices.len(), before);
        }
    }
}
