//! Subscriptions, unsubscriptions, and missing resources.

use super::*;

#[test]
fn d1_an_empty_first_request_or_a_star_requests_everything() {
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
fn d1_an_empty_later_request_requests_nothing_more() {
    for kind in WILD {
        for mut bench in streams(kind, ["a", "b"]) {
            bench.settled(kind, ["a"]);
            assert_eq!(bench.subscribe(kind, []), "");
            assert_eq!(bench.set(changed(kind, "b", 1)), "");
        }
    }
}

#[test]
fn d2_a_wildcard_without_resources_gets_an_empty_response_at_once() {
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
fn d3_the_wildcard_and_names_are_unsubscribed_one_by_one() {
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
fn d3_an_unsubscribed_name_is_still_served_under_the_wildcard() {
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
fn d5_a_wildcard_subscribed_and_unsubscribed_at_once_is_not_subscribed() {
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
fn d5_a_name_subscribed_and_unsubscribed_at_once_is_not_subscribed() {
    for kind in KINDS {
        for mut bench in streams(kind, ["a", "b"]) {
            assert_eq!(bench.differ(kind, ["a", "b"], ["a"]), says(kind, "{b}"));
            assert_eq!(bench.set(changed(kind, "a", 1)), "");
        }
    }
}

#[test]
fn d8_an_absent_name_is_reported_at_once_and_sent_when_created() {
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
fn d10_a_repeated_star_requests_everything_again() {
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
fn d11_unsubscribed_resources_are_not_sent() {
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
fn d28_a_cluster_on_demand_is_sent_at_once_in_addition_to_the_wildcard() {
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

/// The fields `resource_errors` and `removed_resources` are redundant. Delta uses only the latter.
#[test]
fn d31_a_missing_resource_is_reported_in_one_way() {
    use envoy_types::pb::envoy::service::discovery::v3::DeltaDiscoveryResponse;
    use prost::Message;
    for kind in KINDS {
        for mut bench in streams(kind, []) {
            let sent = bench.subscribe(kind, ["nx"]);
            let bytes = crate::protocol::encode::response(sent.one(), DELTA, "me").into_bytes();
            let decoded = DeltaDiscoveryResponse::decode(bytes).unwrap();
            assert_eq!(decoded.removed_resources, ["nx"]);
            assert!(decoded.resource_errors.is_empty());
        }
    }
}

#[test]
fn empty_names_are_ignored() {
    for kind in KINDS {
        for mut bench in streams(kind, ["a"]) {
            assert_eq!(bench.subscribe(kind, ["", "a"]), says(kind, "{a}"));
        }
    }
}

/// Many clients request the same long list. It is looked up once, and the streams then diverge.
#[test]
fn d6_clients_with_the_same_long_list_are_independent() {
    let names: Vec<String> = (0..100).map(|i| format!("n{i:03}")).collect();
    let names: Vec<&str> = names.iter().map(|name| &**name).collect();
    for only in [None, Some(ENDPOINTS)] {
        let store = std::sync::Arc::new(crate::snapshot::Store::default());
        store.replace(names.iter().skip(1).map(|name| endpoints(name)).collect());
        let [mut one, mut other] = [0; 2].map(|_| Bench::over(store.clone(), DELTA, only));
        for bench in [&mut one, &mut other] {
            let sent = bench.request(delta_request(ENDPOINTS, &names, &[]));
            assert_eq!((sent.one().resources.len(), &*sent.one().removed), (99, &["n000".into()][..]));
            assert_eq!(bench.ack(sent.one()), "");
        }
        assert_eq!(one.request(delta_request(ENDPOINTS, &[], &["n042"])), "");
        assert_eq!(one.set([endpoints_at("n042", 1), endpoints("n000")]), "EDS{n000}");
        assert_eq!(other.catch_up(), "EDS{n000,n042}");
        assert_eq!(one.request(delta_request(ENDPOINTS, &["n042"], &[])), "EDS{n042}");
    }
}
