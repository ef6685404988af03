//! One-shot answers for clients that ask again and again instead of keeping a stream: the unary methods, and REST.
//!
//! Each request stands for itself: no nonce, no order between types, nothing remembered.

use std::sync::Arc;

use axum::body::Body;
use envoy_types::pb::envoy::service::discovery::v3::DiscoveryRequest;
use tonic::Status;

use super::encode::{self, Encoded};
use super::inbound::Requests;
use super::message::{Node, Request, Response, Variant};
use super::serve::Peer;
use super::service::{Client, Service};
use super::stream::{Refusal, type_url};
use super::subscription::Subscription;
use super::v2;
use crate::snapshot::{ApiVersion, ResourceType, Snapshot, Version};

/// What one request asks for.
pub(super) struct Fetch {
    subscription: Subscription,
    /// What the names alone make of the version.
    asked: Version,
    /// Who asks; nobody has to say so.
    pub node: Node,
    /// The version that the client has.
    has: String,
}

impl Fetch {
    /// What `request` asks of resources of type `kind`.
    ///
    /// # Errors
    /// [`Refusal::OtherType`].
    pub fn new(kind: ResourceType, mut request: Request) -> Result<Self, Refusal> {
        request.canonicalise();
        let url = type_url(&request.type_url, Some(kind))?;
        let mut subscription = Subscription::new(kind, &url, Arc::default());
        // Only the names matter here, so there is no need to compare anything.
        subscription.request(Variant::Sotw, &request, true);
        let mut names = request.subscribe;
        names.sort_unstable();
        names.dedup();
        let asked = names.iter().fold(Version::default(), |version, name| version.marked(name));
        Ok(Self { subscription, asked, node: request.node.unwrap_or_default(), has: request.version })
    }

    /// Whether the client has what `snapshot` would give it.
    pub fn is_current(&self, snapshot: &Snapshot) -> bool {
        !self.has.is_empty() && Version::parse(&self.has) == Some(self.version(snapshot))
    }

    /// The version of what is asked for: the same as long as neither that nor the names change. Of everything, it is
    /// the one that streams have too.
    fn version(&self, snapshot: &Snapshot) -> Version {
        if self.subscription.is_wildcard() {
            return snapshot.version(self.subscription.kind);
        }
        let wanted = self.subscription.wanted(snapshot);
        wanted
            .iter()
            .fold(self.asked, |version, resource| Version(version.0 ^ resource.version().0).marked(resource.name()))
    }

    /// All that is asked for and exists.
    pub fn response(&self, snapshot: &Snapshot) -> Response {
        let resources: Vec<Arc<_>> = self.subscription.wanted(snapshot).into_iter().cloned().collect();
        Response {
            type_url: self.subscription.type_url.clone(),
            nonce: "1".to_owned(),
            version: self.version(snapshot).to_string(),
            resources: resources.into(),
            heartbeats: Vec::new(),
            leases: self.node.takes_leases(Variant::Sotw, self.subscription.kind),
            removed: Vec::new(),
            missing: Vec::new(),
        }
    }
}

/// Answers a unary method for resources of type `kind`: at once, and with all that is asked for also if the client has
/// that version already, for gRPC has no word for "not modified" that is not an error.
pub(super) async fn unary(
    service: Arc<Service>,
    kind: ResourceType,
    api: ApiVersion,
    request: http::Request<Body>,
) -> http::Response<Body> {
    let (head, body) = request.into_parts();
    match answer(&service, kind, api, head.extensions.get::<Peer>().cloned(), body).await {
        Ok(encoded) => encode::grpc(futures::stream::iter([Ok(encoded)])),
        Err(status) => status.into_http(),
    }
}

async fn answer(
    service: &Service,
    kind: ResourceType,
    api: ApiVersion,
    peer: Option<Peer>,
    body: Body,
) -> Result<Encoded, Status> {
    let peer = Peer::discovering(peer, Some(kind))?;
    let request = Requests::<DiscoveryRequest>::new(body).message().await?;
    let request = request.ok_or_else(|| Status::invalid_argument("there is no request"))?;
    let request = v2::complete(request, Some(kind), api);
    let asked = service.asked(peer.address, &request);
    let fetch = Fetch::new(kind, request);
    let fetch = fetch.map_err(|refusal| Status::invalid_argument(refusal.to_string()))?;
    let store = service.stores.select(Client::polling(&fetch.node, api, peer.roles)).map_err(Status::not_found)?;
    let snapshot = service.newest(&store).await.ok_or_else(|| Status::unavailable("the server stops"))?;
    let response = fetch.response(&snapshot);
    let encoded = encode::response(&response, Variant::Sotw, &service.identifier);
    service.answered(&asked, &fetch.node, &response, encoded.len());
    Ok(encoded)
}
