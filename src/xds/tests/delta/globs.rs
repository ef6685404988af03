//! Names that are asked for by what they begin with.

use super::*;

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
    let kind = ResourceType::of_url("type.googleapis.com/envoy.config.endpoint.v3.LbEndpoint").unwrap();
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
fn d29_a_glob_of_nothing_is_answered() {
    let mut bench = Bench::delta([]);
    let kind = ResourceType::of_url("type.googleapis.com/envoy.config.endpoint.v3.LbEndpoint").unwrap();
    let glob = "xdstp://lockgate/envoy.config.endpoint.v3.LbEndpoint/shop/*";
    assert_eq!(bench.request(delta_request(kind, &[glob], &[])), "LbEndpoint{}");
}
