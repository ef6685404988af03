//! Responses to clients that poll instead of using a stream: unary methods and REST.
//!
//! Each request is independent: no nonce, no order between types, no state.

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

/// A request of a polling client.
pub(super) struct Fetch {
    subscription: Subscription,
    /// The part of the version that depends only on the names.
    asked: Version,
    /// The client's node, which is optional.
    pub node: Node,
    /// The client's version.
    has: String,
}

impl Fetch {
    /// Interprets `request` for resources of type `kind`.
    ///
    /// # Errors
    /// [`Refusal::OtherType`].
    pub fn new(kind: ResourceType, mut request: Request) -> Result<Self, Refusal> {
        request.canonicalize();
        let url = type_url(std::mem::take(&mut request.type_url), Some(kind))?;
        let mut subscription = Subscription::new(kind, &url, Arc::default());
        // Only the names matter, so versions are not compared.
        subscription.request(Variant::Sotw, &request, true);
        let mut names = request.subscribe;
        names.sort_unstable();
        names.dedup();
        let asked = names.iter().fold(Version::default(), |version, name| version.marked(name));
        Ok(Self { subscription, asked, node: request.node.unwrap_or_default(), has: request.version })
    }

    /// Returns whether the client has the current version of `snapshot`.
    pub fn is_current(&self, snapshot: &Snapshot) -> bool {
        !self.has.is_empty() && Version::parse(&self.has) == Some(self.version(snapshot))
    }

    /// Returns the version of the requested resources, which changes only with the resources or the names. For all resources,
    /// it is the version of streams.
    fn version(&self, snapshot: &Snapshot) -> Version {
        if self.subscription.is_wildcard() {
            return snapshot.version(self.subscription.kind);
        }
        let wanted = self.subscription.wanted(snapshot);
        wanted
            .iter()
            .fold(self.asked, |version, resource| Version(version.0 ^ resource.version().0).marked(resource.name()))
    }

    /// Returns a response with all requested resources that exist.
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

/// Answers a unary method for resources of type `kind`, at once. The response contains all requested resources even if the
/// client is current, because gRPC can express "not modified" only as an error.
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
    let store = service.stores.select(Client::polling(&fetch.node, api, &peer)).map_err(Status::not_found)?;
    let snapshot = service.newest(&store).await.ok_or_else(|| Status::unavailable("the server is shutting down"))?;
    let response = fetch.response(&snapshot);
    let encoded = encode::response(&response, Variant::Sotw, &service.identifier);
    service.answered(&asked, &fetch.node, &response, encoded.len());
    Ok(encoded)
}
