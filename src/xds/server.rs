//! Connections: who may connect, TLS, HTTP/2, shutting down.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::response::IntoResponse;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;

use super::connection::{Io, Places, Shared};
pub use super::connection::{Limits, Peer};
use super::service::Service;
use super::status;
use super::tls::Tls;

/// A TLS handshake that takes longer is given up.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);
/// Connections that may wait to be accepted. With the usual 128, some of a thousand clients that come back at once are
/// reset. Linux takes no more than `net.core.somaxconn`, which is as much.
const BACKLOG: u32 = 4096;
/// Clients at a time that are told why they are refused; more are just refused.
const REFUSALS: usize = 64;
/// A client that is refused has this long to read why.
const REFUSAL_LIMIT: Duration = Duration::from_secs(1);
/// One line in the log for all refusals of this long.
const REFUSAL_LOG: Duration = Duration::from_secs(10);
/// HTTP/2 for "go away": an empty SETTINGS frame, then GOAWAY with the code ENHANCE_YOUR_CALM, and room for the reason.
const GO_AWAY: [u8; 26] = *b"\0\0\0\x04\0\0\0\0\0\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\x0b";

/// Who may connect in what way.
#[derive(Clone)]
pub enum Access {
    /// Plain text, from loopback addresses only.
    PlainFromLoopback,
    /// Plain text, from everywhere: secrets travel in clear.
    PlainFromEverywhere,
    /// TLS; a client without a certificate of our CA gets nothing.
    Tls(Tls),
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
}

/// Listens on `address`.
///
/// # Errors
/// [`ServerError::Listen`] names the address.
pub async fn listen(address: SocketAddr) -> Result<TcpListener, ServerError> {
    let listen = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    listen().map_err(|source| ServerError::Listen { address, source })
}

/// Serves `service` until it is stopping and its streams have ended.
///
/// # Errors
/// [`ServerError`].
pub async fn serve(listener: TcpListener, access: Access, service: Arc<Service>) -> Result<(), ServerError> {
    serve_within(Limits::default(), listener, access, service).await
}

/// As [`serve`], with `limits` of one's own.
///
/// # Errors
/// [`ServerError`].
pub async fn serve_within(
    limits: Limits,
    listener: TcpListener,
    access: Access,
    service: Arc<Service>,
) -> Result<(), ServerError> {
    let mut stopping = service.stopping.clone();
    let others = service.others.clone().layer(axum::middleware::from_fn(trusted_only));
    let routes = status::routes(service.registry.clone()).merge(others).merge(service.routes());
    let shared = Arc::new(Shared::new(routes, limits, stopping.clone()));
    let places = Arc::new(Places::default());
    let (mut connections, mut refusals) = (JoinSet::new(), Refusals::default());
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
            _ = stopping.wait_for(|stopping| *stopping) => break,
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
        let place = match places.take(address.ip(), &limits) {
            Ok(place) => place,
            Err(reason) => {
                refusals.count(address, reason);
                if connections.len() < limits.connections + REFUSALS && !matches!(access, Access::Tls(_)) {
                    connections.spawn(refuse(socket, reason));
                }
                continue;
            }
        };
        let _ = socket.set_nodelay(true);
        let (access, shared) = (access.clone(), shared.clone());
        // Handshakes go on beside each other, so that a slow client holds up nobody.
        connections.spawn(async move {
            match admit(socket, address, access).await {
                Ok((io, trusted)) => shared.serve(io, address, trusted).await,
                Err(reason) => tracing::warn!(peer = %address, "xDS connection refused: {reason}"),
            }
            drop(place);
        });
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
    Ok(())
}

/// Lets requests of those pass who may have something.
async fn trusted_only(request: axum::extract::Request, next: axum::middleware::Next) -> axum::response::Response {
    match Peer::trusted(request.extensions().get::<Peer>().cloned()) {
        Ok(_) => next.run(request).await,
        Err(why) => (http::StatusCode::UNAUTHORIZED, format!("{why}\n")).into_response(),
    }
}

/// Whether a client may connect, and then whether it may have anything.
pub(super) async fn admit(socket: TcpStream, address: SocketAddr, access: Access) -> Result<(Io, bool), String> {
    match access {
        Access::PlainFromEverywhere => Ok((Io::Plain(socket), true)),
        Access::PlainFromLoopback if address.ip().to_canonical().is_loopback() => Ok((Io::Plain(socket), true)),
        Access::PlainFromLoopback => {
            Err("plain text is for loopback only; give --xds-tls DIR, or --xds-tls off to send secrets in clear".into())
        }
        Access::Tls(mut tls) => {
            let handshake = async {
                let config = tls.current().await.ok_or_else(|| io::Error::other("there is no certificate"))?;
                TlsAcceptor::from(config).accept(socket).await
            };
            let stream = tokio::time::timeout(HANDSHAKE_LIMIT, handshake).await;
            let stream = stream.map_err(|_| "the TLS handshake took too long".to_owned())?;
            let stream = stream.map_err(|error| format!("the TLS handshake failed: {error}"))?;
            let trusted = stream.get_ref().1.peer_certificates().is_some_and(|chain| !chain.is_empty());
            Ok((Io::Tls(Box::new(stream)), trusted))
        }
    }
}

/// Tells an HTTP/2 client why it is not served.
async fn refuse(mut socket: TcpStream, reason: &'static str) {
    let mut frames = GO_AWAY.to_vec();
    if let Some(length) = frames.get_mut(11) {
        *length += u8::try_from(reason.len()).unwrap_or_default();
    }
    frames.extend(reason.as_bytes());
    let told = async {
        socket.write_all(&frames).await?;
        socket.shutdown().await?;
        // Closed with something unread, the connection would be reset, and the reason lost.
        tokio::io::copy(&mut socket, &mut tokio::io::sink()).await
    };
    let _ = tokio::time::timeout(REFUSAL_LIMIT, told).await;
}

/// Connections that were refused, for the log.
#[derive(Default)]
struct Refusals {
    count: u64,
    logged: Option<Instant>,
}

impl Refusals {
    fn count(&mut self, address: SocketAddr, reason: &str) {
        self.count += 1;
        if self.logged.is_none_or(|logged| logged.elapsed() > REFUSAL_LOG) {
            tracing::warn!(peer = %address, count = self.count, "xDS connections refused: {reason}");
            *self = Self { count: 0, logged: Some(Instant::now()) };
        }
    }
}
