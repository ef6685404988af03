//! A server on a loopback port and real gRPC clients.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::discovery::v3 as discovery_v3;
use envoy_types::pb::google::rpc;
use http_body_util::BodyExt;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Status, Streaming};

use crate::protocol::Response;
use crate::protocol::tests::harness::*;
use crate::server::{
    Access, Limits, Observer, Refused, Registry, ServerError, Service, Stores, StreamInfo, listen, serve_within,
};
use crate::snapshot::{Resource, ResourceType, Store};

pub use discovery_v3::aggregated_discovery_service_client::AggregatedDiscoveryServiceClient as AdsClient;

/// The timeout of all waits. The tested operations take milliseconds.
pub async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future).await.expect("nothing came for 20 s")
}

/// Counts the events of streams.
#[derive(Default)]
pub struct Recorder {
    pub opened: AtomicUsize,
    pub sent_bytes: AtomicU64,
    pub reasons: Mutex<Vec<String>>,
    refused: Mutex<Vec<Refused>>,
    pub streams_refused: AtomicUsize,
    closed: watch::Sender<usize>,
}

impl Observer for Recorder {
    fn opened(&self, _: &StreamInfo) {
        self.opened.fetch_add(1, Ordering::SeqCst);
    }

    fn sent(&self, _: &StreamInfo, _: &crate::protocol::Node, _: &Response, bytes: usize) {
        self.sent_bytes.fetch_add(bytes as u64, Ordering::SeqCst);
    }

    fn closed(&self, _: &StreamInfo, _: Option<&crate::protocol::Node>, reason: &str) {
        self.reasons.lock().unwrap().push(reason.to_owned());
        self.closed.send_modify(|closed| *closed += 1);
    }

    fn stream_refused(&self, _: SocketAddr) {
        self.streams_refused.fetch_add(1, Ordering::SeqCst);
    }

    fn refused(&self, _: SocketAddr, reason: Refused) {
        self.refused.lock().unwrap().push(reason);
    }
}

impl Recorder {
    /// Returns the number of refused connections with this reason.
    pub fn refused(&self, reason: Refused) -> usize {
        self.refused.lock().unwrap().iter().filter(|other| **other == reason).count()
    }

    /// Waits until `count` streams are closed.
    pub async fn closed(&self, count: usize) {
        soon(self.closed.subscribe().wait_for(|closed| *closed >= count)).await.unwrap();
    }
}

/// A running server.
pub struct Server {
    pub store: Arc<Store>,
    pub registry: Arc<Registry>,
    pub recorder: Arc<Recorder>,
    pub address: SocketAddr,
    pub stop: watch::Sender<bool>,
    pub task: JoinHandle<Result<(), ServerError>>,
}

impl Server {
    /// Serves `resources` in plain text.
    pub async fn start<const N: usize>(resources: [Resource; N]) -> Self {
        let store = Arc::new(Store::default());
        store.replace(resources.into());
        Self::over(store, "127.0.0.1:0".parse().unwrap(), Access::PlainFromLoopback).await
    }

    /// Serves `resources` in plain text with `limits`.
    pub async fn within<const N: usize>(limits: Limits, resources: [Resource; N]) -> Self {
        let store = Arc::new(Store::default());
        store.replace(resources.into());
        Self::launch(store, "127.0.0.1:0".parse().unwrap(), Access::PlainFromLoopback, limits).await
    }

    pub async fn over(store: Arc<Store>, address: SocketAddr, access: Access) -> Self {
        Self::launch(store, address, access, Limits::default()).await
    }

    pub async fn launch(store: Arc<Store>, address: SocketAddr, access: Access, limits: Limits) -> Self {
        let listener = listen(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopping) = watch::channel(false);
        let (registry, recorder) = (Arc::new(Registry::default()), Arc::new(Recorder::default()));
        let service = Service::new(Stores::one(store.clone()), stopping)
            .with_identifier("lockgate-test")
            .with_observer(recorder.clone())
            .with_registry(registry.clone());
        let task = tokio::spawn(serve_within(limits, listener, access, Arc::new(service)));
        Self { store, registry, recorder, address, stop, task }
    }

    /// Returns a served resource.
    pub fn resource(&self, kind: ResourceType, name: &str) -> Arc<Resource> {
        let snapshot = self.store.subscribe().borrow().clone().unwrap();
        snapshot.get(kind, name).unwrap().clone()
    }

    /// Opens a separate connection.
    pub fn channel(&self) -> Channel {
        Endpoint::from_shared(format!("http://{}", self.address)).unwrap().connect_lazy()
    }

    pub async fn sotw(&self) -> Sotw {
        Sotw::open(&mut AdsClient::new(self.channel())).await.unwrap()
    }

    pub async fn delta(&self) -> Delta {
        Delta::open(&mut AdsClient::new(self.channel())).await.unwrap()
    }
}

/// Sends one request over HTTP/1.1, and returns the answer.
pub async fn exchange(
    io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: http::Request<String>,
) -> http::Response<String> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(io)).await.unwrap();
    tokio::spawn(connection);
    let answer = soon(sender.send_request(request)).await.unwrap();
    let (head, body) = answer.into_parts();
    let body = soon(body.collect()).await.unwrap().to_bytes();
    http::Response::from_parts(head, String::from_utf8(body.to_vec()).unwrap())
}

pub fn node() -> Option<Node> {
    Some(Node { id: "one".into(), user_agent_name: "a test".into(), ..Node::default() })
}

/// Returns a state-of-the-world request.
pub fn ask(kind: ResourceType, names: &[&str]) -> discovery_v3::DiscoveryRequest {
    discovery_v3::DiscoveryRequest {
        node: node(),
        type_url: kind.url().into(),
        resource_names: names.iter().map(|name| (*name).to_owned()).collect(),
        ..Default::default()
    }
}

/// Returns a delta request.
pub fn differ(kind: ResourceType, names: &[&str]) -> discovery_v3::DeltaDiscoveryRequest {
    discovery_v3::DeltaDiscoveryRequest {
        node: node(),
        type_url: kind.url().into(),
        resource_names_subscribe: names.iter().map(|name| (*name).to_owned()).collect(),
        ..Default::default()
    }
}

/// The client's side of a stream.
pub struct Client<Request, Response> {
    pub requests: Option<mpsc::Sender<Request>>,
    pub responses: Streaming<Response>,
}

pub type Sotw = Client<discovery_v3::DiscoveryRequest, discovery_v3::DiscoveryResponse>;
pub type Delta = Client<discovery_v3::DeltaDiscoveryRequest, discovery_v3::DeltaDiscoveryResponse>;

impl<Request: Send, Response> Client<Request, Response> {
    pub async fn send(&self, request: Request) {
        assert!(soon(self.requests.as_ref().unwrap().send(request)).await.is_ok(), "the stream is closed");
    }

    pub async fn next(&mut self) -> Response {
        soon(self.responses.message()).await.unwrap().expect("the stream has ended")
    }

    /// Waits for the end of the stream, and returns its status.
    pub async fn end(&mut self) -> Result<(), Status> {
        while soon(self.responses.message()).await?.is_some() {}
        Ok(())
    }

    /// Asserts that no response arrives for a while.
    pub async fn is_silent(&mut self) -> bool {
        tokio::time::timeout(ms(100), self.responses.message()).await.is_err()
    }
}

impl Sotw {
    pub async fn open(client: &mut AdsClient<Channel>) -> Result<Self, Status> {
        let (requests, outgoing) = mpsc::channel(1024);
        let responses = soon(client.stream_aggregated_resources(ReceiverStream::new(outgoing))).await?.into_inner();
        Ok(Self { requests: Some(requests), responses })
    }

    pub async fn ack(&self, response: &discovery_v3::DiscoveryResponse, names: &[&str]) {
        let request = discovery_v3::DiscoveryRequest {
            version_info: response.version_info.clone(),
            response_nonce: response.nonce.clone(),
            type_url: response.type_url.clone(),
            resource_names: names.iter().map(|name| (*name).to_owned()).collect(),
            ..Default::default()
        };
        self.send(request).await;
    }
}

impl Delta {
    pub async fn open(client: &mut AdsClient<Channel>) -> Result<Self, Status> {
        let (requests, outgoing) = mpsc::channel(1024);
        let responses = soon(client.delta_aggregated_resources(ReceiverStream::new(outgoing))).await?.into_inner();
        Ok(Self { requests: Some(requests), responses })
    }

    pub async fn ack(&self, response: &discovery_v3::DeltaDiscoveryResponse) {
        let request = discovery_v3::DeltaDiscoveryRequest {
            response_nonce: response.nonce.clone(),
            type_url: response.type_url.clone(),
            ..Default::default()
        };
        self.send(request).await;
    }

    pub async fn nack(&self, response: &discovery_v3::DeltaDiscoveryResponse, why: &str) {
        let request = discovery_v3::DeltaDiscoveryRequest {
            response_nonce: response.nonce.clone(),
            type_url: response.type_url.clone(),
            error_detail: Some(rpc::Status { code: 3, message: why.into(), ..Default::default() }),
            ..Default::default()
        };
        self.send(request).await;
    }
}
