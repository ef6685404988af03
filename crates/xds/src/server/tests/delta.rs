//! D: delta.

mod answers;
mod changes;
mod coming_back;
mod globs;
mod names;
mod odd;

use std::sync::Arc;

use super::harness::*;
use crate::server::{Request, Variant};
use crate::snapshot::{Resource, ResourceType, Store, Update};

const DELTA: Variant = Variant::Delta;
/// Types of which an empty first message asks for everything.
const WILD: [ResourceType; 2] = [CLUSTER, LISTENER];
const NAMED: [ResourceType; 3] = [ENDPOINTS, ROUTES, SECRET];

/// Streams of `kind` (aggregated and alone) over resources `names` of that type. The client is no Envoy, for which an
/// aggregated stream would hold things back until it has asked for the other types too.
fn streams<const N: usize>(kind: ResourceType, names: [&str; N]) -> [Bench; 2] {
    Bench::both(DELTA, kind, names.map(|name| any_kind(kind, name, 0))).map(Bench::into_grpc)
}

fn says(kind: ResourceType, rest: &str) -> String {
    format!("{}{rest}", short(kind))
}

fn changed(kind: ResourceType, name: &str, variation: u32) -> [Resource; 1] {
    [any_kind(kind, name, variation)]
}
