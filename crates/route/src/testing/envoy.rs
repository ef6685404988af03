//! Validation of resources by a real Envoy.

use std::path::PathBuf;
use std::process::Command;

use envoy_types::pb::envoy::config::bootstrap::v3 as bootstrap_v3;
use envoy_types::pb::envoy::config::cluster::v3 as cluster_v3;
use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::config::listener::v3 as listener_v3;
use envoy_types::pb::envoy::config::route::v3 as route_v3;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3 as tls_v3;
use envoy_types::pb::envoy::service::runtime::v3 as runtime_v3;
use envoy_types::pb::google::protobuf as google;
use lockgate_xds::protobuf;
use lockgate_xds::snapshot::{Resource, ResourceType};
use prost::Message;
use prost_reflect::{DynamicMessage, ReflectMessage, Value as Reflected};

use crate::envoy::{cluster, hcm, names, wire};
use crate::settings::Settings;

/// Returns the path of a real Envoy: `$ENVOY`, or the result of `make envoy`.
fn real_envoy() -> PathBuf {
    let made = concat!(env!("CARGO_MANIFEST_DIR"), "/../../.venv/bin/envoy-bin");
    let path = std::env::var_os("ENVOY").map_or_else(|| PathBuf::from(made), PathBuf::from);
    assert!(path.is_file(), "{} is not there: run `make envoy`, or set ENVOY to an Envoy 1.40", path.display());
    path
}

/// Validates a bootstrap with Envoy. The error is Envoy's message.
pub fn validate(bootstrap: &bootstrap_v3::Bootstrap) -> Result<(), String> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("bootstrap.pb");
    std::fs::write(&file, bootstrap.encode_to_vec()).unwrap();
    let output = Command::new(real_envoy()).args(["--mode", "validate", "-l", "warning", "-c"]).arg(&file).output();
    let output = output.unwrap();
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    // Envoy logs runtime layers on every start; any other line is at least a warning.
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

/// Builds a bootstrap of an Envoy that waits for ADS. It contains `resources`, with route configurations as separate
/// listeners.
pub fn standalone(resources: &[Resource], settings: &Settings) -> bootstrap_v3::Bootstrap {
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
    // The value of `lockgate bootstrap`. By default, Envoy rejects regular expressions of more than 100 instructions.
    let limit = google::Value { kind: Some(google::value::Kind::NumberValue(1_048_576.0)) };
    let limits =
        google::Struct { fields: [("re2.max_program_size.error_level".to_owned(), limit)].into_iter().collect() };
    let limits = runtime_v3::Runtime { name: "static".to_owned(), layer: Some(limits) };
    let of_resources = decoded::<runtime_v3::Runtime>(resources, ResourceType::RUNTIME);
    let layers = [limits].into_iter().chain(of_resources).map(layer).collect();
    bootstrap.layered_runtime = Some(bootstrap_v3::LayeredRuntime { layers });
    let parts = bootstrap.static_resources.as_mut().unwrap();
    parts.clusters.extend(decoded::<cluster_v3::Cluster>(resources, ResourceType::CLUSTER));
    parts.secrets.extend(decoded::<tls_v3::Secret>(resources, ResourceType::SECRET));
    let listeners = decoded::<listener_v3::Listener>(resources, ResourceType::LISTENER);
    parts.listeners.extend(listeners.into_iter().map(|listener| with_extensions(listener, resources)));
    let scopes = decoded::<route_v3::ScopedRouteConfiguration>(resources, ResourceType::SCOPED_ROUTES).into_iter();
    let of_scopes = scopes.filter_map(|scope| scope.route_configuration);
    let routes = decoded::<route_v3::RouteConfiguration>(resources, ResourceType::ROUTES).into_iter().chain(of_scopes);
    for (port, routes) in (2..).zip(routes) {
        let name = format!("routes of {}", routes.name);
        let routes = hcm::RouteSource::Inline(Box::new(routes));
        // Any route may be among the resources.
        let filters = hcm::RouteFilters { policies: true, health: true, server_name: true, installation: Some(1) };
        let manager = hcm::http_connection_manager("test", routes, hcm::Codec::Tcp, vec![], filters, settings);
        parts.listeners.push(listener_v3::Listener {
            name,
            address: Some(wire::socket_address("127.0.0.1", port)),
            filter_chains: vec![listener_v3::FilterChain { filters: vec![manager], ..Default::default() }],
            ..Default::default()
        });
    }
    bootstrap
}

/// Replaces the discovered filters of `listener` by their configurations, which Envoy does not fetch when it validates.
fn with_extensions(mut listener: listener_v3::Listener, resources: &[Resource]) -> listener_v3::Listener {
    use listener_v3::filter::ConfigType;
    let extensions = decoded::<core_v3::TypedExtensionConfig>(resources, ResourceType::EXTENSION);
    for filter in listener.filter_chains.iter_mut().flat_map(|chain| &mut chain.filters) {
        if matches!(filter.config_type, Some(ConfigType::ConfigDiscovery(_))) {
            let found = extensions.iter().find(|extension| extension.name == filter.name);
            let found = found.unwrap_or_else(|| panic!("no extension {}", filter.name));
            filter.config_type = found.typed_config.clone().map(ConfigType::TypedConfig);
        }
    }
    listener
}

/// Returns, for each `ConfigSource` and `ApiConfigSource` in `message` at any depth, whether it has version 3 of the
/// API.
pub fn config_sources(message: &DynamicMessage) -> Vec<bool> {
    let mut found = match message.descriptor().full_name() {
        "envoy.config.core.v3.ConfigSource" => vec![says_version_3(message, "resource_api_version")],
        "envoy.config.core.v3.ApiConfigSource" => vec![says_version_3(message, "transport_api_version")],
        "google.protobuf.Any" => {
            let any: prost_types::Any = message.transcode_to().unwrap();
            if any.type_url.is_empty() {
                return Vec::new(); // The configuration of a route that only enables a filter.
            }
            let inner = protobuf::pool().get_message_by_name(any.type_url.rsplit('/').next().unwrap()).unwrap();
            return config_sources(&DynamicMessage::decode(inner, &*any.value).unwrap());
        }
        _ => Vec::new(),
    };
    for (_, value) in message.fields() {
        let inner = match value {
            Reflected::Message(one) => vec![one],
            Reflected::List(items) => items.iter().filter_map(Reflected::as_message).collect(),
            Reflected::Map(entries) => entries.values().filter_map(Reflected::as_message).collect(),
            _ => Vec::new(),
        };
        inner.into_iter().for_each(|one| found.extend(config_sources(one)));
    }
    found
}

fn says_version_3(message: &DynamicMessage, field: &str) -> bool {
    message.get_field_by_name(field).unwrap().as_enum_number() == Some(2)
}
