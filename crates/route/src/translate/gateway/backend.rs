//! The backends of a rule.

use super::filters::cluster_filters;
use super::grants::{Reference, permits};
use super::parser::Parser;
use crate::model::{ClusterId, Filters, Share, UpstreamProtocol, WeightedCluster};
use crate::objects::gateway::{BackendRef, HttpBackendRef};
use crate::objects::{Kind, ObjectKey, Transport};
use crate::translate::problem::Reason;
use crate::translate::source::WantedPort;

/// The backends of a rule.
#[derive(Debug)]
pub struct Backends {
    /// The valid backends with a weight. If there is none, requests are answered 500.
    pub clusters: Vec<WeightedCluster>,
    /// The share of the requests for the valid backends; `None` is all.
    pub share: Option<Share>,
}

/// Why a backend cannot be used: the field below it, the reason of the condition `ResolvedRefs`, the reason of the problem,
/// and the message.
type Fault = (&'static str, &'static str, Reason, String);

/// The largest weight. Source: Gateway API v1, `BackendRef.weight`. Manifests have not passed the schema, and Envoy rejects
/// weights whose sum exceeds 32 bits.
const HEAVIEST: u32 = 1_000_000;

/// Returns the weight of a backend.
pub fn weight(reference: &BackendRef) -> u32 {
    reference.weight.unwrap_or(1).min(HEAVIEST)
}

/// Resolves the backends of a rule. Source: Gateway API v1, `HTTPRouteRule.backendRefs`.
pub fn backends(field: &str, references: &[HttpBackendRef], parser: &mut Parser) -> Backends {
    let (mut clusters, mut invalid) = (Vec::<WeightedCluster>::new(), 0u64);
    for (index, reference) in references.iter().enumerate() {
        let field = format!("{field}.backendRefs[{index}]");
        let weight = weight(&reference.backend);
        match cluster(&reference.backend, parser) {
            Ok(cluster) => {
                let Some(filters) = cluster_filters(&field, &reference.filters, parser) else {
                    invalid += u64::from(weight);
                    continue;
                };
                let filters = Filters::from(filters);
                let is_same = |one: &&mut WeightedCluster| one.cluster == cluster && one.filters == filters;
                match clusters.iter_mut().find(is_same) {
                    Some(same) => same.weight = same.weight.saturating_add(weight),
                    None => clusters.push(WeightedCluster { cluster, weight, filters }),
                }
            }
            Err((below, condition, reason, message)) => {
                let instead = "its share of the requests is answered 500";
                parser.unresolved(format!("{field}{below}"), condition, reason, message, instead);
                invalid += u64::from(weight);
            }
        }
    }
    clusters.retain(|cluster| cluster.weight > 0);
    let valid: u64 = clusters.iter().map(|cluster| u64::from(cluster.weight)).sum();
    let share = (invalid > 0).then(|| share_of(valid, valid + invalid));
    Backends { clusters, share }
}

/// Returns `part` of `whole` as a share.
fn share_of(part: u64, whole: u64) -> Share {
    // Both fit in 32 bits after the same shift, because weights are at most 1,000,000 in the API.
    let shift = 64 - (whole.leading_zeros()).min(64);
    let shift = shift.saturating_sub(32);
    let narrow = |number: u64| u32::try_from(number >> shift).unwrap_or(u32::MAX);
    Share::new(narrow(part), narrow(whole)).unwrap_or(Share::ALL)
}

/// Returns the cluster of a backend.
pub fn cluster(reference: &BackendRef, parser: &mut Parser) -> Result<ClusterId, Fault> {
    let BackendRef { group, kind, namespace, name, port, weight: _ } = reference;
    let own = parser.namespace();
    let (group, kind) = (group.as_deref().unwrap_or_default(), kind.as_deref().unwrap_or("Service"));
    if (group, kind) != ("", "Service") {
        let message = format!("backends of kind {kind:?} of group {group:?} are not supported");
        return Err((".kind", "InvalidKind", Reason::UnsupportedBackend, message));
    }
    let key = ObjectKey::new(namespace.as_deref().unwrap_or(own), name);
    let grant = Reference { from: parser.kind(), namespace: own, group: "", kind: Kind::SERVICE.as_str(), to: &key };
    if !permits(&grant, &mut parser.reading) {
        let message = format!("no ReferenceGrant permits the reference to Service \"{key}\"");
        return Err((".namespace", "RefNotPermitted", Reason::ReferenceNotPermitted, message));
    }
    let wanted = port.map_or(WantedPort::Unspecified, WantedPort::Number);
    let kind = parser.kind();
    let cluster = if kind == Kind::GRPC_ROUTE {
        // gRPC needs HTTP/2, so a Service need not say so.
        parser.reading.cluster_over(key, wanted, UpstreamProtocol::H2c)
    } else if kind == Kind::HTTP_ROUTE {
        parser.reading.cluster(key, wanted, None)
    } else {
        let transport = if kind == Kind::UDP_ROUTE { Transport::Udp } else { Transport::Tcp };
        parser.reading.cluster_of_bytes(key, wanted, transport)
    };
    match cluster {
        Ok((_, Some(denied))) => Err(("", "UnsupportedValue", Reason::AccessNotRestricted, denied.to_string())),
        Ok((cluster, None)) => Ok(cluster),
        Err(fault) => {
            let below = match fault.field {
                ".service.name" => ".name",
                ".service.port" => ".port",
                _ => "",
            };
            let condition = match fault.reason {
                Reason::ServiceUnresolvedReference => "BackendNotFound",
                Reason::UnsupportedBackend => "UnsupportedProtocol",
                _ => "UnsupportedValue",
            };
            Err((below, condition, fault.reason, fault.message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_valid_backends_is_that_of_their_weights() {
        let millionths = |part, whole| share_of(part, whole).millionths();
        assert_eq!((millionths(1, 2), millionths(9, 10), millionths(0, 5)), (500_000, 900_000, 0));
        assert_eq!(millionths(1 << 40, 1 << 41), 500_000);
    }
}
