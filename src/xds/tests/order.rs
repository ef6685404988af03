//! O: order over an aggregated stream, make before break. Wire order is asserted as a transcript; [`super::envoy`]
//! says whether an Envoy would have failed a request.

use super::envoy::Envoy;
use super::harness::*;
use crate::snapshot::{Resource, ResourceType};
use crate::xds::{Notice, Variant};

const VARIANTS: [Variant; 2] = [Variant::Sotw, Variant::Delta];

/// A stream whose client has asked for everything there is and has ACKed it.
fn settled<const N: usize>(variant: Variant, resources: [Resource; N]) -> Bench {
    let mut bench = Bench::new(variant, None, resources);
    let newest = bench.newest();
    for kind in KINDS {
        let names: Vec<&str> = newest.all(kind).map(|resource| &**resource.name()).collect();
        if kind == CLUSTER || kind == LISTENER {
            bench.settled(kind, []);
        } else {
            bench.settled_list(kind, &names);
        }
    }
    bench
}

/// One listener, one route configuration, and `clusters` with their endpoints, the first of which is routed to.
fn world<const N: usize>(clusters: [&str; N]) -> Vec<Resource> {
    world_to(clusters, &clusters[..1])
}

fn world_to<const N: usize>(clusters: [&str; N], to: &[&str]) -> Vec<Resource> {
    let behind = clusters.into_iter().flat_map(|name| [cluster(name), endpoints(name)]);
    behind.chain([routes_for("r", "*", to), listener("l", "r")]).collect()
}

fn settled_world(variant: Variant) -> Bench {
    settled(variant, <[Resource; 4]>::try_from(world(["a"])).unwrap())
}

/// The full set in one variant, the difference in the other.
fn either(variant: Variant, sotw: &'static str, delta: &'static str) -> &'static str {
    if variant == Variant::Sotw { sotw } else { delta }
}

#[test]
fn o1_start_up_is_answered_as_asked() {
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
fn o1_a_client_that_starts_waits_for_nothing() {
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
fn o2_a_change_of_a_cluster_alone_takes_effect_at_once() {
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

fn settled_store(variant: Variant, resources: Vec<Resource>) -> Bench {
    let bench = Bench::new(variant, None, []);
    bench.store.replace(resources);
    Bench::over(bench.store.clone(), variant, None)
}

#[test]
fn o4_endpoints_of_a_new_cluster_follow_it_before_they_are_asked_for() {
    for variant in VARIANTS {
        let mut bench = settled_world(variant);
        let sent = bench.set([cluster("b"), endpoints("b")]);
        assert_eq!(sent, either(variant, "CDS{a,b} EDS{b}", "CDS{b} EDS{b}"));
    }
}

#[test]
fn o4_a_cluster_without_endpoints_warms_no_longer_than_an_answer_takes() {
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
        // The second change of the cluster waits for the ACK of the first, and its endpoints with it.
        assert_eq!(bench.set([cluster_at("a", 2), endpoints_at("a", 2)]), "");
        assert_eq!(bench.ack(&first[ENDPOINTS]), "", "not before the cluster");
        let second = bench.ack(&first[CLUSTER]);
        assert_eq!(second, "CDS{a} EDS{a}");
        assert_eq!(second[ENDPOINTS].resources[0].version().to_string(), bench.version(ENDPOINTS, "a"));
    }
}

#[test]
fn o5_endpoints_that_wait_for_their_cluster_do_not_go_back() {
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
fn o7_a_route_waits_until_its_new_cluster_is_acked() {
    for variant in VARIANTS {
        let mut bench = settled_world(variant);
        let behind = bench.set([cluster("d"), endpoints("d"), routes("r", ["d"])]);
        assert_eq!(behind, either(variant, "CDS{a,d} EDS{d}", "CDS{d} EDS{d}"));
        assert_eq!(bench.ack(&behind[ENDPOINTS]), "", "endpoints are not the sign");
        assert_eq!(bench.ack(&behind[CLUSTER]), "RDS{r}");
    }
}

#[test]
fn o7_a_new_listener_waits_too() {
    for variant in VARIANTS {
        let mut bench = settled_world(variant);
        let behind = bench.set([cluster("d"), endpoints("d"), routes("r2", ["d"]), listener("l2", "r2")]);
        assert_eq!(behind, either(variant, "CDS{a,d} EDS{d}", "CDS{d} EDS{d}"));
        assert_eq!(bench.ack(&behind[CLUSTER]), either(variant, "LDS{l,l2}", "LDS{l2}"));
    }
}

#[test]
fn o7_no_request_is_lost() {
    for variant in VARIANTS {
        let mut envoy = Envoy::start(settled_store(variant, world(["a"])));
        envoy.run();
        for to in ["d", "a", "e"] {
            envoy.publish(world_to(["a", "d", "e"], &[to]));
            envoy.run();
        }
        envoy.assert_current();
        assert_eq!(envoy.failures, [""; 0]);
    }
}

#[test]
fn o8_a_rename_makes_before_it_breaks() {
    for variant in VARIANTS {
        let mut bench = settled_world(variant);
        let make = bench.publish([cluster("b"), endpoints("b"), routes("r", ["b"]), listener("l", "r")]);
        assert_eq!(make, either(variant, "CDS{a,b} EDS{b}", "CDS{b} EDS{b}"));
        assert_eq!(bench.ack(&make[ENDPOINTS]), "");
        let turn = bench.ack(&make[CLUSTER]);
        assert_eq!(turn, "RDS{r}");
        assert_eq!(bench.ack(turn.one()), "");
        let destroy = bench.wait(GRACE);
        assert_eq!(destroy, either(variant, "CDS{b}", "CDS-{a}"));
        assert_eq!(
            bench.ack(destroy.one()).iter().filter(|response| *response.type_url != *ENDPOINTS.url()).count(),
            0
        );
    }
}

#[test]
fn o8_renames_one_after_the_other_lose_no_request() {
    for variant in VARIANTS {
        let mut envoy = Envoy::start(settled_store(variant, world(["n0"])));
        envoy.run();
        for round in 1..100u64 {
            envoy.publish(world([&*format!("n{round}")]));
            for _ in 0..round % 7 {
                envoy.step_server();
                envoy.step_client();
            }
            envoy.wait(ms(round % 5 * 300));
        }
        for _ in 0..30 {
            envoy.run();
            envoy.wait(GRACE);
        }
        envoy.assert_current();
        assert_eq!(envoy.failures, [""; 0]);
        assert_eq!(envoy.fetch_timeouts, 0);
    }
}

#[test]
fn o9_nothing_of_a_newer_state_overtakes_an_open_gate() {
    for variant in VARIANTS {
        let mut bench = settled_world(variant);
        let first = bench.set([cluster("b"), endpoints("b"), routes("r", ["b"])]);
        assert_eq!(bench.set([cluster("c"), endpoints("c"), routes("r", ["c"]), listener_at("l", "r", "new")]), "");
        assert_eq!(bench.ack(&first[ENDPOINTS]), "");
        // The routes of the first state may go now: what they lead to is there. Those of the second wait.
        let next = bench.ack(&first[CLUSTER]);
        assert_eq!(next, either(variant, "CDS{a,b,c} EDS{c} RDS{r}", "CDS{c} EDS{c} RDS{r}"));
        assert!(next[ROUTES].resources[0].references().names_cluster("b"));
        assert_eq!(bench.ack(&next[ROUTES]), "");
        assert_eq!(bench.ack(&next[ENDPOINTS]), "");
        let last = bench.ack(&next[CLUSTER]);
        assert_eq!(last, "LDS{l} RDS{r}");
        assert!(last[ROUTES].resources[0].references().names_cluster("c"));
    }
}

#[test]
fn o9_routes_rise_even_if_clusters_never_rest() {
    for variant in VARIANTS {
        let mut bench = settled_world(variant);
        let mut sent = bench.set([cluster("n0"), endpoints("n0"), routes("r", ["n0"])]);
        let mut routed = 0;
        for round in 1..20 {
            // Each ACK comes after the next change.
            let name = format!("n{round}");
            bench.set([cluster(&name), endpoints(&name), routes_for("r", "*", &[&name])]);
            sent = bench.ack_all(&sent);
            routed += sent.iter().filter(|response| *response.type_url == *ROUTES.url()).count();
        }
        assert!(routed > 10, "{variant:?}: {routed}");
    }
}

#[test]
fn o11_a_listener_with_the_same_routes_brings_no_routes() {
    for variant in VARIANTS {
        let mut bench = settled_world(variant);
        let sent = bench.set([listener_at("l", "r", "new")]);
        assert_eq!(sent, "LDS{l}");
        assert_eq!(bench.ack(sent.one()), "");
    }
}

#[test]
fn o12_a_deleted_listener_keeps_its_routes_subscribed() {
    for variant in VARIANTS {
        let mut bench = settled_world(variant);
        let gone = bench.remove([(LISTENER, "l")]);
        assert_eq!(gone, either(variant, "LDS{}", "LDS-{l}"));
        assert_eq!(bench.ack(gone.one()), "", "it drains: no word of its routes");
        let back = bench.set([listener("l", "r")]);
        assert_eq!(back, "LDS{l}", "no RDS is needed");
        assert_eq!(bench.ack(back.one()), "");
        assert_eq!(bench.set([routes("r", [])]), "RDS{r}", "and its routes are still followed");
    }
}

#[test]
fn o12_routes_that_go_with_their_listener_come_with_it() {
    for variant in VARIANTS {
        let mut bench = settled_world(variant);
        let gone = bench.remove([(LISTENER, "l"), (ROUTES, "r")]);
        assert_eq!(gone, either(variant, "LDS{}", "LDS-{l}"));
        let told = bench.ack(gone.one());
        assert_eq!(told, either(variant, "", "RDS-{r}"), "only after the listener");
        bench.ack_all(&told);
        assert_eq!(bench.set([listener("l", "r"), routes("r", ["a"])]), "LDS{l} RDS{r}");
    }
}

#[test]
fn o13_a_secret_rotates_alone() {
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

/// The part that is served now: virtual hosts come after the routes that they belong to, scopes likewise.
#[test]
fn o15_scopes_come_after_routes() {
    use envoy_types::pb::envoy::config::route::v3::ScopedRouteConfiguration;
    let scope = |host: &str| {
        let message =
            ScopedRouteConfiguration { name: "s".into(), route_configuration_name: host.into(), ..Default::default() };
        Resource::new("s", &message, Vec::new())
    };
    for variant in VARIANTS {
        let mut bench = settled(variant, [routes("r", [])]);
        bench.store.update(crate::snapshot::Update { set: vec![scope("r")], remove: Vec::new() });
        bench.catch_up();
        bench.settled(ResourceType::SCOPED_ROUTES, []);
        let sent = bench.set([scope("other"), routes_for("r", "new", &[])]);
        assert_eq!(sent, "RDS{r} ScopedRouteConfiguration{s}");
    }
}

#[test]
fn o16_pods_come_and_go_while_a_gate_is_open() {
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
fn o18_a_rejected_cluster_holds_what_leads_to_it_and_nothing_else() {
    for variant in VARIANTS {
        let mut bench = settled(
            variant,
            [
                cluster("a"),
                endpoints("a"),
                routes("r", ["a"]),
                routes("other", ["a"]),
                listener("l", "r"),
                listener("o", "other"),
            ],
        );
        let behind = bench.publish([
            cluster("bad"),
            endpoints("bad"),
            routes("r", ["bad"]),
            routes_for("other", "new", &[]),
            listener("l", "r"),
            listener_at("o", "other", "new"),
        ]);
        assert_eq!(behind, either(variant, "CDS{a,bad} EDS{bad}", "CDS{bad} EDS{bad}"));
        let rest = bench.nack(&behind[CLUSTER], "bad");
        assert_eq!(rest, either(variant, "LDS{l,o} RDS{other}", "LDS{o} RDS{other}"), "r stays as it was");
        bench.ack_all(&rest);
        assert_eq!(bench.wait(ms(60_000)), "", "a is still referenced, so it stays");
        let mended = bench.set([cluster_at("bad", 1)]);
        assert_eq!(mended, either(variant, "CDS{a,bad} EDS{bad}", "CDS{bad} EDS{bad}"));
        bench.ack(&mended[ENDPOINTS]);
        let turn = bench.ack(&mended[CLUSTER]);
        assert_eq!(turn, "RDS{r}");
        bench.ack(turn.one());
        assert_eq!(bench.wait(GRACE), either(variant, "CDS{bad}", "CDS-{a}"));
    }
}

#[test]
fn o18_a_cluster_rejected_beside_a_good_one_frees_the_good_one_when_mended() {
    for variant in VARIANTS {
        let mut bench = settled_world(variant);
        let behind = bench.set([cluster("bad"), cluster("good"), routes("r", ["good"])]);
        assert_eq!(bench.nack(&behind[CLUSTER], "bad"), "", "nobody knows which is at fault: routes to both wait");
        let mended = bench.set([cluster_at("bad", 1)]);
        let mut queue = mended.0;
        let mut wire = Vec::new();
        while let Some(response) = queue.pop() {
            wire.push(line(&response));
            queue.extend(bench.ack(&response).0);
        }
        assert_eq!(wire.last().map(String::as_str), Some("RDS{r}"), "{wire:?}");
        assert!(variant == Variant::Sotw || wire.contains(&"CDS{good}".into()), "{wire:?}");
    }
}

#[test]
fn o18_a_route_to_a_rejected_cluster_that_it_had_already_is_not_held() {
    for variant in VARIANTS {
        let mut bench = Bench::new(variant, None, [cluster("bad"), routes("r", ["bad"]), listener("l", "r")]);
        let clusters = bench.start(CLUSTER, []);
        bench.nack(clusters.one(), "bad");
        bench.settled(LISTENER, []);
        bench.settled(ROUTES, ["r"]);
        assert_eq!(bench.set([routes_for("r", "new", &["bad"])]), "RDS{r}", "it gets no worse by it");
    }
}

#[test]
fn o18_a_rejected_route_keeps_the_clusters_of_the_accepted_one() {
    for variant in VARIANTS {
        let mut bench = settled_world(variant);
        let make = bench.publish([cluster("b"), endpoints("b"), routes("r", ["b"]), listener("l", "r")]);
        bench.ack(&make[ENDPOINTS]);
        let turn = bench.ack(&make[CLUSTER]);
        assert_eq!(bench.nack(turn.one(), "bad routes"), "");
        assert_eq!(bench.wait(ms(60_000)), "", "a stays");
        let mended = bench.set([routes_for("r", "new", &["b"])]);
        assert_eq!(mended, "RDS{r}");
        bench.ack(mended.one());
        assert_eq!(bench.wait(GRACE), either(variant, "CDS{b}", "CDS-{a}"));
    }
}

#[test]
fn o19_a_gate_without_answer_is_passed_after_its_time() {
    for variant in VARIANTS {
        let mut bench = settled_world(variant);
        let behind = bench.publish([cluster("b"), endpoints("b"), routes("r", ["b"]), listener("l", "r")]);
        bench.ack(&behind[ENDPOINTS]);
        assert_eq!(bench.wait(GATE_TIMEOUT - ms(1)), "");
        assert_eq!(bench.wait(ms(1)), "RDS{r}");
        let late = bench.notices.iter().filter(|notice| matches!(notice, Notice::Unanswered { kind: CLUSTER, .. }));
        assert_eq!(late.count(), 1);
        // Nor are the routes answered: what they no longer use goes all the same, after its grace.
        assert_eq!(bench.wait(GATE_TIMEOUT), "");
        assert_eq!(bench.wait(GRACE), either(variant, "CDS{b}", "CDS-{a}"));
        assert_eq!(bench.ack(&behind[CLUSTER]), "", "a late ACK does no harm");
    }
}

#[test]
fn o19_a_silent_client_leaves_the_stream_asleep() {
    for variant in VARIANTS {
        let mut bench = settled_world(variant);
        bench.publish([cluster("b"), endpoints("b"), routes("r", ["b"]), listener("l", "r2"), routes("r2", ["b"])]);
        bench.wait(ms(300_000));
        assert_eq!(bench.stream.deadline(), None);
    }
}

#[test]
fn o21_weights_move_when_the_canary_is_acked() {
    for variant in VARIANTS {
        let mut bench = settled_world(variant);
        let behind = bench.set([cluster("c2"), endpoints("c2"), routes("r", ["a", "c2"])]);
        assert_eq!(behind, either(variant, "CDS{a,c2} EDS{c2}", "CDS{c2} EDS{c2}"));
        let moved = bench.ack(&behind[CLUSTER]);
        assert_eq!(moved, "RDS{r}");
        bench.ack(moved.one());
        assert_eq!(bench.set([routes("r", ["c2", "a"])]), "RDS{r}", "between clusters that are there, at once");
    }
}

#[test]
fn o23_removals_wait_a_grace_after_the_routes_are_acked() {
    for variant in VARIANTS {
        let mut bench = settled_world(variant);
        let make = bench.publish([cluster("b"), endpoints("b"), routes("r", ["b"]), listener("l", "r")]);
        bench.ack(&make[ENDPOINTS]);
        let turn = bench.ack(&make[CLUSTER]);
        assert_eq!(bench.wait(ms(5000)), "", "without the ACK there is no grace yet");
        bench.ack(turn.one());
        assert_eq!(bench.wait(GRACE - ms(1)), "");
        assert_eq!(bench.wait(ms(1)), either(variant, "CDS{b}", "CDS-{a}"));
    }
}

#[test]
fn o23_removals_are_not_put_off_by_routes_that_keep_changing() {
    for variant in VARIANTS {
        let mut bench = settled_world(variant);
        let make = bench.publish([cluster("b"), endpoints("b"), routes("r", ["b"]), listener("l", "r")]);
        bench.ack(&make[ENDPOINTS]);
        let turn = bench.ack(&make[CLUSTER]);
        bench.ack(turn.one());
        let mut removed = false;
        for round in 0..20 {
            let sent = bench.set([routes_for("r", &format!("host-{round}"), &["b"])]);
            bench.ack(sent.one());
            removed |= bench.wait(ms(100)).iter().any(|response| *response.type_url == *CLUSTER.url());
        }
        assert!(removed);
    }
}

#[test]
fn o23_a_cluster_that_comes_back_in_its_grace_stays() {
    for variant in VARIANTS {
        let mut bench = settled_world(variant);
        let make = bench.publish([cluster("b"), endpoints("b"), routes("r", ["b"]), listener("l", "r")]);
        bench.ack(&make[ENDPOINTS]);
        let turn = bench.ack(&make[CLUSTER]);
        bench.ack(turn.one());
        assert_eq!(bench.set([cluster("a"), endpoints("a")]), "", "as it was");
        assert_eq!(bench.wait(ms(60_000)), "");
        assert_eq!(bench.set([routes("r", ["a"])]), "RDS{r}");
    }
}

#[test]
fn o24_endpoints_go_with_their_cluster_without_a_word() {
    for variant in VARIANTS {
        let mut bench = settled(variant, [cluster("a"), endpoints("a"), cluster("b"), endpoints("b")]);
        bench.wait(GRACE); // of the listeners that were just ACKed
        let gone = bench.remove([(CLUSTER, "b"), (ENDPOINTS, "b")]);
        assert_eq!(gone, either(variant, "CDS{a}", "CDS-{b}"));
        // Envoy itself takes its interest back when it takes the response.
        let silent = match variant {
            Variant::Sotw => bench.ask(ENDPOINTS, ["a"]),
            Variant::Delta => bench.unsubscribe(ENDPOINTS, ["b"]),
        };
        assert_eq!(silent, "");
        assert_eq!(bench.ack(gone.one()), "");
        assert_eq!(bench.wait(ms(60_000)), "");
    }
}

#[test]
fn o25_a_client_that_hangs_or_rejects_holds_up_no_other() {
    for variant in VARIANTS {
        for hangs in [true, false] {
            let mut good = settled_world(variant);
            let mut bad = Bench::over(good.store.clone(), variant, None);
            for (kind, names) in [(CLUSTER, &[][..]), (ENDPOINTS, &["a"]), (LISTENER, &[]), (ROUTES, &["r"])] {
                bad.settled_list(kind, names);
            }
            let make = good.publish([cluster("b"), endpoints("b"), routes("r", ["b"]), listener("l", "r")]);
            let other = bad.catch_up();
            if !hangs {
                bad.nack(&other[CLUSTER], "no");
            }
            good.ack(&make[ENDPOINTS]);
            let turn = good.ack(&make[CLUSTER]);
            assert_eq!(turn, "RDS{r}");
            good.ack(turn.one());
            assert_eq!(good.wait(GRACE), either(variant, "CDS{b}", "CDS-{a}"));
        }
    }
}

// Beyond the list: what a connection that was lost leaves behind.

#[test]
fn a_cluster_that_routes_may_still_use_outlives_a_lost_connection() {
    let mut envoy = Envoy::start(settled_store(Variant::Delta, world(["a"])));
    envoy.run();
    envoy.reconnect();
    envoy.wire();
    // Renamed while nobody was connected: the new stream knows of the old cluster only what the client says.
    envoy.publish(world(["b"]));
    envoy.run();
    assert_eq!(envoy.wire(), "CDS{b} EDS{b} RDS{r}");
    envoy.wait(GRACE);
    envoy.run();
    assert_eq!(envoy.wire(), "CDS-{a}");
    envoy.assert_current();
    assert_eq!(envoy.failures, [""; 0]);
}

#[test]
fn a_cluster_that_changed_while_the_connection_was_lost_gets_its_endpoints() {
    for variant in VARIANTS {
        let mut envoy = Envoy::start(settled_store(variant, world(["a"])));
        envoy.run();
        let mut changed = world(["a"]);
        changed[0] = cluster_at("a", 1);
        envoy.publish(changed);
        envoy.reconnect();
        envoy.run();
        envoy.assert_current();
        envoy.wait(ms(16_000));
        assert_eq!(envoy.fetch_timeouts, 0);
    }
}

#[test]
fn a_connection_lost_while_a_cluster_is_warming_does_not_leave_it_so() {
    for variant in VARIANTS {
        for with_endpoints in [true, false] {
            let mut envoy = Envoy::start(settled_store(variant, world(["a"])));
            envoy.run();
            let mut two = world(["a"]);
            two.push(cluster("b"));
            if with_endpoints {
                two.push(endpoints("b"));
            }
            envoy.publish(two);
            envoy.step_client();
            envoy.reconnect();
            envoy.run();
            envoy.assert_current();
            assert_eq!(envoy.fetch_timeouts, 0);
        }
    }
}

#[test]
fn a_listener_that_changes_its_routes_serves_with_the_old_ones_until_the_new_are_there() {
    for variant in VARIANTS {
        let mut bench = settled_world(variant);
        let behind = bench.publish([cluster("b"), endpoints("b"), listener("l", "r2"), routes("r2", ["b"])]);
        bench.ack(&behind[ENDPOINTS]);
        let turn = bench.ack(&behind[CLUSTER]);
        assert_eq!(turn, "LDS{l}");
        assert_eq!(bench.ack(turn.one()), "", "neither r nor a may go: the old listener serves with them");
        assert_eq!(bench.wait(ms(5000)), "");
        let new = match variant {
            Variant::Sotw => bench.ask(ROUTES, ["r", "r2"]),
            Variant::Delta => bench.subscribe(ROUTES, ["r2"]),
        };
        assert_eq!(new, "RDS{r2}");
        let told = bench.ack(new.one());
        assert_eq!(told, either(variant, "", "RDS-{r}"));
        bench.ack_all(&told);
        assert_eq!(bench.wait(GRACE), either(variant, "CDS{b}", "CDS-{a}"));
    }
}

#[test]
fn a_listener_whose_new_routes_never_come_keeps_nothing_for_ever() {
    for variant in VARIANTS {
        let mut bench = settled_world(variant);
        let behind = bench.publish([cluster("b"), endpoints("b"), listener("l", "nx")]);
        bench.ack(&behind[ENDPOINTS]);
        let turn = bench.ack(&behind[CLUSTER]);
        bench.ack(turn.one());
        let late = bench.wait(GATE_TIMEOUT + GRACE);
        assert!(late.iter().any(|response| *response.type_url == *CLUSTER.url()), "{late}");
    }
}

#[test]
fn routes_to_clusters_that_do_not_exist_are_sent_and_hold_nothing() {
    for variant in VARIANTS {
        let mut bench = settled_world(variant);
        let sent = bench.set([routes("r", ["a", "ghost"])]);
        assert_eq!(sent, "RDS{r}");
        bench.ack(sent.one());
        let ghost = bench.set([cluster("ghost"), endpoints("ghost")]);
        assert_eq!(ghost, either(variant, "CDS{a,ghost} EDS{ghost}", "CDS{ghost} EDS{ghost}"));
        bench.ack_all(&ghost);
        assert_eq!(bench.wait(ms(60_000)), "");
    }
}

#[test]
fn a_client_that_names_its_clusters_follows_the_same_plan() {
    let mut bench =
        Bench::sotw([cluster("c"), cluster("d"), endpoints("c"), endpoints("d"), routes("r", ["c"])]).into_grpc();
    bench.settled(ROUTES, ["r"]);
    bench.settled(CLUSTER, ["c"]);
    bench.settled(ENDPOINTS, ["c"]);
    let turn = bench.set([routes("r", ["d"])]);
    assert_eq!(turn, "RDS{r}");
    bench.ack(turn.one());
    let both = bench.ask(CLUSTER, ["c", "d"]);
    assert_eq!(both, "CDS{c,d}", "it asks for the endpoints itself");
    bench.ack(both.one());
    assert_eq!(bench.ask(ENDPOINTS, ["c", "d"]), "EDS{d}");
}
