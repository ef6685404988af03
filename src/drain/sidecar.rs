//! The sidecar of Envoy, which drains Envoy before the pod ends.
//!
//! The kubelet ends all containers of a pod at the same time. The preStop hook of Envoy's container is `GET /drained`.
//! It is answered when Envoy has been drained and has exited, so that Envoy receives no SIGTERM before that. This
//! container has no hook: its SIGTERM starts the drain. The network therefore cannot start a drain; `/drained` only
//! waits.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use lockgate_xds::listening::http::{HttpLimits, Server};
use lockgate_xds::listening::{self, BACKLOG};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::{DrainError, DrainTiming, Envoy, drain, quit};

/// The time that a request for `/drained` waits for the start of a drain. The SIGTERM to this container arrives at the
/// same time as the hook of Envoy's container. It does not arrive if only Envoy's container is restarted.
const BEGINNING: Duration = Duration::from_secs(10);
/// The interval of checks whether Envoy is still running.
const INTERVAL: Duration = Duration::from_millis(100);
/// The time for Envoy to exit.
const END: Duration = Duration::from_secs(10);
/// The time for clients to receive their answers.
const ANSWERS: Duration = Duration::from_secs(1);

/// Listens on `address`, for [`serve`].
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    listening::listen(address, BACKLOG)
}

/// Answers `/healthz` and `/drained` until `stop`. Then drains `envoy`, makes it exit, and returns.
///
/// Errors: the errors of the listener, [`drain`], and [`quit`]. A missing Envoy is no error, because there is nothing to
/// drain.
pub async fn serve(
    listener: TcpListener,
    envoy: Envoy,
    timing: DrainTiming,
    stop: impl Future<Output = ()>,
) -> Result<(), DrainError> {
    let router =
        Router::new().route("/healthz", get(async || "ok\n")).route("/drained", get(drained)).with_state(envoy.clone());
    let (ended, mut ending) = watch::channel(false);
    // The kubelet's hook waits until Envoy is drained.
    let limits = HttpLimits { answer: None, ..HttpLimits::default() };
    let server = Server { name: "drain", routes: router, probes: &["/healthz"], limits };
    let mut server = tokio::spawn(server.serve(listener, None, async move {
        let _ = ending.wait_for(|ended| *ended).await;
    }));
    tokio::select! {
        () = stop => {}
        ended = &mut server => return Ok(ended.map_err(io::Error::other)?),
    }
    let result = end(&envoy, timing).await;
    ended.send_replace(true);
    if timeout(ANSWERS, &mut server).await.is_err() {
        server.abort();
    }
    result
}

async fn end(envoy: &Envoy, timing: DrainTiming) -> Result<(), DrainError> {
    match drain(envoy, timing).await {
        Ok(_) => {}
        Err(error) if error.is_gone() => {
            tracing::info!(%error, "no Envoy to drain");
            return Ok(());
        }
        Err(error) => return Err(error),
    }
    quit(envoy, END).await?;
    tracing::info!("Envoy has exited");
    Ok(())
}

/// Waits until Envoy has exited, or until it is clear that no drain runs.
async fn drained(State(envoy): State<Envoy>) -> &'static str {
    let asked = Instant::now();
    let mut begun = false;
    loop {
        match envoy.is_draining().await {
            Err(error) if error.is_gone() => return "Envoy has exited\n",
            Err(error) => tracing::debug!(%error, "repeating the query"),
            Ok(draining) => begun |= draining,
        }
        if !begun && asked.elapsed() >= BEGINNING {
            tracing::warn!("a preStop hook waits for a drain, and none runs: only Envoy's container is restarted");
            return "no drain of this Envoy runs\n";
        }
        sleep(INTERVAL).await;
    }
}
