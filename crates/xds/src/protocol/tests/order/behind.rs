//! Clusters, endpoints, and secrets: the resources behind routes.

use super::*;

#[test]
fn o1_requests_at_start_up_are_answered_in_their_order() {
    for variant in VARIANTS {
        let mut envoy = Envoy::start(Bench::new(variant, None, []));
        envoy.publish(world(["a", "b"]));
        envoy.run();
        assert_eq!(envoy.wire(), "CDS{a,b} EDS{a,b} LDS{l} RDS{r}");
        envoy.assert_current();
        assert_eq!(envoy.failures, [""; 0]);
    }
}

#[test]
fn o1_a_starting_client_does_not_wait() {
    for variant in VARIANTS {
        let mut bench =
            Bench::new(variant, None, [cluster("a"), endpoints("a"), routes("r", ["a"]), listener("l", "r")]);
        assert_eq!(bench.start(CLUSTER, []), "CDS{a}");
        assert_eq!(bench.start(ENDPOINTS, ["a"]), "EDS{a}", "no ACK so far");
        assert_eq!(bench.start(LISTENER, []), "LDS{l}");
        assert_eq!(bench.start(ROUTES, ["r"]), "RDS{r}");
    }
}

#[test]
fn o2_endpoints_do_not_wait_for_the_ack_of_their_cluster() {
    for variant in VARIANTS {
        let mut bench = settled_world(variant);
        let sent = bench.set([cluster_at("a", 1)]);
        assert_eq!(sent, "CDS{a} EDS{a}", "even endpoints that did not change: the cluster warms by them");
        assert_eq!(sent[ENDPOINTS].resources[0].version().to_string(), bench.version(ENDPOINTS, "a"));
    }
}

#[test]
fn o2_a_change_of_only_a_cluster_takes_effect_at_once() {
    for variant in VARIANTS {
        let mut envoy = Envoy::start(settled_store(variant, world(["a"])));
        envoy.run();
        let mut changed = world(["a"]);
        changed[0] = cluster_at("a", 1);
        envoy.publish(changed);
        envoy.run();
        envoy.assert_current();
        assert_eq!((envoy.fetch_timeouts, envoy.failures.len()), (0, 0));
    }
}

#[test]
fn o4_endpoints_of_a_new_cluster_follow_it_before_their_request() {
    for variant in VARIANTS {
        let mut bench = settled_world(variant);
        let sent = bench.set([cluster("b"), endpoints("b")]);
        assert_eq!(sent, either(variant, "CDS{a,b} EDS{b}", "CDS{b} EDS{b}"));
    }
}

#[test]
fn o4_a_new_cluster_warms_with_endpoints_of_another_cluster() {
    for variant in VARIANTS {
        let mut bench = settled_world(variant);
        let sent = bench.set([cluster_sharing("b", "a")]);
        assert_eq!(sent, either(variant, "CDS{a,b} EDS{a}", "CDS{b} EDS{a}"), "Envoy does not ask for them again");
    }
}

#[test]
fn o4_a_cluster_without_endpoints_warms_only_until_the_response() {
    for variant in VARIANTS {
        let mut envoy = Envoy::start(settled_store(variant, world(["a"])));
        envoy.run();
        let mut without = world(["a"]);
        without.push(cluster("b"));
        envoy.publish(without);
        envoy.run();
        envoy.assert_current();
        assert_eq!(envoy.fetch_timeouts, 0);
    }
}

#[test]
fn o5_endpoints_never_overtake_their_cluster() {
    for variant in VARIANTS {
        let mut bench = settled_world(variant);
        let first = bench.set([cluster_at("a", 1)]);
        // The second change of the cluster and its endpoints wait for the ACK of the first.
        assert_eq!(bench.set([cluster_at("a", 2), endpoints_at("a", 2)]), "");
        assert_eq!(bench.ack(&first[ENDPOINTS]), "", "not before the cluster");
        let second = bench.ack(&first[CLUSTER]);
        assert_eq!(second, "CDS{a} EDS{a}");
        assert_eq!(second[ENDPOINTS].resources[0].version().to_string(), bench.version(ENDPOINTS, "a"));
    }
}

#[test]
fn o5_endpoints_that_wait_for_their_cluster_are_not_reverted() {
    for variant in VARIANTS {
        let mut bench = settled(variant, [cluster("a"), endpoints("a"), cluster("b"), endpoints("b")]);
        let first = bench.set([cluster_at("b", 1)]);
        bench.set([cluster_at("b", 2)]);
        let churn = bench.set([endpoints_at("a", 5)]);
        assert_eq!(churn, "", "those of b are in flight");
        let churn = bench.ack(&first[ENDPOINTS]);
        assert_eq!(churn, "EDS{a}");
        bench.ack(churn.one());
        assert_eq!(bench.set([cluster_at("a", 1), endpoints_at("a", 6)]), "", "neither the new nor older ones");
        let last = bench.ack(&first[CLUSTER]);
        assert_eq!(last, "CDS{a,b} EDS{a,b}");
        assert_eq!(last[ENDPOINTS].resources[0].version().to_string(), bench.version(ENDPOINTS, "a"));
    }
}

#[test]
fn o6_two_changes_of_a_cluster_end_in_one_set_of_endpoints_after_the_second() {
    for variant in VARIANTS {
        let mut envoy = Envoy::start(settled_store(variant, world(["a"])));
        envoy.run();
        envoy.wire();
        for seconds in [1, 2] {
            let mut changed = world(["a"]);
            changed[0] = cluster_at("a", seconds);
            envoy.publish(changed);
        }
        envoy.run();
        let wire = envoy.wire();
        assert!(wire.ends_with("CDS{a} EDS{a}"), "{wire}");
        envoy.assert_current();
        assert_eq!((envoy.fetch_timeouts, envoy.failures.len()), (0, 0));
    }
}

#[test]
fn o13_a_secret_rotates_separately() {
    for variant in VARIANTS {
        let mut bench =
            settled(variant, [cluster("a"), endpoints("a"), listener("l", "r"), routes("r", ["a"]), secret("s")]);
        let sent = bench.set([secret_at("s", "second")]);
        assert_eq!(sent, "SDS{s}");
        assert_eq!(bench.ack(sent.one()), "");
        assert_eq!(bench.set([cluster_at("a", 1)]), "CDS{a} EDS{a}", "a cluster that changes needs no secret again");
        assert_eq!(bench.set([secret_at("s", "third")]), "SDS{s}", "nor does a secret wait for a gate");
    }
}

#[test]
fn o16_endpoints_change_while_a_gate_is_open() {
    for variant in VARIANTS {
        let mut bench = settled_world(variant);
        let gate = bench.set([cluster("b"), endpoints("b"), routes("r", ["b"])]);
        bench.ack(&gate[ENDPOINTS]);
        for port in 1..10 {
            let churn = bench.set([endpoints_at("a", port)]);
            assert_eq!(churn, "EDS{a}", "at once");
            assert_eq!(bench.ack(churn.one()), "");
        }
        assert_eq!(bench.set([endpoints_at("b", 1)]), "EDS{b}", "those of the warming cluster too");
        assert_eq!(bench.ack(&gate[CLUSTER]), "RDS{r}");
    }
}

#[test]
fn o24_endpoints_are_removed_with_their_cluster_without_a_response() {
    for variant in VARIANTS {
        let mut bench = settled(variant, [cluster("a"), endpoints("a"), cluster("b"), endpoints("b")]);
        bench.wait(GRACE); // of the listeners that were just ACKed
        let gone = bench.remove([(CLUSTER, "b"), (ENDPOINTS, "b")]);
        assert_eq!(gone, either(variant, "CDS{a}", "CDS-{b}"));
        // Envoy unsubscribes when it applies the response.
        let silent = match variant {
            Variant::Sotw => bench.ask(ENDPOINTS, ["a"]),
            Variant::Delta => bench.unsubscribe(ENDPOINTS, ["b"]),
        };
        assert_eq!(silent, "");
        assert_eq!(bench.ack(gone.one()), "");
        assert_eq!(bench.wait(ms(60_000)), "");
    }
}
