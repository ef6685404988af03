//! The container beside Envoy: told to end, it drains Envoy first.
//!
//! The kubelet ends all containers of a pod at once. Envoy's has a preStop hook, `GET /drained`, which is answered when
//! Envoy has been drained and has ended, so Envoy is spared the SIGTERM until then. Ours has none: its SIGTERM is what
//! starts the drain. So nothing that comes over the network can start one; `/drained` only waits.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use lockgate_xds::listening::http::{Limits, Server};
use lockgate_xds::listening::{self, BACKLOG};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::{Envoy, Error, Timing, drain, quit};

/// How long somebody who asks `/drained` waits for a drain to begin: the SIGTERM to this container comes in the same
/// moment as the hook of Envoy's, or it does not come, when Envoy's container alone is restarted.
const BEGINNING: Duration = Duration::from_secs(10);
/// How often Envoy is asked whether it is still there.
const INTERVAL: Duration = Duration::from_millis(100);
/// How long Envoy may take to end.
const END: Duration = Duration::from_secs(10);
/// How long those who ask may take to get their answer.
const ANSWERS: Duration = Duration::from_secs(1);

/// Listens on `address`, for [`serve`].
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    listening::listen(address, BACKLOG)
}

/// Answers `/healthz` and `/drained` until `stop`; then drains `envoy`, ends it, and returns.
///
/// Errors: the listener's, and those of [`drain`] and [`quit`]. No Envoy at all is none: there is nothing to drain.
pub async fn serve(
    listener: TcpListener,
    envoy: Envoy,
    timing: Timing,
    stop: impl Future<Output = ()>,
) -> Result<(), Error> {
    let router =
        Router::new().route("/healthz", get(async || "ok\n")).route("/drained", get(drained)).with_state(envoy.clone());
    let (ended, mut ending) = watch::channel(false);
    // The kubelet's hook waits as long as Envoy drains.
    let limits = Limits { answer: None, ..Limits::default() };
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

async fn end(envoy: &Envoy, timing: Timing) -> Result<(), Error> {
    match drain(envoy, timing).await {
        Ok(_) => {}
        Err(error) if error.is_gone() => {
            tracing::info!(%error, "no Envoy to drain");
            return Ok(());
        }
        Err(error) => return Err(error),
    }
    quit(envoy, END).await?;
    tracing::info!("Envoy has ended");
    Ok(())
}

/// Waits until Envoy has ended, or it is clear that nobody drains it.
async fn drained(State(envoy): State<Envoy>) -> &'static str {
    let asked = Instant::now();
    let mut begun = false;
    loop {
        match envoy.is_draining().await {
            Err(error) if error.is_gone() => return "Envoy has ended\n",
            Err(error) => tracing::debug!(%error, "asking again"),
            Ok(draining) => begun |= draining,
        }
        if !begun && asked.elapsed() >= BEGINNING {
            tracing::warn!("somebody waits for a drain, and nobody drains: Envoy's container alone is restarted");
            return "nobody drains this Envoy\n";
        }
        sleep(INTERVAL).await;
    }
}
