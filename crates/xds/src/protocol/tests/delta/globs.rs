//! Subscriptions by prefix.

use super::*;
use crate::snapshot::Version;

fn leds(name: &str, port: u32) -> Resource {
    use envoy_types::pb::envoy::config::endpoint::v3::LbEndpoint;
    use envoy_types::pb::google::protobuf::UInt32Value;
    let message = LbEndpoint { load_balancing_weight: Some(UInt32Value { value: port }), ..Default::default() };
    Resource::new(name, &message, Vec::new())
}

#[test]
fn d29_a_glob_is_a_prefix_after_a_slash() {
    const ENDPOINT: &str = "xdstp://lockgate/envoy.config.endpoint.v3.LbEndpoint";
    let name = |rest: &str| format!("{ENDPOINT}/{rest}");
    let mut bench = Bench::delta([leds(&name("shop/1"), 1), leds(&name("shop/2"), 2), leds(&name("shopping/1"), 3)]);
    let kind = ResourceType::LB_ENDPOINT;
    let glob = name("shop/*");
    let sent = bench.request(delta_request(kind, &[&glob], &[]));
    assert_eq!(names(sent.one()), [name("shop/1"), name("shop/2")]);
    bench.ack(sent.one());
    let new = bench.set([leds(&name("shop/3"), 4), leds(&name("shopping/2"), 5)]);
    assert_eq!(names(new.one()), [name("shop/3")]);
    bench.ack(new.one());
    let gone = bench.remove([(kind, &name("shop/1"))]);
    assert_eq!(gone, format!("LbEndpoint-{{{}}}", name("shop/1")));
    bench.ack(gone.one());
    assert_eq!(bench.request(delta_request(kind, &[], &[&glob])), "");
    assert_eq!(bench.set([leds(&name("shop/2"), 9)]), "");

    let not_a_glob = name("shop*");
    let sent = bench.request(delta_request(kind, &[&not_a_glob], &[]));
    assert_eq!(&*sent.one().removed, [Arc::from(&*not_a_glob)], "a name like any other");
}

#[test]
fn d29_a_glob_without_resources_is_reported_as_absent() {
    let mut bench = Bench::delta([]);
    let kind = ResourceType::LB_ENDPOINT;
    let glob = "xdstp://lockgate/envoy.config.endpoint.v3.LbEndpoint/shop/*";
    let sent = bench.request(delta_request(kind, &[glob], &[]));
    assert_eq!(sent, format!("LbEndpoint-{{{glob}}}"));
    bench.ack(sent.one());
    let first = bench.set([leds(&glob.replace('*', "1"), 1)]);
    assert_eq!(names(first.one()), [glob.replace('*', "1")]);
}

#[test]
fn d29_a_glob_covers_one_context() {
    const ENDPOINT: &str = "xdstp://lockgate/envoy.config.endpoint.v3.LbEndpoint/shop";
    let name = |rest: &str| format!("{ENDPOINT}/{rest}");
    let mut bench = Bench::delta([leds(&name("1"), 1), leds(&name("2?b=2&a=1"), 2), leds(&name("3?a=1"), 3)]);
    let kind = ResourceType::LB_ENDPOINT;
    let sent = bench.request(delta_request(kind, &[&name("*?b=2&a=1")], &[]));
    assert_eq!(names(sent.one()), [name("2?a=1&b=2")]);
    bench.ack(sent.one());
    assert_eq!(bench.set([leds(&name("1"), 7), leds(&name("3?a=1"), 7)]), "");
    assert_eq!(names(bench.set([leds(&name("4?a=1&b=2"), 7)]).one()), [name("4?a=1&b=2")]);
}

#[test]
fn v6_a_name_may_be_spelled_in_many_ways() {
    const CLUSTER_NAME: &str = "xdstp://lockgate/envoy.config.cluster.v3.Cluster/a";
    let name = |rest: &str| format!("{CLUSTER_NAME}{rest}");
    let mut bench = Bench::delta([cluster(&name("?y=2&x=1"))]);
    let sent = bench.request(delta_request(CLUSTER, &[&name("?y=2&%78=1")], &[]));
    assert_eq!(names(sent.one()), [name("?x=1&y=2")], "in its canonical form");
    bench.ack(sent.one());
    assert_eq!(names(bench.set([cluster_at(&name("?x=1&y=2"), 7)]).one()), [name("?x=1&y=2")], "the same one");
    assert_eq!(bench.request(delta_request(CLUSTER, &[], &[&name("?x=1&y=%32")])), "");
    assert_eq!(bench.set([cluster_at(&name("?x=1&y=2"), 8)]), "", "unsubscribed");

    let mut bench = Bench::sotw([cluster(&name("?y=2&x=1"))]);
    let sent = bench.request(delta_request(CLUSTER, &[&name("?y=2&x=1"), &name("?x=1&y=2")], &[]));
    assert_eq!(names(sent.one()), [name("?x=1&y=2")], "once");
}

#[test]
fn v6_reported_resources_are_recognized_by_any_spelling() {
    let name = |rest: &str| format!("xdstp://lockgate/envoy.config.cluster.v3.Cluster/a{rest}");
    let resource = cluster(&name("?x=1&y=2"));
    let version = resource.version().to_string();
    let mut bench = Bench::delta([resource]);
    let mut request = delta_request(CLUSTER, &[&name("?y=2&x=1")], &[]);
    request.initial_versions = [(name("?y=2&x=1"), version)].into();
    assert_eq!(bench.request(request), "");
}

#[test]
fn v6_another_authority_has_no_resources() {
    let here = "xdstp://lockgate/envoy.config.cluster.v3.Cluster/a";
    let there = "xdstp://elsewhere/envoy.config.cluster.v3.Cluster/a";
    let mut bench = Bench::delta([cluster(here)]);
    let sent = bench.request(delta_request(CLUSTER, &[there], &[]));
    assert_eq!(sent, format!("CDS-{{{there}}}"));
    bench.ack(sent.one());
    assert_eq!(bench.request(delta_request(CLUSTER, &[here], &[])), format!("CDS{{{here}}}"), "the stream lives");

    let mut bench = Bench::sotw([cluster(here)]).into_grpc();
    let sent = bench.request(delta_request(CLUSTER, &[there, here], &[]));
    assert_eq!(sent, format!("CDS{{{here}}}?{{{there}}}"));
}

#[test]
fn v6_references_follow_the_canonical_name() {
    let spelled = "xdstp://lockgate/envoy.config.cluster.v3.Cluster/a?y=2&x=1";
    let canonical = "xdstp://lockgate/envoy.config.cluster.v3.Cluster/a?x=1&y=2";
    assert_eq!(&*cluster(spelled).references().endpoints, [Arc::from(canonical)]);
    assert_eq!(&*routes("r", [spelled]).references().clusters, [Arc::from(canonical)]);
}

#[test]
fn d16_current_resources_of_a_glob_are_not_sent() {
    let name = |rest: &str| format!("xdstp://lockgate/envoy.config.endpoint.v3.LbEndpoint/shop/{rest}");
    let mut bench = Bench::delta([leds(&name("1"), 1), leds(&name("2"), 2), leds(&name("3"), 3)]);
    let kind = ResourceType::LB_ENDPOINT;
    let old = Version::default().to_string();
    let has = [(&*name("1"), bench.version(kind, &name("1"))), (&*name("2"), old.clone()), (&*name("9"), old)];
    let sent = bench.resume(kind, &[&name("*")], has);
    assert_eq!(names(sent.one()), [name("2"), name("3")]);
    assert_eq!(&*sent.one().removed, [Arc::from(name("9"))]);
}
