//! S: state of the world.

mod answers;
mod changes;
mod clients;
mod kept;
mod large;
mod names;
mod odd;

use super::harness::*;
use crate::protocol::{Request, Variant};
use crate::snapshot::{Resource, ResourceType};

const SOTW: Variant = Variant::Sotw;
/// The types with full-state responses, and the types with partial responses.
const FULL: [ResourceType; 3] = [CLUSTER, LISTENER, SCOPED_ROUTES];
const PARTIAL: [ResourceType; 3] = [ENDPOINTS, ROUTES, SECRET];

/// Returns streams of `kind` (aggregated and by type) over resources `names` of that type.
fn streams<const N: usize>(kind: ResourceType, names: [&str; N]) -> [Bench; 2] {
    Bench::both(SOTW, kind, names.map(|name| any_kind(kind, name, 0)))
}

/// Formats `{a,b}` after the short name of the type.
fn says(kind: ResourceType, rest: &str) -> String {
    format!("{}{rest}", short(kind))
}

fn changed(kind: ResourceType, name: &str, variation: u32) -> [Resource; 1] {
    [any_kind(kind, name, variation)]
}
