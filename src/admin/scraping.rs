//! The server for `/metrics` alone: in clear text, or by TLS, to clients that show a certificate if they have to.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::Error;
use crate::metrics::Metrics;

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
pub fn tls_config(certificate: &[u8], key: &[u8], authorities: &[u8]) -> Result<Arc<ServerConfig>, String> {
    let of_certificate = |error: rustls::Error| format!("tls.crt: {error}");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(of_certificate)?;
    let builder = if authorities.is_empty() {
        builder.with_no_client_auth()
    } else {
        let mut roots = RootCertStore::empty();
        for authority in certificates("ca.crt", authorities)? {
            roots.add(authority).map_err(|error| format!("ca.crt: {error}"))?;
        }
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
        builder.with_client_cert_verifier(verifier.map_err(|error| format!("ca.crt: {error}"))?)
    };
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| format!("tls.key: {error}"))?;
    let mut config = builder.with_single_cert(certificates("tls.crt", certificate)?, key).map_err(of_certificate)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // A session that is taken up again would outlive the certificate that it began with.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

fn certificates(file: &str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match parsed {
        Ok(parsed) if parsed.is_empty() => Err(format!("{file}: no certificate in it")),
        parsed => parsed.map_err(|error| format!("{file}: {error}")),
    }
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
