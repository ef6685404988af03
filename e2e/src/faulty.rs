//! HTTP servers that fail on command: endpoints of a Service that a gateway must notice.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http_body_util::Full;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// The path of health checks.
pub const PROBE: &str = "/ready";

/// The behavior of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behavior {
    /// Every request is answered 200.
    Serving,
    /// Every request is answered 503.
    Failing,
    /// No request is answered.
    Hanging,
    /// Connections are refused, and open ones are closed.
    Gone,
}

/// A server on a local port. It answers with its name as `x-backend`, as it behaves. If it is dropped, it ends.
pub struct Faulty {
    /// The address.
    pub address: SocketAddr,
    behavior: watch::Sender<Behavior>,
    counts: Arc<Counts>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Counts {
    requests: AtomicU64,
    probes: AtomicU64,
}

impl Faulty {
    /// Starts a server on a free port.
    ///
    /// # Panics
    /// If no port is free.
    pub async fn start(name: &str) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port for a backend");
        let address = listener.local_addr().expect("the address of a backend");
        let (behavior, now) = watch::channel(Behavior::Serving);
        let counts = Arc::new(Counts::default());
        let task = tokio::spawn(serve(listener, Bytes::from(name.to_owned()), counts.clone(), now));
        Self { address, behavior, counts, task }
    }

    /// Changes the behavior for new requests.
    pub fn set(&self, behavior: Behavior) {
        self.behavior.send_replace(behavior);
    }

    /// Returns the number of requests, without health checks.
    pub fn requests(&self) -> u64 {
        self.counts.requests.load(Ordering::Relaxed)
    }

    /// Returns the number of health checks.
    pub fn probes(&self) -> u64 {
        self.counts.probes.load(Ordering::Relaxed)
    }
}

impl Drop for Faulty {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, name: Bytes, counts: Arc<Counts>, mut behavior: watch::Receiver<Behavior>) {
    let address = listener.local_addr().expect("the address of a backend");
    let mut listener = Some(listener);
    let mut connections = JoinSet::new();
    loop {
        if *behavior.borrow_and_update() == Behavior::Gone {
            listener = None;
            connections.shutdown().await;
            if behavior.wait_for(|now| *now != Behavior::Gone).await.is_err() {
                return;
            }
        }
        if listener.is_none() {
            listener = Some(TcpListener::bind(address).await.expect("the same port again"));
        }
        let Some(open) = &listener else { continue };
        tokio::select! {
            changed = behavior.changed() => if changed.is_err() { return },
            accepted = open.accept() => if let Ok((stream, _)) = accepted {
                connections.spawn(converse(stream, name.clone(), counts.clone(), behavior.clone()));
            },
        }
    }
}

async fn converse(stream: TcpStream, name: Bytes, counts: Arc<Counts>, behavior: watch::Receiver<Behavior>) {
    let _ = stream.set_nodelay(true);
    let answer = service_fn(|request: Request<hyper::body::Incoming>| {
        let (name, mut behavior) = (name.clone(), behavior.clone());
        let counter = if request.uri().path() == PROBE { &counts.probes } else { &counts.requests };
        counter.fetch_add(1, Ordering::Relaxed);
        async move {
            let now = *behavior.borrow_and_update();
            if now == Behavior::Hanging {
                let _ = behavior.wait_for(|now| *now != Behavior::Hanging).await;
            }
            let status = if now == Behavior::Serving { 200 } else { 503 };
            let answer =
                Response::builder().status(status).header("x-backend", &name[..]).body(Full::new(name.clone()));
            Ok::<_, Infallible>(answer.expect("a name that a header can hold"))
        }
    });
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
}
