//! The bootstrap as a typed message.

use std::time::Duration;

use envoy_types::pb::envoy::config::bootstrap::v3 as bootstrap_v3;
use envoy_types::pb::envoy::config::cluster::v3 as cluster_v3;
use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::config::metrics::v3 as metrics_v3;
use envoy_types::pb::envoy::config::overload::v3 as overload_v3;
use envoy_types::pb::envoy::extensions::clusters::dns::v3 as dns_v3;
use envoy_types::pb::envoy::extensions::resource_monitors::downstream_connections::v3 as connections_v3;
use envoy_types::pb::envoy::extensions::resource_monitors::fixed_heap::v3 as fixed_heap_v3;
use envoy_types::pb::envoy::r#type::matcher::v3 as matcher_v3;
use envoy_types::pb::google::protobuf as google;
use lockgate_route::envoy::cluster::{http2_options, one_endpoint, strict_dns};
use lockgate_route::envoy::{names, wire};
use lockgate_xds::snapshot::ResourceType;

use super::{Address, BootstrapArgs, Locality, Mode, tls};
use crate::settings::Overload;

/// The key of the node's metadata with the limit of open files of Envoy.
pub const OPEN_FILES: &str = "lockgate.dev/open-files";

/// Returns the bootstrap for `options`. Performs no I/O.
pub fn bootstrap(options: &BootstrapArgs) -> bootstrap_v3::Bootstrap {
    let zone = options.node_locality.as_ref().filter(|locality| !locality.zone.is_empty());
    bootstrap_v3::Bootstrap {
        node: Some(core_v3::Node {
            id: options.node_id.clone().unwrap_or_default(),
            cluster: options.node_cluster.clone(),
            locality: options.node_locality.as_ref().map(Locality::message),
            metadata: options
                .open_files
                .map(|limit| google::Struct { fields: [(OPEN_FILES.to_owned(), number(limit))].into() }),
            ..Default::default()
        }),
        admin: Some(bootstrap_v3::Admin {
            address: Some(admin_address(options)),
            // Probes and scrapers can connect even at the limit of connections.
            ignore_global_conn_limit: true,
            ..Default::default()
        }),
        dynamic_resources: Some(dynamic_resources(options)),
        static_resources: Some(bootstrap_v3::bootstrap::StaticResources {
            clusters: [
                options.files.is_none().then(|| xds_cluster(options)),
                Some(admin_cluster(&options.envoy_admin_address)),
                zone.map(local_zone_cluster),
            ]
            .into_iter()
            .flatten()
            .collect(),
            ..Default::default()
        }),
        // Without `enable_deferred_cluster_creation`: of the memory for 10,000 clusters and two threads, it saves a tenth, but a new host
        // takes a tenth longer, because the first request of each thread creates the cluster.
        cluster_manager: zone.map(|_| bootstrap_v3::ClusterManager {
            local_cluster_name: names::LOCAL_ZONE_CLUSTER.to_owned(),
            ..Default::default()
        }),
        overload_manager: overload_manager(options),
        layered_runtime: Some(layered_runtime(options)),
        // Most clusters of a large site have no traffic at an Envoy. Their counters are created by the first request.
        deferred_stat_options: Some(bootstrap_v3::bootstrap::DeferredStatOptions {
            enable_deferred_creation_stats: true,
        }),
        stats_config: (!options.all_statistics).then(stats_config),
        ..Default::default()
    }
}

/// Returns the statistics that Envoy leaves out: the numbers of a cluster that exist without traffic, except for those of endpoints, of
/// panic, and of failed updates. They take 8 KB of memory for each cluster.
fn stats_config() -> metrics_v3::StatsConfig {
    let numbers = "assignment_.*|circuit_breakers\\..*|default\\.total_match_count|init_fetch_timeout|\
                   lb_(local|recalculate|subsets|zone).*|max_host_weight|membership_(change|degraded|excluded)|\
                   update_(attempt|duration|empty|no_rebuild|success|time)|version|version_text|warming_state";
    let regex = format!("cluster\\..*\\.({numbers})");
    let regex = matcher_v3::RegexMatcher { regex, ..Default::default() };
    let pattern = matcher_v3::StringMatcher {
        match_pattern: Some(matcher_v3::string_matcher::MatchPattern::SafeRegex(regex)),
        ..Default::default()
    };
    let left_out = matcher_v3::ListStringMatcher { patterns: vec![pattern] };
    metrics_v3::StatsConfig {
        stats_matcher: Some(metrics_v3::StatsMatcher {
            stats_matcher: Some(metrics_v3::stats_matcher::StatsMatcher::ExclusionList(left_out)),
        }),
        ..Default::default()
    }
}

/// Returns the sources of clusters and listeners. These resources contain the sources of all other resources.
fn dynamic_resources(options: &BootstrapArgs) -> bootstrap_v3::bootstrap::DynamicResources {
    let Some(files) = &options.files else {
        return bootstrap_v3::bootstrap::DynamicResources {
            ads_config: Some(ads_config(options.mode)),
            // Envoy becomes ready only after it has received both. `wire::ads` sets no timeout.
            cds_config: Some(wire::ads()),
            lds_config: Some(wire::ads()),
            ..Default::default()
        };
    };
    bootstrap_v3::bootstrap::DynamicResources {
        cds_config: Some(files.config_source(ResourceType::CLUSTER, "")),
        lds_config: Some(files.config_source(ResourceType::LISTENER, "")),
        ..Default::default()
    }
}

/// Returns the ADS stream. After a failure, Envoy reconnects after 100 ms, and then at least every second. Its default
/// limit is 30 s, which would delay the Envoys of a restarted controller.
fn ads_config(mode: Mode) -> core_v3::ApiConfigSource {
    use core_v3::api_config_source::ApiType;
    use core_v3::grpc_service::{EnvoyGrpc, TargetSpecifier};
    let retry_policy = core_v3::RetryPolicy {
        retry_back_off: Some(core_v3::BackoffStrategy {
            base_interval: Some(wire::duration(Duration::from_millis(100))),
            max_interval: Some(wire::duration(Duration::from_secs(1))),
        }),
        ..Default::default()
    };
    let api_type = match mode {
        Mode::Delta => ApiType::DeltaGrpc,
        Mode::Sotw | Mode::Files => ApiType::Grpc,
    };
    core_v3::ApiConfigSource {
        api_type: api_type as i32,
        transport_api_version: core_v3::ApiVersion::V3 as i32,
        set_node_on_first_message_only: true,
        grpc_services: vec![core_v3::GrpcService {
            target_specifier: Some(TargetSpecifier::EnvoyGrpc(EnvoyGrpc {
                cluster_name: names::XDS_CLUSTER.to_owned(),
                retry_policy: Some(retry_policy),
                ..Default::default()
            })),
            ..Default::default()
        }],
        ..Default::default()
    }
}

/// Returns the cluster of the controller. A dead connection is detected within 15 s.
fn xds_cluster(options: &BootstrapArgs) -> cluster_v3::Cluster {
    use cluster_v3::cluster::{ClusterDiscoveryType, CustomClusterType, DiscoveryType};
    let http2 = core_v3::Http2ProtocolOptions {
        connection_keepalive: Some(core_v3::KeepaliveSettings {
            interval: Some(wire::duration(Duration::from_secs(10))),
            timeout: Some(wire::duration(Duration::from_secs(5))),
            ..Default::default()
        }),
        ..Default::default()
    };
    let discovery = match options.xds_address {
        Address::Ip(..) | Address::Unix(_) => ClusterDiscoveryType::Type(DiscoveryType::Static as i32),
        Address::Name(..) => {
            let dns = dns_v3::DnsCluster {
                dns_failure_refresh_rate: Some(dns_v3::dns_cluster::RefreshRate {
                    base_interval: Some(wire::duration(Duration::from_millis(500))),
                    max_interval: Some(wire::duration(Duration::from_secs(5))),
                }),
                ..strict_dns()
            };
            ClusterDiscoveryType::ClusterType(CustomClusterType {
                name: "envoy.clusters.dns".to_owned(),
                typed_config: Some(wire::any(&dns)),
            })
        }
    };
    let beside = options.output_file.as_deref().and_then(std::path::Path::parent);
    cluster_v3::Cluster {
        name: names::XDS_CLUSTER.to_owned(),
        connect_timeout: Some(wire::duration(Duration::from_secs(2))),
        cluster_discovery_type: Some(discovery),
        load_assignment: Some(one_endpoint(names::XDS_CLUSTER, options.xds_address.message())),
        typed_extension_protocol_options: http2_options(http2),
        transport_socket: options
            .xds_tls
            .as_deref()
            .map(|directory| tls::transport_socket(directory, beside, &options.xds_address)),
        upstream_connection_options: Some(cluster_v3::UpstreamConnectionOptions {
            tcp_keepalive: Some(wire::tcp_keepalive()),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// Returns the address of Envoy's admin interface. By default, only the user of Envoy can access a socket.
fn admin_address(options: &BootstrapArgs) -> core_v3::Address {
    let mut address = options.envoy_admin_address.message();
    if let Some(core_v3::address::Address::Pipe(pipe)) = &mut address.address {
        pipe.mode = options.envoy_admin_socket_mode;
    }
    address
}

/// Returns the cluster of Envoy's own admin interface, which the listener `stats` uses.
fn admin_cluster(address: &Address) -> cluster_v3::Cluster {
    use cluster_v3::cluster::{ClusterDiscoveryType, DiscoveryType};
    cluster_v3::Cluster {
        name: names::ADMIN_CLUSTER.to_owned(),
        connect_timeout: Some(wire::duration(Duration::from_secs(1))),
        cluster_discovery_type: Some(ClusterDiscoveryType::Type(DiscoveryType::Static as i32)),
        load_assignment: Some(one_endpoint(names::ADMIN_CLUSTER, address.to_connect().message())),
        // Envoy's main thread renders statistics, and does nothing else meanwhile.
        circuit_breakers: Some(cluster_v3::CircuitBreakers {
            thresholds: vec![cluster_v3::circuit_breakers::Thresholds {
                max_connections: Some(wire::uint32(4)),
                max_pending_requests: Some(wire::uint32(4)),
                max_requests: Some(wire::uint32(4)),
                ..Default::default()
            }],
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// Returns the cluster that makes an Envoy prefer the endpoints of its own zone, for clusters that ask for it (`lockgate_route::envoy`,
/// zones). Envoy counts the endpoints of this cluster in its zone, but sends nothing to them.
fn local_zone_cluster(locality: &Locality) -> cluster_v3::Cluster {
    use cluster_v3::cluster::{ClusterDiscoveryType, DiscoveryType};
    let mut assignment = one_endpoint(names::LOCAL_ZONE_CLUSTER, wire::socket_address("127.0.0.1", 9));
    for endpoints in &mut assignment.endpoints {
        endpoints.locality = Some(locality.message());
    }
    cluster_v3::Cluster {
        name: names::LOCAL_ZONE_CLUSTER.to_owned(),
        cluster_discovery_type: Some(ClusterDiscoveryType::Type(DiscoveryType::Static as i32)),
        load_assignment: Some(assignment),
        ..Default::default()
    }
}

/// Returns the overload limits. Source: Envoy, "Configuring Envoy as an edge proxy".
fn overload_manager(options: &BootstrapArgs) -> Option<overload_v3::OverloadManager> {
    const CONNECTIONS: &str = "envoy.resource_monitors.global_downstream_max_connections";
    const HEAP: &str = "envoy.resource_monitors.fixed_heap";
    let mut monitors = Vec::new();
    let mut actions = Vec::new();
    let connections = options.max_connections.unwrap_or_else(|| Overload::default().max_connections.into());
    if connections > 0 {
        monitors.push(monitor(
            CONNECTIONS,
            &connections_v3::DownstreamConnectionsConfig {
                max_active_downstream_connections: i64::try_from(connections).unwrap_or(i64::MAX),
            },
        ));
    }
    if let Some(bytes) = options.max_heap.filter(|bytes| *bytes > 0) {
        monitors
            .push(monitor(HEAP, &fixed_heap_v3::FixedHeapConfig { max_heap_size_bytes: bytes, ..Default::default() }));
        actions.push(action("envoy.overload_actions.shrink_heap", HEAP, 0.95));
        actions.push(action("envoy.overload_actions.stop_accepting_requests", HEAP, 0.98));
    }
    (!monitors.is_empty()).then(|| overload_v3::OverloadManager {
        refresh_interval: Some(wire::duration(Duration::from_millis(250))),
        resource_monitors: monitors,
        actions,
        ..Default::default()
    })
}

fn number(number: u64) -> google::Value {
    google::Value { kind: Some(google::value::Kind::NumberValue(number as f64)) }
}

fn monitor<M: prost::Message + prost::Name>(name: &str, config: &M) -> overload_v3::ResourceMonitor {
    overload_v3::ResourceMonitor {
        name: name.to_owned(),
        config_type: Some(overload_v3::resource_monitor::ConfigType::TypedConfig(wire::any(config))),
    }
}

fn action(name: &str, resource: &str, at: f64) -> overload_v3::OverloadAction {
    overload_v3::OverloadAction {
        name: name.to_owned(),
        triggers: vec![overload_v3::Trigger {
            name: resource.to_owned(),
            trigger_oneof: Some(overload_v3::trigger::TriggerOneof::Threshold(overload_v3::ThresholdTrigger {
                value: at,
            })),
        }],
        ..Default::default()
    }
}

/// Returns the layers of runtime flags.
///
/// Envoy's limit of the size of regular expressions is disabled, because Envoy would reject the whole route
/// configuration for one path. The limits of the controller (`regexes` in the settings) affect only the path.
///
/// RTDS provides the flags of the settings. With files, they are not available, because Envoy requires each file at the start. The
/// admin layer permits manual changes.
fn layered_runtime(options: &BootstrapArgs) -> bootstrap_v3::LayeredRuntime {
    use bootstrap_v3::runtime_layer::{AdminLayer, LayerSpecifier, RtdsLayer};
    let limit = google::Value { kind: Some(google::value::Kind::NumberValue(1_048_576.0)) };
    let fields = [("re2.max_program_size.error_level".to_owned(), limit)].into_iter().collect();
    let layer =
        |name: &str, specifier| bootstrap_v3::RuntimeLayer { name: name.to_owned(), layer_specifier: Some(specifier) };
    let asked = LayerSpecifier::RtdsLayer(RtdsLayer {
        name: names::RUNTIME.to_owned(),
        rtds_config: Some(core_v3::ConfigSource {
            // Envoy requests no other resources before it receives this resource, which servers of other resources may not have.
            initial_fetch_timeout: Some(wire::duration(Duration::from_secs(1))),
            ..wire::ads()
        }),
    });
    let mut layers = vec![layer("base", LayerSpecifier::StaticLayer(google::Struct { fields }))];
    if options.files.is_none() {
        layers.push(layer(names::RUNTIME, asked));
    }
    layers.push(layer("admin", LayerSpecifier::AdminLayer(AdminLayer::default())));
    bootstrap_v3::LayeredRuntime { layers }
}
