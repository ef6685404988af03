//! The server: access, TLS, HTTP/2, and shutdown.

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

/// The length of the queue of connections to accept. With the usual 128, some of a thousand simultaneously returning clients
/// are reset. Linux limits it to `net.core.somaxconn`, whose default is the same number.
const BACKLOG: u32 = 4096;

/// The clients that may connect, and the transport.
#[derive(Clone)]
pub enum Access {
    /// Plain text, from loopback addresses only.
    PlainFromLoopback,
    /// Plain text from every address. Secrets are sent unencrypted.
    PlainFromEverywhere,
    /// TLS. A client needs a certificate of the CA with a name that grants a role.
    Tls(Tls),
}

/// A failure to serve.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The server cannot listen on the address.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: io::Error,
    },
    /// A file for TLS is missing or invalid.
    #[error("{}: {problem}", file.display())]
    Tls {
        /// The file.
        file: PathBuf,
        /// The fault.
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

/// Serves `service` like [`serve`], with other `limits`.
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
                tracing::warn!(%error, "cannot accept an xDS connection; continuing");
                // The likely cause is a lack of file descriptors. Without a pause, this loop would spin.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let _ = socket.set_nodelay(true);
        // Handshakes run concurrently, so that a slow client delays nobody.
        let (entrance, slot) = (entrance.clone(), arriving.enter(address.ip()));
        connections.spawn(async move { entrance.connection(socket, address, slot).await });
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
    Ok(())
}

/// The state for admitting and serving connections.
struct Entrance {
    access: Access,
    shared: Shared,
    /// The places of identified clients.
    places: Arc<Places>,
    limits: Limits,
    refusals: Arc<Refusals>,
    stopping: watch::Receiver<bool>,
}

impl Entrance {
    /// Admits and serves one client. An unidentified client uses a slot and little memory.
    async fn connection(&self, socket: TcpStream, address: SocketAddr, slot: Slot) {
        let mut stopping = self.stopping.clone();
        let admitted = tokio::select! {
            admitted = tokio::time::timeout(self.limits.admission, admit(socket, address, self.access.clone())) => admitted,
            () = slot.evicted() => return self.refusals.count(address, Refused::Evicted, ""),
            _ = stopping.wait_for(|stopping| *stopping) => return,
        };
        let Admitted { io, roles, names, stranger } = match admitted {
            Ok(Ok(admitted)) => admitted,
            Ok(Err((reason, detail))) => return self.refusals.count(address, reason, &detail),
            Err(_) => return self.refusals.count(address, Refused::Timeout, ""),
        };
        let status = match stranger {
            Some(stranger) => {
                self.refusals.count(address, Refused::Name, &stranger);
                Status::permission_denied(format!("nothing is served to this client: {stranger}"))
            }
            None => match self.places.acquire(address.ip(), &self.limits) {
                Ok(_place) => {
                    drop(slot);
                    return self.shared.serve(io, address, roles, names).await;
                }
                Err(reason) => {
                    self.refusals.count(address, Refused::Connections, reason);
                    Status::resource_exhausted(reason)
                }
            },
        };
        // A response instead of GOAWAY: gRPC retries requests that GOAWAY refuses at once, in a loop.
        tokio::select! {
            () = self.shared.refuse(io, address, status) => {}
            () = slot.evicted() => {}
        }
    }
}

/// Allows only requests of replicas.
async fn replicas_only(request: axum::extract::Request, next: axum::middleware::Next) -> axum::response::Response {
    match Peer::in_role(request.extensions().get::<Peer>().cloned(), Role::Replica) {
        Ok(_) => next.run(request).await,
        Err(status) => refusal(&request, status),
    }
}

/// A connection with an identified client.
pub(super) struct Admitted {
    io: Io,
    roles: Roles,
    /// The names in the client's certificate. `None` without TLS.
    names: Option<Arc<Names>>,
    /// The description of a client whose certificate grants no role.
    stranger: Option<String>,
}

/// Identifies a client.
///
/// # Errors
/// The reason why the client may not connect.
pub(super) async fn admit(
    socket: TcpStream,
    address: SocketAddr,
    access: Access,
) -> Result<Admitted, (Refused, String)> {
    let plain = match access {
        Access::PlainFromEverywhere => true,
        Access::PlainFromLoopback if address.ip().to_canonical().is_loopback() => true,
        Access::PlainFromLoopback => {
            let what =
                "plain text is for loopback only; set --xds-tls DIR, or --xds-tls off to send secrets in clear text";
            return Err((Refused::PlainText, what.to_owned()));
        }
        Access::Tls(_) => false,
    };
    // A silent connection uses no buffer and no TLS state.
    let broken = |error: io::Error| (Refused::Handshake, error.to_string());
    listening::first_bytes(&socket).await.map_err(broken)?;
    let Access::Tls(mut tls) = access else {
        debug_assert!(plain);
        return Ok(Admitted { io: Io::Plain(socket), roles: Roles::ALL, names: None, stranger: None });
    };
    let settings = tls.current().await.ok_or_else(|| (Refused::Handshake, "there is no certificate".to_owned()))?;
    let accepted = TlsAcceptor::from(settings.config).accept(socket).await;
    let stream = accepted.map_err(|error| match error.get_ref().and_then(|error| error.downcast_ref()) {
        Some(rustls::Error::NoCertificatesPresented) => (Refused::NoCertificate, String::new()),
        _ => broken(error),
    })?;
    let leaf = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    let names = leaf.map(|leaf| Names::read(leaf)).unwrap_or_default();
    // Without a certificate, a client has no role, regardless of the policy.
    let roles = if leaf.is_some() { settings.policy.roles(&names) } else { Roles::default() };
    let stranger = roles.is_empty().then(|| format!("its certificate has {names}, but no name with a role"));
    Ok(Admitted { io: Io::Tls(Box::new(stream)), roles, names: Some(Arc::new(names)), stranger })
}
