//! The client status discovery service.

use envoy_types::pb::envoy::admin::v3::ClientResourceStatus;
use envoy_types::pb::envoy::service::status::v3::client_config::GenericXdsConfig;
use envoy_types::pb::envoy::service::status::v3::client_status_discovery_service_client::ClientStatusDiscoveryServiceClient;
use envoy_types::pb::envoy::service::status::v3::{
    ClientConfig, ClientStatusRequest, ClientStatusResponse, ConfigStatus,
};
use envoy_types::pb::envoy::r#type::matcher::v3 as matcher_v3;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status};

use super::lab::*;
use crate::protocol::tests::harness::*;
use crate::snapshot::Update;

async fn fetch(server: &Server, request: ClientStatusRequest) -> Result<ClientStatusResponse, Status> {
    let mut client = ClientStatusDiscoveryServiceClient::<Channel>::new(server.channel());
    soon(client.fetch_client_status(request)).await.map(tonic::Response::into_inner)
}

fn of(id: &str) -> ClientStatusRequest {
    let pattern = matcher_v3::string_matcher::MatchPattern::Exact(id.into());
    let id = matcher_v3::StringMatcher { match_pattern: Some(pattern), ..Default::default() };
    let matcher = matcher_v3::NodeMatcher { node_id: Some(id), ..Default::default() };
    ClientStatusRequest { node_matchers: vec![matcher], ..Default::default() }
}

/// Waits for the status of one name, and returns it.
fn said<'a>(config: &'a ClientConfig, name: &str) -> &'a GenericXdsConfig {
    config.generic_xds_configs.iter().find(|said| said.name == name).unwrap()
}

fn short(said: &GenericXdsConfig) -> (ConfigStatus, ClientResourceStatus) {
    (said.config_status.try_into().unwrap(), said.client_status.try_into().unwrap())
}

/// Waits until the status of `name` at the only client is `expected`. Returns the whole status.
async fn until(server: &Server, name: &str, expected: (ConfigStatus, ClientResourceStatus)) -> ClientConfig {
    let wait = async {
        loop {
            let config = fetch(server, of("one")).await.unwrap().config.remove(0);
            if config.generic_xds_configs.iter().any(|said| said.name == name && short(said) == expected) {
                return config;
            }
            tokio::task::yield_now().await;
        }
    };
    soon(wait).await
}

#[tokio::test]
async fn csds_reports_accepted_pending_and_rejected_resources() {
    let server = Server::start([cluster("a"), endpoints("a"), secret("s")]).await;
    let mut client = server.delta().await;
    client.send(differ(ENDPOINTS, &["a", "nowhere"])).await;
    let first = client.next().await;
    let config = fetch(&server, of("one")).await.unwrap().config.remove(0);
    assert_eq!(config.node.as_ref().unwrap().id, "one");
    assert_eq!(config.node.as_ref().unwrap().user_agent_name, "a test");
    assert_eq!(short(said(&config, "a")), (ConfigStatus::Stale, ClientResourceStatus::Requested));
    assert_eq!(short(said(&config, "nowhere")), (ConfigStatus::NotSent, ClientResourceStatus::DoesNotExist));

    client.ack(&first).await;
    let config = until(&server, "a", (ConfigStatus::Synced, ClientResourceStatus::Acked)).await;
    let a = said(&config, "a");
    let resource = server.resource(ENDPOINTS, "a");
    assert_eq!(a.type_url, ENDPOINTS.url());
    assert_eq!(a.version_info, resource.version().to_string());
    assert_eq!(a.xds_config.as_ref().unwrap().value, resource.message());
    assert!(a.error_state.is_none());

    server.store.update(Update { set: vec![endpoints_at("a", 1)], remove: Vec::new() });
    let second = client.next().await;
    until(&server, "a", (ConfigStatus::Stale, ClientResourceStatus::Acked)).await;
    client.nack(&second, "port 1 is not for you").await;
    let config = until(&server, "a", (ConfigStatus::Error, ClientResourceStatus::Nacked)).await;
    let error = said(&config, "a").error_state.as_ref().unwrap();
    assert_eq!(error.details, "port 1 is not for you");
    assert_eq!(error.version_info, server.resource(ENDPOINTS, "a").version().to_string());
}

#[tokio::test]
async fn csds_reports_rejected_clusters_of_state_of_the_world_clients() {
    let server = Server::start([cluster("a")]).await;
    let mut client = server.sotw().await;
    client.send(ask(CLUSTER, &[])).await;
    let first = client.next().await;
    client.ack(&first, &[]).await;
    until(&server, "a", (ConfigStatus::Synced, ClientResourceStatus::Acked)).await;
    server.store.update(Update { set: vec![cluster_at("b", 7)], remove: Vec::new() });
    let second = client.next().await;
    let mut nack = ask(CLUSTER, &[]);
    nack.response_nonce = second.nonce.clone();
    nack.error_detail =
        Some(envoy_types::pb::google::rpc::Status { code: 3, message: "no b".into(), ..Default::default() });
    client.send(nack).await;
    let config = until(&server, "b", (ConfigStatus::Error, ClientResourceStatus::Nacked)).await;
    assert_eq!(said(&config, "b").error_state.as_ref().unwrap().details, "no b");
    assert_eq!(short(said(&config, "a")), (ConfigStatus::Synced, ClientResourceStatus::Acked));
}

#[tokio::test]
async fn csds_never_shows_a_secret() {
    let server = Server::start([secret("s"), cluster("a")]).await;
    let mut client = server.delta().await;
    client.send(differ(SECRET, &["s"])).await;
    let response = client.next().await;
    client.ack(&response).await;
    let config = until(&server, "s", (ConfigStatus::Synced, ClientResourceStatus::Acked)).await;
    assert!(said(&config, "s").xds_config.is_none());
    assert!(!said(&config, "s").version_info.is_empty());
    let bytes = prost::Message::encode_to_vec(&config);
    let key = server.resource(SECRET, "s").message();
    assert!(!bytes.windows(key.len()).any(|window| window == key));
}

#[tokio::test]
async fn csds_answers_for_the_selected_clients() {
    let server = Server::start([cluster("a")]).await;
    let mut streams = Vec::new();
    for (id, kind) in [("one", CLUSTER), ("two", CLUSTER), ("two", ENDPOINTS)] {
        let mut stream = server.delta().await;
        let mut request = differ(kind, &["a"]);
        request.node.as_mut().unwrap().id = id.into();
        stream.send(request).await;
        stream.next().await;
        streams.push(stream);
    }
    let ids = |response: &ClientStatusResponse| -> Vec<String> {
        response.config.iter().map(|config| config.node.clone().unwrap().id).collect()
    };
    assert_eq!(ids(&fetch(&server, ClientStatusRequest::default()).await.unwrap()), ["one", "two"]);
    let two = fetch(&server, of("two")).await.unwrap();
    assert_eq!(ids(&two), ["two"]);
    let kinds: Vec<&str> = two.config[0].generic_xds_configs.iter().map(|said| &*said.type_url).collect();
    assert_eq!(kinds, [CLUSTER.url(), ENDPOINTS.url()], "what is on its two streams");
    assert_eq!(ids(&fetch(&server, of("three")).await.unwrap()), Vec::<String>::new());
    let bare = ClientStatusRequest { exclude_resource_contents: true, ..of("one") };
    let bare = fetch(&server, bare).await.unwrap();
    assert!(bare.config[0].generic_xds_configs[0].xds_config.is_none());
    let nonsense = ClientStatusRequest { node_matchers: vec![Default::default(), broken()], ..Default::default() };
    let status = fetch(&server, nonsense).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert_eq!(status.message(), "node_matchers[1].node_id: no pattern is set");
}

fn broken() -> matcher_v3::NodeMatcher {
    matcher_v3::NodeMatcher { node_id: Some(Default::default()), ..Default::default() }
}

#[tokio::test]
async fn csds_streams_answer_each_request() {
    let server = Server::start([cluster("a")]).await;
    let mut client = server.delta().await;
    client.send(differ(CLUSTER, &["*"])).await;
    client.next().await;
    let (requests, outgoing) = mpsc::channel(8);
    let mut csds = ClientStatusDiscoveryServiceClient::<Channel>::new(server.channel());
    let call = csds.stream_client_status(ReceiverStream::new(outgoing));
    let mut answers = soon(call).await.unwrap().into_inner();
    for (id, expected) in [("one", 1), ("nobody", 0), ("one", 1)] {
        requests.send(of(id)).await.unwrap();
        assert_eq!(soon(answers.message()).await.unwrap().unwrap().config.len(), expected);
    }
    drop(requests);
    assert!(soon(answers.message()).await.unwrap().is_none());
}

#[tokio::test]
async fn csds_answers_in_json() {
    let server = Server::start([cluster("a"), secret("s")]).await;
    let mut client = server.delta().await;
    client.send(differ(CLUSTER, &["a"])).await;
    client.next().await;
    client.send(differ(SECRET, &["s"])).await;
    client.next().await;
    for (body, status, expected) in [
        ("", 200, r#""config_status":"STALE""#),
        (r#"{"node_matchers": [{"node_id": {"prefix": "o"}}]}"#, 200, r#""id":"one""#),
        (r#"{"nodeMatchers": [{"nodeId": {"exact": "two"}}]}"#, 200, "{}"),
        (r#"{"node_matchers": [{"node_id": {}}]}"#, 400, "node_matchers[0].node_id: no pattern is set"),
        (r#"{"node_matcher": []}"#, 400, "node_matcher"),
        ("[", 400, "the body is not JSON"),
        ("7", 400, "the body is not a JSON object"),
    ] {
        let socket = TcpStream::connect(server.address).await.unwrap();
        let request = http::Request::post("/v3/discovery:client_status").body(body.to_owned()).unwrap();
        let answer = exchange(socket, request).await;
        assert_eq!(answer.status(), status, "{body}: {}", answer.body());
        assert!(answer.body().contains(expected), "{body}: {}", answer.body());
        assert!(!answer.body().contains("first"), "a secret: {}", answer.body());
    }
}
