//! Spans by OpenTelemetry: what is traced, and the cluster of the collector that takes it.

use std::net::IpAddr;
use std::time::Duration;

use envoy_types::pb::envoy::config::cluster::v3 as cluster_v3;
use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::config::trace::v3 as trace_v3;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3 as hcm_v3;
use envoy_types::pb::envoy::r#type::tracing::v3 as tracing_v3;
use envoy_types::pb::envoy::r#type::v3 as type_v3;

use super::cluster::{CONNECTION_BUFFER_BYTES, http2_options, one_endpoint, strict_dns};
use super::{names, wire};
use crate::settings::{Endpoint, Sampling, TagValue, Tracing};
use crate::snapshot::Resource;

/// How long the collector may take for a batch of spans.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a connection to it may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// What a connection manager traces; nothing without a collector.
///
/// A span for each request that came in and one for each that went out, since Envoy is a hop of its own.
pub fn tracing(settings: &Tracing) -> Option<hcm_v3::http_connection_manager::Tracing> {
    let Tracing { endpoint, service_name, sampling, max_path_tag_length, custom_tags, pod_detail } = settings;
    endpoint.as_ref()?;
    let Sampling { overall, client, random } = *sampling;
    let percent = |value| Some(type_v3::Percent { value });
    let envoy_grpc =
        core_v3::grpc_service::EnvoyGrpc { cluster_name: names::TRACING_CLUSTER.to_owned(), ..Default::default() };
    let provider = trace_v3::OpenTelemetryConfig {
        grpc_service: Some(core_v3::GrpcService {
            timeout: Some(wire::duration(EXPORT_TIMEOUT)),
            target_specifier: Some(core_v3::grpc_service::TargetSpecifier::EnvoyGrpc(envoy_grpc)),
            ..Default::default()
        }),
        service_name: service_name.clone(),
        ..Default::default()
    };
    let pod = [("pod.name", "POD_NAME"), ("pod.namespace", "POD_NAMESPACE")];
    let pod = pod.into_iter().filter(|_| *pod_detail).map(|(tag, variable)| environment(tag, variable));
    Some(hcm_v3::http_connection_manager::Tracing {
        client_sampling: percent(client),
        random_sampling: percent(random),
        overall_sampling: percent(overall),
        max_path_tag_length: Some(wire::uint32(*max_path_tag_length)),
        custom_tags: custom_tags.iter().map(|(tag, value)| custom_tag(tag, value)).chain(pod).collect(),
        provider: Some(trace_v3::tracing::Http {
            name: "envoy.tracers.opentelemetry".to_owned(),
            config_type: Some(trace_v3::tracing::http::ConfigType::TypedConfig(wire::any(&provider))),
        }),
        spawn_upstream_span: Some(wire::boolean(true)),
        ..Default::default()
    })
}

fn custom_tag(tag: &str, value: &TagValue) -> tracing_v3::CustomTag {
    use tracing_v3::custom_tag::{Header, Literal, Type};
    let value = match value {
        TagValue::Literal(value) => Type::Literal(Literal { value: value.clone() }),
        TagValue::RequestHeader(name) => {
            Type::RequestHeader(Header { name: name.clone(), default_value: String::new() })
        }
    };
    tracing_v3::CustomTag { tag: tag.to_owned(), r#type: Some(value) }
}

/// A tag with a variable of Envoy's environment. Without a value Envoy leaves it out.
fn environment(tag: &str, variable: &str) -> tracing_v3::CustomTag {
    use tracing_v3::custom_tag::{Environment, Type};
    let value = Environment { name: variable.to_owned(), default_value: String::new() };
    tracing_v3::CustomTag { tag: tag.to_owned(), r#type: Some(Type::Environment(value)) }
}

/// The CDS resource of the collector, if there is one. Listeners name it, so it is there before they are.
pub fn cluster_resource(settings: &Tracing) -> Option<Resource> {
    let endpoint = settings.endpoint.as_ref()?;
    Some(Resource::new(names::TRACING_CLUSTER, &cluster(endpoint), vec![]))
}

/// The message. Every address of the collector's name gets its share.
///
/// The name is looked up with the search domains of Envoy's pod: it is the operator's, not a tenant's.
pub fn cluster(endpoint: &Endpoint) -> cluster_v3::Cluster {
    use cluster_v3::cluster::{ClusterDiscoveryType, CustomClusterType, DiscoveryType};
    let discovery = match endpoint.host.parse::<IpAddr>() {
        Ok(_) => ClusterDiscoveryType::Type(DiscoveryType::Static as i32),
        Err(_) => ClusterDiscoveryType::ClusterType(CustomClusterType {
            name: "envoy.clusters.dns".to_owned(),
            typed_config: Some(wire::any(&strict_dns())),
        }),
    };
    cluster_v3::Cluster {
        name: names::TRACING_CLUSTER.to_owned(),
        connect_timeout: Some(wire::duration(CONNECT_TIMEOUT)),
        per_connection_buffer_limit_bytes: Some(wire::uint32(CONNECTION_BUFFER_BYTES)),
        cluster_discovery_type: Some(discovery),
        load_assignment: Some(one_endpoint(
            names::TRACING_CLUSTER,
            wire::socket_address(&endpoint.host, endpoint.port),
        )),
        typed_extension_protocol_options: http2_options(core_v3::Http2ProtocolOptions::default()),
        upstream_connection_options: Some(cluster_v3::UpstreamConnectionOptions {
            tcp_keepalive: Some(wire::tcp_keepalive()),
            ..Default::default()
        }),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn to(host: &str) -> Tracing {
        Tracing { endpoint: Some(Endpoint { host: host.to_owned(), port: 4317 }), ..Tracing::default() }
    }

    #[test]
    fn without_a_collector_nothing_is_traced() {
        assert!(tracing(&Tracing::default()).is_none() && cluster_resource(&Tracing::default()).is_none());
    }

    #[test]
    fn a_sampling_of_0_stays_0() {
        let sampling = Sampling { overall: 0.0, client: 0.0, random: 0.0 };
        let tracing = tracing(&Tracing { sampling, ..to("collector") }).unwrap();
        assert_eq!(tracing.overall_sampling.unwrap().value, 0.0);
        assert_eq!(tracing.random_sampling.unwrap().value, 0.0);
    }

    #[test]
    fn a_name_is_looked_up_and_an_address_is_not() {
        use cluster_v3::cluster::ClusterDiscoveryType::{ClusterType, Type};
        let discovery = |host| cluster(&to(host).endpoint.unwrap()).cluster_discovery_type;
        assert!(matches!(discovery("collector.monitoring"), Some(ClusterType(_))));
        assert!(matches!(discovery("10.0.0.7"), Some(Type(_))));
        assert!(matches!(discovery("fd00::7"), Some(Type(_))));
    }

    #[test]
    fn the_pod_is_told_only_if_asked_for() {
        let tags = |pod_detail| tracing(&Tracing { pod_detail, ..to("collector") }).unwrap().custom_tags.len();
        assert_eq!((tags(true), tags(false)), (2, 0));
    }
}
