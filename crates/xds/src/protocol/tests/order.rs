//! O: order over an aggregated stream, make before break. Tests compare transcripts, and [`super::envoy`] detects
//! requests that an Envoy would have failed.

mod behind;
mod coming_back;
mod extensions;
mod gates;
mod lost_connections;
mod rejections;
mod removals;

use super::envoy::Envoy;
use super::harness::*;
use crate::protocol::{Notice, Response, Variant};
use crate::snapshot::{Resource, ResourceType};

const VARIANTS: [Variant; 2] = [Variant::Sotw, Variant::Delta];

/// Returns a stream whose client has subscribed to all resources and acknowledged them.
fn settled<const N: usize>(variant: Variant, resources: [Resource; N]) -> Bench {
    let mut bench = Bench::new(variant, None, resources);
    let newest = bench.newest();
    for kind in KINDS {
        let names: Vec<&str> = newest.all(kind).map(|resource| &**resource.name()).collect();
        if kind == CLUSTER || kind == LISTENER {
            bench.settled(kind, []);
        } else {
            bench.settled_list(kind, &names);
        }
    }
    bench
}

/// Returns one listener, one route configuration, and `clusters` with their endpoints. The routes use the first
/// cluster.
fn world<const N: usize>(clusters: [&str; N]) -> Vec<Resource> {
    world_to(clusters, &clusters[..1])
}

fn world_to<const N: usize>(clusters: [&str; N], to: &[&str]) -> Vec<Resource> {
    let behind = clusters.into_iter().flat_map(|name| [cluster(name), endpoints(name)]);
    behind.chain([routes_for("r", "*", to), listener("l", "r")]).collect()
}

fn settled_world(variant: Variant) -> Bench {
    settled(variant, <[Resource; 4]>::try_from(world(["a"])).unwrap())
}

/// Returns the expected transcript: the full set for state of the world, the difference for delta.
fn either(variant: Variant, sotw: &'static str, delta: &'static str) -> &'static str {
    if variant == Variant::Sotw { sotw } else { delta }
}

fn settled_store(variant: Variant, resources: Vec<Resource>) -> Bench {
    let bench = Bench::new(variant, None, []);
    bench.store.replace(resources);
    Bench::over(bench.store.clone(), variant, None)
}
