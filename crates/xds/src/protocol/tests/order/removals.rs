//! Removals, and their times.

use super::*;

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
fn o12_routes_removed_with_their_listener_are_sent_with_it() {
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
fn o23_removals_wait_a_grace_period_after_the_ack_of_routes() {
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
fn o23_continuously_changing_routes_do_not_delay_removals() {
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
fn clusters_of_a_listener_stay_while_its_connections_drain() {
    for variant in VARIANTS {
        for gone in [false, true] {
            let mut bench = settled_world(variant);
            let make = bench.set([cluster("server"), listener_asking("l", "r", "server")]);
            let turn = bench.ack(&make[CLUSTER]);
            assert_eq!(turn, "LDS{l}");
            bench.ack(turn.one());
            let [a, of_a, r] = [cluster("a"), endpoints("a"), routes_for("r", "*", &["a"])];
            let next = match gone {
                true => bench.publish([a, of_a, r]),
                false => bench.publish([a, of_a, r, listener("l", "r")]),
            };
            assert_eq!(next, if gone { either(variant, "LDS{}", "LDS-{l}") } else { "LDS{l}" });
            assert_eq!(bench.ack(next.one()), "");
            assert_eq!(bench.wait(DRAIN - ms(1)), "");
            assert_eq!(bench.wait(ms(1)), either(variant, "CDS{a}", "CDS-{server}"));
        }
    }
}

#[test]
fn o23_a_cluster_that_returns_within_its_grace_period_stays() {
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
fn a_listener_serves_its_old_routes_until_the_new_routes_arrive() {
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
fn a_listener_whose_new_routes_never_arrive_retains_no_clusters() {
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
