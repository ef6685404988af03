//! Load assignments. This is the hot path: pods change far more often than any other object.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::config::endpoint::v3 as endpoint_v3;
use lockgate_xds::snapshot::Resource;

use super::wire;
use crate::model::{ClusterId, Endpoint, Endpoints, Health, ServicePortId};

/// Builds the EDS resource of a Service port.
pub fn load_assignment(port: &ServicePortId, endpoints: &Endpoints) -> Resource {
    let message = cluster_load_assignment(port, endpoints);
    Resource::new(&message.cluster_name, &message, endpoints.origins.clone())
}

/// The maximum number of endpoints of a cluster whose requests are divided among Service ports, as of a single Service.
const MOST_DIVIDED: usize = 100_000;

/// Builds the EDS resource of a cluster whose requests are divided among Service ports. The healthy endpoints of a port receive its share
/// together; a port without any receives none.
pub fn divided(
    id: &ClusterId,
    shares: &[(ServicePortId, u32)],
    endpoints: &BTreeMap<ServicePortId, Endpoints>,
) -> Resource {
    /// The sum of all weights, about. Envoy requires that it fits into 32 bits.
    const SUM: u64 = 1_000_000;
    let all: u64 = shares.iter().map(|(_, weight)| u64::from(*weight)).sum();
    let mut seen = BTreeSet::new();
    let (mut localities, mut origins, mut policy) = (Vec::new(), Vec::new(), None);
    for (port, weight) in shares {
        let Some(endpoints) = endpoints.get(port) else { continue };
        origins.extend(endpoints.origins.iter().cloned());
        let built = localities_of(endpoints, MOST_DIVIDED / shares.len(), &mut seen);
        policy = policy.or(built.policy);
        let of_zone = |zone: &endpoint_v3::LocalityLbEndpoints| {
            zone.load_balancing_weight.as_ref().map_or(0, |healthy| u64::from(healthy.value))
        };
        let healthy: u64 = built.endpoints.iter().map(of_zone).sum();
        let share = u64::from(*weight) * SUM / all.max(1);
        for mut zone in built.endpoints {
            let weight = (share * of_zone(&zone) / healthy.max(1)).max(1);
            zone.load_balancing_weight = Some(wire::uint32(u32::try_from(weight).unwrap_or(u32::MAX)));
            // Envoy and gRPC reject repeated localities.
            zone.locality.get_or_insert_default().sub_zone = port.to_string();
            localities.push(zone);
        }
    }
    origins.sort();
    origins.dedup();
    let message = endpoint_v3::ClusterLoadAssignment {
        cluster_name: id.to_string(),
        endpoints: localities,
        policy,
        ..Default::default()
    };
    Resource::new(&message.cluster_name, &message, origins)
}

/// Builds the load assignment of a Service port. It is empty if there are no endpoints.
///
/// Each address occurs only once in the message, because gRPC rejects repetitions. A zone without endpoints is omitted.
pub fn cluster_load_assignment(port: &ServicePortId, endpoints: &Endpoints) -> endpoint_v3::ClusterLoadAssignment {
    endpoint_v3::ClusterLoadAssignment {
        cluster_name: port.to_string(),
        ..localities_of(endpoints, usize::MAX, &mut BTreeSet::new())
    }
}

/// Builds a load assignment without a name, with at most `most` endpoints. Addresses that have been `seen` are left out.
fn localities_of(
    endpoints: &Endpoints,
    most: usize,
    seen: &mut BTreeSet<(IpAddr, u16)>,
) -> endpoint_v3::ClusterLoadAssignment {
    let (mut any_draining, mut rest) = (false, most);
    let mut localities = Vec::with_capacity(endpoints.zones.len());
    for (zone, members) in &endpoints.zones {
        let members = members.iter().filter(|one| seen.insert((one.address, one.port)));
        let members: Vec<&Endpoint> = members.take(rest).collect();
        rest -= members.len();
        if members.is_empty() {
            continue;
        }
        let healthy = members.iter().filter(|one| one.health == Health::Healthy).count();
        any_draining |= healthy < members.len();
        localities.push(endpoint_v3::LocalityLbEndpoints {
            locality: Some(core_v3::Locality { zone: zone.to_string(), ..Default::default() }),
            lb_endpoints: members.into_iter().map(|one| lb_endpoint(one, endpoints.health_check_port)).collect(),
            // Always set, because gRPC skips a locality without a weight. Proportional weights give every endpoint the
            // same load.
            load_balancing_weight: Some(wire::uint32(healthy.max(1) as u32)),
            ..Default::default()
        });
    }
    endpoint_v3::ClusterLoadAssignment {
        endpoints: localities,
        policy: any_draining.then(draining_policy),
        ..Default::default()
    }
}

/// Builds the policy that keeps the weight of a zone with draining endpoints. By default, a factor of 1.4, Envoy reduces
/// the weight of a zone if fewer than 72 % of its endpoints are healthy. The weights already count healthy endpoints only,
/// so Envoy must not reduce them again. With this factor, one healthy endpoint is enough.
fn draining_policy() -> endpoint_v3::cluster_load_assignment::Policy {
    endpoint_v3::cluster_load_assignment::Policy {
        overprovisioning_factor: Some(wire::uint32(1_000_000)),
        ..Default::default()
    }
}

/// Builds one endpoint.
fn lb_endpoint(endpoint: &Endpoint, health_check_port: Option<u16>) -> endpoint_v3::LbEndpoint {
    let health = match endpoint.health {
        Health::Healthy => core_v3::HealthStatus::Healthy,
        Health::Draining => core_v3::HealthStatus::Draining,
    };
    endpoint_v3::LbEndpoint {
        health_status: health as i32,
        host_identifier: Some(endpoint_v3::lb_endpoint::HostIdentifier::Endpoint(endpoint_v3::Endpoint {
            address: Some(wire::socket_address(&endpoint.address.to_string(), endpoint.port)),
            health_check_config: health_check_port
                .map(|port| endpoint_v3::endpoint::HealthCheckConfig { port_value: port.into(), ..Default::default() }),
            ..Default::default()
        })),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use prost::Message as _;

    use super::*;
    use crate::testing::model::cluster_id;

    fn endpoint(address: &str, health: Health) -> Endpoint {
        Endpoint { address: address.parse().unwrap(), port: 8080, health }
    }

    fn built(zones: &[(&str, &[Endpoint])]) -> endpoint_v3::ClusterLoadAssignment {
        let zones = zones.iter().map(|(zone, members)| ((*zone).into(), members.to_vec())).collect();
        cluster_load_assignment(
            &cluster_id("shop/cart/http").port,
            &Endpoints { zones, health_check_port: None, origins: vec![] },
        )
    }

    #[test]
    fn no_endpoints_are_an_empty_assignment_with_its_name() {
        let assignment = built(&[("a", &[])]);
        assert_eq!(assignment.cluster_name, "shop/cart/http");
        assert!(assignment.endpoints.is_empty());
    }

    #[test]
    fn the_weight_of_a_zone_is_the_number_of_its_healthy_endpoints() {
        use Health::{Draining, Healthy};
        let assignment = built(&[
            ("a", &[endpoint("10.0.0.1", Healthy), endpoint("10.0.0.2", Healthy), endpoint("10.0.0.3", Draining)]),
            ("b", &[endpoint("10.0.1.1", Draining)]),
        ]);
        let weights: Vec<u32> =
            assignment.endpoints.iter().map(|zone| zone.load_balancing_weight.unwrap().value).collect();
        assert_eq!(weights, [2, 1]);
        assert!(assignment.policy.unwrap().overprovisioning_factor.is_some());
        assert_eq!(assignment.endpoints[0].lb_endpoints[2].health_status, core_v3::HealthStatus::Draining as i32);
    }

    #[test]
    fn each_port_receives_its_share() {
        use Health::{Draining, Healthy};
        let ports = ["a", "b", "c"].map(|name| cluster_id(&format!("shop/{name}/http")).port);
        let of = |members: &[(&str, &[&str])], health| {
            let zone = |(zone, members): &(&str, &[&str])| {
                ((*zone).into(), members.iter().map(|address| endpoint(address, health)).collect())
            };
            Endpoints { zones: members.iter().map(zone).collect(), health_check_port: None, origins: vec![] }
        };
        let endpoints = BTreeMap::from([
            (ports[0].clone(), of(&[("x", &["10.0.0.1"]), ("y", &["10.0.0.2", "10.0.0.3", "10.0.0.4"])], Healthy)),
            (ports[1].clone(), of(&[("x", &["10.0.0.9", "10.0.0.1"])], Draining)),
        ]);
        let shares: Vec<_> = ports.into_iter().zip([3, 1, u32::MAX]).collect();
        let built = |shares: &[_]| {
            let resource = divided(&cluster_id("shop/a/http"), shares, &endpoints);
            endpoint_v3::ClusterLoadAssignment::decode(resource.message()).unwrap()
        };
        let weights = |shares: &[_]| -> Vec<u32> {
            built(shares).endpoints.iter().map(|zone| zone.load_balancing_weight.unwrap().value).collect()
        };
        assert_eq!(weights(&shares[..2]), [187_500, 562_500, 250_000]);
        assert_eq!(weights(&shares), [1, 1, 1], "no weight is zero");
        let assignment = built(&shares[..2]);
        assert_eq!(assignment.endpoints[2].lb_endpoints.len(), 1, "an address of another port is left out");
        assert!(assignment.policy.is_some());
    }

    #[test]
    fn the_endpoints_of_several_ports_are_bounded() {
        let ports = ["a", "b"].map(|name| cluster_id(&format!("shop/{name}/http")).port);
        let of = |number: u32, block: u32| {
            let address = |n| std::net::Ipv4Addr::from_bits(block << 24 | n).to_string();
            let members = (0..number).map(|n| endpoint(&address(n), Health::Healthy)).collect();
            Endpoints { zones: [("x".into(), members)].into(), health_check_port: None, origins: vec![] }
        };
        let endpoints = ports.iter().cloned().zip([of(60_000, 10), of(7, 11)]).collect();
        let resource = divided(&cluster_id("shop/a/http"), &ports.map(|port| (port, 1)), &endpoints);
        let assignment = endpoint_v3::ClusterLoadAssignment::decode(resource.message()).unwrap();
        let numbers: Vec<_> = assignment.endpoints.iter().map(|zone| zone.lb_endpoints.len()).collect();
        assert_eq!(numbers, [50_000, 7]);
    }

    #[test]
    fn an_address_occurs_once_over_all_zones() {
        let one = endpoint("fd00::1", Health::Healthy);
        let assignment = built(&[("a", &[one, one]), ("b", &[one])]);
        assert_eq!(assignment.endpoints.len(), 1);
        assert_eq!(assignment.endpoints[0].lb_endpoints.len(), 1);
        assert_eq!(assignment.policy, None);
    }
}
