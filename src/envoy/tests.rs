//! Everything that the builders can make, judged by a real Envoy.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub(crate) mod fixture;
mod settings;

use std::path::PathBuf;
use std::process::Command;

use envoy_types::pb::envoy::config::bootstrap::v3 as bootstrap_v3;
use envoy_types::pb::envoy::config::cluster::v3 as cluster_v3;
use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::config::listener::v3 as listener_v3;
use envoy_types::pb::envoy::config::route::v3 as route_v3;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3 as tls_v3;
use envoy_types::pb::envoy::service::runtime::v3 as runtime_v3;
use lockgate_xds::snapshot::ResourceType;
use prost::Message;

use super::*;
use crate::settings::{AccessLog, AccessLogFormat, Settings};

/// A real Envoy: `$ENVOY`, else what `make envoy` left.
fn real_envoy() -> PathBuf {
    let made = concat!(env!("CARGO_MANIFEST_DIR"), "/.venv/bin/envoy-bin");
    let path = std::env::var_os("ENVOY").map_or_else(|| PathBuf::from(made), PathBuf::from);
    assert!(path.is_file(), "{} is not there: run `make envoy`, or set ENVOY to an Envoy 1.40", path.display());
    path
}

/// What Envoy says about a bootstrap.
pub(crate) fn validate(bootstrap: &bootstrap_v3::Bootstrap) -> Result<(), String> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("bootstrap.pb");
    std::fs::write(&file, bootstrap.encode_to_vec()).unwrap();
    let output = Command::new(real_envoy()).args(["--mode", "validate", "-l", "warning", "-c"]).arg(&file).output();
    let output = output.unwrap();
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    // Runtime layers are told on every start; anything else is a warning or worse.
    let complaint =
        log.lines().find(|line| ["[warning]", "[error]", "[critical]"].iter().any(|level| line.contains(level)));
    match (output.status.success(), complaint) {
        (true, None) => Ok(()),
        _ => Err(log),
    }
}

fn decoded<M: Message + Default>(resources: &[Resource], kind: ResourceType) -> Vec<M> {
    let messages = resources.iter().filter(|resource| resource.kind() == kind).map(Resource::message);
    messages.map(|bytes| M::decode(bytes).unwrap()).collect()
}

/// An Envoy that waits for ADS, with `resources` built in, route configurations as listeners of their own.
pub(crate) fn standalone(resources: &[Resource], settings: &Settings) -> bootstrap_v3::Bootstrap {
    use core_v3::grpc_service::{EnvoyGrpc, TargetSpecifier};
    let xds = EnvoyGrpc { cluster_name: names::XDS_CLUSTER.to_owned(), ..Default::default() };
    let service =
        core_v3::GrpcService { target_specifier: Some(TargetSpecifier::EnvoyGrpc(xds)), ..Default::default() };
    let ads = core_v3::ApiConfigSource {
        api_type: core_v3::api_config_source::ApiType::DeltaGrpc as i32,
        transport_api_version: core_v3::ApiVersion::V3 as i32,
        grpc_services: vec![service],
        ..Default::default()
    };
    let fixed = |name: &str| cluster_v3::Cluster {
        name: name.to_owned(),
        load_assignment: Some(cluster::one_endpoint(name, wire::socket_address("127.0.0.1", 1))),
        ..Default::default()
    };
    let mut bootstrap = bootstrap_v3::Bootstrap {
        node: Some(core_v3::Node { id: "envoy-0".into(), cluster: "lockgate".into(), ..Default::default() }),
        dynamic_resources: Some(bootstrap_v3::bootstrap::DynamicResources {
            ads_config: Some(ads),
            ..Default::default()
        }),
        static_resources: Some(bootstrap_v3::bootstrap::StaticResources {
            clusters: vec![fixed(names::XDS_CLUSTER), fixed(names::ADMIN_CLUSTER)],
            ..Default::default()
        }),
        ..Default::default()
    };
    let layer = |runtime: runtime_v3::Runtime| bootstrap_v3::RuntimeLayer {
        name: runtime.name,
        layer_specifier: runtime.layer.map(bootstrap_v3::runtime_layer::LayerSpecifier::StaticLayer),
    };
    let layers = decoded::<runtime_v3::Runtime>(resources, ResourceType::RUNTIME).into_iter().map(layer).collect();
    bootstrap.layered_runtime = Some(bootstrap_v3::LayeredRuntime { layers });
    let parts = bootstrap.static_resources.as_mut().unwrap();
    parts.clusters.extend(decoded::<cluster_v3::Cluster>(resources, ResourceType::CLUSTER));
    parts.secrets.extend(decoded::<tls_v3::Secret>(resources, ResourceType::SECRET));
    parts.listeners.extend(decoded::<listener_v3::Listener>(resources, ResourceType::LISTENER));
    let scopes = decoded::<route_v3::ScopedRouteConfiguration>(resources, ResourceType::SCOPED_ROUTES).into_iter();
    let of_scopes = scopes.filter_map(|scope| scope.route_configuration);
    let routes = decoded::<route_v3::RouteConfiguration>(resources, ResourceType::ROUTES).into_iter().chain(of_scopes);
    for (port, routes) in (2..).zip(routes) {
        let name = format!("routes of {}", routes.name);
        let routes = hcm::Routes::Inline(Box::new(routes));
        let manager = hcm::http_connection_manager("test", routes, hcm::Codec::Tcp, vec![], settings);
        parts.listeners.push(listener_v3::Listener {
            name,
            address: Some(wire::socket_address("127.0.0.1", port)),
            filter_chains: vec![listener_v3::FilterChain { filters: vec![manager], ..Default::default() }],
            ..Default::default()
        });
    }
    bootstrap
}

#[test]
fn a_real_envoy_takes_every_form_of_every_resource_without_a_warning() {
    for format in [AccessLogFormat::Text, AccessLogFormat::Json] {
        let settings = Settings { access_log: AccessLog { format, ..Default::default() }, ..Settings::default() };
        let resources = build(&fixture::model(), &settings);
        validate(&standalone(&resources, &settings)).unwrap();
    }
}

#[test]
fn a_real_envoy_refuses_what_is_wrong() {
    let settings = Settings::default();
    let mut bootstrap = standalone(&build(&Model::default(), &settings), &settings);
    bootstrap.static_resources.as_mut().unwrap().clusters[0].name.clear();
    assert!(validate(&bootstrap).is_err());
}

#[test]
fn nothing_to_serve_is_two_listeners_and_404() {
    let resources = build(&Model::default(), &Settings::default());
    let names: Vec<_> = resources.iter().map(|resource| format!("{:?} {}", resource.kind(), resource.name())).collect();
    assert_eq!(names, ["RouteConfiguration http", "Listener http", "Listener stats", "Runtime lockgate"]);
    let mut without_stats = Settings::default();
    without_stats.listeners.stats.port = 0;
    assert_eq!(build(&Model::default(), &without_stats).len(), 3);
}

#[test]
fn resources_name_what_they_need_and_where_they_come_from() {
    let resources = build(&fixture::model(), &Settings::default());
    let find = |kind, name: &str| resources.iter().find(|one| one.kind() == kind && &**one.name() == name).unwrap();
    let listener = find(ResourceType::LISTENER, "https");
    assert_eq!(listener.references().secrets.len(), 1);
    let names: Vec<_> = listener.references().routes.iter().map(|name| name.to_string()).collect();
    assert_eq!(names, ["https/*", "https/*.example.com"]);
    assert!(find(ResourceType::SCOPED_ROUTES, "https/shop.example.com").references().names_cluster("shop/cart/http"));
    let cluster = find(ResourceType::CLUSTER, "shop/cart/http");
    assert_eq!(&*cluster.references().endpoints[0], "shop/cart/http");
    assert_eq!(cluster.origins()[0].to_string(), "Service shop/cart");
    assert!(find(ResourceType::ROUTES, "http").references().names_cluster("shop/cart/http"));
    assert!(find(ResourceType::ROUTES, "https/*").origins().iter().any(|origin| origin.kind == "Ingress"));
}

#[test]
fn equal_models_make_equal_bytes() {
    let (one, other) = (build(&fixture::model(), &Settings::default()), build(&fixture::model(), &Settings::default()));
    let versions = |resources: &[Resource]| resources.iter().map(Resource::version).collect::<Vec<_>>();
    assert_eq!(versions(&one), versions(&other));
}
