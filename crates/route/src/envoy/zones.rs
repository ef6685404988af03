//! The preference of endpoints in the zone of an Envoy.
//!
//! An Envoy knows the zone of its node and of each endpoint. With `force_local_zone`, requests stay in its zone if that zone has enough
//! healthy endpoints. Envoy requires a local cluster for this: a cluster of Envoys, with an endpoint in its zone. The bootstrap contains
//! one if the zone is known. An Envoy without it uses all zones.

use envoy_types::pb::envoy::config::cluster::v3 as cluster_v3;
use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::extensions::load_balancing_policies::common::v3 as common_v3;
use envoy_types::pb::envoy::extensions::load_balancing_policies::least_request::v3 as least_request_v3;
use envoy_types::pb::envoy::extensions::load_balancing_policies::random::v3 as random_v3;
use envoy_types::pb::envoy::extensions::load_balancing_policies::round_robin::v3 as round_robin_v3;
use envoy_types::pb::google::protobuf as google;
use prost::{Message, Name};

use super::{backend, wire};
use crate::model::{Algorithm, LoadBalancing};

/// Makes a cluster prefer the endpoints of the zone of an Envoy, with the same algorithm. Algorithms with a table know no zones.
pub fn prefer_local(message: &mut cluster_v3::Cluster, balancing: Option<&LoadBalancing>, min_endpoints: u32) {
    let algorithm = balancing.map(|balancing| balancing.algorithm).unwrap_or_default();
    let slow_start = balancing.and_then(|balancing| balancing.slow_start.as_ref());
    let slow_start_config = slow_start.map(backend::slow_start).map(|one| common_v3::SlowStartConfig {
        slow_start_window: one.slow_start_window,
        aggression: one.aggression,
        min_weight_percent: one.min_weight_percent,
    });
    let locality_lb_config = Some(local_zone(min_endpoints));
    let policy = match algorithm {
        Algorithm::RoundRobin => {
            policy("round_robin", &round_robin_v3::RoundRobin { slow_start_config, locality_lb_config })
        }
        Algorithm::LeastRequest => {
            let least = least_request_v3::LeastRequest { slow_start_config, locality_lb_config, ..Default::default() };
            policy("least_request", &least)
        }
        Algorithm::Random => policy("random", &random_v3::Random { locality_lb_config }),
        Algorithm::RingHash | Algorithm::Maglev => return,
    };
    message.load_balancing_policy = Some(cluster_v3::LoadBalancingPolicy { policies: vec![policy] });
    (message.lb_policy, message.lb_config) = (cluster_v3::cluster::LbPolicy::LoadBalancingPolicyConfig as i32, None);
    // Envoy rejects a cluster with both.
    if let Some(common) = &mut message.common_lb_config {
        common.locality_config_specifier = None;
    }
}

fn local_zone(min_endpoints: u32) -> common_v3::LocalityLbConfig {
    use common_v3::locality_lb_config::zone_aware_lb_config::ForceLocalZone;
    use common_v3::locality_lb_config::{LocalityConfigSpecifier, ZoneAwareLbConfig};
    let zones = ZoneAwareLbConfig {
        // By default, a cluster with fewer than 6 endpoints has no preference.
        min_cluster_size: Some(google::UInt64Value { value: 1 }),
        force_local_zone: Some(ForceLocalZone { min_size: Some(wire::uint32(min_endpoints)) }),
        ..Default::default()
    };
    common_v3::LocalityLbConfig { locality_config_specifier: Some(LocalityConfigSpecifier::ZoneAwareLbConfig(zones)) }
}

fn policy<M: Message + Name>(name: &str, config: &M) -> cluster_v3::load_balancing_policy::Policy {
    cluster_v3::load_balancing_policy::Policy {
        typed_extension_config: Some(core_v3::TypedExtensionConfig {
            name: format!("envoy.load_balancing_policies.{name}"),
            typed_config: Some(wire::any(config)),
        }),
    }
}
