//! Discovery as JSON over HTTP: `POST /v3/discovery:clusters` and its siblings, on the port of the gRPC services.
//!
//! A client with the newest version gets a response when there is a newer version, or 304 after a while (long polling). It
//! therefore learns of a change at once without frequent requests.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode, header};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::Instant;
use tonic::{Code, Status};

use super::inbound::{self, Arrived, LONGEST_FIELD};
use super::observer::StreamInfo;
use super::serve::Peer;
use super::service::{Client, Service};
use super::v2;
use crate::protobuf;
use crate::protocol::Fetch;
use crate::protocol::encode;
use crate::protocol::{Node, Request, Variant};
use crate::snapshot::{ApiVersion, ResourceType, Store};

/// The maximum size of a request: enough for the names of 100,000 resources.
const LARGEST_REQUEST: usize = 16 << 20;
/// The maximum size of a request in bytes that is parsed at once. Parsing a larger one takes a while, and must not delay streams.
const INLINE: usize = 32 << 10;
/// The time limit for the arrival of a request.
const ARRIVAL_LIMIT: Duration = Duration::from_secs(10);
/// The maximum delay of a response. Envoy's `request_timeout` is 1 s by default.
const LONGEST_HOLD: Duration = Duration::from_millis(800);
/// The part of the client's time limit that is reserved for network latency.
const MARGIN: Duration = Duration::from_millis(200);
/// The header with Envoy's time limit for the response in milliseconds.
const EXPECTED_TIMEOUT: &str = "x-envoy-expected-rq-timeout-ms";

/// An error response: lower case, in plain text.
pub(super) type Failure = (StatusCode, String);

/// Answers a `DiscoveryRequest` in JSON for resources of type `kind`.
pub(super) async fn discover(
    service: Arc<Service>,
    kind: ResourceType,
    api: ApiVersion,
    request: http::Request<Body>,
) -> Response {
    match answer(&service, kind, api, request).await {
        Ok(response) => response,
        Err((status, message)) => (status, message + "\n").into_response(),
    }
}

async fn answer(
    service: &Service,
    kind: ResourceType,
    api: ApiVersion,
    request: http::Request<Body>,
) -> Result<Response, Failure> {
    let peer = request.extensions().get::<Peer>().cloned();
    let peer = Peer::discovering(peer, Some(kind)).map_err(|status| denied(&status))?;
    not_for_browsers(request.headers())?;
    let deadline = Instant::now() + response_delay(request.headers());
    let body = body(request, LARGEST_REQUEST).await?;
    let request = match body.bytes.len() > INLINE {
        false => parse(&body.bytes),
        true => {
            let bytes = body.bytes.clone();
            let parsed = tokio::task::spawn_blocking(move || parse(&bytes)).await;
            parsed.map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?
        }
    };
    let request = inbound::bounded(request.map_err(bad_request)?);
    let request = request.map_err(|status| bad_request(status.message()))?;
    let request = v2::complete(request, Some(kind), api);
    let asked = service.asked(peer.address, &request);
    let fetch = Fetch::new(kind, request).map_err(bad_request)?;
    let store =
        service.stores.select(Client::polling(&fetch.node, api, &peer)).map_err(|why| (StatusCode::NOT_FOUND, why))?;
    respond(service, &store, &asked, fetch, deadline).await
}

/// Returns the response to a client without permission.
pub(super) fn denied(status: &Status) -> Failure {
    let code = match status.code() {
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        _ => StatusCode::FORBIDDEN,
    };
    (code, status.message().to_owned())
}

/// Refuses requests of browsers, so that a web page cannot read secrets through a browser on this machine.
pub(super) fn not_for_browsers(headers: &HeaderMap) -> Result<(), Failure> {
    match headers.contains_key(header::ORIGIN) {
        true => {
            Err((StatusCode::FORBIDDEN, "requests of browsers are refused: the header \"origin\" is set".to_owned()))
        }
        false => Ok(()),
    }
}

/// Returns the body of a request, which must have at most `most` bytes and arrive in time.
pub(super) async fn body(request: http::Request<Body>, most: usize) -> Result<Arrived, Failure> {
    inbound::read_body(request.into_body(), most, Instant::now() + ARRIVAL_LIMIT).await.map_err(|status| {
        let code = match status.code() {
            Code::DeadlineExceeded => StatusCode::REQUEST_TIMEOUT,
            Code::ResourceExhausted => StatusCode::PAYLOAD_TOO_LARGE,
            _ => StatusCode::BAD_REQUEST,
        };
        (code, status.message().to_owned())
    })
}

fn bad_request(problem: impl Display) -> Failure {
    (StatusCode::BAD_REQUEST, problem.to_string())
}

/// Answers when there is a version that the client does not have, or at the deadline.
async fn respond(
    service: &Service,
    store: &Store,
    asked: &StreamInfo,
    fetch: Fetch,
    deadline: Instant,
) -> Result<Response, Failure> {
    let mut snapshots = store.subscribe();
    let mut stopping = service.stopping.clone();
    let (mut current, mut over) = (false, false);
    let snapshot = loop {
        let newest = snapshots.borrow_and_update().clone();
        if let Some(snapshot) = newest {
            current = fetch.is_current(&snapshot);
            if !current {
                break snapshot;
            }
        }
        if over && current {
            return Ok(StatusCode::NOT_MODIFIED.into_response());
        }
        if over {
            let message = "nothing has been published yet";
            return Err((StatusCode::SERVICE_UNAVAILABLE, message.to_owned()));
        }
        over = tokio::select! {
            changed = snapshots.changed() => changed.is_err(),
            () = tokio::time::sleep_until(deadline) => true,
            _ = stopping.wait_for(|stopping| *stopping) => true,
        };
    };
    let response = fetch.response(&snapshot);
    let bytes = encode::response(&response, Variant::Sotw, &service.identifier).into_bytes();
    // Encoding a large state takes a while, and must not delay other streams.
    let json = tokio::task::spawn_blocking(move || {
        protobuf::to_json("envoy.service.discovery.v3.DiscoveryResponse", &bytes).to_string()
    });
    let json = json.await.map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    service.answered(asked, &fetch.node, &response, json.len());
    Ok(([(header::CONTENT_TYPE, "application/json")], json).into_response())
}

/// Returns the maximum delay of a response to a client with the newest version.
pub(super) fn response_delay(headers: &HeaderMap) -> Duration {
    let limit = headers.get(EXPECTED_TIMEOUT).and_then(|value| value.to_str().ok()?.parse().ok());
    let limit = limit.map(Duration::from_millis).filter(|limit| !limit.is_zero());
    limit.map_or(LONGEST_HOLD, |limit| limit.saturating_sub(MARGIN).min(LONGEST_HOLD))
}

/// The used fields of a `DiscoveryRequest`, with proto or `lowerCamelCase` names. Other fields are ignored, because a newer
/// client may send fields that this server does not know.
#[derive(Deserialize)]
struct DiscoveryRequest<'a> {
    #[serde(alias = "versionInfo")]
    version_info: Option<String>,
    #[serde(borrow)]
    node: Option<&'a RawValue>,
    #[serde(alias = "resourceNames")]
    resource_names: Option<Vec<String>>,
    #[serde(alias = "typeUrl")]
    type_url: Option<String>,
}

#[derive(Deserialize)]
struct NodeFields {
    id: Option<String>,
    cluster: Option<String>,
    #[serde(alias = "userAgentName")]
    user_agent_name: Option<String>,
    #[serde(alias = "clientFeatures")]
    client_features: Option<Vec<String>>,
    metadata: Option<serde_json::Map<String, serde_json::Value>>,
}

/// Parses the request in `body`.
///
/// # Errors
/// The fault, with the path of the field.
pub(super) fn parse(body: &[u8]) -> Result<Request, String> {
    let request: DiscoveryRequest = parsed(body, "")?;
    // The values of a node take many times the memory of their text.
    let node = match request.node.map(RawValue::get) {
        Some(node) if node.len() > LONGEST_FIELD => {
            return Err(format!("node has {} bytes, more than the limit of {LONGEST_FIELD}", node.len()));
        }
        Some(node) => parsed::<Option<NodeFields>>(node.as_bytes(), "node.")?,
        None => None,
    };
    Ok(Request {
        node: node.map(|node| Node {
            id: node.id.unwrap_or_default(),
            cluster: node.cluster.unwrap_or_default(),
            user_agent: node.user_agent_name.unwrap_or_default(),
            features: node.client_features.unwrap_or_default(),
            metadata: node.metadata.unwrap_or_default(),
        }),
        type_url: request.type_url.unwrap_or_default(),
        version: request.version_info.unwrap_or_default(),
        subscribe: request.resource_names.unwrap_or_default(),
        ..Request::default()
    })
}

/// Parses `json`. Errors have the path of the field, after `prefix`.
fn parsed<'a, T: Deserialize<'a>>(json: &'a [u8], prefix: &str) -> Result<T, String> {
    let mut json = serde_json::Deserializer::from_slice(json);
    let value = serde_path_to_error::deserialize(&mut json);
    let value = value.map_err(|error| match error.path().iter().next() {
        Some(_) => format!("{prefix}{}: {}", error.path(), error.inner()),
        None if !prefix.is_empty() => format!("{}: {}", prefix.trim_end_matches('.'), error.inner()),
        None => format!("the body is not a DiscoveryRequest in JSON: {}", error.inner()),
    })?;
    json.end().map_err(|error| format!("the body is not a DiscoveryRequest in JSON: {error}"))?;
    Ok(value)
}
