//! V: two API versions at once, with a client that is built only from the protos of version 2.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes};
use http::uri::PathAndQuery;
use http::{Request, StatusCode};
use prost::Message;
use prost_reflect::{DynamicMessage, MethodDescriptor};
use serde_json::{Value as Json, json};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::{Code, Status, Streaming};

use super::fetch::{bare, world};
use super::grpc::lab::*;
use crate::protobuf;
use crate::protocol;
use crate::protocol::tests::harness::*;
use crate::snapshot::{ApiVersion, Resource, ResourceType, Update};

const ADS: &str = "envoy.service.discovery.v2.AggregatedDiscoveryService";
const ADS_V3: &str = "envoy.service.discovery.v3.AggregatedDiscoveryService";

/// Every type of version 2: a name, the name of the type in version 2, and its service.
const TYPES: [(ResourceType, &str, &str, &str); 8] = [
    (CLUSTER, "a", "envoy.api.v2.Cluster", "envoy.api.v2.ClusterDiscoveryService"),
    (ENDPOINTS, "a", "envoy.api.v2.ClusterLoadAssignment", "envoy.api.v2.EndpointDiscoveryService"),
    (LISTENER, "l", "envoy.api.v2.Listener", "envoy.api.v2.ListenerDiscoveryService"),
    (ROUTES, "r", "envoy.api.v2.RouteConfiguration", "envoy.api.v2.RouteDiscoveryService"),
    (
        ResourceType::SCOPED_ROUTES,
        "scope",
        "envoy.api.v2.ScopedRouteConfiguration",
        "envoy.api.v2.ScopedRoutesDiscoveryService",
    ),
    (
        ResourceType::VIRTUAL_HOST,
        "r/shop",
        "envoy.api.v2.route.VirtualHost",
        "envoy.api.v2.VirtualHostDiscoveryService",
    ),
    (SECRET, "s", "envoy.api.v2.auth.Secret", "envoy.service.discovery.v2.SecretDiscoveryService"),
    (
        ResourceType::RUNTIME,
        "layer",
        "envoy.service.discovery.v2.Runtime",
        "envoy.service.discovery.v2.RuntimeDiscoveryService",
    ),
];

fn url(name: &str) -> String {
    format!("type.googleapis.com/{name}")
}

async fn server() -> Server {
    let server = Server::start(world()).await;
    server.store.update(Update { set: vec![bare(ResourceType::VIRTUAL_HOST, "r/shop")], remove: Vec::new() });
    server
}

/// Encoded messages.
#[derive(Clone)]
struct Wire;

impl Codec for Wire {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Wire {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(item);
        Ok(())
    }
}

impl Decoder for Wire {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}

/// A client of one method that the protos describe.
struct Client {
    method: MethodDescriptor,
    requests: mpsc::Sender<Bytes>,
    responses: Streaming<Bytes>,
}

fn method(service: &str, starts_with: &str) -> Option<MethodDescriptor> {
    let service = protobuf::pool().services().find(|one| one.full_name() == service).unwrap();
    service.methods().find(|method| method.name().starts_with(starts_with))
}

fn path(method: &MethodDescriptor) -> PathAndQuery {
    format!("/{}/{}", method.parent_service().full_name(), method.name()).parse().unwrap()
}

/// Encodes a request of version 2. The bytes are the same for each method.
fn encode(method: &MethodDescriptor, request: Json) -> Bytes {
    let name = format!("envoy.api.v2.{}", method.input().name());
    let descriptor = protobuf::pool().get_message_by_name(&name).unwrap();
    DynamicMessage::deserialize(descriptor, request).unwrap().encode_to_vec().into()
}

fn decode(method: &MethodDescriptor, response: &Bytes) -> Json {
    protobuf::to_json(method.output().full_name(), response)
}

impl Client {
    async fn open(server: &Server, service: &str, variant: &str) -> Self {
        let method = method(service, variant).unwrap();
        let (requests, outgoing) = mpsc::channel(8);
        let mut grpc = tonic::client::Grpc::new(server.channel());
        grpc.ready().await.unwrap();
        let outgoing = tonic::Request::new(ReceiverStream::new(outgoing));
        let responses = soon(grpc.streaming(outgoing, path(&method), Wire)).await.unwrap().into_inner();
        Self { method, requests, responses }
    }

    async fn send(&self, request: Json) {
        self.requests.send(encode(&self.method, request)).await.unwrap();
    }

    async fn next(&mut self) -> Json {
        let response = soon(self.responses.message()).await.unwrap().expect("the stream has ended");
        decode(&self.method, &response)
    }

    async fn ask(&mut self, request: Json) -> Json {
        self.send(request).await;
        self.next().await
    }

    async fn is_silent(&mut self) -> bool {
        tokio::time::timeout(ms(100), self.responses.message()).await.is_err()
    }
}

/// The node of an old Envoy.
fn old_node() -> Json {
    json!({"id": "old", "cluster": "c", "build_version": "1.11.0/Clean/RELEASE", "metadata": {"a": 1}})
}

/// Returns a request for `name` of the type `type_url`, with the fields of the variant.
fn asks(variant: &str, type_url: &str, name: &str) -> Json {
    let names = if variant == "Delta" { "resource_names_subscribe" } else { "resource_names" };
    json!({"node": old_node(), "type_url": type_url, names: [name]})
}

/// Returns the answer to `response` to a request for `name`.
fn ack(variant: &str, response: &Json, name: &str) -> Json {
    let mut ack = json!({"type_url": response["type_url"], "response_nonce": response["nonce"]});
    if variant == "Stream" {
        ack["version_info"] = response["version_info"].clone();
        ack["resource_names"] = json!([name]);
    }
    ack
}

/// Returns the `@type` of every resource, and the names of the delta variant.
fn types(response: &Json) -> Vec<String> {
    let resources = response["resources"].as_array().unwrap();
    let any = |one: &Json| if one["@type"].is_null() { one["resource"]["@type"].clone() } else { one["@type"].clone() };
    resources.iter().map(|one| any(one).as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn v1_every_service_of_version_2_answers_in_version_2() {
    let server = server().await;
    for (_, name, full_name, service) in TYPES {
        for variant in ["Stream", "Delta", "Fetch"] {
            let Some(method) = method(service, variant) else {
                assert!(service.contains("VirtualHost") && variant != "Delta", "{service} has no {variant}");
                continue;
            };
            let request = asks(variant, "", name);
            let response = if variant == "Fetch" {
                let mut grpc = tonic::client::Grpc::new(server.channel());
                grpc.ready().await.unwrap();
                let request = tonic::Request::new(encode(&method, request));
                decode(&method, &soon(grpc.unary(request, path(&method), Wire)).await.unwrap().into_inner())
            } else {
                Client::open(&server, service, variant).await.ask(request).await
            };
            assert_eq!(response["type_url"], url(full_name), "{variant}: {response}");
            assert_eq!(types(&response), [url(full_name)], "{variant}: {response}");
        }
    }
    assert_eq!(protobuf::pool().services().filter(|one| one.full_name().contains(".v2.")).count(), TYPES.len() + 1);
}

#[tokio::test]
async fn v1_an_aggregated_stream_of_version_2_continues_after_its_first_response() {
    let server = server().await;
    for variant in ["Stream", "Delta"] {
        let mut client = Client::open(&server, ADS, variant).await;
        let first = client.ask(asks(variant, &url("envoy.api.v2.Cluster"), "a")).await;
        client.send(ack(variant, &first, "a")).await;
        assert!(client.is_silent().await, "an ACK needs no answer");
        server.store.update(Update { set: vec![cluster_at("a", 77)], remove: Vec::new() });
        let changed = client.next().await;
        assert_eq!(types(&changed), [url("envoy.api.v2.Cluster")]);
        assert!(changed.to_string().contains(r#""connect_timeout":"77s""#), "{changed}");
        server.store.update(Update { set: vec![cluster("a")], remove: Vec::new() });
    }
    let described = server.registry.describe().to_string();
    assert!(described.contains("old"), "{described}");
}

#[tokio::test]
async fn v2_each_type_url_is_answered_in_its_own_version_on_both_transports() {
    let server = server().await;
    for service in [ADS, ADS_V3] {
        for variant in ["Stream", "Delta"] {
            let mut client = Client::open(&server, service, variant).await;
            // The types alternate, so both versions are used on one stream.
            for (turn, (kind, name, full_name, _)) in TYPES.iter().enumerate() {
                let type_url = if turn % 2 == 0 { url(full_name) } else { kind.url().to_owned() };
                let response = client.ask(asks(variant, &type_url, name)).await;
                assert_eq!(response["type_url"], type_url);
                assert_eq!(types(&response), [&*type_url]);
            }
            let mut client = Client::open(&server, service, variant).await;
            for (turn, (kind, name, full_name, _)) in TYPES.iter().enumerate() {
                let type_url = if turn % 2 == 1 { url(full_name) } else { kind.url().to_owned() };
                assert_eq!(types(&client.ask(asks(variant, &type_url, name)).await), [&*type_url]);
            }
        }
    }
}

#[tokio::test]
async fn v2_nested_messages_have_the_names_of_version_2() {
    let server = server().await;
    let mut client = Client::open(&server, ADS, "Stream").await;
    let listener = client.ask(asks("Stream", &url("envoy.api.v2.Listener"), "l")).await;
    let manager = &listener["resources"][0]["filter_chains"][0]["filters"][0]["typed_config"];
    let hcm = "envoy.config.filter.network.http_connection_manager.v2.HttpConnectionManager";
    assert_eq!(manager["@type"], url(hcm), "{listener}");
    assert_eq!(manager["rds"]["route_config_name"], "r");
}

#[tokio::test]
async fn v2_versions_equal_the_versions_of_version_3() {
    let server = server().await;
    let mut versions = Vec::new();
    for type_url in [url("envoy.api.v2.Cluster"), CLUSTER.url().to_owned()] {
        let mut client = Client::open(&server, ADS, "Delta").await;
        let response = client.ask(asks("Delta", &type_url, "a")).await;
        versions.push((response["system_version_info"].clone(), response["resources"][0]["version"].clone()));
    }
    assert_eq!(versions[0], versions[1]);
}

/// Returns the next publication, by type URL, after each subscription has its resources.
async fn changed(client: &mut Client, server: &Server, seconds: i64, names: usize) -> BTreeMap<String, Json> {
    server.store.update(Update { set: vec![cluster_at("a", seconds)], remove: Vec::new() });
    let mut responses = BTreeMap::new();
    for _ in 0..names {
        let response = client.next().await;
        assert!(response.to_string().contains(&format!(r#""connect_timeout":"{seconds}s""#)), "{response}");
        assert_eq!(types(&response), [response["type_url"].as_str().unwrap()]);
        responses.insert(response["type_url"].as_str().unwrap().to_owned(), response);
    }
    responses
}

#[tokio::test]
async fn v8_a_type_is_served_in_both_versions_on_one_stream() {
    let server = server().await;
    for variant in ["Stream", "Delta"] {
        let mut client = Client::open(&server, ADS_V3, variant).await;
        let (old, new) = (url("envoy.api.v2.Cluster"), CLUSTER.url().to_owned());
        let first = client.ask(asks(variant, &old, "a")).await;
        let second = client.ask(asks(variant, &new, "a")).await;
        assert_eq!((types(&first), types(&second)), (vec![old.clone()], vec![new.clone()]));
        assert_ne!(first["nonce"], second["nonce"]);
        // The second subscription is independent of the first, and each continues with its own answers.
        client.send(ack(variant, &first, "a")).await;
        let alone = changed(&mut client, &server, 78, 1).await;
        assert_eq!(alone.keys().collect::<Vec<_>>(), [&old], "the other has not answered");
        client.send(ack(variant, &second, "a")).await;
        assert_eq!(types(&client.next().await), [&*new]);
        assert!(client.is_silent().await);
        server.store.update(Update { set: vec![cluster("a")], remove: Vec::new() });
    }
}

#[tokio::test]
async fn v8_one_version_is_rejected_or_unsubscribed_and_the_other_continues() {
    let server = server().await;
    let mut client = Client::open(&server, ADS_V3, "Delta").await;
    let (old, new) = (url("envoy.api.v2.Cluster"), CLUSTER.url().to_owned());
    for type_url in [&new, &old] {
        let response = client.ask(asks("Delta", type_url, "a")).await;
        client.send(ack("Delta", &response, "a")).await;
    }
    let both = changed(&mut client, &server, 81, 2).await;
    let nack = json!({"type_url": old, "response_nonce": both[&old]["nonce"], "error_detail": {"message": "bad"}});
    client.send(nack).await;
    client.send(ack("Delta", &both[&new], "a")).await;
    let described = server.registry.describe().to_string();
    assert!(described.contains(&old), "{described}");
    let both = changed(&mut client, &server, 82, 2).await;
    client.send(ack("Delta", &both[&new], "a")).await;
    client
        .send(json!({"type_url": old, "response_nonce": both[&old]["nonce"], "resource_names_unsubscribe": ["a"]}))
        .await;
    let one = changed(&mut client, &server, 83, 1).await;
    assert_eq!(one.keys().collect::<Vec<_>>(), [&new]);
    client.send(ack("Delta", &one[&new], "a")).await;
    assert!(client.is_silent().await);
}

#[test]
fn every_url_of_a_type_has_a_separate_subscription() {
    let mut bench = Bench::delta([cluster("a")]);
    bench.decodes = false; // The resources have the known URL.
    let urls = [CLUSTER.url(), CLUSTER.url_in(ApiVersion::V2), "example.com/envoy.config.cluster.v3.Cluster"];
    for url in urls {
        let request = protocol::Request { type_url: url.into(), ..delta_request(CLUSTER, &["a"], &[]) };
        let response = bench.request(request).one().clone();
        assert_eq!(&*response.type_url, url);
        let ack = protocol::Request { type_url: url.into(), nonce: response.nonce, ..protocol::Request::default() };
        assert_eq!(bench.request(ack), "");
    }
    let changed = bench.set([cluster_at("a", 7)]);
    assert_eq!(changed.iter().map(|response| &*response.type_url).collect::<Vec<_>>(), urls);
}

#[test]
fn a_client_creates_few_states_by_urls_of_one_type() {
    let mut bench = Bench::delta([cluster("a")]);
    bench.decodes = false; // The resources have the known URL.
    let answered = (0..50).filter(|number| {
        let type_url = format!("{number}.example.com/envoy.config.cluster.v3.Cluster");
        let response = bench.request(protocol::Request { type_url, ..delta_request(CLUSTER, &["a"], &[]) });
        !response.one().resources.is_empty()
    });
    assert_eq!(answered.count(), 9);
}

#[tokio::test]
async fn v2_over_rest() {
    let server = server().await;
    let rest = ["clusters", "endpoints", "listeners", "routes", "scoped-routes", "", "secrets", "runtime"];
    for ((kind, name, full_name, _), path) in TYPES.into_iter().zip(rest).filter(|(_, path)| !path.is_empty()) {
        for (version, type_url, expected) in [
            ("v2", String::new(), url(full_name)),
            ("v2", url(full_name), url(full_name)),
            ("v2", kind.url().to_owned(), kind.url().to_owned()),
            ("v3", url(full_name), url(full_name)),
            ("v3", String::new(), kind.url().to_owned()),
        ] {
            let body = json!({"node": old_node(), "type_url": type_url, "resource_names": [name]});
            let request = Request::post(format!("/{version}/discovery:{path}")).body(body.to_string()).unwrap();
            let answer = exchange(TcpStream::connect(server.address).await.unwrap(), request).await;
            assert_eq!(answer.status(), StatusCode::OK, "{}", answer.body());
            let response: Json = serde_json::from_str(answer.body()).unwrap();
            assert_eq!(response["type_url"], expected);
            assert_eq!(types(&response), [expected]);
        }
    }
}

#[tokio::test]
async fn v5_a_grpc_client_without_xds_v3_receives_all_its_resources() {
    let server = server().await;
    let mut client = Client::open(&server, ADS, "Stream").await;
    let node = json!({"id": "g", "build_version": "gRPC C-core 1.30", "user_agent_name": "gRPC C-core linux"});
    for (turn, (full_name, name)) in
        [("Listener", "l"), ("RouteConfiguration", "r"), ("Cluster", "a"), ("ClusterLoadAssignment", "a")]
            .into_iter()
            .enumerate()
    {
        let type_url = url(&format!("envoy.api.v2.{full_name}"));
        let mut request = json!({"type_url": type_url, "resource_names": [name]});
        if turn == 0 {
            request["node"] = node.clone();
        }
        let response = client.ask(request).await;
        assert_eq!(types(&response), [&*type_url]);
        client.send(ack("Stream", &response, name)).await;
    }
    assert!(client.is_silent().await);
}

#[tokio::test]
async fn v7_unknown_fields_of_requests_are_ignored() {
    let server = server().await;
    // Field 1,000 as text, 1,001 as a number, and 1,002 as a message; also in the node.
    let mut unknown = vec![0xc2, 0x3e, 3, b'a', b'b', b'c', 0xc8, 0x3e, 7, 0xd2, 0x3e, 2, 0x08, 0x01];
    for variant in ["Stream", "Delta"] {
        for service in [ADS, ADS_V3] {
            let mut client = Client::open(&server, service, variant).await;
            let mut bytes = encode(&client.method, asks(variant, CLUSTER.url(), "a")).to_vec();
            bytes.append(&mut unknown.clone());
            let (tag, node) = if variant == "Delta" { (0x0a, &unknown) } else { (0x12, &unknown) };
            bytes.extend([tag, node.len() as u8]);
            bytes.extend(node);
            client.requests.send(bytes.into()).await.unwrap();
            assert_eq!(types(&client.next().await), [CLUSTER.url()]);
        }
    }
    let mut client = Client::open(&server, ADS, "Stream").await;
    unknown.truncate(unknown.len() - 1);
    client.requests.send(unknown.into()).await.unwrap();
    let status = soon(client.responses.message()).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "half a message is none");
}

#[test]
fn v2_bytes_are_built_once_and_only_on_request() {
    let resource: Arc<Resource> = Arc::new(listener("l", "r"));
    let first = resource.delta_field(ApiVersion::V2);
    assert_eq!(first.as_ptr(), resource.delta_field(ApiVersion::V2).as_ptr());
    assert_ne!(first, resource.delta_field(ApiVersion::V3));
    let tail = resource.sotw_field(ApiVersion::V2);
    assert!(first.ends_with(&tail), "one buffer for both variants");
}
