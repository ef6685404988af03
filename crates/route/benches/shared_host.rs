//! Measures the cost of a change of a host that a thousand Ingresses share, of the search for its object, and of a cold
//! start:
//! `cargo bench -p lockgate-route --features testing`.

use std::time::{Duration, Instant};

use lockgate_xds::snapshot::Resource;

use lockgate_route::envoy::{Statistics, changed_objects, route};
use lockgate_route::testing::objects::*;
use lockgate_route::testing::shared_host::{Loop, host, shared, sharing};

/// The number of Ingresses that share the host.
const SHARING: usize = 1000;

/// Returns the time to translate and build a changed Ingress.
fn apply(shared: &mut Loop, ingress: IngressBuilder) -> Duration {
    let start = Instant::now();
    shared.apply(ingress);
    start.elapsed()
}

/// Builds the virtual host of the shared host from the model alone.
fn resource(shared: &Loop) -> Resource {
    let content = shared.virtual_host();
    let message = route::virtual_host(&host(), content, &shared.settings, &Statistics::default());
    let origins = content.routes.iter().map(|route| route.origin.clone()).collect();
    Resource::new("http/shop_example_com", &message, origins)
}

/// Returns the time to encode the virtual host of the shared host from the model.
fn encode(shared: &Loop) -> Duration {
    let start = Instant::now();
    std::hint::black_box(resource(shared));
    start.elapsed()
}

/// Compares an added path with the encoding of the virtual host.
fn measure_added_path() {
    let mut shared = shared(SHARING);
    let (mut change, mut encoding) = (Duration::MAX, Duration::MAX);
    for round in 0..200 {
        // Adds and removes a path, in another Ingress each time. The best of all rounds has the least noise.
        let number = round * 7 % SHARING;
        let added = apply(&mut shared, sharing(number, 2));
        encoding = encoding.min(encode(&shared));
        change = change.min(added);
        shared.apply(sharing(number, 1));
    }
    let ratio = change.as_secs_f64() / encoding.as_secs_f64();
    println!("an added path: {change:?}; encoding the virtual host: {encoding:?}; ratio {ratio:.2}");
    assert!(ratio <= 2.0, "the ratio is above 2");
}

/// Measures the search for the objects behind the difference of two versions of the virtual host.
fn measure_changed_objects() {
    let mut shared = shared(SHARING);
    let before = resource(&shared);
    shared.apply(sharing(SHARING / 2, 2));
    let now = resource(&shared);
    let mut best = Duration::MAX;
    for _ in 0..50 {
        let start = Instant::now();
        assert_eq!(changed_objects(&now, Some(&before)).len(), 1);
        best = best.min(start.elapsed());
    }
    println!("the changed object of {SHARING}: {best:?}");
}

/// Measures the first translation of many hosts.
fn measure_cold_start() {
    let one = |number: usize| {
        ingress(&format!("i-{number}")).host(&format!("{number}.example.com")).path("Prefix", "/", "a:80")
    };
    let world = (0..10_000).fold(world(), |world, number| world.with(one(number)));
    let objects = objects(&world.objects);
    let mut best = Duration::MAX;
    for _ in 0..10 {
        let start = Instant::now();
        std::hint::black_box(Loop::new(objects.clone(), world.settings.clone()));
        best = best.min(start.elapsed());
    }
    println!("10,000 Ingresses with a host each, cold: {best:?}");
}

fn main() {
    measure_added_path();
    measure_changed_objects();
    measure_cold_start();
}
