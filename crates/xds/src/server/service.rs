//! The discovery services over gRPC: a table of methods over one core.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

use super::message::{Node, Request, Response, Variant};
use super::observer::{Observer, Registry, StreamInfo};
use super::order::Timing;
use super::past::Past;
use super::session::Method;
use super::{fetch, rest, v2};
use crate::identity::Roles;
use crate::snapshot::{ApiVersion, ResourceType, Snapshot, Store};

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
    (
        "envoy.service.endpoint.v3.LocalityEndpointDiscoveryService",
        "LocalityEndpoints",
        None,
        ResourceType::LB_ENDPOINT,
    ),
    ("envoy.service.secret.v3.SecretDiscoveryService", "Secrets", Some("secrets"), ResourceType::SECRET),
    ("envoy.service.runtime.v3.RuntimeDiscoveryService", "Runtime", Some("runtime"), ResourceType::RUNTIME),
    (
        "envoy.service.extension.v3.ExtensionConfigDiscoveryService",
        "ExtensionConfigs",
        Some("extension_configs"),
        ResourceType::EXTENSION,
    ),
];

/// Who asks, and how: what the choice of a store rests on.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Client<'a> {
    /// Who it is.
    pub node: &'a Node,
    /// The variant of the protocol; who polls asks for the state of the world.
    pub variant: Variant,
    /// Whether all types share one stream.
    pub aggregated: bool,
    /// The version of the API.
    pub api: ApiVersion,
    /// What the names in its certificate allow.
    pub roles: Roles,
}

impl<'a> Client<'a> {
    /// One that polls by itself for each type.
    pub(super) fn polling(node: &'a Node, api: ApiVersion, roles: Roles) -> Self {
        Self { node, variant: Variant::Sotw, aggregated: false, api, roles }
    }
}

/// The store of a client's group.
type Choose = dyn Fn(Client<'_>) -> Option<Arc<Store>> + Send + Sync;

/// Which store a client is served from: all of them from one, or each group of nodes from its own.
pub struct Stores(Box<Choose>);

impl Stores {
    /// Every client is served the same.
    pub fn one(store: Arc<Store>) -> Self {
        Self::by_node(move |_| Some(store.clone()))
    }

    /// `choose` tells the store of a node's group; a node that gets `None` is refused with `NotFound`. It is asked once
    /// for each stream, by the node of the stream's first request, and once for each unary request.
    pub fn by_node(choose: impl Fn(&Node) -> Option<Arc<Store>> + Send + Sync + 'static) -> Self {
        Self::by_client(move |client| choose(client.node))
    }

    /// The same, where it matters also how a client asks.
    pub fn by_client(choose: impl Fn(Client<'_>) -> Option<Arc<Store>> + Send + Sync + 'static) -> Self {
        Self(Box::new(choose))
    }

    /// The store for `client`, or why there is none.
    pub(super) fn select(&self, client: Client<'_>) -> Result<Arc<Store>, String> {
        let Node { id, cluster, .. } = client.node;
        (self.0)(client).ok_or_else(|| format!("nothing is served to node {id:?} of cluster {cluster:?}"))
    }
}

/// The discovery service: what every stream shares.
pub struct Service {
    pub(super) stores: Stores,
    pub(super) stopping: watch::Receiver<bool>,
    pub(super) timing: Timing,
    pub(super) identifier: String,
    pub(super) observer: Arc<dyn Observer>,
    pub(super) registry: Arc<Registry>,
    pub(super) past: Past,
    pub(super) others: axum::Router,
    streams: AtomicU64,
}

impl Service {
    /// A service that ends its streams when `stopping` becomes true.
    pub fn new(stores: Stores, stopping: watch::Receiver<bool>) -> Self {
        Self {
            stores,
            stopping,
            timing: Timing::default(),
            identifier: "lockgate".to_owned(),
            observer: Arc::new(Unobserved),
            registry: Arc::new(Registry::default()),
            past: Past::default(),
            others: axum::Router::new(),
            streams: AtomicU64::new(0),
        }
    }

    /// How long gates are waited for.
    pub fn with_timing(self, timing: Timing) -> Self {
        Self { timing, ..self }
    }

    /// This control plane's name in every response.
    pub fn with_identifier(self, identifier: impl Into<String>) -> Self {
        Self { identifier: identifier.into(), ..self }
    }

    /// Hooks into the life of streams.
    pub fn with_observer(self, observer: Arc<dyn Observer>) -> Self {
        Self { observer, ..self }
    }

    /// Answers requests for other `routes` on the same port, of replicas of this server.
    pub fn with_routes(self, routes: axum::Router) -> Self {
        Self { others: routes, ..self }
    }

    /// Where the open streams are listed.
    pub fn with_registry(self, registry: Arc<Registry>) -> Self {
        Self { registry, ..self }
    }

    /// The routes of all services, to be mounted in a server.
    pub(super) fn routes(self: Arc<Self>) -> axum::Router {
        let stream = |variant, implied, api| {
            let method = Method::new(self.clone(), variant, implied, api);
            axum::routing::post(move |request: http::Request<axum::body::Body>| {
                let method = method.clone();
                async move { method.handle(request) }
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

    /// The newest snapshot of `store`, once there is one; `None` if the server stops before.
    pub(super) async fn newest(&self, store: &Store) -> Option<Arc<Snapshot>> {
        let (mut stopping, mut snapshots) = (self.stopping.clone(), store.subscribe());
        tokio::select! {
            _ = stopping.wait_for(|stopping| *stopping) => None,
            snapshot = snapshots.wait_for(Option::is_some) => snapshot.ok().and_then(|snapshot| snapshot.clone()),
        }
    }

    /// A number for a stream that no other of this service has.
    pub(super) fn next_stream(&self) -> u64 {
        self.streams.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Tells the observer of a request without a stream. Gives what stands for the stream.
    pub(super) fn asked(&self, peer: SocketAddr, request: &Request) -> StreamInfo {
        let info = StreamInfo { id: self.next_stream(), peer, variant: Variant::Sotw };
        match &request.node {
            Some(node) => self.observer.received(&info, node, request),
            None => self.observer.received(&info, &Node::default(), request),
        }
        info
    }

    /// Tells the observer of the answer to such a request; `bytes` is its encoded size.
    pub(super) fn answered(&self, asked: &StreamInfo, node: &Node, response: &Response, bytes: usize) {
        self.observer.sent(asked, node, response, bytes);
    }
}

/// For those who do not listen.
struct Unobserved;

impl Observer for Unobserved {}
