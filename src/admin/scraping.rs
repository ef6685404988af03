//! The server for `/metrics` alone, in clear text or over TLS, with optional client certificates.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use lockgate_xds::listening::http::{Configs, HttpLimits, Server};
use lockgate_xds::tls::{self, Clients, Pair, TlsFault};
use rustls::ServerConfig;
use tokio::net::TcpListener;

use crate::metrics::Metrics;

/// Serves until `shutdown` is ready and the current requests are answered. Without a TLS configuration, it uses clear
/// text.
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
    let server = Server { name: "metrics", routes, probes: &[], limits: HttpLimits::default() };
    server.serve(listener, tls, shutdown).await;
}

/// Builds the TLS configuration of a server with this key pair in PEM. Clients must present a certificate of
/// `authorities`, also in PEM, unless that is empty.
///
/// # Errors
///
/// The file that is unusable, and the reason.
pub fn tls_config(certificate: &[u8], key: &[u8], authorities: &[u8]) -> Result<Arc<ServerConfig>, TlsFault> {
    let clients = if authorities.is_empty() { Clients::Anybody } else { Clients::Known(authorities) };
    tls::server_config(Pair { certificate, key }, clients, &["http/1.1"])
}
