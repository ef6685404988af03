//! Changes of resources, and their effect on responses.

use super::*;

#[test]
fn s13_only_changed_resources_are_sent() {
    for kind in PARTIAL {
        for mut bench in streams(kind, ["a", "b", "c"]) {
            bench.settled(kind, ["a", "b", "c"]);
            assert_eq!(bench.set(changed(kind, "b", 1)), says(kind, "{b}"));
        }
    }
}

#[test]
fn s14_clusters_and_listeners_are_sent_together() {
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
fn s15_the_deletion_of_the_last_resource_is_an_empty_response() {
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
fn s16_a_deleted_load_assignment_or_route_configuration_causes_no_response() {
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
fn s16_endpoints_deleted_before_their_cluster_cause_no_response() {
    let mut bench = Bench::sotw([cluster("a"), endpoints("a")]);
    bench.settled(CLUSTER, []);
    bench.settled(ENDPOINTS, ["a"]);
    assert_eq!(bench.remove([(ENDPOINTS, "a")]), "");
    assert_eq!(bench.set([endpoints_at("a", 1)]), "EDS{a}");
}

#[test]
fn s17_no_change_causes_no_response() {
    for kind in KINDS {
        for mut bench in streams(kind, ["a", "b"]) {
            bench.settled(kind, ["a", "b"]);
            assert_eq!(bench.publish(["b", "a"].map(|name| any_kind(kind, name, 0))), "");
        }
    }
}

#[test]
fn s18_versions_depend_on_the_type_and_the_content() {
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
fn s28_a_full_response_is_not_followed_by_its_resources() {
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
