//! Connections: who may connect, TLS, HTTP/2, shutting down.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{self, RootCertStore};
use tokio_rustls::server::TlsStream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::Connected;

use super::service::Service;

/// A TLS handshake that takes longer is given up.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);
/// Connections with a handshake behind them that wait to be served.
const BACKLOG: usize = 1024;

/// Who may connect in what way.
#[derive(Clone)]
pub enum Access {
    /// Plain text, from loopback addresses only.
    PlainFromLoopback,
    /// Plain text, from everywhere: secrets travel in clear.
    PlainFromEverywhere,
    /// TLS; a client without a certificate of our CA gets nothing.
    Tls(Arc<rustls::ServerConfig>),
}

/// A failure to serve.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// A file for TLS is missing or unusable.
    #[error("{}: {problem}", file.display())]
    Tls {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The HTTP/2 server failed.
    #[error("the xDS server failed: {0}")]
    Serve(#[from] tonic::transport::Error),
}

/// The client's side of a connection.
#[derive(Debug, Clone)]
pub struct Peer {
    /// Its address.
    pub address: SocketAddr,
    /// Whether it may have anything, secrets included.
    pub trusted: bool,
}

impl Peer {
    /// The peer of a connection, if it may have anything; else why not.
    pub(super) fn trusted(peer: Option<Self>) -> Result<Self, &'static str> {
        let peer = peer.ok_or("the connection has no peer")?;
        if peer.trusted { Ok(peer) } else { Err("no client certificate of ours: nothing is served") }
    }
}

/// The TLS settings of `directory`: `tls.crt` and `tls.key` of this server, `ca.crt` that signs its clients.
///
/// # Errors
/// [`ServerError::Tls`] names the file and what is wrong with it.
pub fn tls_config(directory: &Path) -> Result<Arc<rustls::ServerConfig>, ServerError> {
    let fault = |name: &str, problem: String| ServerError::Tls { file: directory.join(name), problem };
    let read = |name: &str| std::fs::read(directory.join(name)).map_err(|error| fault(name, error.to_string()));
    let certificates = |name: &str| {
        let pem = read(name)?;
        let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
        let parsed = parsed.map_err(|error| fault(name, error.to_string()))?;
        if parsed.is_empty() { Err(fault(name, "no certificate in it".into())) } else { Ok(parsed) }
    };
    let key = PrivateKeyDer::from_pem_slice(&read("tls.key")?).map_err(|error| fault("tls.key", error.to_string()))?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates("ca.crt")? {
        roots.add(certificate).map_err(|error| fault("ca.crt", error.to_string()))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    // A client without a certificate is let in to be told so in gRPC's own words, which are easier to find in its log.
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .allow_unauthenticated()
        .build()
        .map_err(|error| fault("ca.crt", error.to_string()))?;
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| fault("tls.crt", error.to_string()))?
        .with_client_cert_verifier(verifier)
        .with_single_cert(certificates("tls.crt")?, key)
        .map_err(|error| fault("tls.crt", error.to_string()))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Listens on `address`.
///
/// # Errors
/// [`ServerError::Listen`] names the address.
pub async fn listen(address: SocketAddr) -> Result<TcpListener, ServerError> {
    TcpListener::bind(address).await.map_err(|source| ServerError::Listen { address, source })
}

/// Serves `service` until it is stopping and its streams have ended.
///
/// # Errors
/// [`ServerError::Serve`].
pub async fn serve(listener: TcpListener, access: Access, service: Arc<Service>) -> Result<(), ServerError> {
    let (ready, connections) = mpsc::channel(BACKLOG);
    let mut stopping = service.stopping.clone();
    let accept = tokio::spawn(accept(listener, access, ready, stopping.clone()));
    let stopped = async move {
        let _ = stopping.wait_for(|stopping| *stopping).await;
    };
    let served = tonic::transport::Server::builder()
        .initial_stream_window_size(1 << 20)
        .initial_connection_window_size(4 << 20)
        .http2_keepalive_interval(Some(Duration::from_secs(30)))
        .http2_keepalive_timeout(Some(Duration::from_secs(20)))
        // For REST.
        .accept_http1(true)
        .add_routes(service.routes().into())
        .serve_with_incoming_shutdown(ReceiverStream::new(connections), stopped)
        .await;
    accept.abort();
    Ok(served?)
}

/// Accepts connections; handshakes go on beside each other, so that a slow client holds up nobody.
async fn accept(
    listener: TcpListener,
    access: Access,
    ready: mpsc::Sender<io::Result<Connection>>,
    mut stopping: watch::Receiver<bool>,
) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopping.wait_for(|stopping| *stopping) => return,
        };
        let (socket, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept an xDS connection; going on");
                // Out of file descriptors, most likely: without a pause this would spin.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let _ = socket.set_nodelay(true);
        let (access, ready) = (access.clone(), ready.clone());
        tokio::spawn(async move {
            match admit(socket, address, access).await {
                Ok(connection) => drop(ready.send(Ok(connection)).await),
                Err(reason) => tracing::warn!(peer = %address, "xDS connection refused: {reason}"),
            }
        });
    }
}

pub(super) async fn admit(socket: TcpStream, address: SocketAddr, access: Access) -> Result<Connection, String> {
    let plain = |socket| Connection { io: Io::Plain(socket), peer: Peer { address, trusted: true } };
    match access {
        Access::PlainFromEverywhere => Ok(plain(socket)),
        Access::PlainFromLoopback if address.ip().to_canonical().is_loopback() => Ok(plain(socket)),
        Access::PlainFromLoopback => {
            Err("plain text is for loopback only; give --xds-tls DIR, or --xds-tls off to send secrets in clear".into())
        }
        Access::Tls(config) => {
            let handshake = TlsAcceptor::from(config).accept(socket);
            let stream = tokio::time::timeout(HANDSHAKE_LIMIT, handshake).await;
            let stream = stream.map_err(|_| "the TLS handshake took too long".to_owned())?;
            let stream = stream.map_err(|error| format!("the TLS handshake failed: {error}"))?;
            let trusted = stream.get_ref().1.peer_certificates().is_some_and(|chain| !chain.is_empty());
            Ok(Connection { io: Io::Tls(Box::new(stream)), peer: Peer { address, trusted } })
        }
    }
}

/// A connection that may be served.
pub(super) struct Connection {
    io: Io,
    peer: Peer,
}

enum Io {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

/// Forwards to the kind of connection that it is.
macro_rules! forward {
    ($self:ident.$method:ident($($argument:expr),*)) => {
        match &mut $self.get_mut().io {
            Io::Plain(io) => Pin::new(io).$method($($argument),*),
            Io::Tls(io) => Pin::new(io).$method($($argument),*),
        }
    };
}

impl AsyncRead for Connection {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        forward!(self.poll_read(cx, buf))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        forward!(self.poll_write(cx, buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        forward!(self.poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        match &self.io {
            Io::Plain(io) => io.is_write_vectored(),
            Io::Tls(io) => io.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        forward!(self.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        forward!(self.poll_shutdown(cx))
    }
}
