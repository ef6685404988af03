//! What a rejection must not keep from going on.

use super::harness::*;
use crate::snapshot::ResourceType;

#[test]
fn o18_a_rejected_change_of_a_cluster_in_use_that_is_withdrawn_frees_what_was_rejected_with_it() {
    let before = || [cluster("d"), endpoints("d"), routes("r", ["d"]), listener("l", "r")];
    let mut bench = Bench::sotw(before());
    bench.settled(ResourceType::CLUSTER, []);
    bench.settled(ResourceType::ENDPOINTS, ["d"]);
    bench.settled(ResourceType::LISTENER, []);
    bench.settled(ResourceType::ROUTES, ["r"]);

    let bad = bench.set([cluster("a"), endpoints("a"), cluster_at("d", 99)]);
    bench.nack(bad.of(ResourceType::CLUSTER), "d is bad");
    // d goes, but the client's routes still use it: it goes back to what the client has, and takes a along.
    let after = bench.publish([cluster("a"), endpoints("a"), routes("r", ["a"]), listener("l", "r")]);
    let clusters = after.of(ResourceType::CLUSTER);
    assert_eq!(names(clusters), ["a", "d"]);
    assert_eq!(clusters.resources[1].version(), cluster("d").version());
}
