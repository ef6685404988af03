//! Load assignments. This is the hot path: pods change far more often than any other object.

use std::collections::BTreeSet;

use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::config::endpoint::v3 as endpoint_v3;
use lockgate_xds::snapshot::Resource;

use super::wire;
use crate::model::{Endpoint, Endpoints, Health, ServicePortId};

/// Builds the EDS resource of a Service port.
pub fn load_assignment(port: &ServicePortId, endpoints: &Endpoints) -> Resource {
    let message = cluster_load_assignment(port, endpoints);
    Resource::new(&message.cluster_name, &message, endpoints.origins.clone())
}

/// Builds the load assignment of a Service port. It is empty if there are no endpoints.
///
/// Each address occurs only once in the message, because gRPC rejects repetitions. A zone without endpoints is omitted.
pub fn cluster_load_assignment(port: &ServicePortId, endpoints: &Endpoints) -> endpoint_v3::ClusterLoadAssignment {
    let mut seen = BTreeSet::new();
    let mut any_draining = false;
    let mut localities = Vec::with_capacity(endpoints.zones.len());
    for (zone, members) in &endpoints.zones {
        let members: Vec<&Endpoint> = members.iter().filter(|one| seen.insert((one.address, one.port))).collect();
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
        cluster_name: port.to_string(),
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
    fn an_address_occurs_once_over_all_zones() {
        let one = endpoint("fd00::1", Health::Healthy);
        let assignment = built(&[("a", &[one, one]), ("b", &[one])]);
        assert_eq!(assignment.endpoints.len(), 1);
        assert_eq!(assignment.endpoints[0].lb_endpoints.len(), 1);
        assert_eq!(assignment.policy, None);
    }
}
