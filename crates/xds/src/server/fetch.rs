//! Unary methods, for clients that poll instead of using a stream.

use std::sync::Arc;

use axum::body::Body;
use envoy_types::pb::envoy::service::discovery::v3::DiscoveryRequest;
use tonic::Status;

use super::inbound::Requests;
use super::serve::Peer;
use super::service::{Client, Service};
use super::v2;
use crate::protocol::encode::{self, EncodedResponse};
use crate::protocol::{Fetch, Variant};
use crate::snapshot::{ApiVersion, ResourceType};

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
) -> Result<EncodedResponse, Status> {
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
