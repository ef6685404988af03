//! A small management server: two groups of Envoys, told apart by `node.cluster`, with one cluster in common and a
//! listener and routes of their own. Every two seconds the routes change. What happens on the streams is printed.
//!
//! ```console
//! cargo run -- 127.0.0.1:18000 127.0.0.1:9101 blue=10001 green=10002
//! lockgate bootstrap --node-cluster blue > envoy.yaml && envoy -c envoy.yaml
//! curl --include http://127.0.0.1:10001/
//! ```

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use lockgate_xds::envoy_types::pb::envoy::config::cluster::v3 as cluster_v3;
use lockgate_xds::envoy_types::pb::envoy::config::core::v3 as core_v3;
use lockgate_xds::envoy_types::pb::envoy::config::endpoint::v3 as endpoint_v3;
use lockgate_xds::envoy_types::pb::envoy::config::listener::v3 as listener_v3;
use lockgate_xds::envoy_types::pb::envoy::config::route::v3 as route_v3;
use lockgate_xds::envoy_types::pb::envoy::extensions::filters::http::router::v3::Router;
use lockgate_xds::envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3 as hcm_v3;
use lockgate_xds::envoy_types::pb::google::protobuf::Any;
use lockgate_xds::prost::{Message, Name};
use lockgate_xds::protocol::{Node, Notice, Request, Response};
use lockgate_xds::server::{self, Access, Observer, Service, Stores, StreamInfo};
use lockgate_xds::snapshot::{Groups, Resource, Update};

const USAGE: &str = "usage: xds-server XDS_ADDRESS BACKEND_ADDRESS GROUP=PORT...";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [xds, backend, listeners @ ..] = &args[..] else { return Err(USAGE.into()) };
    let listeners: Option<Vec<(&str, &str)>> = listeners.iter().map(|group| group.split_once('=')).collect();
    let listeners = listeners.ok_or(USAGE)?;

    // All groups get the cluster, and each group gets a listener and routes. The first resources of a group are set before its
    // Envoys can connect, because Envoys without a group are rejected.
    let groups = Arc::new(Groups::default());
    groups.replace_common(vec![cluster("web"), endpoints("web", backend.parse()?)]);
    for (group, port) in &listeners {
        let address = SocketAddr::new([127, 0, 0, 1].into(), port.parse()?);
        groups.replace(group, vec![listener("web", address), routes("web", &format!("{group} 0"))]);
    }

    // The server, which chooses by the node.
    let (stop, stopping) = tokio::sync::watch::channel(false);
    let stores = groups.clone();
    let stores = Stores::by_node(move |node| stores.store(&node.cluster));
    let service = Service::new(stores, stopping).with_identifier("example").with_observer(Arc::new(Print));
    let listener = server::listen(xds.parse()?).await?;
    let mut server = tokio::spawn(server::serve(listener, Access::PlainFromLoopback, Arc::new(service)));

    // A change now and then, until Ctrl-C: each is sent to those alone whom it concerns.
    let mut changes = tokio::time::interval(Duration::from_secs(2));
    for change in 0_u64.. {
        tokio::select! {
            _ = changes.tick() => {}
            _ = tokio::signal::ctrl_c() => break,
            ended = &mut server => return Ok(ended??),
        }
        for (group, _) in &listeners {
            groups.update(group, Update::setting(vec![routes("web", &format!("{group} {change}"))]));
        }
    }
    stop.send_replace(true);
    Ok(server.await??)
}

/// Prints what happens.
struct Print;

impl Observer for Print {
    fn introduced(&self, stream: &StreamInfo, node: &Node) {
        println!("stream {}: opened by {} of {}", stream.id, node.id, node.cluster);
    }

    fn received(&self, stream: &StreamInfo, _: &Node, request: &Request) {
        println!("stream {}: asked for {} {:?}", stream.id, request.type_url, request.subscribe);
    }

    fn sent(&self, stream: &StreamInfo, _: &Node, response: &Response, bytes: usize) {
        println!(
            "stream {}: sent {}, {} resources in {bytes} bytes",
            stream.id,
            response.type_url,
            response.resources.len()
        );
    }

    fn noticed(&self, stream: &StreamInfo, _: &Node, notice: &Notice) {
        println!("stream {}: {notice:?}", stream.id);
    }

    fn closed(&self, stream: &StreamInfo, _: Option<&Node>, reason: &str) {
        println!("stream {}: closed: {reason}", stream.id);
    }
}

/// Where an Envoy gets what a resource refers to: from the stream that this one came by.
fn ads() -> Option<core_v3::ConfigSource> {
    let specifier = core_v3::config_source::ConfigSourceSpecifier::Ads(core_v3::AggregatedConfigSource {});
    let resource_api_version = core_v3::ApiVersion::V3.into();
    Some(core_v3::ConfigSource { config_source_specifier: Some(specifier), resource_api_version, ..Default::default() })
}

fn address(address: SocketAddr) -> Option<core_v3::Address> {
    let port = core_v3::socket_address::PortSpecifier::PortValue(address.port().into());
    let socket =
        core_v3::SocketAddress { address: address.ip().to_string(), port_specifier: Some(port), ..Default::default() };
    Some(core_v3::Address { address: Some(core_v3::address::Address::SocketAddress(socket)) })
}

fn any<M: Message + Name>(message: &M) -> Any {
    Any { type_url: M::type_url(), value: message.encode_to_vec() }
}

fn cluster(name: &str) -> Resource {
    let eds = cluster_v3::cluster::EdsClusterConfig { eds_config: ads(), ..Default::default() };
    let kind = cluster_v3::cluster::ClusterDiscoveryType::Type(cluster_v3::cluster::DiscoveryType::Eds.into());
    let cluster = cluster_v3::Cluster {
        name: name.into(),
        cluster_discovery_type: Some(kind),
        eds_cluster_config: Some(eds),
        ..Default::default()
    };
    Resource::new(name, &cluster, vec![])
}

fn endpoints(cluster: &str, backend: SocketAddr) -> Resource {
    let endpoint = endpoint_v3::Endpoint { address: address(backend), ..Default::default() };
    let endpoint = endpoint_v3::lb_endpoint::HostIdentifier::Endpoint(endpoint);
    let endpoint = endpoint_v3::LbEndpoint { host_identifier: Some(endpoint), ..Default::default() };
    let locality = endpoint_v3::LocalityLbEndpoints { lb_endpoints: vec![endpoint], ..Default::default() };
    let assignment = endpoint_v3::ClusterLoadAssignment {
        cluster_name: cluster.into(),
        endpoints: vec![locality],
        ..Default::default()
    };
    Resource::new(cluster, &assignment, vec![])
}

/// Everything goes to the cluster `web`; answers say by which routes.
fn routes(name: &str, label: &str) -> Resource {
    let action = route_v3::RouteAction {
        cluster_specifier: Some(route_v3::route_action::ClusterSpecifier::Cluster("web".into())),
        ..Default::default()
    };
    let everything = route_v3::route_match::PathSpecifier::Prefix("/".into());
    let route = route_v3::Route {
        r#match: Some(route_v3::RouteMatch { path_specifier: Some(everything), ..Default::default() }),
        action: Some(route_v3::route::Action::Route(action)),
        ..Default::default()
    };
    let header = core_v3::HeaderValue { key: "x-routes".into(), value: label.into(), ..Default::default() };
    let host = route_v3::VirtualHost {
        name: "all".into(),
        domains: vec!["*".into()],
        routes: vec![route],
        response_headers_to_add: vec![core_v3::HeaderValueOption { header: Some(header), ..Default::default() }],
        ..Default::default()
    };
    let routes = route_v3::RouteConfiguration { name: name.into(), virtual_hosts: vec![host], ..Default::default() };
    Resource::new(name, &routes, vec![])
}

fn listener(routes: &str, at: SocketAddr) -> Resource {
    let router = hcm_v3::HttpFilter {
        name: "router".into(),
        config_type: Some(hcm_v3::http_filter::ConfigType::TypedConfig(any(&Router::default()))),
        ..Default::default()
    };
    let rds = hcm_v3::Rds { config_source: ads(), route_config_name: routes.into() };
    let manager = hcm_v3::HttpConnectionManager {
        stat_prefix: "web".into(),
        route_specifier: Some(hcm_v3::http_connection_manager::RouteSpecifier::Rds(rds)),
        http_filters: vec![router],
        ..Default::default()
    };
    let http = listener_v3::Filter {
        name: "http".into(),
        config_type: Some(listener_v3::filter::ConfigType::TypedConfig(any(&manager))),
    };
    let chain = listener_v3::FilterChain { filters: vec![http], ..Default::default() };
    let listener = listener_v3::Listener {
        name: "web".into(),
        address: address(at),
        filter_chains: vec![chain],
        ..Default::default()
    };
    Resource::new("web", &listener, vec![])
}
