//! Servers that Envoy itself asks, and that answer more than Envoy wants to know.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use envoy_types::pb::envoy::service::auth::v3::authorization_server::{Authorization, AuthorizationServer};
use envoy_types::pb::envoy::service::auth::v3::check_response::HttpResponse;
use envoy_types::pb::envoy::service::auth::v3::{CheckRequest, CheckResponse, DeniedHttpResponse};
use envoy_types::pb::google::rpc::Status;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tonic::service::Routes;

use crate::server::{ANY_PORT, Server};

/// The bytes of a [`large`] answer.
const LARGE: usize = 64 << 20;

/// A server on a local port whose answers over HTTP have no end.
pub struct Endless {
    /// The address.
    pub address: SocketAddr,
    sent: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl Endless {
    /// Starts a server on a free port.
    ///
    /// # Panics
    /// If no port is free.
    pub async fn start() -> Self {
        let listener = TcpListener::bind(ANY_PORT).await.expect("a port");
        let (address, sent) = (listener.local_addr().expect("an address"), Arc::new(AtomicU64::new(0)));
        let task = tokio::spawn(serve(listener, sent.clone()));
        Self { address, sent, task }
    }

    /// Returns the number of bytes of all answers.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }
}

impl Drop for Endless {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, sent: Arc<AtomicU64>) {
    while let Ok((mut stream, _)) = listener.accept().await {
        let sent = sent.clone();
        tokio::spawn(async move {
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).await;
            let mut next = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
            while stream.write_all(&next).await.is_ok() {
                sent.fetch_add(next.len() as u64, Ordering::Relaxed);
                next = [b"10000\r\n".to_vec(), vec![b'x'; 0x10000], b"\r\n".to_vec()].concat();
            }
        });
    }
}

/// Starts an authorization server over gRPC that denies each request with a body of 64 MiB.
pub async fn large() -> Server {
    Server::grpc(ANY_PORT, Routes::new(AuthorizationServer::new(Large))).await
}

struct Large;

#[tonic::async_trait]
impl Authorization for Large {
    async fn check(&self, _: tonic::Request<CheckRequest>) -> Result<tonic::Response<CheckResponse>, tonic::Status> {
        let denied = DeniedHttpResponse { body: "x".repeat(LARGE), ..Default::default() };
        let status = Some(Status { code: 7, ..Default::default() });
        let http_response = Some(HttpResponse::DeniedResponse(denied));
        Ok(tonic::Response::new(CheckResponse { status, http_response, ..Default::default() }))
    }
}
