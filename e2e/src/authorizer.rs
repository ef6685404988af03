//! An external authorization server: Envoy's service `Authorization` over gRPC, and its equivalent over HTTP.
//!
//! Both deny requests with `?deny`, and return the name of the user.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use envoy_types::pb::envoy::config::core::v3::{HeaderValue, HeaderValueOption};
use envoy_types::pb::envoy::service::auth::v3::authorization_server::{Authorization, AuthorizationServer};
use envoy_types::pb::envoy::service::auth::v3::check_response::HttpResponse;
use envoy_types::pb::envoy::service::auth::v3::{
    AttributeContext, CheckRequest, CheckResponse, DeniedHttpResponse, OkHttpResponse, attribute_context,
};
use envoy_types::pb::envoy::r#type::v3::HttpStatus;
use envoy_types::pb::google::rpc::Status;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{HeaderMap, Method, Request, Response, Uri};
use tonic::service::Routes;

use crate::server::{ANY_PORT, Server};

/// Headers that the server over gRPC sets on permitted requests for paths with `framing`. They would change where the message ends, or
/// control Envoy.
pub const FRAMING: [(&str, &str); 7] = [
    ("content-length", "0"),
    ("transfer-encoding", "chunked"),
    ("connection", "x-user"),
    ("cdn-loop", "none"),
    ("x-envoy-max-retries", "9"),
    ("x-lockgate-bucket", "1"),
    ("host", "other.test"),
];
/// The response header with the user.
pub const USER: (&str, &str) = ("x-user", "alice");

/// The response to denied requests: status, a header, and the body.
pub const DENIED: (u16, (&str, &str), &str) = (401, ("www-authenticate", "Test"), "who are you?");

/// An authorization server over gRPC.
pub struct Authorizer {
    /// The address.
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<AttributeContext>>>,
    _server: Server,
}

impl Authorizer {
    /// Starts a server on a free port.
    pub async fn start() -> Self {
        Self::start_at(ANY_PORT.into()).await
    }

    /// Starts a server at an address.
    ///
    /// # Panics
    /// If the address is taken.
    pub async fn start_at(address: SocketAddr) -> Self {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let service = AuthorizationServer::new(Checks(seen.clone()));
        let server = Server::grpc(address, Routes::new(service)).await;
        Self { address: server.address, seen, _server: server }
    }

    /// Returns the received checks in order.
    pub fn seen(&self) -> Vec<AttributeContext> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the attributes of the request in the last check of a path.
    ///
    /// # Panics
    /// If there was no check.
    pub fn asked(&self, path: &str) -> (AttributeContext, attribute_context::HttpRequest) {
        self.about(path).unwrap_or_else(|| panic!("it was not asked about {path}"))
    }

    /// Returns whether there was a check of a path.
    pub fn was_asked(&self, path: &str) -> bool {
        self.about(path).is_some()
    }

    fn about(&self, path: &str) -> Option<(AttributeContext, attribute_context::HttpRequest)> {
        let http = |seen: AttributeContext| Some((seen.clone(), seen.request?.http?));
        self.seen().into_iter().rev().filter_map(http).find(|(_, http)| http.path == path)
    }
}

struct Checks(Arc<Mutex<Vec<AttributeContext>>>);

#[tonic::async_trait]
impl Authorization for Checks {
    async fn check(
        &self,
        request: tonic::Request<CheckRequest>,
    ) -> Result<tonic::Response<CheckResponse>, tonic::Status> {
        let context = request.into_inner().attributes.unwrap_or_default();
        let http = context.request.as_ref().and_then(|request| request.http.as_ref());
        let [denied, framing] = ["deny", "framing"].map(|word| http.is_some_and(|http| http.path.contains(word)));
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(context);
        let header = |(key, value): (&str, &str)| HeaderValueOption {
            header: Some(HeaderValue { key: key.to_owned(), value: value.to_owned(), ..Default::default() }),
            ..Default::default()
        };
        let (code, answer) = if denied {
            let (status, with, body) = DENIED;
            let denied = DeniedHttpResponse {
                status: Some(HttpStatus { code: status.into() }),
                headers: vec![header(with)],
                body: body.to_owned(),
            };
            (tonic::Code::PermissionDenied, HttpResponse::DeniedResponse(denied))
        } else {
            let harmful = FRAMING.iter().copied().filter(|_| framing);
            let headers = [USER].into_iter().chain(harmful).map(header).collect();
            (tonic::Code::Ok, HttpResponse::OkResponse(OkHttpResponse { headers, ..Default::default() }))
        };
        let status = Some(Status { code: code as i32, ..Default::default() });
        Ok(tonic::Response::new(CheckResponse { status, http_response: Some(answer), ..Default::default() }))
    }
}

/// A request that an [`HttpAuthorizer`] received.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The method.
    pub method: Method,
    /// The path.
    pub uri: Uri,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

/// An authorization server over HTTP, which fails for `?fail`.
pub struct HttpAuthorizer {
    /// The address.
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<Asked>>>,
    _server: Server,
}

impl HttpAuthorizer {
    /// Starts a server on a free port.
    ///
    /// # Panics
    /// If no port is free.
    pub async fn start() -> Self {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let kept = seen.clone();
        let server = Server::http(move |request| answer(request, kept.clone())).await;
        Self { address: server.address, seen, _server: server }
    }

    /// Returns the received requests in order.
    pub fn seen(&self) -> Vec<Asked> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn answer(request: Request<Incoming>, kept: Arc<Mutex<Vec<Asked>>>) -> Response<Full<Bytes>> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let denied = head.uri.path_and_query().is_some_and(|path| path.as_str().contains("deny"));
    let asked = Asked { method: head.method, uri: head.uri, headers: head.headers, body };
    let fails = asked.uri.query() == Some("fail");
    kept.lock().unwrap_or_else(PoisonError::into_inner).push(asked);
    let (status, (name, value), body) = match denied {
        true => DENIED,
        false => (if fails { 500 } else { 200 }, USER, ""),
    };
    let answer = Response::builder().status(status).header(name, value).header("x-other", "of the server");
    answer.body(Full::new(Bytes::from_static(body.as_bytes()))).expect("an answer")
}
