//! A client of Envoy's admin interface, for the requests of a drain.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::TokioIo;
use lockgate_route::envoy::names;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

/// The timeout of a request.
const PATIENCE: Duration = Duration::from_secs(5);

/// The address of Envoy's admin interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AdminAddress {
    /// A unix socket.
    Unix(PathBuf),
    /// A host and a port.
    Tcp(String),
}

/// Displays the address as on the command line.
impl fmt::Display for AdminAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => f.write_str(address),
        }
    }
}

/// The reason why a request to Envoy failed.
#[derive(Debug, thiserror::Error)]
pub enum DrainError {
    /// No process listens there, or access is denied.
    #[error("cannot reach Envoy's admin interface at {address} (--envoy-admin-address): {cause}{}", remedy(cause))]
    Connect {
        /// The address.
        address: AdminAddress,
        /// The error of the system.
        cause: io::Error,
    },
    /// The connection closed before the response was complete.
    #[error("Envoy's admin interface did not answer {path}: {cause}")]
    Broken {
        /// The requested path.
        path: String,
        /// The error.
        cause: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The server does not respond.
    #[error("Envoy's admin interface did not answer {path} within {} s", PATIENCE.as_secs())]
    Silent {
        /// The requested path.
        path: String,
    },
    /// The response has an error status.
    #[error("Envoy's admin interface answered {path} by {status}: {body}")]
    Refused {
        /// The requested path.
        path: String,
        /// The status code.
        status: StatusCode,
        /// The body.
        body: String,
    },
    /// Envoy is still running after the request to exit.
    #[error("Envoy has not exited {} s after the request to exit", .0.as_secs())]
    StillThere(Duration),
    /// The program's own server failed.
    #[error("the server of --listen failed: {0}")]
    Serve(#[from] io::Error),
}

impl DrainError {
    /// Returns whether there is no Envoy (any more): its socket does not exist, or no process listens on it.
    pub fn is_gone(&self) -> bool {
        let Self::Connect { cause, .. } = self else { return false };
        matches!(cause.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
    }
}

/// Returns the remedy for an error of a connection attempt.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            "; is Envoy running with the same --envoy-admin-address, and can both containers see the directory of the socket?"
        }
        io::ErrorKind::PermissionDenied => {
            "; only the user of Envoy can access it, see `lockgate bootstrap --envoy-admin-socket-mode`"
        }
        _ => "",
    }
}

/// The open connections and requests of Envoy, without its admin interface and the listener for statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClientLoad {
    /// Connections of clients.
    pub connections: u64,
    /// Current requests of clients.
    pub requests: u64,
}

/// An Envoy, represented by its admin interface.
#[derive(Debug, Clone)]
pub struct Envoy {
    address: AdminAddress,
}

impl Envoy {
    /// Creates a client of the admin interface at `address`. It sends no request yet.
    pub fn at(address: AdminAddress) -> Self {
        Self { address }
    }

    /// Makes `/ready` of the listener for statistics fail.
    pub async fn fail_readiness(&self) -> Result<(), DrainError> {
        self.post(&format!("/runtime_modify?{}=100", names::DRAINING)).await
    }

    /// Makes a growing share of the responses close their connections.
    pub async fn close_gradually(&self) -> Result<(), DrainError> {
        self.post("/drain_listeners?graceful&skip_exit").await
    }

    /// Makes every response close its connection.
    pub async fn fail_health_check(&self) -> Result<(), DrainError> {
        self.post("/healthcheck/fail").await
    }

    /// Closes the listeners. Connections stay open.
    pub async fn close_listeners(&self) -> Result<(), DrainError> {
        self.post("/drain_listeners").await
    }

    /// Tells Envoy to exit.
    pub async fn quit(&self) -> Result<(), DrainError> {
        self.post("/quitquitquit").await
    }

    /// Returns whether Envoy is being drained.
    pub async fn is_draining(&self) -> Result<bool, DrainError> {
        let (_, state) = self.ask(Method::GET, "/ready").await?;
        if state.starts_with("DRAINING") {
            return Ok(true);
        }
        let (_, runtime) = self.ask(Method::GET, "/runtime").await?;
        let runtime: serde_json::Value = serde_json::from_str(&runtime).unwrap_or_default();
        Ok(runtime["entries"][names::DRAINING]["final_value"] == "100")
    }

    /// Returns the open connections and requests.
    pub async fn count(&self) -> Result<ClientLoad, DrainError> {
        // The two dots match `cx` and `rq`.
        let statistics = self.get("/stats?filter=downstream_.._active").await?;
        let listeners = self.get("/listeners").await?;
        Ok(count(&statistics, &listeners))
    }

    async fn get(&self, path: &str) -> Result<String, DrainError> {
        accepted(path, self.ask(Method::GET, path).await?)
    }

    async fn post(&self, path: &str) -> Result<(), DrainError> {
        accepted(path, self.ask(Method::POST, path).await?).map(drop)
    }

    async fn ask(&self, method: Method, path: &str) -> Result<(StatusCode, String), DrainError> {
        let asked = async {
            let connect = |cause| DrainError::Connect { address: self.address.clone(), cause };
            match &self.address {
                AdminAddress::Unix(socket) => {
                    exchange(UnixStream::connect(socket).await.map_err(connect)?, method, path).await
                }
                AdminAddress::Tcp(address) => {
                    exchange(TcpStream::connect(address).await.map_err(connect)?, method, path).await
                }
            }
        };
        tokio::time::timeout(PATIENCE, asked)
            .await
            .unwrap_or_else(|_| Err(DrainError::Silent { path: path.to_owned() }))
    }
}

fn accepted(path: &str, (status, body): (StatusCode, String)) -> Result<String, DrainError> {
    match status.is_success() {
        true => Ok(body),
        false => Err(DrainError::Refused { path: path.to_owned(), status, body: body.trim().to_owned() }),
    }
}

/// Sends one request over one connection.
async fn exchange<S>(stream: S, method: Method, path: &str) -> Result<(StatusCode, String), DrainError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let broken = |cause: Box<dyn std::error::Error + Send + Sync>| DrainError::Broken { path: path.to_owned(), cause };
    let request = Request::builder().method(method).uri(path).header("host", "envoy").header("connection", "close");
    let request = request.body(Empty::<Bytes>::new()).map_err(|error| broken(error.into()))?;
    let shaken = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = shaken.map_err(|error| broken(error.into()))?;
    let exchange = async {
        let (head, body) = sender.send_request(request).await?.into_parts();
        let body = body.collect().await?.to_bytes();
        Ok::<_, hyper::Error>((head.status, String::from_utf8_lossy(&body).into_owned()))
    };
    // The connection is driven here instead of by a task of its own, so that it ends with the exchange.
    tokio::pin!(exchange);
    tokio::select! {
        done = &mut exchange => done,
        _ = connection => exchange.await,
    }
    .map_err(|error| broken(error.into()))
}

/// The listeners that do not serve clients.
const PROBES: [&str; 5] = [names::STATS, names::STATS_TLS, names::READINESS, names::OVERLOAD_PROBE, names::ADMIN];

/// Adds up the gauges of all listeners for clients. The gauges of a listener contain its address, and `/listeners`
/// lists the addresses of the listeners for probes.
fn count(statistics: &str, listeners: &str) -> ClientLoad {
    let of_probes = |line: &str| {
        let (name, address) = line.split_once("::")?;
        PROBES.contains(&name).then(|| address.trim().replace(':', "_"))
    };
    let own: Vec<String> = listeners.lines().filter_map(of_probes).collect();
    let mut count = ClientLoad::default();
    for (name, value) in statistics.lines().filter_map(|line| line.split_once(": ")) {
        let Ok(value) = value.trim().parse::<u64>() else { continue };
        let listener = name.strip_prefix("listener.").and_then(|rest| rest.strip_suffix(".downstream_cx_active"));
        if let Some(listener) = listener {
            // Each listener has gauges for all its connections and for the connections of each worker.
            let of_a_worker = listener.rsplit_once(".worker_").is_some();
            let admin = listener == "admin" || listener.starts_with("admin.");
            if !of_a_worker && !admin && !own.iter().any(|own| own == listener) {
                count.connections += value;
            }
        }
        let manager = name.strip_prefix("http.").and_then(|rest| rest.strip_suffix(".downstream_rq_active"));
        if manager.is_some_and(|manager| manager != "admin" && !PROBES.contains(&manager)) {
            count.requests += value;
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATISTICS: &str = "\
http.admin.downstream_cx_active: 1
http.admin.downstream_rq_active: 1
http.ingress_http.downstream_cx_active: 7
http.ingress_http.downstream_rq_active: 3
http.stats.downstream_rq_active: 1
http.overload-probe.downstream_rq_active: 1
http.readiness.downstream_rq_active: 1
http.stats-tls.downstream_rq_active: 1
listener.[__]_8080.downstream_cx_active: 7
listener.[__]_8080.worker_0.downstream_cx_active: 3
listener.[__]_8080.worker_1.downstream_cx_active: 4
listener.[__]_8002.downstream_cx_active: 2
listener.[__]_8004.downstream_cx_active: 4
listener.0.0.0.0_8443.downstream_cx_active: 1
listener.admin.downstream_cx_active: 1
listener.admin.main_thread.downstream_cx_active: 1
";

    #[test]
    fn probes_scrapers_and_we_ourselves_do_not_count() {
        let listeners =
            "http::[::]:8080\nstats::[::]:8002\nstats-tls::[::]:8003\noverload-probe::[::]:8004\nhttps::0.0.0.0:8443\n";
        assert_eq!(count(STATISTICS, listeners), ClientLoad { connections: 8, requests: 3 });
        assert_eq!(count(STATISTICS, ""), ClientLoad { connections: 14, requests: 3 }, "without such listeners");
        assert_eq!(count("", ""), ClientLoad::default());
        assert_eq!(
            count("listener.x.downstream_cx_active: No recorded values\nnonsense", "stats"),
            ClientLoad::default()
        );
    }

    #[test]
    fn an_error_says_where_and_what_to_do() {
        let error = |kind: io::ErrorKind| DrainError::Connect {
            address: AdminAddress::Unix("/run/envoy/admin.sock".into()),
            cause: io::Error::from(kind),
        };
        let text = error(io::ErrorKind::NotFound).to_string();
        assert!(text.contains("unix:/run/envoy/admin.sock") && text.contains("is Envoy running"), "{text}");
        assert!(error(io::ErrorKind::PermissionDenied).to_string().contains("--envoy-admin-socket-mode"));
        assert!(error(io::ErrorKind::NotFound).is_gone() && error(io::ErrorKind::ConnectionRefused).is_gone());
        assert!(
            !error(io::ErrorKind::PermissionDenied).is_gone()
                && !DrainError::Silent { path: "/stats".into() }.is_gone()
        );
    }
}
