//! The client status discovery service (CSDS): what each connected client has, is still to get, and has rejected, from
//! the state of its streams.
//!
//! Over gRPC, and as JSON by `POST /v3/discovery:client_status`. What is secret is never in an answer.

mod matcher;
mod report;

use std::pin::Pin;
use std::sync::Arc;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use envoy_types::pb::envoy::service::status::v3 as status_v3;
use http::{StatusCode, header};
use prost::Message;
use status_v3::client_status_discovery_service_server::{
    ClientStatusDiscoveryService, ClientStatusDiscoveryServiceServer,
};
use status_v3::{ClientStatusRequest, ClientStatusResponse};
use tonic::{Code, Status, Streaming};

use self::matcher::NodeMatcher;
use super::observer::Registry;
use super::server::Peer;
use crate::protobuf;

/// Largest request taken: matchers, each a line or two.
const LARGEST_REQUEST: usize = 1 << 20;
/// Largest answer given; a request for more has to be narrowed.
const LARGEST_ANSWER: usize = 64 << 20;

/// The routes of the service, to be mounted in a server.
pub(super) fn routes(registry: Arc<Registry>) -> axum::Router {
    let service = ClientStatusDiscoveryServiceServer::new(Reporter { registry: registry.clone() })
        .max_decoding_message_size(LARGEST_REQUEST);
    let discover = move |request| rest(registry.clone(), request);
    axum::Router::new()
        .route_service("/envoy.service.status.v3.ClientStatusDiscoveryService/{method}", service)
        .route("/v3/discovery:client_status", axum::routing::post(discover))
}

struct Reporter {
    registry: Arc<Registry>,
}

#[tonic::async_trait]
impl ClientStatusDiscoveryService for Reporter {
    type StreamClientStatusStream =
        Pin<Box<dyn futures::Stream<Item = Result<ClientStatusResponse, Status>> + Send + 'static>>;

    async fn fetch_client_status(
        &self,
        request: tonic::Request<ClientStatusRequest>,
    ) -> Result<tonic::Response<ClientStatusResponse>, Status> {
        peer(request.extensions())?;
        answer(self.registry.clone(), request.into_inner()).await.map(tonic::Response::new)
    }

    /// Answers each request of the stream.
    async fn stream_client_status(
        &self,
        request: tonic::Request<Streaming<ClientStatusRequest>>,
    ) -> Result<tonic::Response<Self::StreamClientStatusStream>, Status> {
        let (peer, registry) = (peer(request.extensions())?, self.registry.clone());
        let state = Some((request.into_inner(), peer, registry));
        let answers = futures::stream::unfold(state, |state| async move {
            let (mut requests, mut peer, registry) = state?;
            let request = tokio::select! {
                request = requests.message() => request,
                () = peer.going_away() => return None,
            };
            let answered = match request {
                Ok(request) => answer(registry.clone(), request?).await,
                Err(status) => Err(status),
            };
            let go_on = answered.is_ok();
            Some((answered, go_on.then_some((requests, peer, registry))))
        });
        Ok(tonic::Response::new(Box::pin(answers)))
    }
}

fn peer(extensions: &http::Extensions) -> Result<Peer, Status> {
    Peer::trusted(extensions.get::<Peer>().cloned()).map_err(Status::unauthenticated)
}

/// The answer to a request. Encoding what many clients have takes a while, so it happens beside the streams.
async fn answer(registry: Arc<Registry>, request: ClientStatusRequest) -> Result<ClientStatusResponse, Status> {
    let matchers = request.node_matchers.into_iter().enumerate();
    let matchers = matchers
        .map(|(i, matcher)| NodeMatcher::parse(matcher).map_err(|problem| format!("node_matchers[{i}].{problem}")))
        .collect::<Result<Vec<_>, _>>()
        .map_err(Status::invalid_argument)?;
    let contents = !request.exclude_resource_contents;
    let report = move || report::report(&registry, &matchers, contents, LARGEST_ANSWER);
    let report = tokio::task::spawn_blocking(report).await.map_err(|error| Status::internal(error.to_string()))?;
    report.ok_or_else(|| {
        let limit = LARGEST_ANSWER >> 20;
        Status::resource_exhausted(format!(
            "the answer has more than {limit} MiB: choose fewer nodes, or set exclude_resource_contents"
        ))
    })
}

async fn rest(registry: Arc<Registry>, request: http::Request<Body>) -> Response {
    match discover(registry, request).await {
        Ok(json) => ([(header::CONTENT_TYPE, "application/json")], json).into_response(),
        Err((code, message)) => (code, message + "\n").into_response(),
    }
}

async fn discover(registry: Arc<Registry>, request: http::Request<Body>) -> Result<String, (StatusCode, String)> {
    const REQUEST: &str = "type.googleapis.com/envoy.service.status.v3.ClientStatusRequest";
    let failure = |status: Status| {
        let code = match status.code() {
            Code::Unauthenticated => StatusCode::UNAUTHORIZED,
            Code::InvalidArgument => StatusCode::BAD_REQUEST,
            Code::ResourceExhausted => StatusCode::PAYLOAD_TOO_LARGE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        (code, status.message().to_owned())
    };
    peer(request.extensions()).map_err(failure)?;
    super::rest::not_for_browsers(request.headers())?;
    let body = super::rest::body(request, LARGEST_REQUEST).await?;
    let bad = |problem: String| (StatusCode::BAD_REQUEST, problem);
    let mut json: serde_json::Value = match body.is_empty() {
        true => serde_json::json!({}),
        false => serde_json::from_slice(&body).map_err(|error| bad(format!("the body is no JSON: {error}")))?,
    };
    let fields = json.as_object_mut().ok_or_else(|| bad("the body is no JSON object".to_owned()))?;
    fields.insert("@type".to_owned(), REQUEST.into());
    let encoded = protobuf::from_json(&json).map_err(|error| bad(error.to_string()))?;
    let request = ClientStatusRequest::decode(&encoded.message[..]).map_err(|error| bad(error.to_string()))?;
    let answer = answer(registry, request).await.map_err(failure)?;
    let print = move || {
        protobuf::to_json_redacted("envoy.service.status.v3.ClientStatusResponse", &answer.encode_to_vec()).to_string()
    };
    tokio::task::spawn_blocking(print).await.map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
}
