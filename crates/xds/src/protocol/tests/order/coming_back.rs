//! An Envoy that reconnects while its clusters are warming, or after one of them was renamed.

use std::sync::Arc;

use super::*;
use crate::snapshot::Snapshot;

/// The requests of an Envoy on a new stream before its clusters are warm: all types except clusters.
fn comes_back_warming(bench: &mut Bench, before: &Snapshot) -> Sent {
    bench.reconnect();
    let held: [(ResourceType, &[&str]); 3] = [(LISTENER, &[]), (ENDPOINTS, &["a"]), (ROUTES, &["r"])];
    let mut sent = Sent(Vec::new());
    for (kind, names) in held {
        sent.0.extend(ask_again(bench, before, kind, names).0);
    }
    sent
}

/// Returns the first request for a type on a new stream, by a client with all resources of `before`.
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

/// Renames cluster a to d while the client is disconnected. Returns the resources of the client.
fn renamed_while_away(variant: Variant) -> (Bench, Arc<Snapshot>) {
    let bench = settled_world(variant);
    let before = bench.newest();
    bench.store.replace(world(["d"]));
    (bench, before)
}

/// With an empty load assignment, a cluster in use would answer 503.
#[test]
fn o29_a_cluster_in_use_gets_no_empty_endpoints_before_the_request_for_clusters() {
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
fn o29_a_client_that_never_requests_clusters_receives_its_routes_after_the_timeout() {
    for variant in VARIANTS {
        let (mut bench, before) = renamed_while_away(variant);
        comes_back_warming(&mut bench, &before);
        assert_eq!(bench.wait(ms(61_000)), either(variant, "EDS{a} RDS{r}", "RDS{r}"));
    }
}

/// Clusters in the bootstrap, or on a separate stream. No request shows whether they are warming.
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

/// An Envoy without warming clusters subscribes to clusters first.
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

/// The server cannot identify the clusters of a client if their settings differ from all served clusters.
#[test]
fn o30_a_cluster_with_unknown_settings_is_removed_at_once() {
    let mut bench =
        settled(Variant::Sotw, [cluster_at("a", 7), endpoints("a"), routes("r", ["a"]), listener("l", "r")]);
    bench.store.replace(world(["d"]));
    bench.reconnect();
    assert_eq!(bench.ask(CLUSTER, []), "");
    assert_eq!(bench.ask(ENDPOINTS, ["a"]), "CDS{d} EDS{a}");
}

/// Answers the first requests of a reconnecting Envoy with the version of `held`, which subscribes to these endpoints.
fn comes_back_with(held: Vec<Resource>, asked: &[&str], served: Vec<Resource>) -> String {
    let mut bench = settled_store(Variant::Sotw, held);
    bench.settled(CLUSTER, []);
    bench.store.replace(served);
    bench.reconnect();
    assert_eq!(bench.ask(CLUSTER, []), "");
    bench.ask_list(ENDPOINTS, asked).to_string()
}

fn without_endpoints(name: &str) -> Resource {
    let message = envoy_types::pb::envoy::config::cluster::v3::Cluster { name: name.into(), ..Default::default() };
    Resource::new(name, &message, Vec::new())
}

#[test]
fn o30_missing_clusters_may_have_the_settings_of_different_served_clusters() {
    let held = vec![cluster("a"), cluster_at("b", 7), cluster("c"), cluster_at("d", 7)];
    let served = vec![cluster("a"), cluster_at("b", 7), cluster_at("new", 9)];
    let sent = comes_back_with(held, &["a", "b", "c", "d"], served);
    assert!(sent.starts_with("CDS{a,b,c,d,new}"), "{sent}");
}

#[test]
fn o30_a_new_cluster_without_endpoints_does_not_conceal_a_missing_one() {
    let held = vec![cluster("a"), cluster("stays"), without_endpoints("own")];
    let served = vec![cluster("stays"), without_endpoints("own"), without_endpoints("new")];
    let sent = comes_back_with(held, &["a", "stays"], served);
    assert!(sent.starts_with("CDS{a,new,own,stays}"), "{sent}");
}

/// Envoy uses the valid clusters of a rejected response, and still reports the previous version.
#[test]
fn o30_clusters_of_a_rejected_response_do_not_conceal_a_missing_one() {
    for served in [vec![cluster("good"), cluster("stays")], vec![cluster("stays")]] {
        let held = vec![cluster("a"), cluster("stays")];
        let sent = comes_back_with(held, &["a", "good", "stays"], served);
        assert!(sent.starts_with("CDS{a,good,stays}") || sent.starts_with("CDS{a,stays}"), "{sent}");
    }
}

/// The stream does not wait for a client without endpoints, because Envoy requests endpoints immediately.
#[test]
fn o30_clusters_wait_a_second_for_the_names_of_endpoints() {
    let (mut bench, _) = renamed_while_away(Variant::Sotw);
    bench.reconnect();
    assert_eq!(bench.ask(CLUSTER, []), "");
    assert_eq!(bench.wait(ms(999)), "");
    assert_eq!(bench.wait(ms(1)), "CDS{d}");
}

/// A client with state of the world reports its scopes last, and without their names. The server may remember them.
#[test]
fn o30_a_renamed_cluster_stays_until_the_scopes_of_a_returning_client_have_moved() {
    let listener = || {
        let message = envoy_types::pb::envoy::config::listener::v3::Listener { name: "l".into(), ..Default::default() };
        Resource::new("l", &message, Vec::new())
    };
    let world = |to: &str| vec![cluster(to), endpoints(to), scope_to("s", [to]), listener()];
    for remembers in [false, true] {
        let mut bench = settled_store(Variant::Sotw, world("a"));
        for kind in [CLUSTER, LISTENER, SCOPED_ROUTES] {
            bench.settled(kind, []);
        }
        bench.settled(ENDPOINTS, ["a"]);
        let before: Vec<_> = bench.newest().all(SCOPED_ROUTES).cloned().collect();
        bench.store.replace(world("d"));
        bench.reconnect();
        assert_eq!(bench.ask(CLUSTER, []), "", "it waits for the names of endpoints");
        assert_eq!(bench.ask(LISTENER, []), "");
        let clusters = bench.ask(ENDPOINTS, ["a"]);
        assert_eq!(clusters, "CDS{a,d} EDS{d}", "a listener without route configurations may have scopes");
        bench.ack(&clusters[ENDPOINTS]);
        assert_eq!(bench.ack(&clusters[CLUSTER]), "");
        assert_eq!(bench.wait(GRACE), "", "its scopes are not known yet");
        let mut request = bench.next_request(SCOPED_ROUTES);
        request.held = remembers.then(|| before.into());
        let scopes = bench.request(request);
        assert_eq!(scopes, "ScopedRouteConfiguration{s}");
        assert_eq!(bench.wait(GRACE), "", "until the client has the new ones");
        bench.ack(scopes.one());
        assert_eq!(bench.wait(GRACE), "CDS{d} EDS{a}");
    }
}
