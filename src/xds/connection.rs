//! One connection from its first byte to its last: HTTP/2 (and HTTP/1.1 for REST), who is at the other end, how much it
//! may ask for at a time, and when it has to go.
//!
//! It knows requests and answers, and nothing of what they mean.

mod io;
mod limits;
mod places;

use std::convert::Infallible;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderValue, Request, StatusCode, header};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::sync::watch;
use tokio::time::Instant;
use tonic::{Code, Status};
use tower_service::Service as _;

use super::waits::Rarely;

pub(super) use io::Io;
pub use limits::Limits;
pub(super) use places::Places;

/// What a client may send on one stream, or on one connection, before the server has taken it up.
const STREAM_WINDOW: u32 = 512 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;
/// The header fields of one request.
const HEADERS: u32 = 16 << 10;
/// Longer than any process lives, and no overflow of a clock.
const FOREVER: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// The client's side of a connection.
#[derive(Debug, Clone)]
pub struct Peer {
    /// Its address.
    pub address: SocketAddr,
    /// Whether it may have anything, secrets included.
    pub trusted: bool,
    /// Becomes true when the connection is about to be closed.
    leaving: watch::Receiver<bool>,
}

impl Peer {
    /// The peer of a connection, if it may have anything; else why not.
    pub(super) fn trusted(peer: Option<Self>) -> Result<Self, &'static str> {
        let peer = peer.ok_or("the connection has no peer")?;
        if peer.trusted { Ok(peer) } else { Err("no client certificate of ours: nothing is served") }
    }

    /// Waits until the connection is about to be closed: its streams then end, for the client to open them anew on
    /// another one.
    pub(super) async fn going_away(&mut self) {
        if self.leaving.wait_for(|leaving| *leaving).await.is_err() {
            // The connection is gone, and whoever waits here goes with it.
            std::future::pending().await
        }
    }
}

/// What all connections share.
pub(super) struct Shared {
    routes: axum::Router,
    limits: Limits,
    http: auto::Builder<TokioExecutor>,
    /// Requests under way, on all connections.
    requests: Arc<AtomicUsize>,
    stopping: watch::Receiver<bool>,
}

impl Shared {
    /// Connections that lead to `routes` until `stopping` becomes true.
    pub fn new(routes: axum::Router, limits: Limits, stopping: watch::Receiver<bool>) -> Self {
        let mut http = auto::Builder::new(TokioExecutor::new());
        http.http2()
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_concurrent_streams(limits.streams_per_connection)
            .max_header_list_size(HEADERS)
            .keep_alive_interval(limits.keepalive)
            .keep_alive_timeout(limits.keepalive_timeout);
        // For REST.
        http.http1().timer(TokioTimer::new()).header_read_timeout(limits.first_request);
        Self { routes: routes.fallback(unknown), limits, http, requests: Arc::default(), stopping }
    }

    /// Serves one connection until either side has closed it.
    pub async fn serve(&self, io: Io, address: SocketAddr, trusted: bool) {
        let (leave, leaving) = watch::channel(false);
        let (requests, mut under_way) = watch::channel(0);
        let peer = Peer { address, trusted, leaving };
        let service = service_fn(|request| self.respond(request, &peer, &requests));
        let mut connection = pin!(self.http.serve_connection(TokioIo::new(io), service));
        let mut stopping = self.stopping.clone();
        let mut end = Instant::now() + self.limits.age(chance(address)).unwrap_or(FOREVER);
        let mut idle = Instant::now() + self.limits.first_request;
        let mut used = false;
        loop {
            let told = *leave.borrow();
            let turn = {
                let mut turn = Rarely::wait(async {
                    tokio::select! {
                        _ = under_way.changed() => Turn::Requests,
                        () = tokio::time::sleep_until(end.min(idle)) => Turn::Time,
                        _ = stopping.wait_for(|stopping| *stopping), if !told => Turn::Stop,
                    }
                });
                tokio::select! {
                    biased;
                    ended = connection.as_mut() => Turn::Over(ended),
                    turn = &mut turn => turn,
                }
            };
            match turn {
                Turn::Requests => {
                    used = true;
                    let patience = if *under_way.borrow_and_update() > 0 { FOREVER } else { self.limits.idle };
                    idle = Instant::now() + patience;
                    continue;
                }
                Turn::Over(ended) => {
                    if let Err(error) = ended {
                        tracing::debug!(peer = %address, %error, "an xDS connection broke");
                    }
                    return;
                }
                Turn::Time if told || !used => return,
                Turn::Time | Turn::Stop => {}
            }
            // GOAWAY, then the ends of the streams.
            connection.as_mut().graceful_shutdown();
            leave.send_replace(true);
            (end, idle) = (Instant::now() + self.limits.grace, Instant::now() + FOREVER);
        }
    }

    fn respond(
        &self,
        request: Request<Incoming>,
        peer: &Peer,
        under_way: &watch::Sender<usize>,
    ) -> impl Future<Output = Result<Response<Counted>, Infallible>> + Send + use<> {
        let too_many = self.requests.fetch_add(1, Ordering::Relaxed) >= self.limits.streams;
        under_way.send_modify(|requests| *requests += 1);
        let counted = UnderWay { here: under_way.clone(), everywhere: self.requests.clone() };
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(peer.clone());
        let mut routes = self.routes.clone();
        async move {
            let response = match too_many {
                true => refusal(&request, Status::resource_exhausted("too many streams are open on this server")),
                false => routes.call(request).await.unwrap_or_else(|never| match never {}),
            };
            Ok(response.map(|body| Counted { body, _under_way: counted }))
        }
    }
}

/// What a connection comes to.
enum Turn {
    /// Its end.
    Over(Result<(), Box<dyn std::error::Error + Send + Sync>>),
    /// There are more requests under way, or fewer.
    Requests,
    /// It is too old, or idle for too long.
    Time,
    /// The server stops.
    Stop,
}

/// Some number for each connection.
fn chance(address: SocketAddr) -> u64 {
    RandomState::new().hash_one(address)
}

/// What is not to be answered, in the words of the protocol that the client speaks.
fn refusal(request: &Request<Body>, status: Status) -> Response {
    let content = request.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    if content.starts_with(b"application/grpc") {
        return status.into_http::<Body>();
    }
    let code = match status.code() {
        Code::Unimplemented => StatusCode::NOT_FOUND,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    (code, format!("{}\n", status.message())).into_response()
}

/// The answer to requests that nothing here answers.
async fn unknown(request: Request<Body>) -> Response {
    refusal(&request, Status::unimplemented(format!("there is no {}", request.uri().path())))
}

/// Counts a request as long as it is answered.
struct UnderWay {
    here: watch::Sender<usize>,
    everywhere: Arc<AtomicUsize>,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.here.send_modify(|requests| *requests -= 1);
        self.everywhere.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The body of an answer; as long as there is one, the request is under way.
struct Counted {
    body: Body,
    _under_way: UnderWay,
}

impl http_body::Body for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
