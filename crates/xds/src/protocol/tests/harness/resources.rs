//! Test resources: real Envoy messages.

use envoy_types::pb::envoy::config::cluster::v3 as cluster_v3;
use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::config::endpoint::v3 as endpoint_v3;
use envoy_types::pb::envoy::config::listener::v3 as listener_v3;
use envoy_types::pb::envoy::config::route::v3 as route_v3;
use envoy_types::pb::envoy::extensions::filters::http::ext_authz::v3 as ext_authz_v3;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3 as hcm_v3;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3 as tls_v3;
use envoy_types::pb::google::protobuf::Any;
use prost::{Message, Name};

use super::{CLUSTER, ENDPOINTS, LISTENER, ROUTES, SCOPED_ROUTES};
use crate::snapshot::{Resource, ResourceType};

fn ads() -> core_v3::ConfigSource {
    let specifier = core_v3::config_source::ConfigSourceSpecifier::Ads(core_v3::AggregatedConfigSource {});
    core_v3::ConfigSource { config_source_specifier: Some(specifier), ..Default::default() }
}

/// Returns the cluster `name` with endpoints by EDS.
pub fn cluster(name: &str) -> Resource {
    cluster_at(name, 5)
}

/// Returns the cluster `name` with a connect timeout of `seconds`, as another content.
pub fn cluster_at(name: &str, seconds: i64) -> Resource {
    cluster_with(name, "", seconds)
}

/// Returns the cluster `name` with the endpoints of the cluster `of`.
pub fn cluster_sharing(name: &str, of: &str) -> Resource {
    cluster_with(name, of, 5)
}

fn cluster_with(name: &str, endpoints: &str, seconds: i64) -> Resource {
    let message = cluster_v3::Cluster {
        name: name.into(),
        cluster_discovery_type: Some(cluster_v3::cluster::ClusterDiscoveryType::Type(
            cluster_v3::cluster::DiscoveryType::Eds.into(),
        )),
        eds_cluster_config: Some(cluster_v3::cluster::EdsClusterConfig {
            eds_config: Some(ads()),
            service_name: endpoints.into(),
        }),
        connect_timeout: Some(envoy_types::pb::google::protobuf::Duration { seconds, nanos: 0 }),
        ..Default::default()
    };
    Resource::new(name, &message, Vec::new())
}

/// Returns the endpoints of cluster `name`.
pub fn endpoints(name: &str) -> Resource {
    endpoints_at(name, 8080)
}

/// Returns the endpoints of cluster `name` with one endpoint at `port`.
pub fn endpoints_at(name: &str, port: u32) -> Resource {
    let address = core_v3::Address {
        address: Some(core_v3::address::Address::SocketAddress(core_v3::SocketAddress {
            address: "192.0.2.1".into(),
            port_specifier: Some(core_v3::socket_address::PortSpecifier::PortValue(port)),
            ..Default::default()
        })),
    };
    let endpoint = endpoint_v3::Endpoint { address: Some(address), ..Default::default() };
    let endpoint = endpoint_v3::LbEndpoint {
        host_identifier: Some(endpoint_v3::lb_endpoint::HostIdentifier::Endpoint(endpoint)),
        ..Default::default()
    };
    let locality = endpoint_v3::LocalityLbEndpoints { lb_endpoints: vec![endpoint], ..Default::default() };
    let message = endpoint_v3::ClusterLoadAssignment {
        cluster_name: name.into(),
        endpoints: vec![locality],
        ..Default::default()
    };
    Resource::new(name, &message, Vec::new())
}

/// Returns the route configuration `name` with these `clusters`: by path or, if there are several, by weight.
pub fn routes<const N: usize>(name: &str, clusters: [&str; N]) -> Resource {
    routes_for(name, "*", &clusters)
}

/// Returns the route configuration `name` for the host `domain`.
pub fn routes_for(name: &str, domain: &str, clusters: &[&str]) -> Resource {
    use route_v3::route_action::ClusterSpecifier;
    let weighted = |cluster: &&str| route_v3::weighted_cluster::ClusterWeight {
        name: (*cluster).into(),
        weight: Some(envoy_types::pb::google::protobuf::UInt32Value { value: 1 }),
        ..Default::default()
    };
    let specifier = match clusters {
        [one] => ClusterSpecifier::Cluster((*one).into()),
        several => ClusterSpecifier::WeightedClusters(route_v3::WeightedCluster {
            clusters: several.iter().map(weighted).collect(),
            ..Default::default()
        }),
    };
    let action = route_v3::RouteAction { cluster_specifier: Some(specifier), ..Default::default() };
    let route = route_v3::Route {
        r#match: Some(route_v3::RouteMatch {
            path_specifier: Some(route_v3::route_match::PathSpecifier::Prefix("/".into())),
            ..Default::default()
        }),
        action: Some(route_v3::route::Action::Route(action)),
        ..Default::default()
    };
    let host = route_v3::VirtualHost {
        name: "host".into(),
        domains: vec![domain.into()],
        routes: if clusters.is_empty() { Vec::new() } else { vec![route] },
        ..Default::default()
    };
    let message = route_v3::RouteConfiguration { name: name.into(), virtual_hosts: vec![host], ..Default::default() };
    Resource::new(name, &message, Vec::new())
}

/// Returns the listener `name`, which uses the route configuration `routes`.
pub fn listener(name: &str, routes: &str) -> Resource {
    listener_at(name, routes, "ingress")
}

/// Returns the listener `name` with a prefix for its statistics, as another content.
pub fn listener_at(name: &str, routes: &str, stat_prefix: &str) -> Resource {
    listener_with(name, routes, stat_prefix, vec![])
}

/// Returns the listener `name` with a filter that sends each request to the cluster `server`.
pub fn listener_asking(name: &str, routes: &str, server: &str) -> Resource {
    use core_v3::grpc_service::{EnvoyGrpc, TargetSpecifier};
    let grpc = EnvoyGrpc { cluster_name: server.into(), ..Default::default() };
    let service =
        core_v3::GrpcService { target_specifier: Some(TargetSpecifier::EnvoyGrpc(grpc)), ..Default::default() };
    let asking = ext_authz_v3::ExtAuthz {
        services: Some(ext_authz_v3::ext_authz::Services::GrpcService(service)),
        ..Default::default()
    };
    let filter = hcm_v3::HttpFilter {
        name: "asking".into(),
        config_type: Some(hcm_v3::http_filter::ConfigType::TypedConfig(Any {
            type_url: ext_authz_v3::ExtAuthz::type_url(),
            value: asking.encode_to_vec(),
        })),
        ..Default::default()
    };
    listener_with(name, routes, "ingress", vec![filter])
}

fn listener_with(name: &str, routes: &str, stat_prefix: &str, http_filters: Vec<hcm_v3::HttpFilter>) -> Resource {
    let rds = hcm_v3::Rds { config_source: Some(ads()), route_config_name: routes.into() };
    let manager = hcm_v3::HttpConnectionManager {
        stat_prefix: stat_prefix.into(),
        route_specifier: Some(hcm_v3::http_connection_manager::RouteSpecifier::Rds(rds)),
        http_filters,
        ..Default::default()
    };
    let filter = listener_v3::Filter {
        name: "http".into(),
        config_type: Some(listener_v3::filter::ConfigType::TypedConfig(Any {
            type_url: hcm_v3::HttpConnectionManager::type_url(),
            value: manager.encode_to_vec(),
        })),
    };
    let chain = listener_v3::FilterChain { filters: vec![filter], ..Default::default() };
    let message = listener_v3::Listener { name: name.into(), filter_chains: vec![chain], ..Default::default() };
    Resource::new(name, &message, Vec::new())
}

/// Returns the listener `name`, whose network filter is the extension `extension`.
pub fn listener_discovering(name: &str, extension: &str) -> Resource {
    let source = core_v3::ExtensionConfigSource { config_source: Some(ads()), ..Default::default() };
    let filter = listener_v3::Filter {
        name: extension.into(),
        config_type: Some(listener_v3::filter::ConfigType::ConfigDiscovery(source)),
    };
    let chain = listener_v3::FilterChain { filters: vec![filter], ..Default::default() };
    let message = listener_v3::Listener { name: name.into(), filter_chains: vec![chain], ..Default::default() };
    Resource::new(name, &message, Vec::new())
}

/// Returns the extension `name`: a connection manager that sends each request to the cluster `server` first.
pub fn extension_asking(name: &str, server: &str) -> Resource {
    let listener = listener_v3::Listener::decode(listener_asking(name, "r", server).message()).unwrap();
    let Some(listener_v3::filter::ConfigType::TypedConfig(manager)) = &listener.filter_chains[0].filters[0].config_type
    else {
        panic!("no typed configuration")
    };
    let message = core_v3::TypedExtensionConfig { name: name.into(), typed_config: Some(manager.clone()) };
    Resource::new(name, &message, Vec::new())
}

/// Returns a scope with a named route configuration.
pub fn scope(name: &str, routes: &str) -> Resource {
    let message = route_v3::ScopedRouteConfiguration {
        name: name.into(),
        route_configuration_name: routes.into(),
        ..Default::default()
    };
    Resource::new(name, &message, Vec::new())
}

/// Returns a scope with inline routes to these clusters.
pub fn scope_to<const N: usize>(name: &str, clusters: [&str; N]) -> Resource {
    let routes = routes(name, clusters);
    let routes = route_v3::RouteConfiguration::decode(routes.message()).unwrap();
    let message = route_v3::ScopedRouteConfiguration {
        name: name.into(),
        route_configuration: Some(routes),
        ..Default::default()
    };
    Resource::new(name, &message, Vec::new())
}

/// Returns the virtual host `name`.
pub fn virtual_host(name: &str, domain: &str) -> Resource {
    let message =
        route_v3::VirtualHost { name: name.to_owned(), domains: vec![domain.to_owned()], ..Default::default() };
    Resource::new(name, &message, Vec::new())
}

/// Returns the secret `name`.
pub fn secret(name: &str) -> Resource {
    secret_at(name, "first")
}

/// Returns the secret `name` with another content.
pub fn secret_at(name: &str, content: &str) -> Resource {
    let source = core_v3::DataSource {
        specifier: Some(core_v3::data_source::Specifier::InlineString(content.into())),
        ..Default::default()
    };
    let certificate = tls_v3::TlsCertificate { certificate_chain: Some(source), ..Default::default() };
    let message = tls_v3::Secret { name: name.into(), r#type: Some(tls_v3::secret::Type::TlsCertificate(certificate)) };
    Resource::new(name, &message, Vec::new())
}

/// Returns a resource of `kind` with the content `variation`.
pub fn any_kind(kind: ResourceType, name: &str, variation: u32) -> Resource {
    match kind {
        CLUSTER => cluster_at(name, i64::from(variation) + 1),
        ENDPOINTS => endpoints_at(name, variation + 1),
        LISTENER => listener_at(name, "routes", &format!("{variation}")),
        ROUTES => routes_for(name, &format!("host-{variation}"), &["somewhere"]),
        SCOPED_ROUTES if variation.is_multiple_of(2) => scope_to(name, [&*format!("somewhere-{variation}")]),
        SCOPED_ROUTES => scope(name, &format!("routes-{variation}")),
        _ => secret_at(name, &format!("{variation}")),
    }
}
