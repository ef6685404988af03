//! Clients that reconnect and report their resources.

use super::*;

/// Returns the first request after a reconnection: the names, if the type has named subscriptions, and the reported
/// resources.
fn resume<const N: usize>(bench: &mut Bench, kind: ResourceType, versions: [(&str, String); N]) -> Sent {
    let names: Vec<&str> = versions.iter().map(|(name, _)| *name).collect();
    bench.reconnect();
    bench.resume(kind, if WILD.contains(&kind) { &[] } else { &names }, versions)
}

#[test]
fn d16_a_reconnect_receives_only_differences() {
    for kind in NAMED {
        for mut bench in streams(kind, ["same", "other"]) {
            let (same, other) = (bench.version(kind, "same"), bench.version(kind, "other"));
            bench.set(changed(kind, "other", 1));
            let versions = [("same", same), ("other", other), ("gone", "0123456789abcdef".into())];
            let sent = resume(&mut bench, kind, versions);
            assert_eq!(sent, says(kind, "{other}-{gone}"));
            bench.ack(sent.one());
            assert_eq!(bench.set(changed(kind, "same", 1)), says(kind, "{same}"), "and goes on");
        }
        for mut bench in streams(kind, ["a"]) {
            let sent = resume(&mut bench, kind, [("a", "1.2.3".into())]);
            assert_eq!(sent, says(kind, "{a}"), "a version of another server's");
        }
    }
}

#[test]
fn d16_reported_resources_count_only_in_the_first_request_of_a_type() {
    for kind in NAMED {
        for mut bench in streams(kind, ["a", "b"]) {
            bench.settled(kind, ["a"]);
            let version = bench.version(kind, "b");
            assert_eq!(bench.resume(kind, &["b"], [("b", version)]), says(kind, "{b}"));
        }
    }
    let mut bench = Bench::delta([endpoints("a"), secret("s")]).into_grpc();
    let (a, s) = (bench.version(ENDPOINTS, "a"), bench.version(SECRET, "s"));
    assert_eq!(bench.resume(ENDPOINTS, &["a"], [("a", a)]), "");
    assert_eq!(bench.resume(SECRET, &["s"], [("s", s)]), "", "of each type, that is");
}

#[test]
fn d16_reported_but_unsubscribed_resources_are_ignored() {
    for kind in NAMED {
        for mut bench in streams(kind, ["a", "b"]) {
            let a = bench.version(kind, "a");
            let versions = [("a", a), ("b", "0123456789abcdef".into()), ("gone", "0123456789abcdef".into())];
            assert_eq!(bench.resume(kind, &["a"], versions), "");
            assert_eq!(bench.set(changed(kind, "b", 1)), "");
        }
    }
}

#[test]
fn d17_the_same_applies_to_a_wildcard() {
    for kind in WILD {
        for mut bench in streams(kind, ["same", "other", "new"]) {
            let (same, other) = (bench.version(kind, "same"), bench.version(kind, "other"));
            bench.set(changed(kind, "other", 1));
            let versions = [("same", same), ("other", other), ("gone", "0123456789abcdef".into())];
            assert_eq!(resume(&mut bench, kind, versions), says(kind, "{new,other}-{gone}"));
        }
        for mut bench in streams(kind, ["a"]) {
            let a = bench.version(kind, "a");
            assert_eq!(resume(&mut bench, kind, [("a", a)]), "", "current");
            assert_eq!(bench.set(changed(kind, "b", 0)), says(kind, "{b}"));
        }
        for mut bench in streams(kind, ["a"]) {
            let a = bench.version(kind, "a");
            bench.reconnect();
            assert_eq!(bench.resume(kind, &["*"], [("a", a)]), "", "the other spelling");
        }
    }
}

#[test]
fn d18_another_replica_sends_no_equal_resources() {
    for kind in KINDS {
        for mut bench in streams(kind, ["a", "b"]) {
            let versions = ["a", "b"].map(|name| (name, bench.version(kind, name)));
            // The replica has reached the same state in another order.
            let replica = Arc::new(Store::default());
            replica.replace(vec![any_kind(kind, "b", 7), any_kind(kind, "x", 0)]);
            replica.replace(vec![any_kind(kind, "b", 0), any_kind(kind, "a", 0)]);
            bench = Bench::over(replica, DELTA, bench.only).into_grpc();
            assert_eq!(resume(&mut bench, kind, versions), "");
        }
    }
}
