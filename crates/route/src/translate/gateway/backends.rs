//! The backends of a rule, with their weights and filters.

use std::collections::BTreeSet;

use super::backend::{cluster, weight};
use super::filters::cluster_filters;
use super::parser::Parser;
use crate::model::{Filters, Share, WeightedCluster};
use crate::objects::gateway::HttpBackendRef;

/// The backends of a rule.
#[derive(Debug)]
pub struct Backends {
    /// The valid backends with a weight. If there is none, all requests are answered with `status`.
    pub clusters: Vec<WeightedCluster>,
    /// The share of the requests for the valid backends; `None` is all.
    pub share: Option<Share>,
    /// The status of the other requests: 503 if the other backends are closed because of the limit of a namespace, otherwise 500.
    pub status: u16,
}

/// Resolves the backends of a rule. Source: Gateway API v1, `HTTPRouteRule.backendRefs`.
pub fn backends(field: &str, references: &[HttpBackendRef], parser: &mut Parser) -> Backends {
    let (mut clusters, mut invalid, mut statuses) = (Vec::<WeightedCluster>::new(), 0u64, BTreeSet::new());
    for (index, reference) in references.iter().enumerate() {
        let field = format!("{field}.backendRefs[{index}]");
        let weight = weight(&reference.backend);
        match cluster(&reference.backend, parser) {
            Ok(cluster) => {
                let Some(filters) = cluster_filters(&field, &reference.filters, parser) else {
                    invalid += u64::from(weight);
                    statuses.insert(500);
                    continue;
                };
                let filters = Filters::from(filters);
                let is_same = |one: &&mut WeightedCluster| one.cluster == cluster && one.filters == filters;
                match clusters.iter_mut().find(is_same) {
                    Some(same) => same.weight = same.weight.saturating_add(weight),
                    None => clusters.push(WeightedCluster { cluster, weight, filters }),
                }
            }
            Err(fault) => {
                let status = fault.status();
                fault.report(&field, parser, &format!("its share of the requests is answered {status}"));
                statuses.extend((weight > 0).then_some(status));
                invalid += u64::from(weight);
            }
        }
    }
    clusters.retain(|cluster| cluster.weight > 0);
    let valid: u64 = clusters.iter().map(|cluster| u64::from(cluster.weight)).sum();
    let share = (invalid > 0).then(|| share_of(valid, valid + invalid));
    Backends { clusters, share, status: statuses.first().copied().unwrap_or(500) }
}

/// Returns `part` of `whole` as a share.
fn share_of(part: u64, whole: u64) -> Share {
    // Both fit in 32 bits after the same shift, because weights are at most 1,000,000 in the API.
    let shift = 64 - (whole.leading_zeros()).min(64);
    let shift = shift.saturating_sub(32);
    let narrow = |number: u64| u32::try_from(number >> shift).unwrap_or(u32::MAX);
    Share::new(narrow(part), narrow(whole)).unwrap_or(Share::ALL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_valid_backends_follows_their_weights() {
        let millionths = |part, whole| share_of(part, whole).millionths();
        assert_eq!((millionths(1, 2), millionths(9, 10), millionths(0, 5)), (500_000, 900_000, 0));
        assert_eq!(millionths(1 << 40, 1 << 41), 500_000);
    }
}
