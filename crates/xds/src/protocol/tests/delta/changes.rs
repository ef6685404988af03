//! Changes of resources, and the responses.

use super::*;

#[test]
fn d6_a_resource_is_sent_alone_with_its_version() {
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
fn d7_a_deleted_resource_is_reported_and_sent_again_when_created() {
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
fn d7_added_and_removed_names_leave_no_state() {
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
            assert_eq!(bench.stream.state.types[&kind].tracked().count(), 0, "the stream would grow without end");
        }
    }
}

#[test]
fn d20_a_name_is_either_set_or_removed_in_one_response() {
    for kind in KINDS {
        for mut bench in streams(kind, ["a"]) {
            bench.settled(kind, ["a"]);
            let remove = vec![(kind, Arc::from("a"))];
            bench.store.update(Update { set: changed(kind, "a", 1).into(), remove });
            let sent = bench.catch_up();
            assert_eq!(sent, says(kind, "{a}"), "what is set is there afterwards");
            bench.ack(sent.one());
            // The stream sees both publications as one.
            bench.store.update(Update { set: changed(kind, "a", 2).into(), remove: Vec::new() });
            bench.store.update(Update::removing(vec![(kind, Arc::from("a"))]));
            assert_eq!(bench.catch_up(), says(kind, "-{a}"));
        }
    }
}

#[test]
fn d21_a_burst_is_one_difference_from_the_sent_state() {
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
fn d21_a_client_that_is_far_behind_receives_the_difference() {
    for kind in KINDS {
        for mut bench in streams(kind, ["a", "b"]) {
            bench.settled(kind, ["a", "b"]);
            for variation in 1..600 {
                bench.store.update(Update { set: changed(kind, "a", variation).into(), remove: Vec::new() });
            }
            bench.store.update(Update::removing(vec![(kind, Arc::from("b"))]));
            assert_eq!(bench.catch_up(), says(kind, "{a}-{b}"));
        }
    }
}

#[test]
fn d22_a_large_first_response_is_one_message() {
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
fn d24_removed_endpoints_are_reported_and_an_empty_set_drains() {
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
