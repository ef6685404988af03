//! Tests of the transport: real clients over a loopback port.

mod access;
mod bad_input;
mod connections;
pub mod lab;
mod library;
mod raw;
mod reconnect;
mod status;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use envoy_types::pb::envoy::service as service_v3;
use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DiscoveryRequest};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Code;

use self::lab::*;
use crate::protocol::tests::harness::*;
use crate::server::Access;
use crate::snapshot::{Resource, Store, Update};

fn world() -> [Resource; 5] {
    [cluster("a"), endpoints("a"), routes("r", ["a"]), listener("l", "r"), secret("s")]
}

#[tokio::test]
async fn a1_later_requests_need_no_node() {
    let server = Server::start(world()).await;
    let mut client = server.sotw().await;
    client.send(ask(CLUSTER, &[])).await;
    client.next().await;
    client.send(without_node(ask(LISTENER, &[]))).await;
    assert_eq!(client.next().await.type_url, LISTENER.url());
    let streams = server.registry.describe();
    assert_eq!(streams[0]["node_id"], "one");
}

fn without_node(request: DiscoveryRequest) -> DiscoveryRequest {
    DiscoveryRequest { node: None, ..request }
}

#[tokio::test]
async fn a2_a_first_request_without_node_is_an_invalid_argument() {
    let server = Server::start(world()).await;
    let mut sotw = server.sotw().await;
    sotw.send(without_node(ask(CLUSTER, &[]))).await;
    assert_eq!(sotw.end().await.unwrap_err().code(), Code::InvalidArgument);
    let mut delta = server.delta().await;
    let mut request = differ(CLUSTER, &[]);
    request.node = None;
    delta.send(request).await;
    let status = delta.end().await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().contains("node"), "{status}");
}

#[tokio::test]
async fn a3_streams_of_one_client_on_one_connection_are_independent() {
    let server = Server::start([cluster("a"), cluster("b")]).await;
    let mut ads = AdsClient::new(server.channel());
    let (mut one, mut other) = (Sotw::open(&mut ads).await.unwrap(), Sotw::open(&mut ads).await.unwrap());
    one.send(ask(CLUSTER, &["a"])).await;
    other.send(ask(CLUSTER, &["b"])).await;
    let (a, b) = (one.next().await, other.next().await);
    assert_eq!((a.resources.len(), b.resources.len()), (1, 1));
    assert_ne!(a.resources, b.resources);
    one.ack(&a, &["a"]).await;
    other.ack(&b, &["b"]).await;
    drop(one);
    server.recorder.closed(1).await;
    server.store.update(Update { set: vec![cluster_at("b", 1)], remove: Vec::new() });
    assert_eq!(other.next().await.resources.len(), 1, "the other is closed, this goes on");
}

/// Tests one service of one type: both variants, the implied type, and the refusal of another.
macro_rules! one_type {
    ($server:ident, $kind:ident $names:expr, $client:path, $stream:ident, $delta:ident) => {{
        use $client as Client;
        let other = if $kind == CLUSTER { SECRET } else { CLUSTER };
        let mut client = Client::new($server.channel());
        for type_url in ["", $kind.url()] {
            let (requests, outgoing) = mpsc::channel(8);
            let mut responses = soon(client.$stream(ReceiverStream::new(outgoing))).await.unwrap().into_inner();
            requests.send(DiscoveryRequest { type_url: type_url.into(), ..ask($kind, $names) }).await.unwrap();
            let response = soon(responses.message()).await.unwrap().unwrap();
            assert_eq!((&*response.type_url, response.resources.len()), ($kind.url(), 1));
            requests.send(ask(other, &[])).await.unwrap();
            assert_eq!(soon(responses.message()).await.unwrap_err().code(), Code::InvalidArgument);

            let (requests, outgoing) = mpsc::channel(8);
            let mut responses = soon(client.$delta(ReceiverStream::new(outgoing))).await.unwrap().into_inner();
            requests.send(DeltaDiscoveryRequest { type_url: type_url.into(), ..differ($kind, $names) }).await.unwrap();
            let response = soon(responses.message()).await.unwrap().unwrap();
            assert_eq!((&*response.type_url, response.resources.len()), ($kind.url(), 1));
            requests.send(differ(other, &[])).await.unwrap();
            assert_eq!(soon(responses.message()).await.unwrap_err().code(), Code::InvalidArgument);
        }
    }};
}

#[tokio::test]
async fn a5_services_of_one_type_imply_it_and_refuse_others() {
    use service_v3::cluster::v3::cluster_discovery_service_client::ClusterDiscoveryServiceClient;
    use service_v3::endpoint::v3::endpoint_discovery_service_client::EndpointDiscoveryServiceClient;
    use service_v3::listener::v3::listener_discovery_service_client::ListenerDiscoveryServiceClient;
    use service_v3::route::v3::route_discovery_service_client::RouteDiscoveryServiceClient;
    use service_v3::secret::v3::secret_discovery_service_client::SecretDiscoveryServiceClient;
    let server = Server::start(world()).await;
    one_type!(server, CLUSTER & [], ClusterDiscoveryServiceClient, stream_clusters, delta_clusters);
    one_type!(server, ENDPOINTS & ["a"], EndpointDiscoveryServiceClient, stream_endpoints, delta_endpoints);
    one_type!(server, LISTENER & [], ListenerDiscoveryServiceClient, stream_listeners, delta_listeners);
    one_type!(server, ROUTES & ["r"], RouteDiscoveryServiceClient, stream_routes, delta_routes);
    one_type!(server, SECRET & ["s"], SecretDiscoveryServiceClient, stream_secrets, delta_secrets);
}

#[tokio::test]
async fn a6_an_unknown_type_does_not_affect_the_stream() {
    let server = Server::start(world()).await;
    let unknown = "type.googleapis.com/example.NoSuchType";
    let mut sotw = server.sotw().await;
    let request = ask(CLUSTER, &["x"]);
    sotw.send(DiscoveryRequest { type_url: unknown.into(), ..request }).await;
    sotw.send(ask(CLUSTER, &[])).await;
    assert_eq!(sotw.next().await.type_url, CLUSTER.url(), "the first answer is that to the second request");
    let mut delta = server.delta().await;
    let request = differ(CLUSTER, &["x"]);
    delta.send(DeltaDiscoveryRequest { type_url: unknown.into(), ..request }).await;
    delta.send(differ(CLUSTER, &[])).await;
    let told = delta.next().await;
    assert_eq!((&*told.type_url, &*told.removed_resources), (unknown, &["x".to_owned()][..]));
    assert_eq!(delta.next().await.type_url, CLUSTER.url());
}

#[tokio::test]
async fn a7_responses_decode_and_are_well_formed() {
    use envoy_types::pb::envoy::config::cluster::v3::Cluster;
    use prost::Message;
    let server = Server::start(world()).await;
    let mut nonces = std::collections::HashSet::new();
    let (mut sotw, mut delta) = (server.sotw().await, server.delta().await);
    for (kind, names) in [(CLUSTER, &[][..]), (ENDPOINTS, &["a"]), (LISTENER, &[]), (ROUTES, &["r"]), (SECRET, &["s"])]
    {
        sotw.send(ask(kind, names)).await;
        let response = sotw.next().await;
        assert_eq!(response.type_url, kind.url());
        assert!(response.resources.iter().all(|any| any.type_url == kind.url()));
        assert_eq!(response.control_plane.as_ref().unwrap().identifier, "lockgate-test");
        assert!(!response.nonce.is_empty() && nonces.insert(response.nonce.clone()));
        sotw.ack(&response, names).await;

        delta.send(differ(kind, names)).await;
        let response = delta.next().await;
        assert_eq!(response.type_url, kind.url());
        let [resource] = &response.resources[..] else { panic!("{response:?}") };
        assert_eq!(resource.resource.as_ref().unwrap().type_url, kind.url());
        assert_eq!(
            resource.version,
            server.store.newest().unwrap().get(kind, &resource.name).unwrap().version().to_string()
        );
        assert_eq!(response.control_plane.as_ref().unwrap().identifier, "lockgate-test");
        if kind == CLUSTER {
            let decoded = Cluster::decode(&*resource.resource.as_ref().unwrap().value).unwrap();
            assert_eq!(decoded.name, "a");
        }
        delta.ack(&response).await;
    }
}

#[tokio::test]
async fn a9_requests_are_held_until_there_is_a_first_snapshot() {
    let store = Arc::new(Store::default());
    let server = Server::over(store, "127.0.0.1:0".parse().unwrap(), Access::PlainFromLoopback).await;
    let (mut sotw, mut delta) = (server.sotw().await, server.delta().await);
    sotw.send(ask(CLUSTER, &[])).await;
    delta.send(differ(CLUSTER, &[])).await;
    assert!(sotw.is_silent().await && delta.is_silent().await, "an empty answer would delete everything");
    server.store.replace(world().into());
    assert_eq!(sotw.next().await.resources.len(), 1);
    assert_eq!(delta.next().await.resources.len(), 1);
}

#[tokio::test]
async fn a11_a_stream_leaves_no_state_after_any_end() {
    let store = Arc::new(Store::default());
    let server = Server::over(store, "127.0.0.1:0".parse().unwrap(), Access::PlainFromLoopback).await;
    // The client disconnects before the first snapshot, with and without a request.
    drop(server.sotw().await);
    let early = server.delta().await;
    early.send(differ(CLUSTER, &[])).await;
    drop(early);
    server.recorder.closed(2).await;
    server.store.replace(world().into());
    // The client disconnects without a request.
    drop(server.sotw().await);
    server.recorder.closed(3).await;
    // The client disconnects with a response in flight, and with an unread one.
    let mut client = server.sotw().await;
    client.send(ask(CLUSTER, &[])).await;
    client.next().await;
    client.send(ask(LISTENER, &[])).await;
    assert_eq!(server.registry.len(), 1);
    drop(client);
    server.recorder.closed(4).await;
    // The client closes its side of the stream.
    let mut client = server.delta().await;
    client.send(differ(CLUSTER, &[])).await;
    client.next().await;
    client.requests = None;
    client.end().await.unwrap();
    server.recorder.closed(5).await;
    // The stream is refused.
    let mut client = server.sotw().await;
    client.send(without_node(ask(CLUSTER, &[]))).await;
    client.end().await.unwrap_err();
    server.recorder.closed(6).await;
    assert!(server.registry.is_empty());
    assert_eq!(server.recorder.opened.load(Ordering::SeqCst), 6);
    assert_eq!(server.recorder.reasons.lock().unwrap()[4], "the client closed it");
    // A publication without streams.
    server.store.replace(Vec::<Resource>::new());
}

#[tokio::test]
async fn a12_a_stopping_server_ends_its_streams_and_clients_reconnect() {
    let mut server = Server::start(world()).await;
    let mut ads = AdsClient::new(server.channel());
    let mut client = Sotw::open(&mut ads).await.unwrap();
    client.send(ask(CLUSTER, &[])).await;
    let first = client.next().await;
    client.ack(&first, &[]).await;
    server.stop.send_replace(true);
    client.end().await.expect("an end in good order, not an error");
    soon(&mut server.task).await.unwrap().expect("the server waits for its streams, and for nothing else");
    assert!(server.registry.is_empty());

    // Another server uses the same address, and the channel reconnects.
    let next = Server::over(server.store.clone(), server.address, Access::PlainFromLoopback).await;
    let mut client = Sotw::open(&mut ads).await.unwrap();
    let mut request = ask(CLUSTER, &[]);
    request.version_info = first.version_info;
    client.send(request).await;
    client.send(ask(ENDPOINTS, &["a"])).await;
    assert_eq!(client.next().await.type_url, ENDPOINTS.url(), "it has the clusters of the same version already");
    drop(next);
}

#[tokio::test]
async fn a12_a_stopping_server_ends_streams_that_wait_for_a_first_snapshot() {
    let store = Arc::new(Store::default());
    let mut server = Server::over(store, "127.0.0.1:0".parse().unwrap(), Access::PlainFromLoopback).await;
    let mut client = server.delta().await;
    client.send(differ(CLUSTER, &[])).await;
    server.stop.send_replace(true);
    client.end().await.unwrap();
    soon(&mut server.task).await.unwrap().unwrap();
}

#[tokio::test]
async fn s31_many_streams_request_one_name_each() {
    let names: Vec<String> = (0..100).map(|i| format!("n{i}")).collect();
    let server = Server::start([]).await;
    server.store.replace(names.iter().map(|name| endpoints(name)).collect());
    let mut client = service_v3::endpoint::v3::endpoint_discovery_service_client::EndpointDiscoveryServiceClient::new(
        server.channel(),
    );
    let mut streams = Vec::new();
    for name in &names {
        let (requests, outgoing) = mpsc::channel(8);
        let mut responses = soon(client.stream_endpoints(ReceiverStream::new(outgoing))).await.unwrap().into_inner();
        requests.send(ask(ENDPOINTS, &[name])).await.unwrap();
        let response = soon(responses.message()).await.unwrap().unwrap();
        assert_eq!(response.resources.len(), 1);
        let mut ack = ask(ENDPOINTS, &[name]);
        (ack.response_nonce, ack.version_info) = (response.nonce, response.version_info);
        requests.send(ack).await.unwrap();
        streams.push((requests, responses));
    }
    assert_eq!(server.registry.len(), 100);
    let streams_now = server.registry.describe();
    let named = streams_now.as_array().unwrap().iter().map(|s| s["types"]["ClusterLoadAssignment"]["named"].as_u64());
    assert_eq!(named.map(Option::unwrap).sum::<u64>(), 100, "the state of all is bounded by the names");
    server.store.update(Update { set: vec![endpoints_at("n42", 1)], remove: Vec::new() });
    assert_eq!(soon(streams[42].1.message()).await.unwrap().unwrap().resources.len(), 1);
    drop((streams, client));
    server.recorder.closed(100).await;
    assert!(server.registry.is_empty());
}

#[tokio::test]
async fn a_rejected_response_is_not_sent_again() {
    let server = Server::start(world()).await;
    let mut client = server.delta().await;
    client.send(differ(CLUSTER, &[])).await;
    let response = client.next().await;
    client.nack(&response, "bad a").await;
    client.send(differ(SECRET, &["s"])).await;
    assert_eq!(client.next().await.type_url, SECRET.url());
    assert_eq!(server.registry.describe()[0]["types"]["Cluster"]["rejection"], "bad a");
    assert!(client.is_silent().await);
}

/// A client that repeatedly requests large responses and reads nothing. The server stops at the flow control window.
#[tokio::test]
async fn a_client_that_does_not_read_costs_little_and_delays_nobody() {
    let server = Server::start([]).await;
    server.store.replace((0..2000).map(|i| cluster(&format!("cluster-with-a-long-name-{i}"))).collect());
    let mut slow = server.delta().await;
    for _ in 0..500 {
        slow.send(differ(CLUSTER, &["*"])).await;
    }
    let mut other = server.sotw().await;
    other.send(ask(ENDPOINTS, &["e"])).await;
    let mut response = other.next().await;
    for port in 1..300 {
        other.ack(&response, &["e"]).await;
        server.store.update(Update { set: vec![endpoints_at("e", port)], remove: Vec::new() });
        response = other.next().await;
        assert_eq!(response.resources.len(), 1);
    }
    let one = slow.next().await;
    let size = prost::Message::encoded_len(&one) as u64;
    assert!(size > 100_000, "{size}");
    let sent = server.recorder.sent_bytes.load(Ordering::SeqCst);
    assert!(sent < 20 * size, "{sent} bytes were made for a client that reads nothing; one response has {size}");
    drop(slow);
    server.recorder.closed(1).await;
}

#[tokio::test]
async fn a_slow_reader_receives_many_updates_as_few_responses() {
    let server = Server::start([endpoints("e")]).await;
    let mut slow = server.delta().await;
    slow.send(differ(ENDPOINTS, &["e"])).await;
    let first = slow.next().await;
    for port in 1..500 {
        server.store.update(Update { set: vec![endpoints_at("e", port)], remove: Vec::new() });
    }
    slow.ack(&first).await;
    let newest = server.store.newest().unwrap().get(ENDPOINTS, "e").unwrap().version().to_string();
    let mut responses = 0;
    loop {
        let response = slow.next().await;
        responses += 1;
        slow.ack(&response).await;
        if response.resources[0].version == newest {
            break;
        }
    }
    assert!(responses <= 3, "{responses}");
}
