//! Services that Envoy itself asks or tells something, by a name of the settings: their clusters, and how they are called.

use std::net::IpAddr;
use std::time::Duration;

use envoy_types::pb::envoy::config::cluster::v3 as cluster_v3;
use envoy_types::pb::envoy::config::core::v3 as core_v3;
use lockgate_xds::snapshot::Resource;

use super::cluster::{CONNECTION_BUFFER_BYTES, circuit_breakers, http2_options, one_endpoint, strict_dns};
use super::{names, wire};
use crate::model::CircuitBreakers;
use crate::settings::{AuthorizationProtocol, Endpoint, ExternalAuthorization, RateLimit, Settings, Tracing};

/// How long a connection to one may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// How long one may leave what it was sent without an acknowledgement of TCP, before the connection is given up.
const SILENCE: Duration = Duration::from_secs(5);

/// What a service speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    /// HTTP/1.1.
    Http,
    /// gRPC: HTTP/2.
    Grpc,
}

/// The CDS resources of all services that may be asked; those that the settings do not name have none. Listeners name them,
/// so they are there before these are.
pub fn clusters(settings: &Settings) -> [(&'static str, Option<Resource>); 4] {
    let Settings { tracing, external_authorization, rate_limit, upstream, .. } = settings;
    let Tracing { endpoint: collector, .. } = tracing;
    let ExternalAuthorization { endpoint: authorizer, protocol, .. } = external_authorization;
    let RateLimit { endpoint: limiter, .. } = rate_limit;
    let over = |wanted| authorizer.as_ref().filter(|_| *protocol == wanted);
    // Spans can wait or be lost; a request that is not asked about is refused.
    let limits = &upstream.circuit_breakers;
    [
        (names::TRACING_CLUSTER, collector.as_ref(), Protocol::Grpc, None),
        (names::AUTHORIZATION_CLUSTER, over(AuthorizationProtocol::Grpc), Protocol::Grpc, Some(limits)),
        (names::HTTP_AUTHORIZATION_CLUSTER, over(AuthorizationProtocol::Http), Protocol::Http, Some(limits)),
        (names::RATE_LIMIT_CLUSTER, limiter.as_ref(), Protocol::Grpc, Some(limits)),
    ]
    .map(|(name, endpoint, protocol, limits)| {
        let cluster = endpoint.map(|endpoint| cluster(name, endpoint, protocol, limits));
        (name, cluster.map(|cluster| Resource::new(name, &cluster, vec![])))
    })
}

/// The message. Every address of the service's name gets its share.
///
/// The name is looked up with the search domains of Envoy's pod: it is the operator's, not a tenant's. A service that is
/// `asked` before a request goes on has limits. A connection to it whose other end has vanished is given up after seconds: TCP
/// itself sends again for a quarter of an hour, and all the time Envoy would go on to ask over it.
fn cluster(
    name: &str,
    endpoint: &Endpoint,
    protocol: Protocol,
    asked: Option<&CircuitBreakers>,
) -> cluster_v3::Cluster {
    use cluster_v3::cluster::{ClusterDiscoveryType, CustomClusterType, DiscoveryType};
    let discovery = match endpoint.host.parse::<IpAddr>() {
        Ok(_) => ClusterDiscoveryType::Type(DiscoveryType::Static as i32),
        Err(_) => ClusterDiscoveryType::ClusterType(CustomClusterType {
            name: "envoy.clusters.dns".to_owned(),
            typed_config: Some(wire::any(&strict_dns())),
        }),
    };
    cluster_v3::Cluster {
        name: name.to_owned(),
        connect_timeout: Some(wire::duration(CONNECT_TIMEOUT)),
        per_connection_buffer_limit_bytes: Some(wire::uint32(CONNECTION_BUFFER_BYTES)),
        cluster_discovery_type: Some(discovery),
        load_assignment: Some(one_endpoint(name, wire::socket_address(&endpoint.host, endpoint.port))),
        circuit_breakers: asked.and_then(circuit_breakers),
        typed_extension_protocol_options: match protocol {
            Protocol::Http => Default::default(),
            Protocol::Grpc => http2_options(core_v3::Http2ProtocolOptions::default()),
        },
        upstream_bind_config: asked
            .map(|_| core_v3::BindConfig { socket_options: vec![tcp_user_timeout(SILENCE)], ..Default::default() }),
        upstream_connection_options: Some(cluster_v3::UpstreamConnectionOptions {
            tcp_keepalive: Some(wire::tcp_keepalive()),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// `TCP_USER_TIMEOUT` of Linux. Source: tcp(7).
fn tcp_user_timeout(timeout: Duration) -> core_v3::SocketOption {
    const IPPROTO_TCP: i64 = 6;
    const TCP_USER_TIMEOUT: i64 = 18;
    core_v3::SocketOption {
        level: IPPROTO_TCP,
        name: TCP_USER_TIMEOUT,
        value: Some(core_v3::socket_option::Value::IntValue(timeout.as_millis() as i64)),
        state: core_v3::socket_option::SocketState::StatePrebind as i32,
        ..Default::default()
    }
}

/// How Envoy calls the service behind `cluster` by gRPC.
pub fn grpc(cluster: &str, timeout: Duration) -> core_v3::GrpcService {
    let envoy_grpc = core_v3::grpc_service::EnvoyGrpc { cluster_name: cluster.to_owned(), ..Default::default() };
    core_v3::GrpcService {
        timeout: Some(wire::duration(timeout)),
        target_specifier: Some(core_v3::grpc_service::TargetSpecifier::EnvoyGrpc(envoy_grpc)),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_looked_up_and_an_address_is_not() {
        use cluster_v3::cluster::ClusterDiscoveryType::{ClusterType, Type};
        let discovery = |host: &str| {
            let endpoint = Endpoint { host: host.to_owned(), port: 4317 };
            cluster("a", &endpoint, Protocol::Grpc, None).cluster_discovery_type
        };
        assert!(matches!(discovery("collector.monitoring"), Some(ClusterType(_))));
        assert!(matches!(discovery("10.0.0.7"), Some(Type(_))));
        assert!(matches!(discovery("fd00::7"), Some(Type(_))));
    }

    #[test]
    fn there_is_a_cluster_for_each_service_that_is_named() {
        let named = |settings: &Settings| {
            let all = clusters(settings).into_iter();
            all.filter(|(_, cluster)| cluster.is_some()).map(|(name, _)| name).collect::<Vec<_>>()
        };
        let mut settings = Settings::default();
        assert!(named(&settings).is_empty());
        let endpoint = Some(Endpoint { host: "somebody".to_owned(), port: 1 });
        settings.external_authorization.endpoint = endpoint.clone();
        assert_eq!(named(&settings), ["external-authorization"]);
        // While the listeners change over, both are needed.
        settings.external_authorization.protocol = AuthorizationProtocol::Http;
        assert_eq!(named(&settings), ["external-authorization-http"]);
        (settings.tracing.endpoint, settings.rate_limit.endpoint) = (endpoint.clone(), endpoint);
        assert_eq!(named(&settings), ["tracing", "external-authorization-http", "rate-limit"]);
    }
}
