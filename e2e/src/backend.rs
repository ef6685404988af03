//! HTTP servers that say who they are.

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

/// A server on a port of this machine. It answers every request 200, with its name as `x-backend` and as the body; after
/// 1,500 ms if the path is `/after/1500`.
/// Dropped without [`Backend::stop`] it ends at once, as a pod that crashes.
pub struct Backend {
    /// Where it listens.
    pub address: SocketAddr,
    requests: Arc<AtomicU64>,
    stop: watch::Sender<bool>,
    /// Cloned into every open connection.
    open: Arc<()>,
    task: JoinHandle<()>,
}

impl Backend {
    /// Starts one on a free port.
    ///
    /// # Panics
    /// If there is no port.
    pub async fn start(name: &str) -> Self {
        Self::start_at(name, Ipv4Addr::LOCALHOST.into()).await
    }

    /// The same at another address of this machine.
    ///
    /// # Panics
    /// If it has none such, or no port is left.
    pub async fn start_at(name: &str, address: IpAddr) -> Self {
        let listener = TcpListener::bind((address, 0)).await.expect("a port for a backend");
        let address = listener.local_addr().expect("the address of a backend");
        let requests = Arc::new(AtomicU64::new(0));
        let (stop, stopped) = watch::channel(false);
        let open = Arc::new(());
        let serving = serve(listener, Bytes::from(name.to_owned()), requests.clone(), open.clone(), stopped);
        Self { address, requests, stop, task: tokio::spawn(serving), open }
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// How many requests it has answered.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// The number of open connections.
    pub fn connections(&self) -> usize {
        // `Backend` and the accept loop hold one each.
        Arc::strong_count(&self.open).saturating_sub(2)
    }

    /// Stops the server in good order once no worker of Envoy uses it any more: each has closed its connections, and the
    /// requests that `traffic` waits for go to other backends. A pod has 30 s for this.
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

    /// Ends it as a pod ends that shuts down in good order: no new connections, requests under way are answered, idle
    /// connections are closed.
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
