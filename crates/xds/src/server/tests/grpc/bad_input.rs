//! Invalid input over the wire: it gets a clear status, and other clients are not affected.

use std::sync::atomic::Ordering;

use prost::Message;
use tonic::Code;

use super::lab::*;
use super::raw::{
    DATA, DELTA, END_HEADERS, END_STREAM, HEADERS, PREFACE, Raw, SETTINGS, STREAM, frame, message, status_of,
};
use crate::protocol::tests::harness::*;
use crate::snapshot::Update;

const FETCH: &str = "/envoy.service.endpoint.v3.EndpointDiscoveryService/FetchEndpoints";

/// A well-behaved client on a separate connection.
struct Healthy {
    client: Delta,
    updates: u32,
}

impl Healthy {
    async fn connect(server: &Server) -> Self {
        let mut client = server.delta().await;
        client.send(differ(ENDPOINTS, &["e"])).await;
        let response = client.next().await;
        client.ack(&response).await;
        Self { client, updates: 0 }
    }

    /// Asserts that the client receives exactly the last change.
    async fn gets_an_update(&mut self, server: &Server) {
        self.updates += 1;
        server.store.update(Update { set: vec![endpoints_at("e", self.updates)], remove: Vec::new() });
        let response = self.client.next().await;
        assert_eq!(response.resources[0].version, server.resource(ENDPOINTS, "e").version().to_string());
        self.client.ack(&response).await;
    }
}

/// Frames `bytes` as a gRPC message.
fn framed(bytes: &[u8]) -> Vec<u8> {
    [&[0][..], &u32::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat()
}

/// Encodes the field `number` with these bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut field = vec![number << 3 | 2];
    prost::encoding::encode_varint(bytes.len() as u64, &mut field);
    field.extend(bytes);
    field
}

#[tokio::test]
async fn an_invalid_request_ends_its_stream_with_the_reason() {
    let server = Server::start([endpoints("e")]).await;
    let mut healthy = Healthy::connect(&server).await;
    let good = ask(ENDPOINTS, &["e"]).encode_to_vec();
    let with = |more: Vec<u8>| framed(&[&good[..], &more].concat());
    let too_long = ask(ENDPOINTS, &[&"x".repeat(16_385)]);
    let long_node = |bytes: usize| field(5, &"v".repeat(bytes).into_bytes());
    for (what, bytes, code, reason) in [
        ("a compressed message", vec![1, 0, 0, 0, 0], Code::Unimplemented, "is compressed"),
        ("no gRPC", b"GET / HTTP/1.1".to_vec(), Code::Internal, "this is not gRPC"),
        ("a message cut short", vec![0, 0, 0, 0, 100, 1, 2, 3], Code::InvalidArgument, "ends within a message"),
        ("a prefix cut short", vec![0, 0, 0], Code::InvalidArgument, "ends within a message"),
        ("no protobuf", framed(&[0xff, 0xff, 0xff]), Code::InvalidArgument, "does not decode"),
        ("truncated protobuf", framed(&good[..good.len() - 1]), Code::InvalidArgument, "does not decode"),
        ("no text in a name", with(field(3, &[0xff, 0xfe])), Code::InvalidArgument, "does not decode"),
        ("65 MiB", vec![0, 4, 16, 0, 0], Code::ResourceExhausted, "68157440 bytes, more than the limit of 67108864"),
        (
            "4 GiB",
            vec![0, 255, 255, 255, 255],
            Code::ResourceExhausted,
            "4294967295 bytes, more than the limit of 67108864",
        ),
        ("a name of 16 KiB", message(&too_long), Code::InvalidArgument, "a resource name has 16385 bytes"),
        (
            "a field of 2 MiB",
            with(long_node(2 << 20)),
            Code::InvalidArgument,
            "a field of the request has 2097152 bytes",
        ),
        (
            "a million names",
            with([3 << 3 | 2, 0].repeat(1_000_000)),
            Code::ResourceExhausted,
            "entries, more than the limit of 1000000",
        ),
    ] {
        for path in [STREAM, DELTA, FETCH] {
            let status = status_of(server.address, path, bytes.clone()).await;
            assert_eq!(status.code(), code, "{what} to {path}: {status}");
            assert!(status.message().contains(reason), "{what} to {path}: {status}");
        }
        healthy.gets_an_update(&server).await;
    }
}

#[tokio::test]
async fn incomplete_and_wrong_requests_are_invalid() {
    let server = Server::start([endpoints("e")]).await;
    let no_node = discovery(ENDPOINTS.url(), false);
    let no_type = discovery("", true);
    for (what, path, request, reason) in [
        ("no node", STREAM, &no_node, "the first request of a stream has no node"),
        ("no type", STREAM, &no_type, "type_url is missing"),
        (
            "another type",
            "/envoy.service.cluster.v3.ClusterDiscoveryService/StreamClusters",
            &discovery(ENDPOINTS.url(), true),
            "this service has",
        ),
    ] {
        let status = status_of(server.address, path, message(request)).await;
        assert_eq!(status.code(), Code::InvalidArgument, "{what}: {status}");
        assert!(status.message().contains(reason), "{what}: {status}");
    }
    assert_eq!(server.recorder.streams_refused.load(Ordering::SeqCst), 3);
}

fn discovery(type_url: &str, with_node: bool) -> envoy_types::pb::envoy::service::discovery::v3::DiscoveryRequest {
    let mut request = ask(ENDPOINTS, &["e"]);
    request.type_url = type_url.into();
    request.node = request.node.filter(|_| with_node);
    request
}

/// A reconnecting Envoy may send a large request: 60 MiB are accepted.
#[tokio::test]
async fn a_request_of_60_mib_is_answered_and_one_of_65_is_not() {
    let server = Server::start([endpoints("e")]).await;
    let mut healthy = Healthy::connect(&server).await;
    let mut request = differ(ENDPOINTS, &["e"]);
    request.resource_names_unsubscribe = (0..60 * 1024).map(|i| format!("{i:01021}")).collect();
    assert!((60 << 20..61 << 20).contains(&request.encoded_len()), "{}", request.encoded_len());
    let status = status_of(server.address, DELTA, message(&request)).await;
    assert_eq!(status.code(), Code::Ok, "{status}");
    healthy.gets_an_update(&server).await;
    let more = (60 * 1024..65 * 1024).map(|i| format!("{i:01021}"));
    request.resource_names_unsubscribe.extend(more);
    let status = status_of(server.address, DELTA, message(&request)).await;
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    healthy.gets_an_update(&server).await;
}

#[tokio::test]
async fn invalid_http_closes_only_its_connection() {
    let server = Server::start([endpoints("e")]).await;
    let mut healthy = Healthy::connect(&server).await;
    let mut noise = 1_u64;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (noise >> 56) as u8
    })
    .take(100_000)
    .collect();
    let settings = frame(SETTINGS, 0, 0, &[]);
    let open = |payload: &[u8]| [PREFACE, &settings, &frame(HEADERS, END_HEADERS, 1, payload)].concat();
    let header_bomb: Vec<u8> = std::iter::repeat_n(frame(9, 0, 1, &[0; 1000]), 1000).flatten().collect();
    for (what, bytes) in [
        ("noise", noise.clone()),
        ("a preface, then noise", [PREFACE, &noise].concat()),
        ("a frame of 16 MiB", [PREFACE, &settings, &[255, 255, 255, DATA, 0, 0, 0, 0, 1]].concat()),
        ("data on a stream that is not open", [PREFACE, &settings, &frame(DATA, 0, 1, b"x")].concat()),
        ("settings of 5 bytes", [PREFACE, &frame(SETTINGS, 0, 0, &[0; 5])[..]].concat()),
        ("no header fields", open(&noise[..100])),
        ("an even stream", [PREFACE, &settings, &frame(HEADERS, END_HEADERS | END_STREAM, 2, &[0x82])].concat()),
        ("header fields without end", [&open(&[])[..14 + 9 + 10], &frame(HEADERS, 0, 1, &[]), &header_bomb].concat()),
        ("HTTP/1.1 without end", [&b"POST / HTTP/1.1\r\nx: "[..], &[b'a'; 1 << 20]].concat()),
    ] {
        let mut client = Raw::mute(server.address).await;
        client.write(&bytes).await;
        let go_away = client.until_closed().await;
        assert_ne!(go_away, Some(0), "{what} is no reason to part in peace");
        healthy.gets_an_update(&server).await;
    }
}

#[tokio::test]
async fn another_http_method_is_not_allowed() {
    let server = Server::start([]).await;
    let socket = tokio::net::TcpStream::connect(server.address).await.unwrap();
    let answer = exchange(socket, http::Request::get(STREAM).body(String::new()).unwrap()).await;
    assert_eq!(answer.status(), 405);
}

#[tokio::test]
async fn a_hundred_thousand_absent_names_are_answered() {
    let server = Server::start([endpoints("e")]).await;
    let mut healthy = Healthy::connect(&server).await;
    let names: Vec<String> = (0..100_000).map(|i| format!("absent-{i}")).collect();
    let mut request = differ(ENDPOINTS, &[]);
    request.resource_names_subscribe = names;
    let mut client =
        Delta::open(&mut AdsClient::new(server.channel()).max_decoding_message_size(64 << 20)).await.unwrap();
    client.send(request).await;
    healthy.gets_an_update(&server).await;
    let mut removed = 0;
    while removed < 100_000 {
        let response = client.next().await;
        assert!(response.resources.is_empty());
        removed += response.removed_resources.len();
        client.ack(&response).await;
    }
    server.store.update(Update { set: vec![endpoints("absent-99999")], remove: Vec::new() });
    assert_eq!(client.next().await.resources[0].name, "absent-99999");
    healthy.gets_an_update(&server).await;
}

#[tokio::test]
async fn unknown_types_leave_no_state() {
    let server = Server::start([endpoints("e")]).await;
    let mut healthy = Healthy::connect(&server).await;
    let mut sotw = server.sotw().await;
    let mut delta = server.delta().await;
    for i in 0..20_000 {
        let mut request = ask(ENDPOINTS, &["e"]);
        request.type_url = format!("type.googleapis.com/no.such.Type{i}");
        sotw.send(request).await;
    }
    for i in 0..2_000 {
        let mut request = differ(ENDPOINTS, &["e"]);
        request.type_url = format!("type.googleapis.com/no.such.Type{i}");
        delta.send(request).await;
        let response = delta.next().await;
        assert_eq!(response.removed_resources, ["e"]);
    }
    sotw.send(ask(ENDPOINTS, &["e"])).await;
    assert_eq!(sotw.next().await.resources.len(), 1, "the only answer");
    for stream in server.registry.describe().as_array().unwrap() {
        assert!(stream["types"].as_object().unwrap().len() <= 1, "{stream}");
    }
    healthy.gets_an_update(&server).await;
}

#[tokio::test]
async fn a_client_that_rejects_everything_gets_each_content_once() {
    let server = Server::start([endpoints("e"), cluster("c")]).await;
    let mut healthy = Healthy::connect(&server).await;
    let mut angry = server.delta().await;
    angry.send(differ(ENDPOINTS, &["e"])).await;
    for _ in 0..100 {
        let response = angry.next().await;
        angry.nack(&response, &"no ".repeat(10_000)).await;
        // The same answer again has no effect.
        angry.nack(&response, "no").await;
        healthy.gets_an_update(&server).await;
    }
    let last = angry.next().await;
    angry.nack(&last, "no").await;
    assert!(angry.is_silent().await);
}

#[tokio::test]
async fn unknown_nonces_are_ignored() {
    let server = Server::start([endpoints("e")]).await;
    let mut client = server.sotw().await;
    client.send(ask(ENDPOINTS, &["e"])).await;
    let first = client.next().await;
    for nonce in ["", "0", "-1", "2", "99999999999999999999999999", "ü"] {
        let mut request = ask(ENDPOINTS, &["e", "f"]);
        request.response_nonce = nonce.into();
        request.error_detail = Some(Default::default());
        client.send(request).await;
    }
    client.ack(&first, &["e"]).await;
    assert!(client.is_silent().await);
    let mut delta = Healthy::connect(&server).await;
    for nonce in ["0", "7", "ü"] {
        let mut request = differ(ENDPOINTS, &[]);
        request.response_nonce = nonce.into();
        delta.client.send(request).await;
    }
    delta.gets_an_update(&server).await;
}
