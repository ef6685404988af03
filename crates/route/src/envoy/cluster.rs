//! Clusters: one for each Service port and policy.

use std::collections::HashMap;
use std::time::Duration;

use envoy_types::pb::envoy::config::cluster::v3 as cluster_v3;
use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::config::endpoint::v3 as endpoint_v3;
use envoy_types::pb::envoy::config::route::v3 as route_v3;
use envoy_types::pb::envoy::extensions::clusters::common::dns::v3::DnsLookupFamily;
use envoy_types::pb::envoy::extensions::clusters::dns::v3 as dns_v3;
use envoy_types::pb::envoy::extensions::network::dns_resolver::cares::v3 as cares_v3;
use envoy_types::pb::envoy::extensions::upstreams::http::v3 as upstream_v3;
use envoy_types::pb::envoy::r#type::v3 as type_v3;
use envoy_types::pb::google::protobuf as google;

use lockgate_xds::snapshot::Resource;
use upstream_v3::http_protocol_options::explicit_http_config::ProtocolConfig;

use super::{backend, names, upstream_tls, wire};
use crate::model::{BackendFeatures, CircuitBreakers, Cluster, ClusterId, Discovery, TrafficPolicy, UpstreamProtocol};
use crate::settings::{self, Settings};

/// The size of the buffers of a connection, upstream and downstream. Source: Envoy, "Configuring Envoy as an edge
/// proxy".
pub const CONNECTION_BUFFER_BYTES: u32 = 32 * 1024;

/// Envoy's default idle timeout of connections.
const IDLE_TIMEOUT: Duration = Duration::from_secs(3600);

/// The flow control windows of HTTP/3 in bytes, for a stream and for a connection.
///
/// A slow client makes Envoy buffer the window of its stream, 16 MiB by default. This window downloads as fast as the default. The window
/// of a connection is Envoy's maximum: the streams of 96 slow clients would have to fill it before other streams wait.
const QUIC_WINDOWS: (u32, u32) = (256 * 1024, 24 * 1024 * 1024);

/// Key of the HTTP options in `typed_extension_protocol_options`.
const HTTP_OPTIONS: &str = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";

/// Builds the CDS resource of a cluster.
pub fn resource(id: &ClusterId, cluster: &Cluster, settings: &Settings) -> Resource {
    let message = self::cluster(id, cluster, settings);
    let policies = cluster.policy.features.iter().flat_map(|features| features.origins.iter().cloned());
    Resource::new(&message.name, &message, [cluster.origin.clone()].into_iter().chain(policies).collect())
}

/// Builds the message of a cluster.
///
/// `ROUND_ROBIN` reaches every endpoint with the fewest requests, and gRPC clients support it. The panic threshold is
/// 0, because Envoy's panic mode would send requests to draining endpoints.
pub fn cluster(id: &ClusterId, cluster: &Cluster, settings: &Settings) -> cluster_v3::Cluster {
    let Cluster { discovery, port: _, policy, of_service: _, origin: _ } = cluster;
    let TrafficPolicy {
        protocol,
        connect_timeout,
        limits,
        client_certificate: _,
        verification: _,
        server_name: _,
        features,
    } = policy;
    let features = features.as_deref();
    let message = cluster_v3::Cluster {
        name: id.to_string(),
        alt_stat_name: names::alt_stat_name(id),
        connect_timeout: Some(wire::duration(*connect_timeout)),
        per_connection_buffer_limit_bytes: Some(wire::uint32(settings.upstream.buffer_limit_bytes)),
        lb_policy: cluster_v3::cluster::LbPolicy::RoundRobin as i32,
        circuit_breakers: circuit_breakers(limits),
        typed_extension_protocol_options: http_options(policy, settings),
        transport_socket: upstream_tls::transport_socket(cluster, settings),
        upstream_connection_options: Some(cluster_v3::UpstreamConnectionOptions {
            tcp_keepalive: Some(wire::tcp_keepalive()),
            ..Default::default()
        }),
        common_lb_config: Some(cluster_v3::cluster::CommonLbConfig {
            healthy_panic_threshold: Some(type_v3::Percent { value: 0.0 }),
            locality_config_specifier: matches!(discovery, Discovery::Eds).then_some(
                cluster_v3::cluster::common_lb_config::LocalityConfigSpecifier::LocalityWeightedLbConfig(
                    cluster_v3::cluster::common_lb_config::LocalityWeightedLbConfig {},
                ),
            ),
            ..Default::default()
        }),
        // Kubernetes decides which endpoints exist. A removed endpoint disappears immediately, healthy or not.
        ignore_health_on_host_removal: true,
        ..Default::default()
    };
    let message = match features {
        None => message,
        Some(features) => backend::apply(message, id, *protocol, features),
    };
    let endpoints = match policy.shares() {
        [] => id.port.to_string(),
        _ => id.to_string(),
    };
    discovered(message, endpoints, discovery, settings)
}

/// Sets how the cluster discovers its endpoints. All clusters of a Service port share one load assignment, except for clusters whose
/// requests are divided among several ports. `endpoints` is its name.
fn discovered(
    message: cluster_v3::Cluster,
    endpoints: String,
    discovery: &Discovery,
    settings: &Settings,
) -> cluster_v3::Cluster {
    use cluster_v3::cluster::{ClusterDiscoveryType, CustomClusterType, DiscoveryType, EdsClusterConfig};
    match discovery {
        Discovery::Eds => cluster_v3::Cluster {
            eds_cluster_config: Some(EdsClusterConfig { eds_config: Some(wire::ads()), service_name: endpoints }),
            cluster_discovery_type: Some(ClusterDiscoveryType::Type(DiscoveryType::Eds as i32)),
            ..message
        },
        Discovery::Dns { hostname, port } => cluster_v3::Cluster {
            load_assignment: Some(one_endpoint(&message.name, wire::socket_address(hostname, *port))),
            cluster_discovery_type: Some(ClusterDiscoveryType::ClusterType(CustomClusterType {
                name: "envoy.clusters.dns".to_owned(),
                typed_config: Some(wire::any(&dns_v3::DnsCluster {
                    typed_dns_resolver_config: (!settings.external_names.cluster_local).then(without_search_domains),
                    dns_lookup_family: lookup_family(settings.upstream.dns_lookup_family) as i32,
                    ..strict_dns()
                })),
            })),
            ..message
        },
        Discovery::Static { address, port } => cluster_v3::Cluster {
            load_assignment: Some(one_endpoint(&message.name, wire::socket_address(&address.to_string(), *port))),
            cluster_discovery_type: Some(ClusterDiscoveryType::Type(DiscoveryType::Static as i32)),
            ..message
        },
    }
}

/// Builds the equivalent of `STRICT_DNS`: each address of the DNS response is an endpoint. The name is resolved again
/// after its TTL.
///
/// IPv4 is preferred to IPv6. `AUTO` prefers IPv6, which fails where nodes have no IPv6 route to the Internet.
pub fn strict_dns() -> dns_v3::DnsCluster {
    dns_v3::DnsCluster {
        respect_dns_ttl: true,
        dns_lookup_family: DnsLookupFamily::V4Preferred as i32,
        ..Default::default()
    }
}

fn lookup_family(family: settings::DnsLookupFamily) -> DnsLookupFamily {
    match family {
        settings::DnsLookupFamily::Auto => DnsLookupFamily::Auto,
        settings::DnsLookupFamily::V4 => DnsLookupFamily::V4Only,
        settings::DnsLookupFamily::V6 => DnsLookupFamily::V6Only,
        settings::DnsLookupFamily::V4Preferred => DnsLookupFamily::V4Preferred,
        settings::DnsLookupFamily::All => DnsLookupFamily::All,
    }
}

/// Builds a resolver that ignores search domains.
///
/// The search domains of a pod would turn `cart.shop` into a Service inside the Kubernetes cluster, which an external
/// name must not reach unless `externalNames.clusterLocal` allows it. Kubernetes itself answers with a CNAME, which is
/// absolute too. Source: Service v1, `spec.externalName`.
fn without_search_domains() -> core_v3::TypedExtensionConfig {
    let options = core_v3::DnsResolverOptions { no_default_search_domain: true, ..Default::default() };
    let cares = cares_v3::CaresDnsResolverConfig { dns_resolver_options: Some(options), ..Default::default() };
    core_v3::TypedExtensionConfig {
        name: "envoy.network.dns_resolver.cares".to_owned(),
        typed_config: Some(wire::any(&cares)),
    }
}

/// Builds a load assignment with one endpoint.
pub fn one_endpoint(name: &str, address: core_v3::Address) -> endpoint_v3::ClusterLoadAssignment {
    let endpoint = endpoint_v3::Endpoint { address: Some(address), ..Default::default() };
    endpoint_v3::ClusterLoadAssignment {
        cluster_name: name.to_owned(),
        endpoints: vec![endpoint_v3::LocalityLbEndpoints {
            lb_endpoints: vec![endpoint_v3::LbEndpoint {
                host_identifier: Some(endpoint_v3::lb_endpoint::HostIdentifier::Endpoint(endpoint)),
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    }
}

/// Builds the circuit breakers. Returns `None` without any limit, so that Envoy's defaults apply.
pub fn circuit_breakers(limits: &CircuitBreakers) -> Option<cluster_v3::CircuitBreakers> {
    use cluster_v3::circuit_breakers::Thresholds;
    if *limits == CircuitBreakers::default() {
        return None;
    }
    let CircuitBreakers { max_connections, max_pending_requests, max_requests, max_retries, per_host_max_connections } =
        *limits;
    Some(cluster_v3::CircuitBreakers {
        thresholds: vec![Thresholds {
            max_connections: max_connections.map(wire::uint32),
            max_pending_requests: max_pending_requests.map(wire::uint32),
            max_requests: max_requests.map(wire::uint32),
            max_retries: max_retries.map(wire::uint32),
            ..Default::default()
        }],
        per_host_thresholds: per_host_max_connections
            .map(|limit| Thresholds { max_connections: Some(wire::uint32(limit)), ..Default::default() })
            .into_iter()
            .collect(),
    })
}

/// Builds the HTTP options of a cluster. They are empty if Envoy's defaults apply: HTTP/1.1, and an idle timeout of an
/// hour.
fn http_options(policy: &TrafficPolicy, settings: &Settings) -> HashMap<String, google::Any> {
    let features = policy.features.as_deref();
    let (common, hash) = (common_options(features, settings), backend::hash_policies(features));
    if policy.is_over_http3() {
        // Envoy 1.40 leaks the capacity of closed connections with this limit: after ten connections, requests wait forever.
        let common = common.map(|common| core_v3::HttpProtocolOptions { max_requests_per_connection: None, ..common });
        return explicit_options(ProtocolConfig::Http3ProtocolOptions(http3_options()), common, hash);
    }
    match policy.protocol {
        UpstreamProtocol::Http1 | UpstreamProtocol::Tls if common.is_none() && hash.is_empty() => HashMap::new(),
        UpstreamProtocol::Http1 | UpstreamProtocol::Tls => {
            let http1 = core_v3::Http1ProtocolOptions::default();
            explicit_options(ProtocolConfig::HttpProtocolOptions(http1), common, hash)
        }
        UpstreamProtocol::H2c | UpstreamProtocol::H2 => {
            let http2 = core_v3::Http2ProtocolOptions::default();
            explicit_options(ProtocolConfig::Http2ProtocolOptions(http2), common, hash)
        }
    }
}

/// Builds the options of HTTP/3.
fn http3_options() -> core_v3::Http3ProtocolOptions {
    core_v3::Http3ProtocolOptions {
        quic_protocol_options: Some(core_v3::QuicProtocolOptions {
            initial_stream_window_size: Some(wire::uint32(QUIC_WINDOWS.0)),
            initial_connection_window_size: Some(wire::uint32(QUIC_WINDOWS.1)),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// Builds the options of all HTTP versions. Returns `None` if the features and the settings equal Envoy's defaults.
fn common_options(features: Option<&BackendFeatures>, settings: &Settings) -> Option<core_v3::HttpProtocolOptions> {
    let max_requests_per_connection = settings.upstream.max_requests_per_connection;
    let idle = features.and_then(|features| features.idle_timeout).or(settings.timeouts.upstream_idle);
    let idle = Some(idle).filter(|limit| *limit != Some(IDLE_TIMEOUT));
    let age = features.and_then(|features| features.max_connection_age);
    let is_set = max_requests_per_connection.is_some() || idle.is_some() || age.is_some();
    is_set.then(|| core_v3::HttpProtocolOptions {
        idle_timeout: idle.map(wire::limit),
        max_connection_duration: age.map(wire::duration),
        max_requests_per_connection: max_requests_per_connection.map(wire::uint32),
        ..Default::default()
    })
}

/// Builds the options of a cluster that supports only HTTP/2.
pub fn http2_options(http2: core_v3::Http2ProtocolOptions) -> HashMap<String, google::Any> {
    explicit_options(ProtocolConfig::Http2ProtocolOptions(http2), None, Vec::new())
}

fn explicit_options(
    protocol: ProtocolConfig,
    common: Option<core_v3::HttpProtocolOptions>,
    hash_policy: Vec<route_v3::route_action::HashPolicy>,
) -> HashMap<String, google::Any> {
    use upstream_v3::http_protocol_options::{ExplicitHttpConfig, UpstreamProtocolOptions};
    let explicit = ExplicitHttpConfig { protocol_config: Some(protocol) };
    let options = upstream_v3::HttpProtocolOptions {
        common_http_protocol_options: common,
        upstream_protocol_options: Some(UpstreamProtocolOptions::ExplicitHttpConfig(explicit)),
        hash_policy,
        ..Default::default()
    };
    HashMap::from([(HTTP_OPTIONS.to_owned(), wire::any(&options))])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use cluster_v3::cluster::{ClusterDiscoveryType, DiscoveryType};
    use prost::Message;

    use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3 as tls_v3;

    use super::*;
    use crate::testing::model::cluster_id;
    use lockgate_xds::provenance::ObjectRef;

    fn built(discovery: Discovery, protocol: UpstreamProtocol, limits: CircuitBreakers) -> cluster_v3::Cluster {
        let connect_timeout = Duration::from_millis(1500);
        let origin = ObjectRef::new("Service", "shop", "cart");
        let policy = TrafficPolicy {
            protocol,
            connect_timeout,
            limits,
            client_certificate: None,
            verification: None,
            server_name: None,
            features: None,
        };
        let model = Cluster { discovery, port: 80, policy, of_service: true, origin };
        cluster(&cluster_id("shop/cart/http"), &model, &Settings::default())
    }

    fn external(protocol: UpstreamProtocol) -> cluster_v3::Cluster {
        let discovery = Discovery::Dns { hostname: "api.example.net.".into(), port: 443 };
        built(discovery, protocol, CircuitBreakers::default())
    }

    fn tls_context(cluster: &cluster_v3::Cluster) -> tls_v3::UpstreamTlsContext {
        let Some(core_v3::transport_socket::ConfigType::TypedConfig(any)) =
            cluster.transport_socket.as_ref().unwrap().config_type.as_ref()
        else {
            panic!("no typed configuration")
        };
        tls_v3::UpstreamTlsContext::decode(&*any.value).unwrap()
    }

    #[test]
    fn a_service_gets_its_endpoints_by_eds_under_its_own_name() {
        let cluster = built(Discovery::Eds, UpstreamProtocol::Http1, CircuitBreakers::default());
        assert_eq!(cluster.eds_cluster_config.unwrap().service_name, "shop/cart/http");
        assert_eq!(cluster.cluster_discovery_type, Some(ClusterDiscoveryType::Type(DiscoveryType::Eds as i32)));
        assert_eq!(cluster.common_lb_config.unwrap().healthy_panic_threshold.unwrap().value, 0.0);
        assert_eq!(cluster.connect_timeout.unwrap().nanos, 500_000_000);
        assert!(cluster.circuit_breakers.is_none() && cluster.transport_socket.is_none());
        assert!(cluster.typed_extension_protocol_options.is_empty());
    }

    #[test]
    fn search_domains_apply_only_to_names_within_the_kubernetes_cluster() {
        for cluster_local in [false, true] {
            let external_names = settings::ExternalNames { allow: true, cluster_local };
            let settings = Settings { external_names, ..Settings::default() };
            let discovery = Discovery::Dns { hostname: "cart.shop".into(), port: 80 };
            let cluster = discovered(cluster_v3::Cluster::default(), "shop/cart/80".to_owned(), &discovery, &settings);
            let Some(ClusterDiscoveryType::ClusterType(dns)) = &cluster.cluster_discovery_type else {
                panic!("not by DNS")
            };
            let dns = dns_v3::DnsCluster::decode(&*dns.typed_config.as_ref().unwrap().value).unwrap();
            assert_eq!(dns.typed_dns_resolver_config.is_none(), cluster_local);
        }
    }

    #[test]
    fn an_external_name_is_resolved_by_envoy_and_is_its_sni() {
        let cluster = external(UpstreamProtocol::H2);
        let Some(ClusterDiscoveryType::ClusterType(dns)) = &cluster.cluster_discovery_type else {
            panic!("not by DNS")
        };
        let dns = dns_v3::DnsCluster::decode(&*dns.typed_config.as_ref().unwrap().value).unwrap();
        let resolver = dns.typed_dns_resolver_config.unwrap().typed_config.unwrap();
        let resolver = cares_v3::CaresDnsResolverConfig::decode(&*resolver.value).unwrap();
        assert!(resolver.dns_resolver_options.unwrap().no_default_search_domain);
        assert!(cluster.typed_extension_protocol_options.contains_key(HTTP_OPTIONS));
        let context = tls_context(&cluster);
        assert_eq!(context.sni, "api.example.net");
        assert_eq!(context.common_tls_context.unwrap().alpn_protocols, ["h2"]);
    }

    #[test]
    fn http1_over_tls_has_no_http2_options() {
        let cluster = external(UpstreamProtocol::Tls);
        assert!(cluster.typed_extension_protocol_options.is_empty());
        assert!(tls_context(&cluster).common_tls_context.unwrap().validation_context_type.is_none());
    }

    #[test]
    fn unset_limits_are_envoys_defaults() {
        let limits = CircuitBreakers { max_retries: Some(7), ..Default::default() };
        let breakers = built(Discovery::Eds, UpstreamProtocol::H2c, limits).circuit_breakers.unwrap();
        assert_eq!(breakers.thresholds[0].max_retries.unwrap().value, 7);
        assert_eq!(breakers.thresholds[0].max_requests, None);
        assert!(breakers.per_host_thresholds.is_empty());
        let limits = CircuitBreakers { per_host_max_connections: Some(3), ..Default::default() };
        let breakers = built(Discovery::Eds, UpstreamProtocol::H2c, limits).circuit_breakers.unwrap();
        assert_eq!(breakers.per_host_thresholds[0].max_connections.unwrap().value, 3);
    }
}
