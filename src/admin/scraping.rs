//! The server for `/metrics` alone: in clear text, or by TLS, to clients that show a certificate if they have to.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::Error;
use crate::metrics::Metrics;
use crate::tls::{self, Clients, Pair, TlsFault};

/// A handshake that takes longer is given up.
const PATIENCE: Duration = Duration::from_secs(10);
/// Handshakes at a time; others wait.
const HANDSHAKES: usize = 64;
/// After a connection could not be accepted, which is for want of file descriptors most likely.
const PAUSE: Duration = Duration::from_millis(100);

/// The TLS configuration that the next connection gets.
pub type Configs = watch::Receiver<Arc<ServerConfig>>;

/// Serves until `shutdown` is ready and the requests under way are answered; in clear text if there is no TLS.
///
/// # Errors
/// The listener failed.
pub async fn serve(
    listener: TcpListener,
    tls: Option<Configs>,
    metrics: Metrics,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), Error> {
    let routes = Router::new()
        .route("/metrics", get(async |State(metrics): State<Metrics>| super::encoded(&metrics)))
        .fallback(async || (StatusCode::NOT_FOUND, "not found; there is /metrics\n"))
        .with_state(metrics);
    match tls {
        None => axum::serve(listener, routes).with_graceful_shutdown(shutdown).await?,
        Some(configs) => {
            let secured = Secured { listener, configs, handshakes: JoinSet::new() };
            axum::serve(secured, routes).with_graceful_shutdown(shutdown).await?;
        }
    }
    Ok(())
}

/// The TLS configuration of a server with this key pair, PEM. Clients must show a certificate of `authorities`, PEM too,
/// unless that is empty.
///
/// # Errors
/// Which file is of no use, and why.
pub fn tls_config(certificate: &[u8], key: &[u8], authorities: &[u8]) -> Result<Arc<ServerConfig>, TlsFault> {
    let clients = if authorities.is_empty() { Clients::Anybody } else { Clients::Known(authorities) };
    tls::server_config(Pair { certificate, key }, clients, &["http/1.1"])
}

/// Connections whose handshakes are done. They go on beside each other, so that a slow client holds up nobody.
struct Secured {
    listener: TcpListener,
    configs: Configs,
    handshakes: JoinSet<Option<(TlsStream<TcpStream>, SocketAddr)>>,
}

impl axum::serve::Listener for Secured {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            tokio::select! {
                accepted = self.listener.accept(), if self.handshakes.len() < HANDSHAKES => match accepted {
                    Ok((socket, peer)) => {
                        let config = self.configs.borrow().clone();
                        self.handshakes.spawn(handshake(socket, peer, config));
                    }
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept a connection for /metrics; going on");
                        tokio::time::sleep(PAUSE).await;
                    }
                },
                Some(done) = self.handshakes.join_next() => if let Ok(Some(connection)) = done {
                    return connection;
                },
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

async fn handshake(
    socket: TcpStream,
    peer: SocketAddr,
    config: Arc<ServerConfig>,
) -> Option<(TlsStream<TcpStream>, SocketAddr)> {
    match tokio::time::timeout(PATIENCE, TlsAcceptor::from(config).accept(socket)).await {
        Ok(Ok(stream)) => return Some((stream, peer)),
        Ok(Err(error)) => tracing::info!(%peer, %error, "connection for /metrics refused: the TLS handshake failed"),
        Err(_) => tracing::info!(%peer, "connection for /metrics refused: the TLS handshake took too long"),
    }
    None
}
