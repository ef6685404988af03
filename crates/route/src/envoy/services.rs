//! Services that Envoy itself calls, such as authorization servers, by a name in the settings: their clusters and gRPC
//! clients.

use std::net::IpAddr;
use std::time::Duration;

use envoy_types::pb::envoy::config::cluster::v3 as cluster_v3;
use envoy_types::pb::envoy::config::core::v3 as core_v3;
use lockgate_xds::snapshot::Resource;

use super::cluster::{CONNECTION_BUFFER_BYTES, circuit_breakers, http2_options, one_endpoint, strict_dns};
use super::{names, wire};
use crate::model::{CircuitBreakers, LOOP};
use crate::settings::{AuthorizationProtocol, ExternalAuthorization, RateLimit, ServiceAddress, Settings, Tracing};

/// The connect timeout of a service.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// The time after which a connection without a TCP acknowledgment is closed.
const SILENCE: Duration = Duration::from_secs(5);

/// The largest answer to a request of Envoy itself, in bytes: of an authorization server, or a set of keys. Envoy holds complete answers in
/// memory, and tenants can write the server. The defaults of Envoy are 32 MB with HTTP, and unlimited with gRPC.
pub const MAX_ANSWER_BYTES: u32 = 256 << 10;

/// The protocol of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    /// HTTP/1.1.
    Http,
    /// gRPC, over HTTP/2.
    Grpc,
}

/// Builds the CDS resources of all services. A service without an endpoint in the settings has none. Listeners
/// reference these clusters, so the clusters precede the listeners.
pub fn clusters(settings: &Settings) -> [(&'static str, Option<Resource>); 4] {
    let Settings { tracing, external_authorization, rate_limit, upstream, .. } = settings;
    let Tracing { endpoint: collector, .. } = tracing;
    let ExternalAuthorization { endpoint: authorizer, check, .. } = external_authorization;
    let RateLimit { endpoint: limiter, .. } = rate_limit;
    let over = |wanted| authorizer.as_ref().filter(|_| check.protocol == wanted);
    // Spans can wait or be lost. A request without an authorization response is rejected.
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

/// Builds the cluster of a service. The load is distributed over all addresses of its name.
///
/// The search domains of Envoy's pod apply to the name, because it comes from the operator and not from a tenant.
/// Limits apply to a service that Envoy calls before a request proceeds (`asked`). A connection to a peer that has
/// disappeared is closed after seconds. TCP itself would retransmit for a quarter of an hour, and Envoy would keep
/// using the connection.
fn cluster(
    name: &str,
    endpoint: &ServiceAddress,
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

/// Builds the Linux socket option `TCP_USER_TIMEOUT`. Source: tcp(7).
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

/// Builds the gRPC client of the service behind `cluster`.
pub fn grpc(cluster: &str, timeout: Duration) -> core_v3::GrpcService {
    let envoy_grpc = core_v3::grpc_service::EnvoyGrpc {
        cluster_name: cluster.to_owned(),
        max_receive_message_length: Some(wire::uint32(MAX_ANSWER_BYTES)),
        ..Default::default()
    };
    core_v3::GrpcService {
        timeout: Some(wire::duration(timeout)),
        target_specifier: Some(core_v3::grpc_service::TargetSpecifier::EnvoyGrpc(envoy_grpc)),
        ..Default::default()
    }
}

/// Sets the largest answer in bytes.
pub fn limit_answers(service: &mut core_v3::GrpcService, bytes: u32) {
    if let Some(core_v3::grpc_service::TargetSpecifier::EnvoyGrpc(envoy)) = &mut service.target_specifier {
        envoy.max_receive_message_length = Some(wire::uint32(bytes));
    }
}

/// Sends the marks of each request in its calls. Otherwise a call that leads back to an Envoy of the installation would make the same
/// call again, without an end.
pub fn forward_marks(service: &mut core_v3::GrpcService) {
    let mark = core_v3::HeaderValue { key: LOOP.to_owned(), value: format!("%REQ({LOOP})%"), ..Default::default() };
    service.initial_metadata.push(mark);
}

/// Sets the `:authority` of calls. By default it is the name of the cluster, which is not valid if it contains a slash.
pub fn set_authority(service: &mut core_v3::GrpcService, authority: &str) {
    if let Some(core_v3::grpc_service::TargetSpecifier::EnvoyGrpc(envoy)) = &mut service.target_specifier {
        envoy.authority = authority.to_owned();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_resolved_and_an_address_is_not() {
        use cluster_v3::cluster::ClusterDiscoveryType::{ClusterType, Type};
        let discovery = |host: &str| {
            let endpoint = ServiceAddress { host: host.to_owned(), port: 4317 };
            cluster("a", &endpoint, Protocol::Grpc, None).cluster_discovery_type
        };
        assert!(matches!(discovery("collector.monitoring"), Some(ClusterType(_))));
        assert!(matches!(discovery("10.0.0.7"), Some(Type(_))));
        assert!(matches!(discovery("fd00::7"), Some(Type(_))));
    }

    #[test]
    fn each_configured_service_has_a_cluster() {
        let named = |settings: &Settings| {
            let all = clusters(settings).into_iter();
            all.filter(|(_, cluster)| cluster.is_some()).map(|(name, _)| name).collect::<Vec<_>>()
        };
        let mut settings = Settings::default();
        assert!(named(&settings).is_empty());
        let endpoint = Some(ServiceAddress { host: "somebody".to_owned(), port: 1 });
        settings.external_authorization.endpoint = endpoint.clone();
        assert_eq!(named(&settings), ["external-authorization"]);
        // Both clusters are needed until the listeners have changed.
        settings.external_authorization.check.protocol = AuthorizationProtocol::Http;
        assert_eq!(named(&settings), ["external-authorization-http"]);
        (settings.tracing.endpoint, settings.rate_limit.endpoint) = (endpoint.clone(), endpoint);
        assert_eq!(named(&settings), ["tracing", "external-authorization-http", "rate-limit"]);
    }
}
