//! The effects of rejections and of missing answers on other resources.

use super::*;

#[test]
fn o18_a_rejected_cluster_delays_only_resources_that_reference_it() {
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

/// A route moves to a rejected cluster, and then to a third one while the rejected cluster is removed.
#[test]
fn o18_a_route_that_leaves_a_rejected_cluster_is_sent_in_its_newest_version() {
    for variant in VARIANTS {
        let mut bench = settled_world(variant);
        let behind = bench.set([cluster("bad"), endpoints("bad"), routes("r", ["bad"])]);
        assert_eq!(bench.nack(&behind[CLUSTER], "bad"), "");
        bench.ack(&behind[ENDPOINTS]);
        let good = bench.publish([cluster("good"), endpoints("good"), routes("r", ["good"]), listener("l", "r")]);
        assert_eq!(good, either(variant, "CDS{a,good} EDS{good}", "CDS{good}-{bad} EDS{good}"), "no route to bad");
        bench.ack(&good[ENDPOINTS]);
        let turn = bench.ack(&good[CLUSTER]);
        assert_eq!(turn, either(variant, "RDS{r}", "EDS-{bad} RDS{r}"));
        assert!(turn[ROUTES].resources[0].references().names_cluster("good"));
        bench.ack_all(&turn);
        assert_eq!(bench.wait(GRACE), either(variant, "CDS{good}", "CDS-{a}"));
    }
}

#[test]
fn o18_a_route_to_a_rejected_and_removed_cluster_is_delayed() {
    for variant in VARIANTS {
        let mut bench = settled_world(variant);
        let behind = bench.set([cluster("bad"), endpoints("bad"), routes("r", ["bad"])]);
        bench.nack(&behind[CLUSTER], "bad");
        bench.ack(&behind[ENDPOINTS]);
        let sent = bench.publish([cluster("a"), endpoints("a"), routes("r", ["bad"]), listener("l", "r")]);
        assert!(!sent.0.iter().any(|response| &*response.type_url == ROUTES.url()), "{sent:?}");
        let back = bench.set([routes_for("r", "new", &["a"])]);
        assert_eq!(back, "RDS{r}");
    }
}

/// The rejection arrives when the rejected cluster is already removed from the newest snapshot.
#[test]
fn o18_a_cluster_removed_before_its_rejection_delays_its_route() {
    for variant in VARIANTS {
        let mut bench = settled_world(variant);
        let behind = bench.set([cluster("bad"), endpoints("bad"), routes("r", ["bad"])]);
        let mut sent = bench.publish([cluster("good"), endpoints("good"), routes("r", ["good"]), listener("l", "r")]).0;
        sent.extend(bench.nack(&behind[CLUSTER], "bad").0);
        let routes_sent = |sent: &[Response]| sent.iter().any(|response| &*response.type_url == ROUTES.url());
        assert!(!routes_sent(&sent), "no route to bad");
    }
}

#[test]
fn o18_a_rejected_cluster_does_not_delay_a_valid_cluster() {
    for variant in VARIANTS {
        let mut bench = settled_world(variant);
        let behind = bench.set([cluster("bad"), cluster("good"), routes("r", ["good"])]);
        let good = bench.nack(&behind[CLUSTER], "bad");
        assert_eq!(good, either(variant, "CDS{a,good}", "CDS{good}"));
        let next = bench.ack(&good[CLUSTER]);
        assert_eq!(next, either(variant, "RDS{r}", "CDS{bad} RDS{r}"));
        if variant == Variant::Delta {
            assert_eq!(bench.nack(&next[CLUSTER], "bad"), "");
        }
    }
}

#[test]
fn o18_a_route_that_already_used_a_rejected_cluster_is_not_delayed() {
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
fn o19_a_gate_without_answer_opens_after_its_timeout() {
    for variant in VARIANTS {
        let mut bench = settled_world(variant);
        let behind = bench.publish([cluster("b"), endpoints("b"), routes("r", ["b"]), listener("l", "r")]);
        bench.ack(&behind[ENDPOINTS]);
        assert_eq!(bench.wait(GATE_TIMEOUT - ms(1)), "");
        assert_eq!(bench.wait(ms(1)), "RDS{r}");
        let late = bench.notices.iter().filter(|notice| matches!(notice, Notice::Unanswered { kind: CLUSTER, .. }));
        assert_eq!(late.count(), 1);
        // The routes are not answered either. The clusters that they no longer use are still removed after the grace
        // period.
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
fn o25_a_client_that_hangs_or_rejects_delays_no_other() {
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

#[test]
fn o18_a_withdrawn_rejected_change_keeps_the_cluster_in_use() {
    let before = || [cluster("d"), endpoints("d"), routes("r", ["d"]), listener("l", "r")];
    let mut bench = Bench::sotw(before());
    bench.settled(ResourceType::CLUSTER, []);
    bench.settled(ResourceType::ENDPOINTS, ["d"]);
    bench.settled(ResourceType::LISTENER, []);
    bench.settled(ResourceType::ROUTES, ["r"]);

    let bad = bench.set([cluster("a"), endpoints("a"), cluster_at("d", 99)]);
    let good = bench.nack(bad.of(ResourceType::CLUSTER), "d is bad");
    assert_eq!(names(&good[CLUSTER]), ["a", "d"]);
    assert_eq!(good[CLUSTER].resources[1].version(), cluster("d").version());
    // d is removed, but the client's routes still use it.
    bench.publish([cluster("a"), endpoints("a"), routes("r", ["a"]), listener("l", "r")]);
    let next = bench.ack(&good[CLUSTER]);
    assert_eq!(next, "RDS{r}");
    bench.ack(next.one());
    assert_eq!(bench.wait(GRACE), "CDS{a}");
}
