//! Discovered filters (ECDS) of listeners.

use super::*;

/// Returns a stream whose client has the listener `l` with the extension `x`, which uses the cluster `a`.
fn bench(variant: Variant) -> Bench {
    let world = [cluster("a"), endpoints("a"), routes("r", ["a"]), listener_discovering("l", "x")];
    let mut bench = Bench::new(variant, None, world);
    bench.set([extension_asking("x", "a")]);
    bench.settled(CLUSTER, []);
    bench.settled(ENDPOINTS, ["a"]);
    bench.settled(LISTENER, []);
    assert_eq!(bench.settled(EXTENSION, ["x"]), "ECDS{x}");
    bench
}

/// Returns resources with another extension, which uses the cluster `b`.
fn asking_b() -> [Resource; 4] {
    [cluster("b"), endpoints("b"), listener_discovering("l", "y"), extension_asking("y", "b")]
}

#[test]
fn a_replaced_listener_keeps_its_extension() {
    for variant in VARIANTS {
        let mut bench = bench(variant);
        let next = [cluster("a"), endpoints("a"), listener_discovering("l", "y"), extension_asking("y", "a")];
        let sent = bench.publish(next);
        assert_eq!(sent, "LDS{l}", "Envoy would drop the extension of connections to the old listener");
        assert_eq!(bench.ack(sent.one()), "");
        let asked = match variant {
            Variant::Delta => bench.subscribe(EXTENSION, ["y"]),
            _ => bench.ask(EXTENSION, ["x", "y"]),
        };
        assert_eq!(asked, "ECDS{y}");
        assert_eq!(bench.ack(asked.one()), "");
        assert_eq!(bench.wait(DRAIN), "");
    }
}

#[test]
fn an_extension_that_a_listener_still_names_is_removed() {
    let mut bench = bench(Variant::Delta);
    assert_eq!(bench.remove([(EXTENSION, "x")]), "ECDS-{x}");
}

#[test]
fn clusters_of_an_extension_stay_until_the_client_unsubscribes() {
    for variant in VARIANTS {
        let mut bench = bench(variant);
        let make = bench.publish(asking_b());
        assert_eq!(make, either(variant, "CDS{a,b} EDS{b}", "CDS{b} EDS{b}"), "the listener waits for its cluster");
        bench.ack(&make[ENDPOINTS]);
        let listener = bench.ack(&make[CLUSTER]);
        assert_eq!(listener, "LDS{l}");
        bench.ack(listener.one());
        let asked = match variant {
            Variant::Delta => bench.subscribe(EXTENSION, ["y"]),
            _ => bench.ask(EXTENSION, ["x", "y"]),
        };
        bench.ack(asked.one());
        assert_eq!(bench.wait(10 * DRAIN), "", "connections of the old listener still use its cluster");
        match variant {
            Variant::Delta => bench.unsubscribe(EXTENSION, ["x"]),
            _ => bench.ask(EXTENSION, ["y"]),
        };
        assert_eq!(bench.wait(GRACE), either(variant, "CDS{b}", "CDS-{a}"));
    }
}

/// The old listener serves requests that the new one would fail.
#[test]
fn a_listener_waits_for_the_rejected_cluster_of_its_extension() {
    for variant in VARIANTS {
        let mut bench = bench(variant);
        let make = bench.publish(asking_b());
        bench.ack(&make[ENDPOINTS]);
        assert_eq!(bench.nack(&make[CLUSTER], "bad"), "");
        assert_eq!(bench.wait(GATE_TIMEOUT), "");
        let mended = bench.set([cluster_at("b", 1)]);
        bench.ack(&mended[ENDPOINTS]);
        assert_eq!(bench.ack(&mended[CLUSTER]), "LDS{l}");
    }
}

/// A client with a wildcard does not unsubscribe.
#[test]
fn a_client_of_all_extensions_is_told_of_each_removal() {
    let mut bench = Bench::delta([listener_discovering("l", "x"), extension_asking("x", "a")]);
    bench.settled(LISTENER, []);
    assert_eq!(bench.settled(EXTENSION, ["*"]), "ECDS{x}");
    assert_eq!(bench.publish([listener_discovering("l", "y")]), "LDS{l} ECDS-{x}");
}

/// Envoy serves with the extension until the new listener is warm.
#[test]
fn a_returning_client_keeps_the_extension_of_its_listener() {
    for listeners_first in [true, false] {
        let mut bench = bench(Variant::Delta);
        let before = bench.newest();
        let next = [cluster("a"), endpoints("a"), listener_discovering("l", "y"), extension_asking("y", "a")];
        bench.store.replace(next.into());
        bench.reconnect();
        let mut again = |kind, names: &[&str]| {
            let mut request = delta_request(kind, names, &[]);
            let held = before.all(kind).map(|resource| (resource.name().to_string(), resource.version().to_string()));
            request.initial_versions = held.collect();
            bench.request(request)
        };
        again(CLUSTER, &[]);
        again(ENDPOINTS, &["a"]);
        let mut kinds = [(LISTENER, [].as_slice()), (EXTENSION, &["x"])];
        if !listeners_first {
            kinds.reverse();
        }
        let sent = kinds.map(|(kind, names)| again(kind, names).to_string()).concat();
        assert_eq!(sent, "LDS{l}");
    }
}
