//! Listeners and routes wait for the resources behind them.

use super::*;
use crate::snapshot::Update;

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
fn o7_a_new_listener_waits_until_its_cluster_is_acked() {
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
fn o8_successive_renames_lose_no_request() {
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
fn o9_no_newer_route_overtakes_an_open_gate() {
    for variant in VARIANTS {
        let mut bench = settled_world(variant);
        let first = bench.set([cluster("b"), endpoints("b"), routes("r", ["b"])]);
        assert_eq!(bench.set([cluster("c"), endpoints("c"), routes("r", ["c"]), listener_at("l", "r", "new")]), "");
        assert_eq!(bench.ack(&first[ENDPOINTS]), "");
        // The routes of the first snapshot are sent, because their clusters are accepted. The routes of the second
        // snapshot wait.
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
fn o9_routes_advance_even_if_clusters_change_continuously() {
    for variant in VARIANTS {
        let mut bench = settled_world(variant);
        let mut sent = bench.set([cluster("n0"), endpoints("n0"), routes("r", ["n0"])]);
        let mut routed = 0;
        for round in 1..20 {
            // Each ACK arrives after the next change.
            let name = format!("n{round}");
            bench.set([cluster(&name), endpoints(&name), routes_for("r", "*", &[&name])]);
            sent = bench.ack_all(&sent);
            routed += sent.iter().filter(|response| *response.type_url == *ROUTES.url()).count();
        }
        assert!(routed > 10, "{variant:?}: {routed}");
    }
}

#[test]
fn o11_a_listener_with_the_same_routes_sends_no_routes() {
    for variant in VARIANTS {
        let mut bench = settled_world(variant);
        let sent = bench.set([listener_at("l", "r", "new")]);
        assert_eq!(sent, "LDS{l}");
        assert_eq!(bench.ack(sent.one()), "");
    }
}

/// The part that is served immediately: virtual hosts and scopes follow their route configurations.
#[test]
fn o15_scopes_come_after_routes() {
    for variant in VARIANTS {
        let mut bench = settled(variant, [routes("r", [])]);
        bench.store.update(Update { set: vec![scope("s", "r")], remove: Vec::new() });
        bench.catch_up();
        bench.settled(SCOPED_ROUTES, []);
        let sent = bench.set([scope("s", "other"), routes_for("r", "new", &[])]);
        assert_eq!(sent, "RDS{r} ScopedRouteConfiguration{s}");
    }
}

#[test]
fn o27_scopes_with_inline_routes_precede_their_listener_and_are_removed_after_it() {
    for variant in VARIANTS {
        let mut bench = settled(variant, [cluster("a"), endpoints("a"), listener("l", "r"), routes("r", [])]);
        bench.set([scope_to("s1", ["a"]), scope("by-name", "r")]);
        bench.settled(SCOPED_ROUTES, []);
        let sent = bench.set([scope_to("s2", ["a"]), listener_at("l", "r", "for s2 too")]);
        let all = "ScopedRouteConfiguration{by-name,s1,s2} LDS{l}";
        assert_eq!(sent, either(variant, all, "ScopedRouteConfiguration{s2} LDS{l}"));
        bench.ack_all(&sent);

        bench.store.update(Update {
            set: vec![listener_at("l", "r", "without s2")],
            remove: vec![(SCOPED_ROUTES, "s2".into())],
        });
        let sent = bench.catch_up();
        let rest = "LDS{l} ScopedRouteConfiguration{by-name,s1}";
        assert_eq!(sent, either(variant, rest, "LDS{l} ScopedRouteConfiguration-{s2}"));
        bench.ack_all(&sent);

        let sent = bench.set([scope("by-name", "other"), listener_at("l", "r", "third")]);
        let named = "LDS{l} ScopedRouteConfiguration{by-name,s1}";
        assert_eq!(sent, either(variant, named, "LDS{l} ScopedRouteConfiguration{by-name}"), "its routes come first");
    }
}

#[test]
fn o31_a_scope_that_redirects_to_another_listener_follows_it_and_its_certificate() {
    for variant in VARIANTS {
        let mut bench = settled(variant, [cluster("a"), endpoints("a"), listener("l", "r"), routes("r", [])]);
        bench.set([scope_to("s", ["a"])]);
        bench.settled(SCOPED_ROUTES, []);
        let follows = vec![(LISTENER, "tls".into()), (SECRET, "k".into())];
        let sent = bench.set([listener("tls", "r"), secret("k"), scope_to("s", []).following(follows.clone())]);
        assert_eq!(sent, either(variant, "LDS{l,tls}", "LDS{tls}"));
        assert_eq!(bench.ack(sent.one()), "");
        let asked = match variant {
            Variant::Sotw => bench.ask(SECRET, ["k"]),
            Variant::Delta => bench.subscribe(SECRET, ["k"]),
        };
        assert_eq!(asked, "SDS{k}");
        let sent = bench.ack(asked.one());
        assert_eq!(sent, "ScopedRouteConfiguration{s}");
        bench.ack_all(&sent);
        // The client has the certificate, so the scope follows the listener alone.
        let more = [listener_at("tls", "r", "more"), scope_to("s", ["a"]).following(follows.clone())];
        let sent = bench.set(more);
        assert_eq!(
            sent,
            either(variant, "LDS{l,tls} ScopedRouteConfiguration{s}", "LDS{tls} ScopedRouteConfiguration{s}")
        );
    }
}

#[test]
fn o27_the_scope_of_a_new_host_comes_first_and_the_scope_of_the_replaced_host_is_removed_last() {
    for variant in VARIANTS {
        let mut bench = settled(variant, [cluster("a"), endpoints("a"), listener("l", "r"), routes("r", [])]);
        bench.set([scope_to("s1", ["a"])]);
        bench.settled(SCOPED_ROUTES, []);
        let set = vec![scope_to("s2", ["a"]), listener_at("l", "r", "for s2 alone")];
        bench.store.update(Update { set, remove: vec![(SCOPED_ROUTES, "s1".into())] });
        let sent = bench.catch_up();
        let both = "ScopedRouteConfiguration{s1,s2} LDS{l}";
        assert_eq!(sent, either(variant, both, "ScopedRouteConfiguration{s2} LDS{l}"));
        let gone = bench.ack_all(&sent);
        assert_eq!(gone, either(variant, "ScopedRouteConfiguration{s2}", "ScopedRouteConfiguration-{s1}"));
    }
}

#[test]
fn o27_a_listener_waits_for_a_scope_whose_removal_is_not_acknowledged() {
    for variant in VARIANTS {
        let mut bench = settled(variant, [cluster("a"), endpoints("a"), listener("l", "r"), routes("r", [])]);
        bench.set([scope_to("s1", ["a"]), scope_to("s2", ["a"])]);
        bench.settled(SCOPED_ROUTES, []);
        let set = vec![listener_at("l", "r", "without s2")];
        bench.store.update(Update { set, remove: vec![(SCOPED_ROUTES, "s2".into())] });
        let gone = bench.catch_up();
        assert_eq!(bench.ack(&gone[LISTENER]), "");
        let again = bench.set([scope_to("s2", ["a"]), listener_at("l", "r", "with s2")]);
        assert_eq!(again, "", "requests for s2 would be answered 404");
        let again = bench.ack(&gone[SCOPED_ROUTES]);
        let both = "ScopedRouteConfiguration{s1,s2} LDS{l}";
        assert_eq!(again, either(variant, both, "ScopedRouteConfiguration{s2} LDS{l}"));
    }
}

#[test]
fn o27_a_new_listener_waits_for_the_routes_of_its_scopes_by_name() {
    for variant in VARIANTS {
        let mut bench = settled(variant, [listener("l", "r"), routes("r", [])]);
        bench.set([scope("l/0", "r")]);
        bench.settled(SCOPED_ROUTES, []);
        let new =
            bench.set([scope("l2/0", "r2"), routes("r2", []), listener("l2", "r"), listener_at("l", "r", "other")]);
        let all = "LDS{l} ScopedRouteConfiguration{l/0,l2/0}";
        assert_eq!(new, either(variant, all, "LDS{l} ScopedRouteConfiguration{l2/0}"), "only the new listener waits");
        let routes = match variant {
            Variant::Sotw => bench.ask(ROUTES, ["r", "r2"]),
            Variant::Delta => bench.subscribe(ROUTES, ["r2"]),
        };
        assert_eq!(routes, "RDS{r2}");
        assert_eq!(bench.ack_all(&new), "", "the scope is of no use without its routes");
        assert_eq!(bench.ack_all(&routes), either(variant, "LDS{l,l2}", "LDS{l2}"));
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
fn routes_to_missing_clusters_are_sent_and_delay_nothing() {
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
