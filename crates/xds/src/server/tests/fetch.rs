//! The unary methods, and the streams of types that only have a row in the table of services.

use envoy_types::pb::envoy::service as service_v3;
use envoy_types::pb::google::protobuf::Any;
use tonic::Code;

use super::grpc::lab::*;
use crate::protocol::tests::harness::*;
use crate::snapshot::{Resource, ResourceType};

const SCOPED_ROUTES: ResourceType = ResourceType::SCOPED_ROUTES;
const RUNTIME: ResourceType = ResourceType::RUNTIME;
const EXTENSION: ResourceType = ResourceType::EXTENSION;

/// Returns a resource of any type with a service, with only the field `name`.
pub fn bare(kind: ResourceType, name: &str) -> Resource {
    let mut message = vec![0x0a, name.len() as u8];
    message.extend_from_slice(name.as_bytes());
    Resource::from_encoded(kind, name, &message, Vec::new())
}

/// Returns one resource of each type.
pub fn world() -> [Resource; 8] {
    let others = [bare(SCOPED_ROUTES, "scope"), bare(RUNTIME, "layer"), bare(EXTENSION, "filter")];
    let [scope, layer, filter] = others;
    [cluster("a"), endpoints("a"), routes("r", ["a"]), listener("l", "r"), secret("s"), scope, layer, filter]
}

macro_rules! clients {
    ($check:ident, $server:expr) => {
        let channel = $server.channel();
        $check!(
            channel,
            cluster,
            cluster_discovery_service_client::ClusterDiscoveryServiceClient,
            fetch_clusters,
            stream_clusters,
            delta_clusters,
            CLUSTER,
            "a"
        );
        $check!(
            channel,
            endpoint,
            endpoint_discovery_service_client::EndpointDiscoveryServiceClient,
            fetch_endpoints,
            stream_endpoints,
            delta_endpoints,
            ENDPOINTS,
            "a"
        );
        $check!(
            channel,
            listener,
            listener_discovery_service_client::ListenerDiscoveryServiceClient,
            fetch_listeners,
            stream_listeners,
            delta_listeners,
            LISTENER,
            "l"
        );
        $check!(
            channel,
            route,
            route_discovery_service_client::RouteDiscoveryServiceClient,
            fetch_routes,
            stream_routes,
            delta_routes,
            ROUTES,
            "r"
        );
        $check!(
            channel,
            secret,
            secret_discovery_service_client::SecretDiscoveryServiceClient,
            fetch_secrets,
            stream_secrets,
            delta_secrets,
            SECRET,
            "s"
        );
        $check!(
            channel,
            route,
            scoped_routes_discovery_service_client::ScopedRoutesDiscoveryServiceClient,
            fetch_scoped_routes,
            stream_scoped_routes,
            delta_scoped_routes,
            SCOPED_ROUTES,
            "scope"
        );
        $check!(
            channel,
            runtime,
            runtime_discovery_service_client::RuntimeDiscoveryServiceClient,
            fetch_runtime,
            stream_runtime,
            delta_runtime,
            RUNTIME,
            "layer"
        );
        $check!(
            channel,
            extension,
            extension_config_discovery_service_client::ExtensionConfigDiscoveryServiceClient,
            fetch_extension_configs,
            stream_extension_configs,
            delta_extension_configs,
            EXTENSION,
            "filter"
        );
    };
}

#[tokio::test]
async fn every_type_can_be_fetched_with_one_call() {
    let server = Server::start(world()).await;
    macro_rules! check {
        ($channel:ident, $module:ident, $client:ident::$name:ident, $fetch:ident, $s:ident, $d:ident, $kind:expr, $one:expr) => {
            let mut client = service_v3::$module::v3::$client::$name::new($channel.clone());
            let answer = soon(client.$fetch(ask($kind, &[$one]))).await.unwrap().into_inner();
            assert_eq!(answer.type_url, $kind.url());
            let resource = server.resource($kind, $one);
            let any = Any { type_url: $kind.url().into(), value: resource.message().to_vec() };
            assert_eq!(answer.resources, [any]);

            // A current client gets the same response again. A request for another type gets none.
            let mut again = ask($kind, &[$one]);
            again.version_info.clone_from(&answer.version_info);
            assert_eq!(soon(client.$fetch(again)).await.unwrap().into_inner(), answer);
            let other = if $kind == CLUSTER { LISTENER } else { CLUSTER };
            let status = soon(client.$fetch(ask(other, &[]))).await.unwrap_err();
            assert_eq!(status.code(), Code::InvalidArgument, "{status}");
        };
    }
    clients!(check, server);
    assert!(server.registry.is_empty(), "no stream is left of them");
}

#[tokio::test]
async fn every_type_has_a_separate_stream() {
    let server = Server::start(world()).await;
    macro_rules! check {
        ($channel:ident, $module:ident, $client:ident::$name:ident, $f:ident, $stream:ident, $delta:ident, $kind:expr, $one:expr) => {
            let mut client = service_v3::$module::v3::$client::$name::new($channel.clone());
            let requests = tokio_stream::iter([ask($kind, &[$one])]);
            let mut responses = soon(client.$stream(requests)).await.unwrap().into_inner();
            assert_eq!(soon(responses.message()).await.unwrap().unwrap().resources.len(), 1);
            let requests = tokio_stream::iter([differ($kind, &[$one])]);
            let mut responses = soon(client.$delta(requests)).await.unwrap().into_inner();
            assert_eq!(soon(responses.message()).await.unwrap().unwrap().resources[0].name, $one);
        };
    }
    clients!(check, server);
}
