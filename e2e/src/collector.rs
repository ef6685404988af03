//! A trace collector: OTLP over gRPC, in clear text.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{HeaderMap, Request, Response};

use crate::server::Server;

/// The path of the method of `opentelemetry.proto.collector.trace.v1.TraceService`.
const EXPORT: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

/// A collector on a local port, which stores the received messages.
pub struct Collector {
    /// The address.
    pub address: SocketAddr,
    exports: Arc<Mutex<Vec<Bytes>>>,
    _server: Server,
}

impl Collector {
    /// Starts a collector on a free port.
    ///
    /// # Panics
    /// If no port is free.
    pub async fn start() -> Self {
        let exports = Arc::new(Mutex::new(Vec::new()));
        let kept = exports.clone();
        let server = Server::http(move |request| answer(request, kept.clone())).await;
        Self { address: server.address, exports, _server: server }
    }

    /// Returns the received messages in their encoded form. It contains all texts unchanged.
    pub fn exports(&self) -> Vec<Bytes> {
        self.exports.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns whether one of the messages contains all of these texts.
    pub fn has(&self, texts: &[&str]) -> bool {
        let holds = |message: &Bytes, text: &str| message.windows(text.len()).any(|part| part == text.as_bytes());
        self.exports().iter().any(|message| texts.iter().all(|text| holds(message, text)))
    }
}

/// Stores the message, and answers with an empty one. Source: gRPC over HTTP/2.
async fn answer(
    request: Request<Incoming>,
    kept: Arc<Mutex<Vec<Bytes>>>,
) -> Response<impl hyper::body::Body<Data = Bytes, Error = Infallible>> {
    const UNIMPLEMENTED: &str = "12";
    let known = request.uri().path() == EXPORT;
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    if known {
        kept.lock().unwrap_or_else(PoisonError::into_inner).push(body);
    }
    let mut trailers = HeaderMap::new();
    let status = if known { "0" } else { UNIMPLEMENTED };
    trailers.insert("grpc-status", status.parse().expect("a header value"));
    let empty = Full::new(Bytes::from_static(&[0; 5])).with_trailers(async move { Some(Ok(trailers)) });
    Response::builder().header("content-type", "application/grpc").body(empty).expect("an answer")
}
