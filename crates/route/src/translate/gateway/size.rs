//! The size of the configuration that the routes of an object cause: the bytes of its encoding, and more for parts whose memory in
//! Envoy is out of proportion to their bytes. `docs/limits.md` has the table of these parts.

use std::sync::Arc;

use super::http_policy::Features;
use crate::envoy::route::Sizes;
use crate::model::{Action, ForwardFilter, OriginMatch, Route};
use crate::re2::Cost;
use crate::translate::unit::Unit;

/// The bytes that a route of Envoy counts in addition. Its memory hardly depends on short texts.
pub const BASE: u64 = 100;
/// The bytes that a host on a listener counts in addition. It is a scope, which takes 17 KB of Envoy.
pub const HOST: u64 = 250;
/// The bytes that a character of an origin with `*` counts in addition. Envoy compiles the origin for each route.
const PATTERN: u64 = 8;
/// The bytes that a limit for each client address counts in addition. Envoy counts 10,000 addresses for each route.
pub const CLIENT_LIMIT: u64 = 256 << 10;
/// The bytes that a module counts in addition. For each route, Envoy reads its file on the main thread, 2.7 ms for 1 MB.
pub const MODULE: u64 = 32 << 10;

/// The bytes that a byte of descriptors counts in addition. For each route, Envoy reads them on the main thread, 8 ms for 64 KiB.
pub const DESCRIPTORS: u64 = 3;

/// The matches of a rule on one host, which have the same policies.
pub struct RuleSize<'a> {
    /// The name of the rule.
    pub name: Option<&'a Arc<str>>,
    /// The size of the routes without their policies, in bytes.
    pub open: u64,
    /// The size of the routes that replace them if the object is closed, in bytes.
    pub closed: u64,
    /// The number of Envoy's routes, each with the policies of the rule.
    pub routes: u64,
}

/// Returns the sizes of the rules of these units. The matches of a rule are adjacent.
pub fn of_rules<'a>(units: &'a [Unit], sizes: &Sizes) -> Vec<RuleSize<'a>> {
    let rule = |matches: &'a [Unit]| {
        let first = matches.first()?;
        let number = matches.len() as u64;
        let of_closed = |one: &Unit| of_route(&one.closed(), one.cost, sizes);
        let closed = matches.iter().map(of_closed).fold(0, u64::saturating_add);
        let copies: u64 = first.routes().map(|route| u64::from(route.copies())).sum();
        let of_first: u64 = first.routes().map(|route| of_route(route, first.cost, sizes)).sum();
        // A rule can have 64 matches and 1 MB of headers. Its matches have the same actions and filters, so only the first match is
        // encoded with them.
        let open = of_first.saturating_sub(of_closed(first).saturating_mul(copies)).saturating_mul(number);
        Some(RuleSize {
            name: first.rule.as_ref(),
            open: open.saturating_add(closed.saturating_mul(copies)),
            closed,
            routes: copies.saturating_mul(number),
        })
    };
    let rule_of = |unit: &Unit| unit.field.place().first().copied();
    units.chunk_by(|a, b| rule_of(a) == rule_of(b)).filter_map(rule).collect()
}

/// Returns the size of a route without its policies. Its regular expressions have this cost.
pub fn of_route(route: &Route, cost: Cost, sizes: &Sizes) -> u64 {
    let more = BASE + of_cost(cost) + of_origins(route);
    sizes.of_route(route).saturating_add(more.saturating_mul(route.copies().into()))
}

/// Returns the size of the policies of a route, for each of its routes in Envoy. Features that cannot be enforced have none.
pub fn of_features(features: &Features, sizes: &Sizes) -> u64 {
    let Ok(policy) = features.resolve() else { return 0 };
    let is_per_client = policy.local_rate_limit.as_ref().is_some_and(|limit| limit.per_client_address);
    let of_patterns = policy.cors.iter().flat_map(|cors| &cors.allow_origins).map(of_origin).sum::<u64>();
    let of_rewrite = match &features.rewrite {
        Some(Ok(rewrite)) => of_cost(rewrite.value.cost),
        _ => 0,
    };
    let of_limit = if is_per_client { CLIENT_LIMIT } else { 0 };
    let of_module = policy.wasm.as_ref().map_or(0, |_| MODULE);
    let of_json = policy.grpc_json.as_ref().map_or(0, |json| DESCRIPTORS * json.descriptors.len() as u64);
    sizes.of_policy(&policy) + of_patterns + of_rewrite + of_limit + of_module + of_json
}

/// Returns the size of these features. `last` are the features of the last call, with their size.
pub fn of_same_features(features: Features, last: &mut Option<(Features, u64)>, sizes: &Sizes) -> u64 {
    if let Some((_, size)) = last.as_ref().filter(|(same, _)| *same == features) {
        return *size;
    }
    let size = of_features(&features, sizes);
    *last = Some((features, size));
    size
}

/// Returns the size of regular expressions with this cost.
fn of_cost(Cost { size, steps }: Cost) -> u64 {
    u64::from(size) + u64::from(steps) / 8
}

fn of_origins(route: &Route) -> u64 {
    let Action::Forward(forward) = &route.action else { return 0 };
    let of_filter = |filter: &ForwardFilter| match filter {
        ForwardFilter::Cors(cors) => cors.allow_origins.iter().map(of_origin).sum(),
        _ => 0,
    };
    forward.filters.iter().map(of_filter).sum()
}

fn of_origin(origin: &OriginMatch) -> u64 {
    match origin {
        OriginMatch::Regex(text) => PATTERN * text.len() as u64,
        OriginMatch::Any | OriginMatch::Exact(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::GrpcJson;
    use crate::settings::Settings;

    #[test]
    fn descriptors_count_four_times() {
        let size = |bytes: usize| {
            let json = GrpcJson { descriptors: vec![0; bytes].into(), services: Box::default(), max_bytes: 1 };
            let features = Features { grpc_json: Some(Ok(Arc::new(json))), ..Features::default() };
            of_features(&features, &Sizes::new(&Settings::default()))
        };
        assert_eq!(size(50_000) - size(40_000), 40_000);
    }
}
