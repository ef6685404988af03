//! S: state of the world.

use super::harness::*;
use crate::snapshot::{Resource, ResourceType};
use crate::xds::{Request, Variant};

const SOTW: Variant = Variant::Sotw;
/// Types whose answer is everything asked for, and those whose answer is what changed.
const FULL: [ResourceType; 2] = [CLUSTER, LISTENER];
const PARTIAL: [ResourceType; 3] = [ENDPOINTS, ROUTES, SECRET];

/// Streams of `kind` (aggregated and alone) over resources `names` of that type.
fn streams<const N: usize>(kind: ResourceType, names: [&str; N]) -> [Bench; 2] {
    Bench::both(SOTW, kind, names.map(|name| any_kind(kind, name, 0)))
}

/// `{a,b}` with the short name of the type before it.
fn says(kind: ResourceType, rest: &str) -> String {
    format!("{}{rest}", short(kind))
}

fn changed(kind: ResourceType, name: &str, variation: u32) -> [Resource; 1] {
    [any_kind(kind, name, variation)]
}

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
fn s2_an_empty_list_asks_for_everything() {
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
fn s3_a_star_asks_for_everything_until_it_is_left_out() {
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
fn s3_a_star_that_is_taken_back_is_not_the_old_form_of_everything() {
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
fn s4_an_empty_list_of_endpoints_routes_or_secrets_asks_for_nothing() {
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
fn s6_an_ack_is_answered_with_silence() {
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
fn s8_a_name_added_brings_that_one_or_for_clusters_and_listeners_all() {
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
fn s8_names_added_in_the_ack_itself_are_answered() {
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
fn s9_what_was_sent_unasked_is_sent_again_when_asked_for() {
    let mut bench = Bench::sotw([cluster("a"), endpoints("a")]);
    bench.settled(CLUSTER, []);
    bench.settled(ENDPOINTS, ["a"]);
    let ahead = bench.set([cluster("b"), endpoints("b")]);
    assert_eq!(ahead, "CDS{a,b} EDS{b}", "before the client asks for b");
    assert_eq!(bench.ack_asking(&ahead[ENDPOINTS], ["a", "b"]), "EDS{b}");
}

#[test]
fn s11_names_left_out_are_answered_with_silence() {
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
fn s11_a_name_left_out_and_asked_for_again_is_sent_again() {
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
fn s12_an_absent_cluster_or_listener_withholds_nothing() {
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
fn s12_absent_routes_and_secrets_are_silence_until_they_come() {
    for kind in [ROUTES, SECRET] {
        for mut bench in streams(kind, []) {
            assert_eq!(bench.ask(kind, ["nx"]), "");
            assert_eq!(bench.ask(kind, ["nx", "other"]), "", "with no response yet, the nonce stays empty");
            assert_eq!(bench.set(changed(kind, "nx", 0)), says(kind, "{nx}"), "without a new request");
        }
    }
}

#[test]
fn s13_only_what_changed_is_sent() {
    for kind in PARTIAL {
        for mut bench in streams(kind, ["a", "b", "c"]) {
            bench.settled(kind, ["a", "b", "c"]);
            assert_eq!(bench.set(changed(kind, "b", 1)), says(kind, "{b}"));
        }
    }
}

#[test]
fn s14_clusters_and_listeners_come_all_together() {
    for kind in FULL {
        for mut bench in streams(kind, ["a", "b", "c"]) {
            bench.settled(kind, []);
            assert_eq!(bench.set(changed(kind, "b", 1)), says(kind, "{a,b,c}"));
        }
        for mut bench in streams(kind, ["a", "b", "c"]) {
            bench.settled(kind, ["a", "b"]);
            assert_eq!(bench.set(changed(kind, "b", 1)), says(kind, "{a,b}"), "of those asked for");
        }
    }
}

#[test]
fn s15_the_last_one_deleted_is_an_empty_response() {
    for kind in FULL {
        for mut bench in streams(kind, ["a"]) {
            let first = bench.settled(kind, []);
            let sent = bench.remove([(kind, "a")]);
            assert_eq!(sent, says(kind, "{}"));
            assert_ne!(sent.one().version, first.one().version);
            assert_eq!(bench.ack(sent.one()), "");
        }
        for mut bench in streams(kind, ["a"]) {
            bench.settled(kind, ["a"]);
            assert_eq!(bench.remove([(kind, "a")]), says(kind, "{}"));
        }
    }
}

#[test]
fn s16_a_deleted_endpoint_set_or_route_configuration_is_silence() {
    for kind in PARTIAL {
        for mut bench in streams(kind, ["a", "b"]) {
            bench.settled(kind, ["a", "b"]);
            assert_eq!(bench.remove([(kind, "a")]), "");
            assert_eq!(bench.set(changed(kind, "b", 1)), says(kind, "{b}"));
        }
        for mut bench in streams(kind, ["a", "b"]) {
            bench.settled(kind, ["a", "b"]);
            assert_eq!(bench.remove([(kind, "a")]), "");
            assert_eq!(bench.set(changed(kind, "a", 0)), says(kind, "{a}"), "created again, as it was");
        }
    }
}

#[test]
fn s16_endpoints_deleted_while_their_cluster_lives_are_silence() {
    let mut bench = Bench::sotw([cluster("a"), endpoints("a")]);
    bench.settled(CLUSTER, []);
    bench.settled(ENDPOINTS, ["a"]);
    assert_eq!(bench.remove([(ENDPOINTS, "a")]), "");
    assert_eq!(bench.set([endpoints_at("a", 1)]), "EDS{a}");
}

#[test]
fn s17_nothing_new_is_silence() {
    for kind in KINDS {
        for mut bench in streams(kind, ["a", "b"]) {
            bench.settled(kind, ["a", "b"]);
            assert_eq!(bench.publish(["b", "a"].map(|name| any_kind(kind, name, 0))), "");
        }
    }
}

#[test]
fn s18_versions_are_per_type_and_of_the_content() {
    let mut bench = Bench::sotw([cluster("a"), endpoints("a")]);
    let before = bench.settled(CLUSTER, []).one().version.clone();
    let endpoints_before = bench.settled(ENDPOINTS, ["a"]).one().version.clone();
    let sent = bench.set([endpoints_at("a", 1)]);
    assert_eq!(sent, "EDS{a}");
    assert_ne!(sent.one().version, endpoints_before);
    bench.ack(sent.one());
    assert_eq!(bench.ask(CLUSTER, ["*", "a"])[CLUSTER].version, before, "clusters did not change");

    let mut replica = Bench::sotw([endpoints_at("a", 1), cluster("a")]);
    assert_eq!(replica.settled(CLUSTER, []).one().version, before);
    assert_eq!(replica.settled(ENDPOINTS, ["a"]).one().version, sent.one().version);
    replica.set([endpoints("a")]);
    assert_eq!(replica.newest().version(ENDPOINTS).to_string(), endpoints_before, "a way back");
}

#[test]
fn s19_a_stale_request_is_ignored_whole() {
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
fn s23_a_nack_is_answered_with_silence() {
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
fn s23_a_nack_of_the_first_response_has_no_version_and_is_one_all_the_same() {
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
fn s24_after_a_nack_new_content_goes_at_once() {
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
fn s24_after_a_nack_the_way_back_is_sent_too() {
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
fn s24_what_was_rejected_beside_the_culprit_follows_when_the_culprit_is_mended() {
    for kind in PARTIAL {
        for mut bench in streams(kind, ["a", "b"]) {
            bench.settled(kind, ["a", "b"]);
            let sent = bench.set([any_kind(kind, "a", 1), any_kind(kind, "b", 1)]);
            assert_eq!(bench.nack(sent.one(), "bad a"), "");
            let mended = bench.set(changed(kind, "a", 2));
            assert_eq!(mended, says(kind, "{a}"));
            let rest = bench.ack(mended.one());
            assert_eq!(rest, says(kind, "{b}"), "one bad resource voids its batch: b was not taken either");
            assert_eq!(bench.nack(rest.one(), "b too"), "", "and then there is no end of it");
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

#[test]
fn s28_many_updates_while_one_is_in_flight_are_one_further_response() {
    for kind in KINDS {
        for mut bench in streams(kind, ["a"]) {
            bench.settled(kind, ["a"]);
            let first = bench.set(changed(kind, "a", 1));
            for variation in 2..12 {
                assert_eq!(bench.set(changed(kind, "a", variation)), "");
            }
            let second = bench.ack(first.one());
            assert_eq!(second, says(kind, "{a}"));
            assert_eq!(second.one().resources[0].version().to_string(), bench.version(kind, "a"));
            assert_eq!(bench.ack(second.one()), "");
        }
    }
}

#[test]
fn s28_an_answer_that_holds_everything_is_not_followed_by_what_it_held() {
    for kind in FULL {
        for mut bench in streams(kind, ["a", "b"]) {
            bench.settled(kind, ["a"]);
            let first = bench.set(changed(kind, "a", 1));
            assert_eq!(bench.set(changed(kind, "a", 2)), "");
            let second = bench.ack_asking(first.one(), ["a", "b"]);
            assert_eq!(second, says(kind, "{a,b}"));
            assert_eq!(bench.ack(second.one()), "");
        }
    }
}

#[test]
fn s29_a_reconnect_with_everything_current_may_be_silent() {
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
fn s29_a_client_that_came_back_lets_the_stream_sleep() {
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
fn s31_many_streams_of_one_client_are_each_served_alone() {
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
fn s32_what_does_not_exist_is_told_once_and_cleared_by_the_resource() {
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
    let bytes = crate::xds::encode::response(sent.one(), SOTW, "me");
    let decoded = DiscoveryResponse::decode(bytes).unwrap();
    let [error] = &decoded.resource_errors[..] else { panic!("{decoded:?}") };
    assert_eq!(error.resource_name.as_ref().unwrap().name, "nx");
    assert_eq!(error.error_detail.as_ref().unwrap().code, 5);
}

#[test]
fn a_cluster_deleted_is_told_by_absence_and_by_name() {
    for kind in FULL {
        let mut bench = Bench::sotw([any_kind(kind, "a", 0), any_kind(kind, "b", 0)]).into_grpc();
        bench.settled(kind, ["a", "b"]);
        let sent = bench.remove([(kind, "a")]);
        assert_eq!(sent, says(kind, "{b}?{a}"));
        assert_eq!(bench.ack(sent.one()), "");
    }
}

#[test]
fn empty_names_are_no_names() {
    for kind in KINDS {
        for mut bench in streams(kind, ["a"]) {
            assert_eq!(bench.ask(kind, ["", "a"]), says(kind, "{a}"));
        }
    }
}

#[test]
fn a_request_for_names_in_another_order_is_no_change() {
    for kind in KINDS {
        for mut bench in streams(kind, ["a", "b"]) {
            bench.settled(kind, ["a", "b"]);
            assert_eq!(bench.ask(kind, ["b", "a", "b"]), "");
        }
    }
}

/// xDS protocol: nonces are per type.
#[test]
fn s19_a_nonce_of_one_type_answers_no_other() {
    let mut bench = Bench::sotw([cluster("a"), listener("l", "r")]);
    let clusters = bench.ask(CLUSTER, []);
    let listeners = bench.ask(LISTENER, []);
    let crossed = Request { nonce: clusters.one().nonce.clone(), ..bench.ack_request(listeners.one()) };
    assert_eq!(bench.request(crossed), "");
    assert!(bench.notices.is_empty(), "{:?}", bench.notices);
}

/// A client that gives its clusters by name, as gRPC does: each change of the names brings the whole set.
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
