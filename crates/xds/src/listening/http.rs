//! A small HTTP/1.1 server, in clear text or over TLS, for ports that any client can reach.
//!
//! Each connection carries one request. The request must arrive within [`HttpLimits::arrival`], and uses a small buffer
//! until then. Probes are answered from the pool of arriving requests. All other requests move to a separate pool, so
//! that slow readers and long responses do not use the slots of probes.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_rustls::TlsAcceptor;
use tower_service::Service as _;

use super::{Slot, Slots, canonical, first_bytes};

/// The maximum size of the request line and the header fields, in bytes.
const HEADERS: usize = 16 << 10;
/// The maximum number of header fields of one request.
const FIELDS: usize = 64;
/// The pause after a connection could not be accepted, most likely because of missing file descriptors.
const PAUSE: Duration = Duration::from_millis(100);
/// A time that exceeds the lifetime of a process without overflowing a clock.
const FOREVER: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// The TLS configuration for the next connection.
pub type Configs = watch::Receiver<Arc<ServerConfig>>;

/// The addresses of both ends of a connection; an extension of each request.
#[derive(Debug, Clone, Copy)]
pub struct Ends {
    /// The address of the client.
    pub peer: SocketAddr,
    /// The address of the server that the client connected to.
    pub local: SocketAddr,
}

/// The limits of a server.
#[derive(Debug, Clone, Copy)]
pub struct HttpLimits {
    /// The maximum number of connections whose request has not arrived, and of probes. One address can use half of
    /// them.
    pub arriving: usize,
    /// The maximum number of other requests. One address can use half of them.
    pub answers: usize,
    /// The time from the connection to the end of the request header, including the TLS handshake.
    pub arrival: Duration,
    /// The time from the end of the request header to the end of the response. `None`: no limit.
    pub answer: Option<Duration>,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self { arriving: 128, answers: 32, arrival: Duration::from_secs(5), answer: Some(Duration::from_secs(30)) }
    }
}

/// A server.
#[derive(Debug, Clone)]
pub struct Server {
    /// The name in the log.
    pub name: &'static str,
    /// The routes.
    pub routes: Router,
    /// The paths of probes, whose responses are short and immediate.
    pub probes: &'static [&'static str],
    /// The limits.
    pub limits: HttpLimits,
}

/// The state that all connections of a server share.
struct Shared {
    server: Server,
    answers: Arc<Slots>,
    http: http1::Builder,
}

impl Server {
    /// Serves until `shutdown` is ready and active requests are answered. `configs` enables TLS.
    pub async fn serve(self, listener: TcpListener, configs: Option<Configs>, shutdown: impl Future<Output = ()>) {
        let HttpLimits { arriving, answers, arrival, .. } = self.limits;
        let (arriving, answers) = (Slots::new(arriving, arriving / 2), Slots::new(answers, answers / 2));
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(arrival).max_buf_size(HEADERS).max_headers(FIELDS);
        // Connections are not kept alive, so their cost ends with the response. Probes open a connection for each
        // request anyway.
        http.keep_alive(false);
        let name = self.name;
        let shared = Arc::new(Shared { server: self, answers, http });
        let (stop, stopping) = watch::channel(false);
        let mut connections = JoinSet::new();
        let mut shutdown = pin!(shutdown);
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                Some(_) = connections.join_next(), if !connections.is_empty() => continue,
                () = &mut shutdown => break,
            };
            match accepted {
                Ok((socket, peer)) => {
                    let peer = canonical(peer);
                    let slot = arriving.enter(peer.ip());
                    let (shared, stopping) = (shared.clone(), stopping.clone());
                    let config = configs.as_ref().map(|configs| configs.borrow().clone());
                    connections.spawn(async move { shared.connection(socket, peer, config, slot, stopping).await });
                }
                Err(error) => {
                    tracing::warn!(%error, "{name}: cannot accept a connection; retrying");
                    sleep(PAUSE).await;
                }
            }
        }
        drop(listener);
        stop.send_replace(true);
        while connections.join_next().await.is_some() {}
    }
}

impl Shared {
    async fn connection(
        &self,
        socket: TcpStream,
        peer: SocketAddr,
        config: Option<Arc<ServerConfig>>,
        slot: Slot,
        stopping: watch::Receiver<bool>,
    ) {
        let deadline = Instant::now() + self.server.limits.arrival;
        let Ok(local) = socket.local_addr() else { return };
        let ends = Ends { peer, local: canonical(local) };
        let Some(config) = config else { return self.serve(socket, ends, slot, deadline, stopping).await };
        let name = self.server.name;
        let handshake = async {
            // A silent connection uses no TLS state.
            first_bytes(&socket).await?;
            TlsAcceptor::from(config).accept(socket).await
        };
        let done = tokio::select! {
            done = tokio::time::timeout_at(deadline, handshake) => done,
            () = slot.evicted() => return evicted(name, peer),
        };
        match done {
            Ok(Ok(stream)) => self.serve(stream, ends, slot, deadline, stopping).await,
            // A client without a certificate can cause thousands of these lines a second.
            Ok(Err(error)) => tracing::debug!(%peer, %error, "{name}: connection refused: the TLS handshake failed"),
            Err(_) => tracing::debug!(%peer, "{name}: connection refused: the TLS handshake took too long"),
        }
    }

    /// Serves one request.
    async fn serve(
        &self,
        io: impl AsyncRead + AsyncWrite + Unpin,
        ends: Ends,
        arriving: Slot,
        arrival: Instant,
        mut stopping: watch::Receiver<bool>,
    ) {
        let (arrived, mut arrivals) = watch::channel(None);
        let service = service_fn(|request: Request<Incoming>| {
            arrived.send_replace(Some(self.server.probes.contains(&request.uri().path())));
            self.respond(request, ends)
        });
        let mut connection = pin!(self.http.serve_connection(TokioIo::new(io), service));
        let (mut slot, mut deadline, mut told) = (arriving, arrival, false);
        loop {
            tokio::select! {
                biased;
                ended = connection.as_mut() => {
                    if let Err(error) = ended {
                        tracing::debug!(peer = %ends.peer, %error, "{}: a connection broke", self.server.name);
                    }
                    return;
                }
                Ok(()) = arrivals.changed() => match *arrivals.borrow_and_update() {
                    Some(true) => deadline = Instant::now() + self.server.limits.arrival,
                    _ => {
                        slot = self.answers.enter(ends.peer.ip());
                        deadline = Instant::now() + self.server.limits.answer.unwrap_or(FOREVER);
                    }
                },
                () = slot.evicted() => return evicted(self.server.name, ends.peer),
                () = sleep_until(deadline) => {
                    tracing::debug!(peer = %ends.peer, "{}: a connection was too slow", self.server.name);
                    return;
                }
                _ = stopping.wait_for(|stopping| *stopping), if !told => {
                    told = true;
                    connection.as_mut().graceful_shutdown();
                }
            }
        }
    }

    fn respond(
        &self,
        request: Request<Incoming>,
        ends: Ends,
    ) -> impl Future<Output = Result<Response, Infallible>> + use<> {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(ends);
        let mut routes = self.server.routes.clone();
        async move { routes.call(request).await }
    }
}

fn evicted(name: &str, peer: SocketAddr) {
    tracing::debug!(%peer, "{name}: the oldest connection was evicted");
}
