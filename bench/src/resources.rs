//! What both servers serve: load assignments of ten endpoints and clusters, each with a marker that says when it was
//! made. `go-control-plane/resources.go` makes the same ones.

use std::str::FromStr;

use anyhow::bail;
use envoy_types::pb::envoy::config::cluster::v3::{self as cluster_v3, circuit_breakers, cluster};
use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::config::endpoint::v3 as endpoint_v3;
use envoy_types::pb::google::protobuf::{Duration, UInt32Value};

/// A name is this and [`NAME_DIGITS`] digits.
pub const NAME_PREFIX: &str = "cluster-";
/// Digits of a name.
pub const NAME_DIGITS: usize = 6;
/// A marker is this and [`MARKER_DIGITS`] hex digits.
pub const MARKER_PREFIX: &str = "marker-";
/// Digits of a marker.
pub const MARKER_DIGITS: usize = 16;
const ENDPOINTS: usize = 10;

/// The types that are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `ClusterLoadAssignment`.
    Eds,
    /// `Cluster`.
    Cds,
}

impl Kind {
    /// The type URL.
    pub fn type_url(self) -> &'static str {
        match self {
            Kind::Eds => "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
            Kind::Cds => "type.googleapis.com/envoy.config.cluster.v3.Cluster",
        }
    }

    /// As it is said on the control connection.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Eds => "eds",
            Kind::Cds => "cds",
        }
    }
}

impl FromStr for Kind {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        match text {
            "eds" => Ok(Kind::Eds),
            "cds" => Ok(Kind::Cds),
            _ => bail!("no type {text:?}"),
        }
    }
}

/// The name of resource number `index`, of either type.
pub fn name(index: usize) -> String {
    format!("{NAME_PREFIX}{index:0NAME_DIGITS$}")
}

/// The marker as text.
fn marked(marker: u64) -> String {
    format!("{MARKER_PREFIX}{marker:0MARKER_DIGITS$x}")
}

/// Load assignment number `index`.
pub fn load_assignment(index: usize, marker: u64) -> endpoint_v3::ClusterLoadAssignment {
    let endpoint = |number: usize| {
        let address = core_v3::SocketAddress {
            address: format!("10.{}.{}.{}", 100 + (index >> 16), 100 + (index >> 8 & 127), 100 + number),
            port_specifier: Some(core_v3::socket_address::PortSpecifier::PortValue(8080)),
            ..Default::default()
        };
        let address = core_v3::Address { address: Some(core_v3::address::Address::SocketAddress(address)) };
        let endpoint = endpoint_v3::Endpoint { address: Some(address), ..Default::default() };
        endpoint_v3::LbEndpoint {
            health_status: core_v3::HealthStatus::Healthy.into(),
            load_balancing_weight: Some(UInt32Value { value: 1 }),
            host_identifier: Some(endpoint_v3::lb_endpoint::HostIdentifier::Endpoint(endpoint)),
            ..Default::default()
        }
    };
    let locality = core_v3::Locality {
        region: "region-of-the-benchmark".into(),
        zone: marked(marker),
        sub_zone: "sub-zone-of-the-benchmark".into(),
    };
    endpoint_v3::ClusterLoadAssignment {
        cluster_name: name(index),
        endpoints: vec![endpoint_v3::LocalityLbEndpoints {
            locality: Some(locality),
            lb_endpoints: (0..ENDPOINTS).map(endpoint).collect(),
            load_balancing_weight: Some(UInt32Value { value: ENDPOINTS as u32 }),
            ..Default::default()
        }],
        ..Default::default()
    }
}

/// Cluster number `index`.
pub fn cluster(index: usize, marker: u64) -> cluster_v3::Cluster {
    let ads = core_v3::ConfigSource {
        resource_api_version: core_v3::ApiVersion::V3.into(),
        config_source_specifier: Some(core_v3::config_source::ConfigSourceSpecifier::Ads(Default::default())),
        ..Default::default()
    };
    let limits = circuit_breakers::Thresholds {
        max_connections: Some(UInt32Value { value: 10_000 }),
        max_pending_requests: Some(UInt32Value { value: 10_000 }),
        max_requests: Some(UInt32Value { value: 10_000 }),
        ..Default::default()
    };
    cluster_v3::Cluster {
        name: name(index),
        alt_stat_name: marked(marker),
        cluster_discovery_type: Some(cluster::ClusterDiscoveryType::Type(cluster::DiscoveryType::Eds.into())),
        eds_cluster_config: Some(cluster::EdsClusterConfig { eds_config: Some(ads), ..Default::default() }),
        connect_timeout: Some(Duration { seconds: 5, nanos: 0 }),
        circuit_breakers: Some(cluster_v3::CircuitBreakers { thresholds: vec![limits], ..Default::default() }),
        ..Default::default()
    }
}
