//! The server for `/metrics` alone: in clear text, or by TLS, to clients that show a certificate if they have to.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use lockgate_xds::listening::http::{Configs, Limits, Server};
use lockgate_xds::tls::{self, Clients, Pair, TlsFault};
use rustls::ServerConfig;
use tokio::net::TcpListener;

use crate::metrics::Metrics;

/// Serves until `shutdown` is ready and the requests under way are answered; in clear text if there is no TLS.
pub async fn serve(
    listener: TcpListener,
    tls: Option<Configs>,
    metrics: Metrics,
    shutdown: impl Future<Output = ()> + Send + 'static,
) {
    let routes = Router::new()
        .route("/metrics", get(async |State(metrics): State<Metrics>| super::encoded(&metrics)))
        .fallback(async || (StatusCode::NOT_FOUND, "not found; there is /metrics\n"))
        .with_state(metrics);
    let server = Server { name: "metrics", routes, probes: &[], limits: Limits::default() };
    server.serve(listener, tls, shutdown).await;
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
