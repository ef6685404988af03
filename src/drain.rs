//! The end of an Envoy without a failed request: load balancers learn that it goes, its clients move, then it ends.
//!
//! It runs beside Envoy and knows its admin interface, and nothing of Kubernetes or of what Envoy serves.
//!
//! Three things have to happen in this order, for each needs the one before:
//!
//! 1. `/ready` fails, by a runtime value that the listener for statistics looks at, so that load balancers with health
//!    checks of their own go elsewhere. (kube-proxy knows already: the pod is being deleted.) Until they all have,
//!    connections keep coming, and are served as before; Envoy begins to close some, so that not all clients connect
//!    anew in the same moment.
//! 2. After [`Timing::minimum`] Envoy fails its health check, by which every response says `connection: close`, or is
//!    followed by a GOAWAY. Clients connect anew, and meet another Envoy.
//! 3. When few enough connections are left, or at the deadline, the listeners close, and Envoy is told to end.

mod envoy;
mod sidecar;

use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

pub use envoy::{Address, Count, Envoy, Error};
pub use sidecar::{listen, serve};

/// How often Envoy is asked for its connections.
const INTERVAL: Duration = Duration::from_millis(250);
/// How often the log says how far it is.
const REPORT: Duration = Duration::from_secs(5);

/// How long draining takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// How long load balancers get to notice; until then no client is forced to connect anew.
    pub minimum: Duration,
    /// When it ends at the latest, from its beginning.
    pub deadline: Duration,
    /// How many connections may be left.
    pub connections: u64,
}

/// How draining ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// At most this many connections are left, as few as were asked for.
    Drained(u64),
    /// The deadline has come, and so many connections are left.
    Late(u64),
    /// Envoy has ended meanwhile.
    Gone,
}

/// Drains `envoy`; ends when it has nothing to do any more. What is done twice does no harm.
///
/// Errors: [`Error::Connect`] if it cannot be reached at the beginning.
pub async fn drain(envoy: &Envoy, timing: Timing) -> Result<Outcome, Error> {
    let start = Instant::now();
    let deadline = start + timing.deadline;
    let first = envoy.count().await?;
    if let Err(error) = envoy.fail_readiness().await {
        // An Envoy with a bootstrap of its own: its health check alone makes it unready.
        tracing::warn!(%error, "the runtime cannot be changed: the health check fails at once");
        envoy.fail_health_check().await?;
    }
    envoy.close_gradually().await?;
    tracing::info!(
        connections = first.connections,
        requests = first.requests,
        minimum = ?timing.minimum,
        deadline = ?timing.deadline,
        "draining: not ready any more"
    );
    sleep_until((start + timing.minimum).min(deadline)).await;
    match envoy.fail_health_check().await {
        Ok(()) => tracing::info!("every response now asks its client to connect anew"),
        Err(error) if error.is_gone() => return Ok(Outcome::Gone),
        Err(error) => return Err(error),
    }
    let mut outcome = until_few(envoy, timing.connections, start, deadline).await;
    if outcome != Outcome::Gone {
        // Who connects from now on is refused; who has come since the last look is still served.
        match envoy.close_listeners().await {
            Ok(()) => outcome = until_few(envoy, timing.connections, start, deadline).await,
            Err(error) => tracing::warn!(%error, "the listeners stay open"),
        }
    }
    let seconds = start.elapsed().as_secs();
    match outcome {
        Outcome::Drained(connections) => tracing::info!(seconds, connections, "drained"),
        Outcome::Late(connections) => tracing::warn!(seconds, connections, "the deadline has come: they are cut"),
        Outcome::Gone => tracing::info!(seconds, "Envoy has ended"),
    }
    Ok(outcome)
}

/// Waits until at most `most` connections are left.
async fn until_few(envoy: &Envoy, most: u64, start: Instant, deadline: Instant) -> Outcome {
    let (mut reported, mut left) = (Instant::now(), u64::MAX);
    loop {
        let asked = Instant::now();
        match envoy.count().await {
            Ok(Count { connections, requests }) => {
                if connections <= most {
                    return Outcome::Drained(connections);
                }
                left = connections;
                if reported.elapsed() >= REPORT {
                    reported = Instant::now();
                    tracing::info!(connections, requests, seconds = start.elapsed().as_secs(), "draining");
                }
            }
            Err(error) if error.is_gone() => return Outcome::Gone,
            Err(error) => tracing::warn!(%error, "asking again"),
        }
        // An Envoy with very many statistics takes a while to look through them; it has better things to do.
        let next = Instant::now() + INTERVAL.max(asked.elapsed() * 5);
        if next >= deadline {
            sleep_until(deadline).await;
            return envoy.count().await.map_or(Outcome::Late(left), |count| match count.connections <= most {
                true => Outcome::Drained(count.connections),
                false => Outcome::Late(count.connections),
            });
        }
        sleep_until(next).await;
    }
}

/// Tells Envoy to end, and waits until it has.
///
/// Errors: [`Error::StillThere`] if it has not within `patience`.
pub async fn quit(envoy: &Envoy, patience: Duration) -> Result<(), Error> {
    let deadline = Instant::now() + patience;
    match envoy.quit().await {
        Err(error) if error.is_gone() => return Ok(()),
        // It may end before it has answered.
        Err(error) => tracing::debug!(%error, "quitquitquit"),
        Ok(()) => {}
    }
    while Instant::now() < deadline {
        if envoy.count().await.is_err_and(|error| error.is_gone()) {
            return Ok(());
        }
        sleep(INTERVAL / 5).await;
    }
    Err(Error::StillThere(patience))
}

#[cfg(test)]
mod tests;
