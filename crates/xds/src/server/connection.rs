//! The lifecycle of one connection: HTTP/2 (and HTTP/1.1 for REST), the identity of the client, its limits, and its age.
//!
//! This module handles requests and responses without knowing their purpose.

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

use super::observer::Observer;
use super::waits::Rarely;
use crate::identity::{Names, Role, Roles};
use crate::snapshot::ResourceType;

pub(super) use io::Io;
pub use limits::Limits;
pub(super) use places::Places;

/// The flow control windows for unread data of one stream and one connection. They are small because the server reads
/// requests at once: only stalled requests fill a window.
const STREAM_WINDOW: u32 = 64 << 10;
const CONNECTION_WINDOW: u32 = 256 << 10;
/// The read buffer of an HTTP/1.1 connection.
const HTTP1_BUFFER: usize = 32 << 10;
/// The time limit for the header of an HTTP/1.1 request, and for the next request of a connection.
const HTTP1_HEADER: Duration = Duration::from_secs(20);
/// The maximum size of the header fields of one request.
const HEADERS: u32 = 16 << 10;
/// A time that exceeds the lifetime of a process without overflowing a clock.
const FOREVER: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// The client's side of a connection.
#[derive(Debug, Clone)]
pub struct Peer {
    /// The client's address.
    pub address: SocketAddr,
    /// The client's roles.
    pub roles: Roles,
    /// The names in the client's certificate. `None` without TLS.
    pub names: Option<Arc<Names>>,
    /// Becomes true when the connection is about to be closed.
    leaving: watch::Receiver<bool>,
}

impl Peer {
    /// Returns the peer of a request for resources of type `kind`.
    ///
    /// # Errors
    /// The peer is unknown, has neither of the roles Envoy and gRPC client, or requests resources that only Envoys
    /// receive.
    pub(super) fn discovering(peer: Option<Self>, kind: Option<ResourceType>) -> Result<Self, Status> {
        let peer = peer.ok_or_else(|| Status::unauthenticated("the connection has no peer"))?;
        if !peer.roles.envoy && !peer.roles.grpc {
            return Err(Status::permission_denied(
                "the client certificate has neither the role of an Envoy nor the role of a gRPC client",
            ));
        }
        peer.may_have(kind)?;
        Ok(peer)
    }

    /// Returns the peer of a request that only clients of `role` may send.
    ///
    /// # Errors
    /// The peer has another role.
    pub(super) fn in_role(peer: Option<Self>, role: Role) -> Result<Self, Status> {
        let peer = peer.ok_or_else(|| Status::unauthenticated("the connection has no peer"))?;
        match peer.roles.has(role) {
            true => Ok(peer),
            false => Err(Status::permission_denied(format!("the client certificate does not have a name of {role}"))),
        }
    }

    /// Checks that the peer may have resources of type `kind`.
    ///
    /// # Errors
    /// Secrets are for Envoys.
    pub(super) fn may_have(&self, kind: Option<ResourceType>) -> Result<(), Status> {
        match kind == Some(ResourceType::SECRET) && !self.roles.envoy {
            true => Err(Status::permission_denied(
                "secrets are for Envoys, and the client certificate does not have the role of an Envoy",
            )),
            false => Ok(()),
        }
    }

    /// Waits until the connection is about to be closed. Its streams then end, and the client reopens them on another
    /// connection.
    pub(super) async fn going_away(&mut self) {
        if self.leaving.wait_for(|leaving| *leaving).await.is_err() {
            // The connection is closed, which also cancels this future.
            std::future::pending().await
        }
    }
}

/// The state that all connections share.
pub(super) struct Shared {
    routes: axum::Router,
    limits: Limits,
    observer: Arc<dyn Observer>,
    http: auto::Builder<TokioExecutor>,
    /// The number of open requests on all connections.
    requests: Arc<AtomicUsize>,
    stopping: watch::Receiver<bool>,
}

impl Shared {
    /// Returns the state for connections that serve `routes` until `stopping` becomes true.
    pub fn new(
        routes: axum::Router,
        limits: Limits,
        observer: Arc<dyn Observer>,
        stopping: watch::Receiver<bool>,
    ) -> Self {
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
        http.http1().timer(TokioTimer::new()).header_read_timeout(HTTP1_HEADER).max_buf_size(HTTP1_BUFFER);
        Self { routes: routes.fallback(unknown), limits, observer, http, requests: Arc::default(), stopping }
    }

    /// Answers every request of a connection with `status`, until the client disconnects or [`Limits::admission`] is over.
    pub async fn refuse(&self, io: Io, address: SocketAddr, status: Status) {
        let mut http = auto::Builder::new(TokioExecutor::new());
        http.http2().timer(TokioTimer::new()).max_concurrent_streams(1).max_header_list_size(HEADERS);
        http.http1().timer(TokioTimer::new()).header_read_timeout(self.limits.admission).max_buf_size(HTTP1_BUFFER);
        let service = service_fn(move |request: Request<Incoming>| {
            let answer = refusal(&request, status.clone());
            async move { Ok::<_, Infallible>(answer) }
        });
        let served = tokio::time::timeout(self.limits.admission, http.serve_connection(TokioIo::new(io), service));
        if let Ok(Err(error)) = served.await {
            tracing::debug!(peer = %address, %error, "a refused xDS connection broke");
        }
    }

    /// Serves one connection until either side has closed it.
    pub async fn serve(&self, io: Io, address: SocketAddr, roles: Roles, names: Option<Arc<Names>>) {
        let (leave, leaving) = watch::channel(false);
        let (requests, mut under_way) = watch::channel(0);
        let peer = Peer { address, roles, names, leaving };
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
        if too_many {
            self.observer.stream_refused(peer.address);
        }
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

/// The next event of a connection.
enum Turn {
    /// The connection has ended.
    Over(Result<(), Box<dyn std::error::Error + Send + Sync>>),
    /// The number of open requests has changed.
    Requests,
    /// The connection is too old, or has been idle for too long.
    Time,
    /// The server stops.
    Stop,
}

/// Returns a pseudo-random number for each connection.
fn chance(address: SocketAddr) -> u64 {
    RandomState::new().hash_one(address)
}

/// Returns a refusal in the protocol of the request.
pub(super) fn refusal<B>(request: &Request<B>, status: Status) -> Response {
    let content = request.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    if content.starts_with(b"application/grpc") {
        return status.into_http::<Body>();
    }
    let code = match status.code() {
        Code::Unimplemented => StatusCode::NOT_FOUND,
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    (code, format!("{}\n", status.message())).into_response()
}

/// Answers requests with an unknown path.
async fn unknown(request: Request<Body>) -> Response {
    refusal(&request, Status::unimplemented(format!("there is no {}", request.uri().path())))
}

/// A guard that counts an open request.
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

/// The body of a response, which keeps the request open while it exists.
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
