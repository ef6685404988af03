//! D: delta.

use std::sync::Arc;

use super::harness::*;
use crate::snapshot::{Resource, ResourceType, Store, Update};
use crate::xds::{Request, Variant};

const DELTA: Variant = Variant::Delta;
/// Types of which an empty first message asks for everything.
const WILD: [ResourceType; 2] = [CLUSTER, LISTENER];
const NAMED: [ResourceType; 3] = [ENDPOINTS, ROUTES, SECRET];

/// Streams of `kind` (aggregated and alone) over resources `names` of that type. The client is no Envoy, for which an
/// aggregated stream would hold things back until it has asked for the other types too.
fn streams<const N: usize>(kind: ResourceType, names: [&str; N]) -> [Bench; 2] {
    Bench::both(DELTA, kind, names.map(|name| any_kind(kind, name, 0))).map(Bench::into_grpc)
}

fn says(kind: ResourceType, rest: &str) -> String {
    format!("{}{rest}", short(kind))
}

fn changed(kind: ResourceType, name: &str, variation: u32) -> [Resource; 1] {
    [any_kind(kind, name, variation)]
}

#[test]
fn d1_an_empty_first_message_or_a_star_asks_for_everything() {
    for kind in WILD {
        for mut bench in streams(kind, ["a", "b"]) {
            assert_eq!(bench.subscribe(kind, []), says(kind, "{a,b}"));
        }
        for mut bench in streams(kind, ["a", "b"]) {
            let sent = bench.subscribe(kind, ["*"]);
            assert_eq!(sent, says(kind, "{a,b}"));
            bench.ack(sent.one());
            assert_eq!(bench.set(changed(kind, "c", 0)), says(kind, "{c}"));
        }
    }
    for kind in NAMED {
        for mut bench in streams(kind, ["a", "b"]) {
            assert_eq!(bench.subscribe(kind, []), "", "these are asked for by name");
            assert_eq!(bench.set(changed(kind, "a", 1)), "");
            assert_eq!(bench.subscribe(kind, ["a"]), says(kind, "{a}"));
        }
    }
}

#[test]
fn d1_an_empty_later_message_asks_for_nothing_more() {
    for kind in WILD {
        for mut bench in streams(kind, ["a", "b"]) {
            bench.settled(kind, ["a"]);
            assert_eq!(bench.subscribe(kind, []), "");
            assert_eq!(bench.set(changed(kind, "b", 1)), "");
        }
    }
}

#[test]
fn d2_everything_of_nothing_is_an_empty_answer_at_once() {
    for kind in WILD {
        for names in [&[][..], &["*"]] {
            for mut bench in streams(kind, []) {
                let sent = bench.request(delta_request(kind, names, &[]));
                assert_eq!(sent, says(kind, "{}"));
                assert_eq!(bench.ack(sent.one()), "");
            }
        }
    }
}

#[test]
fn d3_the_wildcard_and_names_are_taken_back_one_by_one() {
    for kind in WILD {
        for mut bench in streams(kind, ["a", "b"]) {
            bench.settled(kind, []);
            let sent = bench.subscribe(kind, ["a"]);
            assert_eq!(sent, says(kind, "{a}"), "everything, and a");
            bench.ack(sent.one());
            let sent = bench.set(changed(kind, "b", 1));
            assert_eq!(sent, says(kind, "{b}"));
            bench.ack(sent.one());
            assert_eq!(bench.unsubscribe(kind, ["*"]), "");
            assert_eq!(bench.set(changed(kind, "b", 2)), "", "only a");
            let sent = bench.set(changed(kind, "a", 1));
            assert_eq!(sent, says(kind, "{a}"));
            bench.ack(sent.one());
            assert_eq!(bench.unsubscribe(kind, ["a"]), "");
            assert_eq!(bench.set([any_kind(kind, "a", 2), any_kind(kind, "b", 3)]), "", "nothing, not everything");
            assert_eq!(bench.subscribe(kind, []), "");
        }
    }
}

#[test]
fn d3_a_name_taken_back_under_the_wildcard_is_still_served() {
    for kind in WILD {
        for mut bench in streams(kind, ["a", "b"]) {
            bench.settled(kind, []);
            bench.settled(kind, ["a"]);
            let sent = bench.unsubscribe(kind, ["a"]);
            assert_eq!(sent, says(kind, "{a}"), "the client cannot know whether the wildcard has it, so it is told");
            bench.ack(sent.one());
            assert_eq!(bench.set(changed(kind, "a", 1)), says(kind, "{a}"));
        }
    }
}

#[test]
fn d5_everything_asked_for_and_taken_back_at_once_is_nothing() {
    for kind in WILD {
        for mut bench in streams(kind, ["a", "b"]) {
            assert_eq!(bench.differ(kind, ["*"], ["*"]), "");
            assert_eq!(bench.set(changed(kind, "a", 1)), "");
            assert_eq!(bench.subscribe(kind, []), "", "nor does an empty message mean everything later");
            assert_eq!(bench.subscribe(kind, ["b"]), says(kind, "{b}"));
        }
    }
}

#[test]
fn d5_a_name_asked_for_and_taken_back_at_once_is_not_asked_for() {
    for kind in KINDS {
        for mut bench in streams(kind, ["a", "b"]) {
            assert_eq!(bench.differ(kind, ["a", "b"], ["a"]), says(kind, "{b}"));
            assert_eq!(bench.set(changed(kind, "a", 1)), "");
        }
    }
}

#[test]
fn d6_a_resource_comes_with_its_version_and_alone() {
    for kind in KINDS {
        let names: Vec<String> = (0..100).map(|i| format!("n{i:02}")).collect();
        for mut bench in streams(kind, []) {
            let set = names.iter().map(|name| any_kind(kind, name, 0)).collect();
            bench.store.update(Update { set, remove: Vec::new() });
            bench.catch_up();
            let all: Vec<&str> = names.iter().map(String::as_str).collect();
            let sent = bench.request(delta_request(kind, &all, &[]));
            assert_eq!(sent.one().resources.len(), 100);
            bench.ack(sent.one());
            assert_eq!(bench.set(changed(kind, "n42", 1)), says(kind, "{n42}"));
        }
    }
}

#[test]
fn d7_a_deleted_resource_is_told_and_comes_again_when_created() {
    for kind in KINDS {
        for mut bench in streams(kind, ["a", "b"]) {
            bench.settled(kind, ["a"]);
            let gone = bench.remove([(kind, "a")]);
            assert_eq!(gone, says(kind, "-{a}"));
            assert_eq!(bench.ack(gone.one()), "");
            assert_eq!(bench.set(changed(kind, "a", 0)), says(kind, "{a}"), "still asked for");
        }
    }
    for kind in WILD {
        for mut bench in streams(kind, ["a", "b"]) {
            bench.settled(kind, []);
            let gone = bench.remove([(kind, "a")]);
            assert_eq!(gone, says(kind, "-{a}"));
            assert_eq!(bench.ack(gone.one()), "");
            assert_eq!(bench.set(changed(kind, "a", 0)), says(kind, "{a}"));
        }
    }
}

#[test]
fn d7_names_that_come_and_go_leave_nothing_behind() {
    for kind in WILD {
        for mut bench in streams(kind, ["stays"]) {
            bench.settled(kind, []);
            for round in 0..50 {
                let name = format!("n{round}");
                let sent = bench.set(changed(kind, &name, 0));
                bench.ack(sent.one());
                let gone = bench.remove([(kind, &name)]);
                bench.ack(gone.one());
            }
            assert_eq!(bench.stream.types[&kind].known.len(), 1, "the stream would grow without end");
        }
    }
}

#[test]
fn d8_an_absent_name_is_told_at_once_and_comes_when_created() {
    for kind in KINDS {
        for mut bench in streams(kind, []) {
            let sent = bench.subscribe(kind, ["nx"]);
            assert_eq!(sent, says(kind, "-{nx}"));
            bench.ack(sent.one());
            assert_eq!(bench.set(changed(kind, "nx", 0)), says(kind, "{nx}"), "without a new request");
        }
        for mut bench in streams(kind, ["a"]) {
            assert_eq!(bench.subscribe(kind, ["a", "nx"]), says(kind, "{a}-{nx}"));
            assert_eq!(bench.subscribe(kind, ["nx"]), says(kind, "-{nx}"), "asked again, told again");
        }
    }
}

#[test]
fn d10_a_star_again_brings_everything_again() {
    for kind in WILD {
        for mut bench in streams(kind, ["a", "b"]) {
            bench.settled(kind, ["*"]);
            assert_eq!(bench.subscribe(kind, ["*"]), says(kind, "{a,b}"));
        }
        for mut bench in streams(kind, []) {
            bench.settled(kind, ["*"]);
            assert_eq!(bench.subscribe(kind, ["*"]), says(kind, "{}"));
        }
    }
    for kind in KINDS {
        for mut bench in streams(kind, ["a", "b"]) {
            bench.settled(kind, ["a"]);
            assert_eq!(bench.subscribe(kind, ["a", "a"]), says(kind, "{a}"), "a name again, too");
        }
    }
}

#[test]
fn d11_what_is_no_longer_asked_for_is_not_sent() {
    for kind in KINDS {
        for mut bench in streams(kind, ["a", "b"]) {
            bench.settled(kind, ["a", "b"]);
            assert_eq!(bench.unsubscribe(kind, ["a"]), "");
            assert_eq!(bench.set(changed(kind, "a", 1)), "");
            assert_eq!(bench.remove([(kind, "a")]), "");
            assert_eq!(bench.unsubscribe(kind, ["never", "a"]), "");
            assert_eq!(bench.set(changed(kind, "b", 1)), says(kind, "{b}"));
        }
        for mut bench in streams(kind, ["a"]) {
            bench.settled(kind, ["a"]);
            bench.unsubscribe(kind, ["a"]);
            assert_eq!(bench.subscribe(kind, ["a"]), says(kind, "{a}"), "asked again, sent again");
        }
    }
}

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
fn d15_what_was_rejected_is_sent_again_only_when_it_changes_or_is_asked_for() {
    for kind in KINDS {
        for mut bench in streams(kind, ["a"]) {
            bench.settled(kind, ["a"]);
            let sent = bench.set(changed(kind, "a", 1));
            assert_eq!(bench.nack(sent.one(), "bad a"), "");
            assert_eq!(bench.wait(ms(60_000)), "");
            assert_eq!(bench.stream.describe()[kind.short_name()]["rejection"], "bad a");
            assert_eq!(bench.set(changed(kind, "b", 0)), "", "others do not bring it back");
            let again = bench.subscribe(kind, ["a"]);
            assert_eq!(again, says(kind, "{a}"));
            assert_eq!(bench.nack(again.one(), "bad a"), "");
            assert_eq!(bench.set(changed(kind, "a", 2)), says(kind, "{a}"));
        }
    }
}

#[test]
fn d15_a_way_back_to_what_was_accepted_is_sent() {
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
fn d15_what_was_rejected_beside_the_culprit_follows_when_the_culprit_is_mended_or_gone() {
    for kind in KINDS {
        for gone in [false, true] {
            for mut bench in streams(kind, ["a", "b", "c"]) {
                bench.settled(kind, ["a", "b", "c"]);
                let sent = bench.set([any_kind(kind, "a", 1), any_kind(kind, "b", 1)]);
                bench.nack(sent.one(), "bad a");
                let other = bench.set(changed(kind, "c", 1));
                assert_eq!(other, says(kind, "{c}"), "what has nothing to do with it");
                assert_eq!(bench.ack(other.one()), "", "changes nothing about it");
                let mended = if gone { bench.remove([(kind, "a")]) } else { bench.set(changed(kind, "a", 2)) };
                assert_eq!(mended, says(kind, if gone { "-{a}" } else { "{a}" }));
                let rest = bench.ack(mended.one());
                assert_eq!(rest, says(kind, "{b}"));
                assert_eq!(bench.nack(rest.one(), "b too"), "", "and then there is no end of it");
            }
        }
    }
}

/// What a client says after a lost connection: names, if the type is asked for by name, and what it has.
fn resume<const N: usize>(bench: &mut Bench, kind: ResourceType, versions: [(&str, String); N]) -> Sent {
    let names: Vec<&str> = versions.iter().map(|(name, _)| *name).collect();
    bench.reconnect();
    bench.resume(kind, if WILD.contains(&kind) { &[] } else { &names }, versions)
}

#[test]
fn d16_a_reconnect_brings_only_what_differs() {
    for kind in NAMED {
        for mut bench in streams(kind, ["same", "other"]) {
            let (same, other) = (bench.version(kind, "same"), bench.version(kind, "other"));
            bench.set(changed(kind, "other", 1));
            let versions = [("same", same), ("other", other), ("gone", "0123456789abcdef".into())];
            let sent = resume(&mut bench, kind, versions);
            assert_eq!(sent, says(kind, "{other}-{gone}"));
            bench.ack(sent.one());
            assert_eq!(bench.set(changed(kind, "same", 1)), says(kind, "{same}"), "and goes on");
        }
        for mut bench in streams(kind, ["a"]) {
            let sent = resume(&mut bench, kind, [("a", "1.2.3".into())]);
            assert_eq!(sent, says(kind, "{a}"), "a version of another server's");
        }
    }
}

#[test]
fn d16_what_the_client_has_counts_only_in_the_first_message_of_a_type() {
    for kind in NAMED {
        for mut bench in streams(kind, ["a", "b"]) {
            bench.settled(kind, ["a"]);
            let version = bench.version(kind, "b");
            assert_eq!(bench.resume(kind, &["b"], [("b", version)]), says(kind, "{b}"));
        }
    }
    let mut bench = Bench::delta([endpoints("a"), secret("s")]).into_grpc();
    let (a, s) = (bench.version(ENDPOINTS, "a"), bench.version(SECRET, "s"));
    assert_eq!(bench.resume(ENDPOINTS, &["a"], [("a", a)]), "");
    assert_eq!(bench.resume(SECRET, &["s"], [("s", s)]), "", "of each type, that is");
}

#[test]
fn d16_what_the_client_has_but_does_not_ask_for_is_left_alone() {
    for kind in NAMED {
        for mut bench in streams(kind, ["a", "b"]) {
            let a = bench.version(kind, "a");
            let versions = [("a", a), ("b", "0123456789abcdef".into()), ("gone", "0123456789abcdef".into())];
            assert_eq!(bench.resume(kind, &["a"], versions), "");
            assert_eq!(bench.set(changed(kind, "b", 1)), "");
        }
    }
}

#[test]
fn d17_the_same_holds_for_everything() {
    for kind in WILD {
        for mut bench in streams(kind, ["same", "other", "new"]) {
            let (same, other) = (bench.version(kind, "same"), bench.version(kind, "other"));
            bench.set(changed(kind, "other", 1));
            let versions = [("same", same), ("other", other), ("gone", "0123456789abcdef".into())];
            assert_eq!(resume(&mut bench, kind, versions), says(kind, "{new,other}-{gone}"));
        }
        for mut bench in streams(kind, ["a"]) {
            let a = bench.version(kind, "a");
            assert_eq!(resume(&mut bench, kind, [("a", a)]), "", "current");
            assert_eq!(bench.set(changed(kind, "b", 0)), says(kind, "{b}"));
        }
        for mut bench in streams(kind, ["a"]) {
            let a = bench.version(kind, "a");
            bench.reconnect();
            assert_eq!(bench.resume(kind, &["*"], [("a", a)]), "", "the other spelling");
        }
    }
}

#[test]
fn d18_another_replica_sends_nothing_that_is_equal() {
    for kind in KINDS {
        for mut bench in streams(kind, ["a", "b"]) {
            let versions = ["a", "b"].map(|name| (name, bench.version(kind, name)));
            // The replica came to the same by another way, in another order.
            let replica = Arc::new(Store::default());
            replica.replace(vec![any_kind(kind, "b", 7), any_kind(kind, "x", 0)]);
            replica.replace(vec![any_kind(kind, "b", 0), any_kind(kind, "a", 0)]);
            bench = Bench::over(replica, DELTA, bench.only).into_grpc();
            assert_eq!(resume(&mut bench, kind, versions), "");
        }
    }
}

#[test]
fn d20_an_update_and_a_delete_in_one_batch_are_one_of_both() {
    for kind in KINDS {
        for mut bench in streams(kind, ["a"]) {
            bench.settled(kind, ["a"]);
            let remove = vec![(kind, Arc::from("a"))];
            bench.store.update(Update { set: changed(kind, "a", 1).into(), remove });
            let sent = bench.catch_up();
            assert_eq!(sent, says(kind, "{a}"), "what is set is there afterwards");
            bench.ack(sent.one());
            // Two publications that the stream sees as one.
            bench.store.update(Update { set: changed(kind, "a", 2).into(), remove: Vec::new() });
            bench.store.update(Update { set: Vec::new(), remove: vec![(kind, Arc::from("a"))] });
            assert_eq!(bench.catch_up(), says(kind, "-{a}"));
        }
    }
}

#[test]
fn d21_a_burst_is_one_difference_against_what_was_sent() {
    for kind in KINDS {
        for mut bench in streams(kind, ["a", "b"]) {
            bench.settled(kind, ["a", "b", "c", "d"]);
            let first = bench.set(changed(kind, "a", 1));
            assert_eq!(bench.set(changed(kind, "b", 1)), "", "one in flight");
            assert_eq!(bench.set(changed(kind, "b", 2)), "");
            assert_eq!(bench.set(changed(kind, "c", 0)), "");
            assert_eq!(bench.set(changed(kind, "d", 0)), "");
            assert_eq!(bench.remove([(kind, "d")]), "", "came and went unseen");
            let second = bench.ack(first.one());
            assert_eq!(second, says(kind, "{b,c}"), "a was sent, d is as it was");
            assert_eq!(bench.ack(second.one()), "");
        }
        for mut bench in streams(kind, ["a"]) {
            bench.settled(kind, ["a"]);
            let first = bench.set(changed(kind, "a", 1));
            bench.set(changed(kind, "a", 2));
            bench.set(changed(kind, "a", 1));
            assert_eq!(bench.ack(first.one()), "", "what was sent is what is wanted");
        }
    }
}

#[test]
fn d21_one_that_fell_far_behind_gets_the_difference_all_the_same() {
    for kind in KINDS {
        for mut bench in streams(kind, ["a", "b"]) {
            bench.settled(kind, ["a", "b"]);
            for variation in 1..600 {
                bench.store.update(Update { set: changed(kind, "a", variation).into(), remove: Vec::new() });
            }
            bench.store.update(Update { set: Vec::new(), remove: vec![(kind, Arc::from("b"))] });
            assert_eq!(bench.catch_up(), says(kind, "{a}-{b}"));
        }
    }
}

#[test]
fn d22_a_large_first_answer_is_one_response() {
    for kind in WILD {
        for mut bench in streams(kind, []) {
            let set = (0..2000).map(|i| any_kind(kind, &format!("n{i}"), i)).collect();
            bench.store.update(Update { set, remove: Vec::new() });
            bench.catch_up();
            assert_eq!(bench.subscribe(kind, []).one().resources.len(), 2000);
        }
    }
}

#[test]
fn d24_endpoints_removed_are_told_and_an_empty_set_drains() {
    let mut bench = Bench::delta([cluster("a"), endpoints("a")]);
    bench.settled(CLUSTER, []);
    bench.settled(ENDPOINTS, ["a"]);
    let gone = bench.remove([(ENDPOINTS, "a")]);
    assert_eq!(gone, "EDS-{a}", "which Envoy takes and does not heed");
    bench.ack(gone.one());
    use envoy_types::pb::envoy::config::endpoint::v3::ClusterLoadAssignment;
    let nobody = ClusterLoadAssignment { cluster_name: "a".into(), ..Default::default() };
    assert_eq!(bench.set([Resource::new("a", &nobody, Vec::new())]), "EDS{a}", "to drain");
}

#[test]
fn d28_a_cluster_asked_for_on_demand_comes_at_once_beside_the_wildcard() {
    let mut bench = Bench::delta([cluster("a"), endpoints("a"), endpoints("late")]);
    bench.settled(CLUSTER, []);
    bench.settled(ENDPOINTS, ["a"]);
    let missing = bench.subscribe(CLUSTER, ["late"]);
    assert_eq!(missing, "CDS-{late}", "at once: requests wait for it");
    bench.ack(missing.one());
    let sent = bench.set([cluster("late")]);
    assert_eq!(sent, "CDS{late} EDS{late}", "and its endpoints follow");
    bench.ack_all(&sent);
    let again = bench.subscribe(CLUSTER, ["late"]);
    assert_eq!(again, "CDS{late} EDS{late}");
    bench.ack_all(&again);
    assert_eq!(bench.set([cluster_at("a", 1)]), "CDS{a} EDS{a}", "the wildcard stays");
}

#[test]
fn d28_a_cluster_on_demand_does_not_wait_for_one_in_flight() {
    let mut bench = Bench::delta([cluster("a"), endpoints("a")]);
    bench.settled(CLUSTER, []);
    bench.settled(ENDPOINTS, ["a"]);
    let warming = bench.set([cluster("b"), cluster("c"), endpoints("b"), endpoints("c")]);
    assert_eq!(warming, "CDS{b,c} EDS{b,c}");
    assert_eq!(bench.subscribe(CLUSTER, ["a"])[CLUSTER].resources.len(), 1);
}

fn leds(name: &str, port: u32) -> Resource {
    use envoy_types::pb::envoy::config::endpoint::v3::LbEndpoint;
    use envoy_types::pb::google::protobuf::UInt32Value;
    let message = LbEndpoint { load_balancing_weight: Some(UInt32Value { value: port }), ..Default::default() };
    Resource::new(name, &message, Vec::new())
}

#[test]
fn d29_a_glob_is_a_prefix_after_a_slash() {
    const ENDPOINT: &str = "xdstp://lockgate/envoy.config.endpoint.v3.LbEndpoint";
    let name = |rest: &str| format!("{ENDPOINT}/{rest}");
    let mut bench = Bench::delta([leds(&name("shop/1"), 1), leds(&name("shop/2"), 2), leds(&name("shopping/1"), 3)]);
    let kind = ResourceType::of_url("type.googleapis.com/envoy.config.endpoint.v3.LbEndpoint").unwrap();
    let glob = name("shop/*");
    let sent = bench.request(delta_request(kind, &[&glob], &[]));
    assert_eq!(names(sent.one()), [name("shop/1"), name("shop/2")]);
    bench.ack(sent.one());
    let new = bench.set([leds(&name("shop/3"), 4), leds(&name("shopping/2"), 5)]);
    assert_eq!(names(new.one()), [name("shop/3")]);
    bench.ack(new.one());
    let gone = bench.remove([(kind, &name("shop/1"))]);
    assert_eq!(gone, format!("LbEndpoint-{{{}}}", name("shop/1")));
    bench.ack(gone.one());
    assert_eq!(bench.request(delta_request(kind, &[], &[&glob])), "");
    assert_eq!(bench.set([leds(&name("shop/2"), 9)]), "");

    let not_a_glob = name("shop*");
    let sent = bench.request(delta_request(kind, &[&not_a_glob], &[]));
    assert_eq!(&*sent.one().removed, [Arc::from(&*not_a_glob)], "a name like any other");
}

#[test]
fn d29_a_glob_of_nothing_is_answered() {
    let mut bench = Bench::delta([]);
    let kind = ResourceType::of_url("type.googleapis.com/envoy.config.endpoint.v3.LbEndpoint").unwrap();
    let glob = "xdstp://lockgate/envoy.config.endpoint.v3.LbEndpoint/shop/*";
    assert_eq!(bench.request(delta_request(kind, &[glob], &[])), "LbEndpoint{}");
}

/// Field `resource_errors` and `removed_resources` say the same: delta says it once, by the latter.
#[test]
fn d31_what_does_not_exist_is_told_in_one_way() {
    use envoy_types::pb::envoy::service::discovery::v3::DeltaDiscoveryResponse;
    use prost::Message;
    for kind in KINDS {
        for mut bench in streams(kind, []) {
            let sent = bench.subscribe(kind, ["nx"]);
            let bytes = crate::xds::encode::response(sent.one(), DELTA, "me");
            let decoded = DeltaDiscoveryResponse::decode(bytes).unwrap();
            assert_eq!(decoded.removed_resources, ["nx"]);
            assert!(decoded.resource_errors.is_empty());
        }
    }
}

#[test]
fn empty_names_are_no_names() {
    for kind in KINDS {
        for mut bench in streams(kind, ["a"]) {
            assert_eq!(bench.subscribe(kind, ["", "a"]), says(kind, "{a}"));
        }
    }
}

#[test]
fn an_answer_to_what_was_never_sent_is_no_answer() {
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
