//! HTTP servers that return their name.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::wait_until;

/// A server on a local port. It answers every request 200 with its name as `x-backend` and as the body, after 1,500 ms
/// if the path is `/after/1500`. If it is dropped without [`Backend::stop`], it ends immediately, like a pod that
/// crashes.
pub struct Backend {
    /// The address.
    pub address: SocketAddr,
    requests: Arc<AtomicU64>,
    stop: watch::Sender<bool>,
    /// Cloned into every open connection.
    open: Arc<()>,
    task: JoinHandle<()>,
}

impl Backend {
    /// Starts a server on a free port.
    ///
    /// # Panics
    /// If no port is free.
    pub async fn start(name: &str) -> Self {
        Self::start_at(name, Ipv4Addr::LOCALHOST.into()).await
    }

    /// Starts a server at another local address.
    ///
    /// # Panics
    /// If the address does not exist, or no port is free.
    pub async fn start_at(name: &str, address: IpAddr) -> Self {
        let listener = TcpListener::bind((address, 0)).await.expect("a port for a backend");
        let address = listener.local_addr().expect("the address of a backend");
        let requests = Arc::new(AtomicU64::new(0));
        let (stop, stopped) = watch::channel(false);
        let open = Arc::new(());
        let serving = serve(listener, Bytes::from(name.to_owned()), requests.clone(), open.clone(), stopped);
        Self { address, requests, stop, task: tokio::spawn(serving), open }
    }

    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Returns the number of answered requests.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Returns the number of open connections.
    pub fn connections(&self) -> usize {
        // `Backend` and the accept loop hold one clone each.
        Arc::strong_count(&self.open).saturating_sub(2)
    }

    /// Stops the server gracefully when no worker of Envoy uses it any more: each has closed its connections, and the
    /// requests that `traffic` waits for use other backends. A pod has 30 s for this.
    pub async fn stop_when_unused(self, traffic: impl AsyncFn()) {
        loop {
            let before = self.requests();
            traffic().await;
            wait_until("Envoy to close its connections", async || self.connections() == 0).await;
            if self.requests() == before {
                return self.stop().await;
            }
        }
    }

    /// Stops the server gracefully, like a pod: it accepts no connections, answers active requests, and closes idle
    /// connections.
    pub async fn stop(mut self) {
        let _ = self.stop.send(true);
        let _ = (&mut self.task).await;
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(
    listener: TcpListener,
    name: Bytes,
    requests: Arc<AtomicU64>,
    open: Arc<()>,
    mut stopped: watch::Receiver<bool>,
) {
    let mut connections = JoinSet::new();
    loop {
        let stream = tokio::select! {
            _ = stopped.changed() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(_) => continue,
            },
        };
        let _ = stream.set_nodelay(true);
        let (name, requests, open, mut stopped) = (name.clone(), requests.clone(), open.clone(), stopped.clone());
        connections.spawn(async move {
            let _open = open;
            let answer = service_fn(move |request: Request<hyper::body::Incoming>| {
                let after = request.uri().path().strip_prefix("/after/").and_then(|after| after.parse().ok());
                requests.fetch_add(1, Ordering::Relaxed);
                let answer = Response::builder().header("x-backend", &name[..]).body(Full::new(name.clone()));
                async move {
                    if let Some(after) = after {
                        tokio::time::sleep(Duration::from_millis(after)).await;
                    }
                    Ok::<_, Infallible>(answer.expect("a name that a header can hold"))
                }
            });
            let mut connection = std::pin::pin!(
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer)
            );
            tokio::select! {
                _ = connection.as_mut() => return,
                _ = stopped.changed() => connection.as_mut().graceful_shutdown(),
            }
            let _ = connection.await;
        });
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}
