//! D: delta.

mod answers;
mod changes;
mod coming_back;
mod globs;
mod names;
mod odd;

use std::sync::Arc;

use super::harness::*;
use crate::protocol::{Request, Variant};
use crate::snapshot::{Resource, ResourceType, Store, Update};

const DELTA: Variant = Variant::Delta;
/// The types whose empty first request subscribes to all resources.
const WILD: [ResourceType; 2] = [CLUSTER, LISTENER];
const NAMED: [ResourceType; 3] = [ENDPOINTS, ROUTES, SECRET];

/// Returns streams of `kind` (aggregated and by type) over resources `names` of that type. The client is not an Envoy,
/// because an aggregated stream of an Envoy would delay resources until it has subscribed to the other types.
fn streams<const N: usize>(kind: ResourceType, names: [&str; N]) -> [Bench; 2] {
    Bench::both(DELTA, kind, names.map(|name| any_kind(kind, name, 0))).map(Bench::into_grpc)
}

fn says(kind: ResourceType, rest: &str) -> String {
    format!("{}{rest}", short(kind))
}

fn changed(kind: ResourceType, name: &str, variation: u32) -> [Resource; 1] {
    [any_kind(kind, name, variation)]
}
