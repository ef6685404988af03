//! A collector of spans: OTLP over gRPC, in clear text.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// What `opentelemetry.proto.collector.trace.v1.TraceService` is asked by.
const EXPORT: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

/// A collector on a port of this machine, which keeps what it is sent.
pub struct Collector {
    /// Where it listens.
    pub address: SocketAddr,
    exports: Arc<Mutex<Vec<Bytes>>>,
    task: JoinHandle<()>,
}

impl Collector {
    /// Starts one on a free port.
    ///
    /// # Panics
    /// If there is no port.
    pub async fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port for a collector");
        let address = listener.local_addr().expect("the address of a collector");
        let exports = Arc::new(Mutex::new(Vec::new()));
        let kept = exports.clone();
        let task = tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                let kept = kept.clone();
                tokio::spawn(async move {
                    let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                    let answer = service_fn(move |request| answer(request, kept.clone()));
                    let _ = server.serve_connection(TokioIo::new(stream), answer).await;
                });
            }
        });
        Self { address, exports, task }
    }

    /// The messages that it was sent, each encoded. Texts in them stand as they are.
    pub fn exports(&self) -> Vec<Bytes> {
        self.exports.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether one of the messages holds all of these texts.
    pub fn has(&self, texts: &[&str]) -> bool {
        let holds = |message: &Bytes, text: &str| message.windows(text.len()).any(|part| part == text.as_bytes());
        self.exports().iter().any(|message| texts.iter().all(|text| holds(message, text)))
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Keeps the message, and answers with an empty one. Source: gRPC over HTTP/2.
async fn answer(
    request: Request<Incoming>,
    kept: Arc<Mutex<Vec<Bytes>>>,
) -> Result<Response<impl hyper::body::Body<Data = Bytes, Error = Infallible>>, Infallible> {
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
    Ok(Response::builder().header("content-type", "application/grpc").body(empty).expect("an answer"))
}
