//! The admin server: health, metrics, and the state of the process, for operators.
//!
//! `/healthz`, `/readyz`, and `/metrics` answer every client that reaches the address, because they name no objects. If
//! [`scraping`] serves `/metrics`, this server does not. `/debug/` shows objects and resources and changes the log
//! level, so it answers only clients on this machine (`local`). `kubectl port-forward` makes its users local clients.
//! No page shows private keys.

mod debug;
mod local;
mod readiness;
pub mod scraping;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use lockgate_xds::listening::http::{HttpLimits, Server};
use lockgate_xds::listening::{self, BACKLOG};
use lockgate_xds::snapshot::Snapshot;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::explain::envoys::Live;
use crate::inspection::Inspection;
use crate::metrics::{self, Metrics};
use crate::telemetry::LogControl;

pub use readiness::Readiness;

/// The reason why the admin server cannot run.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// The address is in use, or does not belong to this host.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        source: std::io::Error,
    },
}

/// The paths of probes, which are answered under any load.
const PROBES: &[&str] = &["/healthz", "/readyz"];

/// The newest snapshot of each view, by the name of the view. `None` before the first publication, or if no client has
/// requested the view.
pub type Snapshots = Vec<(String, Option<Arc<Snapshot>>)>;

/// The state that the admin server shows, shared with the parts of the process that change it.
pub struct AdminState {
    /// The conditions that are missing before Envoys may be served.
    pub readiness: Readiness,
    /// The metrics.
    pub metrics: Metrics,
    /// Whether [`scraping`] serves the metrics instead of this server.
    pub scraped_elsewhere: bool,
    /// The control of the log level.
    pub log: LogControl,
    /// The newest snapshot of each view. The first view always exists.
    pub snapshots: Box<dyn Fn() -> Snapshots + Send + Sync>,
    /// Objects and problems.
    pub inspection: watch::Receiver<Arc<Inspection>>,
    /// The effective settings as YAML, and the faults of the settings file.
    pub settings: Box<dyn Fn() -> String + Send + Sync>,
    /// The open xDS streams, as JSON.
    pub streams: Box<dyn Fn() -> serde_json::Value + Send + Sync>,
    /// The Envoys of this replica, and the explanation of requests.
    pub live: Live,
}

impl fmt::Debug for AdminState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdminState").field("readiness", &self.readiness).finish_non_exhaustive()
    }
}

/// Listens on `address` without a warning.
pub async fn bind(address: SocketAddr) -> Result<TcpListener, AdminError> {
    listening::listen(address, BACKLOG).map_err(|source| AdminError::Listen { address, source })
}

/// Listens on `address` for the admin server. Logs a warning if the address is open to the network.
pub async fn listen(address: SocketAddr) -> Result<TcpListener, AdminError> {
    let listener = bind(address).await?;
    if !address.ip().is_loopback() {
        tracing::warn!(
            %address,
            "the admin address is open to the network: /debug/ answers only connections from this machine to 127.0.0.1, \
             all other pages answer every client"
        );
    }
    Ok(listener)
}

/// Serves until `shutdown` is ready and the current requests are answered.
pub async fn serve(listener: TcpListener, state: Arc<AdminState>, shutdown: impl Future<Output = ()> + Send + 'static) {
    let server = Server { name: "admin", routes: router(state), probes: PROBES, limits: HttpLimits::default() };
    server.serve(listener, None, shutdown).await;
}

fn router(state: Arc<AdminState>) -> Router {
    let debug = debug::router().layer(middleware::from_fn(local::only));
    let (routes, fallback) = match state.scraped_elsewhere {
        true => (Router::new(), "not found; there are /healthz, /readyz and /debug/; /metrics is at metrics.address\n"),
        false => (
            Router::new().route("/metrics", get(metrics)),
            "not found; there are /healthz, /readyz, /metrics and /debug/\n",
        ),
    };
    routes
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(readyz))
        .merge(debug)
        .fallback(async move || (StatusCode::NOT_FOUND, fallback))
        .with_state(state)
}

async fn readyz(State(state): State<Arc<AdminState>>) -> Response {
    // The snapshot alone is not sufficient: its problems become readable a moment later.
    match state.readiness.missing(state.inspection.borrow().complete) {
        None => "ready\n".into_response(),
        Some(missing) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {missing}\n")).into_response(),
    }
}

async fn metrics(State(state): State<Arc<AdminState>>) -> Response {
    encoded(&state.metrics)
}

/// Returns the metrics in Prometheus format.
fn encoded(metrics: &Metrics) -> Response {
    ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], metrics.encode()).into_response()
}

#[cfg(test)]
mod tests;
