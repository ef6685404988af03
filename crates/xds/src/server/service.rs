//! The discovery services over gRPC: a table of methods with one implementation.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

use super::observer::{Observer, Registry, StreamInfo};
use super::past::Past;
use super::serve::Peer;
use super::session::Method;
use super::v2;
use super::{fetch, rest};
use crate::identity::{Names, Roles};
use crate::protocol::Timing;
use crate::protocol::{Node, Request, Response, Variant};
use crate::snapshot::{ApiVersion, ResourceType, Snapshot, Store};

/// The maximum size of a request. A returning Envoy names all its resources.
pub(super) const LARGEST_REQUEST: usize = 64 << 20;

/// The aggregated service.
const AGGREGATED: &str = "envoy.service.discovery.v3.AggregatedDiscoveryService";

/// The services for a single type. A row contains the service, the suffix of its methods (`Stream…`, `Delta…`,
/// `Fetch…`), the name in REST (`/v3/discovery:…`), and the type. Without a name in REST, `Delta…` is the only method.
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

/// The properties of a client that can select its store.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Client<'a> {
    /// The node of the client.
    pub node: &'a Node,
    /// The protocol variant. Polling clients use state of the world.
    pub variant: Variant,
    /// Whether all types share one stream.
    pub aggregated: bool,
    /// The API version.
    pub api: ApiVersion,
    /// The roles of the names in the client's certificate.
    pub roles: Roles,
    /// The names in the client's certificate, which prove its identity. `None` without TLS.
    pub names: Option<&'a Names>,
}

impl<'a> Client<'a> {
    /// Returns a client that polls each type separately.
    pub(super) fn polling(node: &'a Node, api: ApiVersion, peer: &'a Peer) -> Self {
        let (roles, names) = (peer.roles, peer.names.as_deref());
        Self { node, variant: Variant::Sotw, aggregated: false, api, roles, names }
    }
}

/// Selects the store of a client.
type Choose = dyn Fn(Client<'_>) -> Option<Arc<Store>> + Send + Sync;

/// The selection of stores: one store for all clients, or one for each group of nodes.
pub struct Stores(Box<Choose>);

impl Stores {
    /// Serves every client from the same store.
    pub fn one(store: Arc<Store>) -> Self {
        Self::by_node(move |_| Some(store.clone()))
    }

    /// Selects the store by node. If `choose` returns `None`, the client is refused with `NotFound`. The server calls `choose`
    /// once for each stream, with the node of its first request, and once for each unary request.
    pub fn by_node(choose: impl Fn(&Node) -> Option<Arc<Store>> + Send + Sync + 'static) -> Self {
        Self::by_client(move |client| choose(client.node))
    }

    /// Selects the store by node, protocol variant, API version, and the roles and names of the client's certificate.
    pub fn by_client(choose: impl Fn(Client<'_>) -> Option<Arc<Store>> + Send + Sync + 'static) -> Self {
        Self(Box::new(choose))
    }

    /// Returns the store for `client`.
    ///
    /// # Errors
    /// The reason why there is none.
    pub(super) fn select(&self, client: Client<'_>) -> Result<Arc<Store>, String> {
        let Node { id, cluster, .. } = client.node;
        (self.0)(client).ok_or_else(|| format!("nothing is served to node {id:?} of cluster {cluster:?}"))
    }
}

/// The discovery service, which all streams share.
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
    /// Returns a service that ends its streams when `stopping` becomes true.
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

    /// Sets the timing of the push plan.
    pub fn with_timing(self, timing: Timing) -> Self {
        Self { timing, ..self }
    }

    /// Sets the name of this control plane in every response.
    pub fn with_identifier(self, identifier: impl Into<String>) -> Self {
        Self { identifier: identifier.into(), ..self }
    }

    /// Sets the hooks into the lifecycle of streams.
    pub fn with_observer(self, observer: Arc<dyn Observer>) -> Self {
        Self { observer, ..self }
    }

    /// Adds `routes` on the same port for replicas of this server.
    pub fn with_routes(self, routes: axum::Router) -> Self {
        Self { others: routes, ..self }
    }

    /// Sets the registry of open streams.
    pub fn with_registry(self, registry: Arc<Registry>) -> Self {
        Self { registry, ..self }
    }

    /// Returns the HTTP routes of all services.
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

    /// Waits for the first snapshot of `store`, and returns the newest one, or `None` if the server stops before.
    pub(super) async fn newest(&self, store: &Store) -> Option<Arc<Snapshot>> {
        let (mut stopping, mut snapshots) = (self.stopping.clone(), store.subscribe());
        tokio::select! {
            _ = stopping.wait_for(|stopping| *stopping) => None,
            snapshot = snapshots.wait_for(Option::is_some) => snapshot.ok().and_then(|snapshot| snapshot.clone()),
        }
    }

    /// Returns a unique stream ID.
    pub(super) fn next_stream(&self) -> u64 {
        self.streams.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Notifies the observer of a request without a stream. Returns the identity that replaces the stream's.
    pub(super) fn asked(&self, peer: SocketAddr, request: &Request) -> StreamInfo {
        let info = StreamInfo { id: self.next_stream(), peer, variant: Variant::Sotw };
        match &request.node {
            Some(node) => self.observer.received(&info, node, request),
            None => self.observer.received(&info, &Node::default(), request),
        }
        info
    }

    /// Notifies the observer of the response to such a request. `bytes` is its encoded size.
    pub(super) fn answered(&self, asked: &StreamInfo, node: &Node, response: &Response, bytes: usize) {
        self.observer.sent(asked, node, response, bytes);
    }
}

/// The default observer, which does nothing.
struct Unobserved;

impl Observer for Unobserved {}
