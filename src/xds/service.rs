//! The discovery services over gRPC: a table of methods over one core.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use envoy_types::pb::envoy::service::discovery::v3 as discovery_v3;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use tokio::sync::watch;
use tonic::server::{Grpc, StreamingService};
use tonic::{Status, Streaming};

use super::encode::{self, RequestCodec};
use super::message::{Node, Output, Request, Response, Variant};
use super::observer::{Observer, Registry, StreamInfo};
use super::order::Timing;
use super::server::Peer;
use super::stream::Stream;
use super::{fetch, rest, v2};
use crate::snapshot::{ApiVersion, ResourceType, Snapshot};

/// Largest request taken: an Envoy that comes back names everything that it has.
pub(super) const LARGEST_REQUEST: usize = 64 << 20;

/// The aggregated service.
const AGGREGATED: &str = "envoy.service.discovery.v3.AggregatedDiscoveryService";

/// The services of one type: the service, what the names of its methods (`Stream…`, `Delta…`, `Fetch…`) end with, the
/// name in REST (`/v3/discovery:…`), the type. Where there is no such name, `Delta…` is the only method.
const SERVICES: &[v2::Row] = &[
    ("envoy.service.listener.v3.ListenerDiscoveryService", "Listeners", Some("listeners"), ResourceType::LISTENER),
    ("envoy.service.route.v3.RouteDiscoveryService", "Routes", Some("routes"), ResourceType::ROUTES),
    (
        "envoy.service.route.v3.ScopedRoutesDiscoveryService",
        "ScopedRoutes",
        Some("scoped-routes"),
        ResourceType::SCOPED_ROUTES,
    ),
    ("envoy.service.route.v3.VirtualHostDiscoveryService", "VirtualHosts", None, ResourceType::VIRTUAL_HOST),
    ("envoy.service.cluster.v3.ClusterDiscoveryService", "Clusters", Some("clusters"), ResourceType::CLUSTER),
    ("envoy.service.endpoint.v3.EndpointDiscoveryService", "Endpoints", Some("endpoints"), ResourceType::ENDPOINTS),
    ("envoy.service.secret.v3.SecretDiscoveryService", "Secrets", Some("secrets"), ResourceType::SECRET),
    ("envoy.service.runtime.v3.RuntimeDiscoveryService", "Runtime", Some("runtime"), ResourceType::RUNTIME),
    (
        "envoy.service.extension.v3.ExtensionConfigDiscoveryService",
        "ExtensionConfigs",
        Some("extension_configs"),
        ResourceType::EXTENSION,
    ),
];

/// What every stream shares.
pub struct Service {
    /// The newest snapshot; streams wait for the first.
    pub snapshots: watch::Receiver<Option<Arc<Snapshot>>>,
    /// Becomes true when the server stops: streams then end.
    pub stopping: watch::Receiver<bool>,
    /// How long gates are waited for.
    pub timing: Timing,
    /// This control plane's name in every response.
    pub identifier: String,
    /// Hooks.
    pub observer: Arc<dyn Observer>,
    /// The open streams.
    pub registry: Arc<Registry>,
    /// Counts streams.
    pub streams: AtomicU64,
}

impl Service {
    /// The routes of all services, to be mounted in a server.
    pub(super) fn routes(self: Arc<Self>) -> axum::Router {
        let stream = |variant, implied, api| {
            let method = Method { service: self.clone(), variant, implied, api };
            axum::routing::post(move |request: http::Request<axum::body::Body>| {
                let method = method.clone();
                async move { method.handle(request).await.map(axum::body::Body::new) }
            })
        };
        let mut router = axum::Router::new();
        for (path, api) in [(AGGREGATED, ApiVersion::V3), (v2::AGGREGATED, ApiVersion::V2)] {
            router = router
                .route(&format!("/{path}/StreamAggregatedResources"), stream(Variant::Sotw, None, api))
                .route(&format!("/{path}/DeltaAggregatedResources"), stream(Variant::Delta, None, api));
        }
        let v3 = SERVICES.iter().map(|service| (service, ApiVersion::V3));
        let v2 = v2::SERVICES.iter().map(|service| (service, ApiVersion::V2));
        for (&(path, suffix, rest, kind), api) in v3.chain(v2) {
            router = router.route(&format!("/{path}/Delta{suffix}"), stream(Variant::Delta, Some(kind), api));
            let Some(rest) = rest else { continue };
            let (fetch, discover) = (self.clone(), self.clone());
            let fetch = move |request| fetch::unary(fetch.clone(), kind, api, request);
            let discover = move |request| rest::discover(discover.clone(), kind, api, request);
            router = router
                .route(&format!("/{path}/Stream{suffix}"), stream(Variant::Sotw, Some(kind), api))
                .route(&format!("/{path}/Fetch{suffix}"), axum::routing::post(fetch))
                .route(&format!("/{}/discovery:{rest}", v2::word(api)), axum::routing::post(discover));
        }
        router
    }

    /// The newest snapshot, once there is one; `None` if the server stops before.
    pub(super) async fn newest(&self) -> Option<Arc<Snapshot>> {
        let (mut stopping, mut snapshots) = (self.stopping.clone(), self.snapshots.clone());
        tokio::select! {
            _ = stopping.wait_for(|stopping| *stopping) => None,
            snapshot = snapshots.wait_for(Option::is_some) => snapshot.ok().and_then(|snapshot| snapshot.clone()),
        }
    }

    /// Tells the observer of the answer to a request without a stream; `bytes` is its encoded size.
    pub(super) fn answered(&self, peer: SocketAddr, node: &Node, response: &Response, bytes: usize) {
        let id = self.streams.fetch_add(1, Ordering::Relaxed) + 1;
        self.observer.sent(&StreamInfo { id, peer, variant: Variant::Sotw }, node, response, bytes);
    }
}

#[derive(Clone)]
struct Method {
    service: Arc<Service>,
    variant: Variant,
    implied: Option<ResourceType>,
    /// Whose type URL the implied type has.
    api: ApiVersion,
}

impl Method {
    async fn handle(self, request: http::Request<axum::body::Body>) -> http::Response<tonic::body::Body> {
        match self.variant {
            Variant::Sotw => {
                let codec = RequestCodec::<discovery_v3::DiscoveryRequest>::default();
                Grpc::new(codec).max_decoding_message_size(LARGEST_REQUEST).streaming(self, request).await
            }
            Variant::Delta => {
                let codec = RequestCodec::<discovery_v3::DeltaDiscoveryRequest>::default();
                Grpc::new(codec).max_decoding_message_size(LARGEST_REQUEST).streaming(self, request).await
            }
        }
    }
}

impl<R: Into<Request> + Send + 'static> StreamingService<R> for Method {
    type Response = Bytes;
    type ResponseStream = BoxStream<'static, Result<Bytes, Status>>;
    type Future = BoxFuture<'static, Result<tonic::Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, request: tonic::Request<Streaming<R>>) -> Self::Future {
        let method = self.clone();
        Box::pin(async move {
            let peer = request.extensions().get::<Peer>().cloned();
            let peer = Peer::trusted(peer).map_err(Status::unauthenticated)?;
            let id = method.service.streams.fetch_add(1, Ordering::Relaxed) + 1;
            let info = StreamInfo { id, peer: peer.address, variant: method.variant };
            method.service.observer.opened(&info);
            let session = Session {
                peer,
                snapshots: method.service.snapshots.clone(),
                stopping: method.service.stopping.clone(),
                requests: request.into_inner(),
                method,
                info,
                stream: None,
                outputs: VecDeque::new(),
                reason: "the client went away",
            };
            let responses: BoxStream<'static, Result<Bytes, Status>> = Box::pin(session.run());
            Ok(tonic::Response::new(responses))
        })
    }
}

/// A stream and its transport. Runs only when the transport wants the next message, so a slow reader costs nothing:
/// what changes meanwhile stays a set of dirty names.
struct Session<R> {
    method: Method,
    info: StreamInfo,
    peer: Peer,
    requests: Streaming<R>,
    snapshots: watch::Receiver<Option<Arc<Snapshot>>>,
    stopping: watch::Receiver<bool>,
    stream: Option<Arc<Mutex<Stream>>>,
    outputs: VecDeque<Output>,
    reason: &'static str,
}

/// What a session waits for.
enum Event<R> {
    Request(Result<Option<R>, Status>),
    Snapshot,
    Due,
    Stopping,
    Leaving,
}

/// How a session goes on.
enum Step {
    Outputs(Vec<Output>),
    End(Result<(), Status>),
}

impl<R: Into<Request> + Send + 'static> Session<R> {
    fn run(self) -> impl futures::Stream<Item = Result<Bytes, Status>> + Send {
        futures::stream::unfold(Some(self), |session| async move {
            let mut session = session?;
            loop {
                while let Some(output) = session.outputs.pop_front() {
                    if let Some(bytes) = session.emit(&output) {
                        return Some((Ok(bytes), Some(session)));
                    }
                }
                match session.step().await {
                    Step::Outputs(outputs) => session.outputs.extend(outputs),
                    Step::End(Ok(())) => return None,
                    Step::End(Err(status)) => return Some((Err(status), None)),
                }
            }
        })
    }

    /// Reports what happened, and gives the bytes of a response.
    fn emit(&self, output: &Output) -> Option<Bytes> {
        let node = self.stream.as_ref().and_then(|stream| lock(stream).node().cloned()).unwrap_or_default();
        let service = &self.method.service;
        match output {
            Output::Send(response) => {
                let bytes = encode::response(response, self.method.variant, &service.identifier);
                service.observer.sent(&self.info, &node, response, bytes.len());
                Some(bytes)
            }
            Output::Notice(notice) => {
                service.observer.noticed(&self.info, &node, notice);
                None
            }
        }
    }

    /// Waits for the next thing that happens.
    async fn step(&mut self) -> Step {
        let Some(stream) = self.stream.clone() else { return self.first_snapshot().await };
        let deadline = lock(&stream).deadline();
        let due = async {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
                None => std::future::pending().await,
            }
        };
        let event = tokio::select! {
            stopped = self.stopping.wait_for(|stopping| *stopping) => { drop(stopped); Event::Stopping }
            request = self.requests.message() => Event::Request(request),
            changed = self.snapshots.changed() => changed.map_or(Event::Stopping, |()| Event::Snapshot),
            () = due => Event::Due,
            () = self.peer.going_away() => Event::Leaving,
        };
        match event {
            Event::Request(request) => self.request(&stream, request),
            Event::Snapshot => {
                let snapshot = self.snapshots.borrow_and_update().clone();
                let outputs = snapshot.map(|snapshot| lock(&stream).on_snapshot(snapshot, Instant::now()));
                Step::Outputs(outputs.unwrap_or_default())
            }
            Event::Due => Step::Outputs(lock(&stream).on_time(Instant::now())),
            Event::Stopping => {
                self.reason = "the server stops";
                Step::End(Ok(()))
            }
            Event::Leaving => {
                self.reason = "its connection is to be closed";
                Step::End(Ok(()))
            }
        }
    }

    /// Nothing is answered before there is a first snapshot: an empty answer would delete everything.
    async fn first_snapshot(&mut self) -> Step {
        // The stream is shown it once more by its own receiver, and finds nothing new.
        let snapshot = self.method.service.newest().await;
        let Some(snapshot) = snapshot else {
            self.reason = "the server stops";
            return Step::End(Ok(()));
        };
        let Method { variant, implied, service, .. } = &self.method;
        let stream = Stream::new(*variant, implied.is_none(), service.timing, snapshot);
        let stream = Arc::new(Mutex::new(stream));
        service.registry.add(self.info.clone(), &stream);
        self.stream = Some(stream);
        Step::Outputs(Vec::new())
    }

    fn request(&mut self, stream: &Arc<Mutex<Stream>>, request: Result<Option<R>, Status>) -> Step {
        let request = match request {
            Ok(Some(request)) => v2::complete(request.into(), self.method.implied, self.method.api),
            Ok(None) => {
                self.reason = "the client closed it";
                return Step::End(Ok(()));
            }
            Err(status) => {
                self.reason = "the connection broke";
                return Step::End(Err(status));
            }
        };
        let mut stream = lock(stream);
        let introduced = stream.node().is_none();
        let result = stream.on_request(request, self.method.implied, Instant::now());
        if introduced && let Some(node) = stream.node() {
            self.method.service.observer.introduced(&self.info, node);
        }
        match result {
            Ok(outputs) => Step::Outputs(outputs),
            Err(refusal) => {
                self.reason = "a request was refused";
                Step::End(Err(Status::invalid_argument(refusal.to_string())))
            }
        }
    }
}

impl<R> Drop for Session<R> {
    fn drop(&mut self) {
        let service = &self.method.service;
        service.registry.remove(self.info.id);
        let node = self.stream.as_ref().and_then(|stream| lock(stream).node().cloned());
        service.observer.closed(&self.info, node.as_ref(), self.reason);
    }
}

fn lock(stream: &Mutex<Stream>) -> std::sync::MutexGuard<'_, Stream> {
    stream.lock().unwrap_or_else(PoisonError::into_inner)
}
