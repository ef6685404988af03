//! Connections: who may connect, TLS, HTTP/2, shutting down.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tonic::Status;

use super::connection::{Io, Places, Shared, refusal};
pub use super::connection::{Limits, Peer};
use super::refusals::{Refusals, Refused};
use super::service::Service;
use super::status;
use super::tls::Tls;
use crate::identity::{Names, Role, Roles};
use crate::listening::{self, Slot, Slots};

/// Connections that may wait to be accepted. With the usual 128, some of a thousand clients that come back at once are
/// reset. Linux takes no more than `net.core.somaxconn`, which is as much.
const BACKLOG: u32 = 4096;

/// Who may connect in what way.
#[derive(Clone)]
pub enum Access {
    /// Plain text, from loopback addresses only.
    PlainFromLoopback,
    /// Plain text, from everywhere: secrets travel in clear.
    PlainFromEverywhere,
    /// TLS. A client needs a certificate of our CA, with a name that gives it a role.
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
    listening::listen(address, BACKLOG).map_err(|source| ServerError::Listen { address, source })
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
    let others = service.others.clone().layer(axum::middleware::from_fn(replicas_only));
    let refusals = Arc::new(Refusals::new(service.observer.clone()));
    let observer = service.observer.clone();
    let routes = status::routes(service.registry.clone()).merge(others).merge(service.routes());
    let entrance = Arc::new(Entrance {
        access,
        shared: Shared::new(routes, limits, observer, stopping.clone()),
        places: Arc::default(),
        limits,
        refusals,
        stopping: stopping.clone(),
    });
    let arriving = Slots::new(limits.arriving, limits.arriving.div_ceil(2));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
            _ = stopping.wait_for(|stopping| *stopping) => break,
        };
        let (socket, address) = match accepted {
            Ok((socket, address)) => (socket, listening::canonical(address)),
            Err(error) => {
                tracing::warn!(%error, "cannot accept an xDS connection; going on");
                // Out of file descriptors, most likely: without a pause this would spin.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let _ = socket.set_nodelay(true);
        // Handshakes run side by side, so that a slow client holds up nobody.
        let (entrance, slot) = (entrance.clone(), arriving.enter(address.ip()));
        connections.spawn(async move { entrance.connection(socket, address, slot).await });
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
    Ok(())
}

/// What all connections go through, from the first byte to the end.
struct Entrance {
    access: Access,
    shared: Shared,
    /// The places of clients that are known.
    places: Arc<Places>,
    limits: Limits,
    refusals: Arc<Refusals>,
    stopping: watch::Receiver<bool>,
}

impl Entrance {
    /// Admits one client and serves it. Until it is known, it holds a slot and little else.
    async fn connection(&self, socket: TcpStream, address: SocketAddr, slot: Slot) {
        let mut stopping = self.stopping.clone();
        let admitted = tokio::select! {
            admitted = tokio::time::timeout(self.limits.admission, admit(socket, address, self.access.clone())) => admitted,
            () = slot.evicted() => return self.refusals.count(address, Refused::Evicted, ""),
            _ = stopping.wait_for(|stopping| *stopping) => return,
        };
        let Admitted { io, roles, stranger } = match admitted {
            Ok(Ok(admitted)) => admitted,
            Ok(Err((reason, detail))) => return self.refusals.count(address, reason, &detail),
            Err(_) => return self.refusals.count(address, Refused::Timeout, ""),
        };
        let status = match stranger {
            Some(stranger) => {
                self.refusals.count(address, Refused::Name, &stranger);
                Status::permission_denied(format!("nothing is served to this client: {stranger}"))
            }
            None => match self.places.take(address.ip(), &self.limits) {
                Ok(_place) => {
                    drop(slot);
                    return self.shared.serve(io, address, roles).await;
                }
                Err(reason) => {
                    self.refusals.count(address, Refused::Connections, reason);
                    Status::resource_exhausted(reason)
                }
            },
        };
        // An answer, not GOAWAY: what GOAWAY refuses may be sent again at once, and gRPC does so in a loop.
        tokio::select! {
            () = self.shared.turn_away(io, address, status) => {}
            () = slot.evicted() => {}
        }
    }
}

/// Lets the requests of replicas pass.
async fn replicas_only(request: axum::extract::Request, next: axum::middleware::Next) -> axum::response::Response {
    match Peer::in_role(request.extensions().get::<Peer>().cloned(), Role::Replica) {
        Ok(_) => next.run(request).await,
        Err(status) => refusal(&request, status),
    }
}

/// A connection whose client is known.
pub(super) struct Admitted {
    io: Io,
    roles: Roles,
    /// The names in the client's certificate if none of them gives a role, and what to do about it.
    stranger: Option<String>,
}

/// Finds out who a client is.
///
/// # Errors
/// Why it may not connect.
pub(super) async fn admit(
    socket: TcpStream,
    address: SocketAddr,
    access: Access,
) -> Result<Admitted, (Refused, String)> {
    let plain = match access {
        Access::PlainFromEverywhere => true,
        Access::PlainFromLoopback if address.ip().to_canonical().is_loopback() => true,
        Access::PlainFromLoopback => {
            let what = "plain text is for loopback only; give --xds-tls DIR, or --xds-tls off to send secrets in clear";
            return Err((Refused::PlainText, what.to_owned()));
        }
        Access::Tls(_) => false,
    };
    // A silent connection costs no buffer and no TLS state.
    let broken = |error: io::Error| (Refused::Handshake, error.to_string());
    socket.readable().await.map_err(broken)?;
    let Access::Tls(mut tls) = access else {
        debug_assert!(plain);
        return Ok(Admitted { io: Io::Plain(socket), roles: Roles::ALL, stranger: None });
    };
    let settings = tls.current().await.ok_or_else(|| (Refused::Handshake, "there is no certificate".to_owned()))?;
    let accepted = TlsAcceptor::from(settings.config).accept(socket).await;
    let stream = accepted.map_err(|error| match error.get_ref().and_then(|error| error.downcast_ref()) {
        Some(rustls::Error::NoCertificatesPresented) => (Refused::NoCertificate, String::new()),
        _ => broken(error),
    })?;
    let leaf = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    let names = leaf.map(|leaf| Names::read(leaf)).unwrap_or_default();
    // Without a certificate there is no role, whatever the policy says.
    let roles = if leaf.is_some() { settings.policy.roles(&names) } else { Roles::default() };
    let stranger = roles.is_empty().then(|| format!("its certificate has {names}, which gives it no role"));
    Ok(Admitted { io: Io::Tls(Box::new(stream)), roles, stranger })
}
