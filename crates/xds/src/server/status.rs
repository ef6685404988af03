//! The client status discovery service (CSDS): the accepted, pending, and rejected resources of each connected client, from
//! the state of its streams.
//!
//! The service is available over gRPC, and as JSON by `POST /v3/discovery:client_status`. Responses never contain secrets.

mod matcher;
mod report;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use envoy_types::pb::envoy::service::status::v3 as status_v3;
use http::{StatusCode, header};
use http_body::Frame;
use prost::Message;
use status_v3::client_status_discovery_service_server::{
    ClientStatusDiscoveryService, ClientStatusDiscoveryServiceServer,
};
use status_v3::{ClientStatusRequest, ClientStatusResponse};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::{Code, Status, Streaming};

use self::matcher::NodeMatcher;
use super::connection::refusal;
use super::observer::Registry;
use super::rest::{Failure, body, not_for_browsers};
use super::serve::Peer;
use crate::identity::Role;
use crate::protobuf;

/// The maximum size of a request, which contains a few short matchers.
const LARGEST_REQUEST: usize = 64 << 10;
/// The maximum number of simultaneous requests and streams. Each may buffer a partial request.
const MOST_REQUESTS: usize = 64;
/// The budget for all responses in transit, in KiB. An unread response keeps its share.
const ALLOWANCE: usize = (2 * LARGEST_ANSWER) >> 10;
/// The maximum wait of a response for its share of the budget.
const PATIENCE: Duration = Duration::from_secs(10);
/// The maximum size of a response. Clients must narrow requests for more.
const LARGEST_ANSWER: usize = 64 << 20;

/// Returns the HTTP routes of the service.
pub(super) fn routes(registry: Arc<Registry>) -> axum::Router {
    let desk = Desk {
        registry,
        requests: Arc::new(Semaphore::new(MOST_REQUESTS)),
        answers: Arc::new(Semaphore::new(ALLOWANCE)),
        making: Arc::new(Semaphore::new(1)),
    };
    let service = ClientStatusDiscoveryServiceServer::new(desk.clone()).max_decoding_message_size(LARGEST_REQUEST);
    let rest = desk.clone();
    axum::Router::new()
        .route_service("/envoy.service.status.v3.ClientStatusDiscoveryService/{method}", service)
        .route("/v3/discovery:client_status", axum::routing::post(move |request| rest.rest(request)))
        .layer(axum::middleware::from_fn_with_state(desk, bounded))
}

/// The state that all requests share.
#[derive(Clone)]
struct Desk {
    registry: Arc<Registry>,
    requests: Arc<Semaphore>,
    answers: Arc<Semaphore>,
    /// The permit for building a response. One response is built at a time.
    making: Arc<Semaphore>,
}

/// A share of the budget. The extensions of an HTTP response pass it to the body.
type Part = Arc<OwnedSemaphorePermit>;

/// Allows only Envoys that receive all resources, before the request is read, and limits the open requests.
async fn bounded(State(desk): State<Desk>, request: Request, next: Next) -> Response {
    let peer = Peer::in_role(request.extensions().get::<Peer>().cloned(), Role::Status);
    if let Err(status) = peer {
        return refusal(&request, status);
    }
    let Ok(permit) = desk.requests.try_acquire_owned() else {
        let status = Status::resource_exhausted(format!("{MOST_REQUESTS} requests for the status of clients are open"));
        return refusal(&request, status);
    };
    let late = || Status::deadline_exceeded("the request did not arrive, or was not answered, in time");
    let (head, body) = request.into_parts();
    let asked = Request::from_parts(head.clone(), Body::empty());
    let answered = tokio::time::timeout(3 * PATIENCE, next.run(Request::from_parts(head, body))).await;
    let Ok(mut response) = answered else { return refusal(&asked, late()) };
    let part = response.extensions_mut().remove::<Part>();
    response.map(|body| Body::new(Held { body, _permits: (permit, part) }))
}

/// A body that holds permits until it is read.
struct Held {
    body: Body,
    _permits: (OwnedSemaphorePermit, Option<Part>),
}

impl http_body::Body for Held {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }
}

#[tonic::async_trait]
impl ClientStatusDiscoveryService for Desk {
    type StreamClientStatusStream =
        Pin<Box<dyn futures::Stream<Item = Result<ClientStatusResponse, Status>> + Send + 'static>>;

    async fn fetch_client_status(
        &self,
        request: tonic::Request<ClientStatusRequest>,
    ) -> Result<tonic::Response<ClientStatusResponse>, Status> {
        let (answer, part) = self.answer(request.into_inner()).await?;
        let mut response = tonic::Response::new(answer);
        response.extensions_mut().insert(part);
        Ok(response)
    }

    /// Answers each request of the stream.
    async fn stream_client_status(
        &self,
        request: tonic::Request<Streaming<ClientStatusRequest>>,
    ) -> Result<tonic::Response<Self::StreamClientStatusStream>, Status> {
        let peer = Peer::in_role(request.extensions().get::<Peer>().cloned(), Role::Status)?;
        let state = Some((request.into_inner(), peer, self.clone(), None::<Part>));
        let answers = futures::stream::unfold(state, |state| async move {
            let (mut requests, mut peer, desk, sent) = state?;
            // The transport requests the next response when it has sent the last one.
            drop(sent);
            let request = tokio::select! {
                request = requests.message() => request,
                () = peer.going_away() => return None,
            };
            let answered = match request {
                Ok(request) => desk.answer(request?).await,
                Err(status) => Err(status),
            };
            match answered {
                Ok((answer, part)) => Some((Ok(answer), Some((requests, peer, desk, Some(part))))),
                Err(status) => Some((Err(status), None)),
            }
        });
        Ok(tonic::Response::new(Box::pin(answers)))
    }
}

impl Desk {
    /// Returns the response to a request, and its share of the budget. It is built on a blocking thread, because encoding
    /// the state of many clients takes a while.
    async fn answer(&self, request: ClientStatusRequest) -> Result<(ClientStatusResponse, Part), Status> {
        let matchers = request.node_matchers.into_iter().enumerate();
        let matchers = matchers
            .map(|(i, matcher)| NodeMatcher::parse(matcher).map_err(|problem| format!("node_matchers[{i}].{problem}")))
            .collect::<Result<Vec<_>, _>>()
            .map_err(Status::invalid_argument)?;
        let contents = !request.exclude_resource_contents;
        let made = async {
            let _turn = self.making.acquire().await.map_err(|closed| Status::internal(closed.to_string()))?;
            let registry = self.registry.clone();
            let report = move || report::report(&registry, &matchers, contents, LARGEST_ANSWER);
            let report =
                tokio::task::spawn_blocking(report).await.map_err(|error| Status::internal(error.to_string()))?;
            let answer = report.ok_or_else(|| {
                let limit = LARGEST_ANSWER >> 20;
                Status::resource_exhausted(format!(
                    "the answer has more than {limit} MiB: select fewer nodes, or set exclude_resource_contents"
                ))
            })?;
            let size = u32::try_from((answer.encoded_len() >> 10) + 1).unwrap_or(u32::MAX);
            let part = self.answers.clone().acquire_many_owned(size).await;
            Ok((answer, Arc::new(part.map_err(|closed| Status::internal(closed.to_string()))?)))
        };
        let made = tokio::time::timeout(PATIENCE, made).await;
        made.unwrap_or_else(|_| Err(Status::resource_exhausted("too many responses are being built or sent")))
    }

    async fn rest(self, request: Request) -> Response {
        match self.discover(request).await {
            Ok((json, part)) => ([(header::CONTENT_TYPE, "application/json")], Extension(part), json).into_response(),
            Err((code, message)) => (code, message + "\n").into_response(),
        }
    }

    async fn discover(&self, request: Request) -> Result<(String, Part), Failure> {
        const REQUEST: &str = "type.googleapis.com/envoy.service.status.v3.ClientStatusRequest";
        let failure = |status: Status| {
            let code = match status.code() {
                Code::InvalidArgument => StatusCode::BAD_REQUEST,
                Code::ResourceExhausted => StatusCode::PAYLOAD_TOO_LARGE,
                _ => StatusCode::INTERNAL_SERVER_ERROR,
            };
            (code, status.message().to_owned())
        };
        not_for_browsers(request.headers())?;
        let arrived = body(request, LARGEST_REQUEST).await?;
        let body = &arrived.bytes;
        let bad = |problem: String| (StatusCode::BAD_REQUEST, problem);
        let mut json: serde_json::Value = match body.is_empty() {
            true => serde_json::json!({}),
            false => serde_json::from_slice(body).map_err(|error| bad(format!("the body is not JSON: {error}")))?,
        };
        let fields = json.as_object_mut().ok_or_else(|| bad("the body is not a JSON object".to_owned()))?;
        fields.insert("@type".to_owned(), REQUEST.into());
        let encoded = protobuf::from_json(&json).map_err(|error| bad(error.to_string()))?;
        let request = ClientStatusRequest::decode(&encoded.message[..]).map_err(|error| bad(error.to_string()))?;
        let (answer, part) = self.answer(request).await.map_err(failure)?;
        let print = move || {
            const RESPONSE: &str = "envoy.service.status.v3.ClientStatusResponse";
            protobuf::to_json_redacted(RESPONSE, &answer.encode_to_vec()).to_string()
        };
        let json = tokio::task::spawn_blocking(print).await;
        Ok((json.map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?, part))
    }
}
