//! An Envoy that comes back while its clusters are warming, or after one of them was renamed.

use std::sync::Arc;

use super::*;
use crate::snapshot::Snapshot;

/// What an Envoy asks on a new stream before its clusters are warm: everything but clusters.
fn comes_back_warming(bench: &mut Bench, before: &Snapshot) -> Sent {
    bench.reconnect();
    let held: [(ResourceType, &[&str]); 3] = [(LISTENER, &[]), (ENDPOINTS, &["a"]), (ROUTES, &["r"])];
    let mut sent = Sent(Vec::new());
    for (kind, names) in held {
        sent.0.extend(ask_again(bench, before, kind, names).0);
    }
    sent
}

/// The first request for a type on a new stream, of a client that has all of it from `before`.
fn ask_again(bench: &mut Bench, before: &Snapshot, kind: ResourceType, names: &[&str]) -> Sent {
    match bench.variant {
        Variant::Sotw => bench.ask_list(kind, names),
        Variant::Delta => {
            let mut request = delta_request(kind, names, &[]);
            let held = before.all(kind).map(|resource| (resource.name().to_string(), resource.version().to_string()));
            request.initial_versions = held.collect();
            bench.request(request)
        }
    }
}

/// Cluster a is renamed to d while nobody is connected; with what the client has.
fn renamed_while_away(variant: Variant) -> (Bench, Arc<Snapshot>) {
    let bench = settled_world(variant);
    let before = bench.newest();
    bench.store.replace(world(["d"]));
    (bench, before)
}

/// Of an empty load assignment, a live cluster would answer 503.
#[test]
fn o29_a_live_cluster_gets_no_empty_endpoints_before_clusters_are_asked_for() {
    for variant in VARIANTS {
        let (mut bench, before) = renamed_while_away(variant);
        let sent = comes_back_warming(&mut bench, &before);
        assert_eq!(sent, either(variant, "", "EDS-{a}"), "a removal of live endpoints is ignored");
        assert_eq!(bench.wait(ms(50_000)), "", "no route to a cluster that was never sent");
        let clusters = ask_again(&mut bench, &before, CLUSTER, &[]);
        assert_eq!(clusters, either(variant, "CDS{a,d} EDS{d}", "CDS{d} EDS{d}"), "a stays");
        bench.ack(&clusters[ENDPOINTS]);
        let turn = bench.ack(&clusters[CLUSTER]);
        assert_eq!(turn, "RDS{r}");
        bench.ack(turn.one());
        assert_eq!(bench.wait(GRACE), either(variant, "CDS{d} EDS{a}", "CDS-{a}"));
    }
}

#[test]
fn o29_a_client_that_never_asks_for_clusters_gets_its_routes_in_the_end() {
    for variant in VARIANTS {
        let (mut bench, before) = renamed_while_away(variant);
        comes_back_warming(&mut bench, &before);
        assert_eq!(bench.wait(ms(61_000)), either(variant, "EDS{a} RDS{r}", "RDS{r}"));
    }
}

/// Clusters in the bootstrap, or on a stream of their own: nothing says that any of them is warming.
#[test]
fn o29_a_client_without_clusters_and_endpoints_waits_a_second_at_most() {
    for variant in VARIANTS {
        for served in [true, false] {
            let mut bench = settled(variant, [cluster("a"), endpoints("a"), routes("r", ["a"]), listener("l", "r")]);
            let before = bench.newest();
            let to = if served { "a" } else { "own" };
            bench.store.replace(vec![cluster("a"), endpoints("a"), routes_for("r", "new", &[to]), listener("l", "r")]);
            bench.reconnect();
            let mut sent = ask_again(&mut bench, &before, LISTENER, &[]);
            sent.0.extend(ask_again(&mut bench, &before, ROUTES, &["r"]).0);
            if served {
                assert_eq!(sent, "");
                sent = bench.wait(ms(1000));
            }
            assert_eq!(sent, "RDS{r}", "{variant:?}");
        }
    }
}

/// An Envoy asks for clusters first if none is warming.
#[test]
fn o30_a_renamed_cluster_stays_in_a_full_state_until_its_routes_have_moved() {
    let (mut bench, _) = renamed_while_away(Variant::Sotw);
    bench.reconnect();
    assert_eq!(bench.ask(CLUSTER, []), "", "it waits for the names of endpoints");
    assert_eq!(bench.ask(LISTENER, []), "");
    let clusters = bench.ask(ENDPOINTS, ["a"]);
    assert_eq!(clusters, "CDS{a,d} EDS{d}");
    assert_eq!(bench.ask(ROUTES, ["r"]), "");
    bench.ack(&clusters[ENDPOINTS]);
    let turn = bench.ack(&clusters[CLUSTER]);
    assert_eq!(turn, "RDS{r}");
    bench.ack(turn.one());
    assert_eq!(bench.wait(GRACE), "CDS{d} EDS{a}", "the cluster is gone before its endpoints");
}

/// What the client has cannot be told if the cluster had other settings than any that is served.
#[test]
fn o30_a_cluster_of_unknown_settings_goes_at_once() {
    let mut bench =
        settled(Variant::Sotw, [cluster_at("a", 7), endpoints("a"), routes("r", ["a"]), listener("l", "r")]);
    bench.store.replace(world(["d"]));
    bench.reconnect();
    assert_eq!(bench.ask(CLUSTER, []), "");
    assert_eq!(bench.ask(ENDPOINTS, ["a"]), "CDS{d} EDS{a}");
}

/// A client without endpoints is not waited for: they are asked for at once, or not at all.
#[test]
fn o30_clusters_wait_a_second_for_the_names_of_endpoints() {
    let (mut bench, _) = renamed_while_away(Variant::Sotw);
    bench.reconnect();
    assert_eq!(bench.ask(CLUSTER, []), "");
    assert_eq!(bench.wait(ms(999)), "");
    assert_eq!(bench.wait(ms(1)), "CDS{d}");
}
