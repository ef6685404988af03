//! The admin server: health, metrics, and what the process knows, for those who operate it.
//!
//! `/healthz`, `/readyz` and `/metrics` answer everybody who reaches the address; they name no object. [`scraping`] is a
//! server for `/metrics` alone, which then is not here. `/debug/` shows objects and resources and changes the log, so it
//! answers this machine only (`local`). `kubectl port-forward` makes a local client of whoever may use it. Private keys
//! are never shown to anybody.

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
use lockgate_xds::listening::http::{Limits, Server};
use lockgate_xds::listening::{self, BACKLOG};
use lockgate_xds::snapshot::Snapshot;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::inspection::Inspection;
use crate::metrics::{self, Metrics};
use crate::telemetry::LogControl;

pub use readiness::Readiness;

/// Why the admin server cannot run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is taken, or not one of this host.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
}

/// The paths of probes, which are answered however many other requests there are.
const PROBES: &[&str] = &["/healthz", "/readyz"];

/// The newest snapshot of each view, by the name of the view. `None` before the first publication, or if no client has
/// requested the view.
pub type Snapshots = Vec<(String, Option<Arc<Snapshot>>)>;

/// What the admin server shows. Everything in it is shared with those who change it.
pub struct AdminState {
    /// What is missing until Envoys may be served.
    pub readiness: Readiness,
    /// The metrics.
    pub metrics: Metrics,
    /// Whether they are shown by [`scraping`], and not here.
    pub scraped_elsewhere: bool,
    /// The log's level.
    pub log: LogControl,
    /// The newest snapshot of each view. The first view always exists.
    pub snapshots: Box<dyn Fn() -> Snapshots + Send + Sync>,
    /// Objects and problems.
    pub inspection: watch::Receiver<Arc<Inspection>>,
    /// The settings that hold, as YAML, and what is wrong with the file.
    pub settings: Box<dyn Fn() -> String + Send + Sync>,
    /// The open xDS streams, as JSON.
    pub streams: Box<dyn Fn() -> serde_json::Value + Send + Sync>,
}

impl fmt::Debug for AdminState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdminState").field("readiness", &self.readiness).finish_non_exhaustive()
    }
}

/// Takes `address`, without a word.
pub async fn take(address: SocketAddr) -> Result<TcpListener, Error> {
    listening::listen(address, BACKLOG).map_err(|source| Error::Listen { address, source })
}

/// Takes `address` for the admin server.
pub async fn listen(address: SocketAddr) -> Result<TcpListener, Error> {
    let listener = take(address).await?;
    if !address.ip().is_loopback() {
        tracing::warn!(
            %address,
            "the admin address is open to the network: /debug/ answers connections to 127.0.0.1 from this machine, \
             everything else answers everybody"
        );
    }
    Ok(listener)
}

/// Serves until `shutdown` is ready and the requests under way are answered.
pub async fn serve(listener: TcpListener, state: Arc<AdminState>, shutdown: impl Future<Output = ()> + Send + 'static) {
    let server = Server { name: "admin", routes: router(state), probes: PROBES, limits: Limits::default() };
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
    // A snapshot alone is not enough: its problems can be read a moment later.
    match state.readiness.missing(state.inspection.borrow().complete) {
        None => "ready\n".into_response(),
        Some(missing) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {missing}\n")).into_response(),
    }
}

async fn metrics(State(state): State<Arc<AdminState>>) -> Response {
    encoded(&state.metrics)
}

/// The metrics, as Prometheus reads them.
fn encoded(metrics: &Metrics) -> Response {
    ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], metrics.encode()).into_response()
}

#[cfg(test)]
mod tests;
