//! The shutdown of an Envoy without failed requests: load balancers stop using it, its clients reconnect elsewhere, and
//! it ends.
//!
//! The drain runs beside Envoy and uses its admin interface. It knows neither Kubernetes nor the served configuration.
//!
//! It has three steps, each of which requires the previous one:
//!
//! 1. `/ready` fails by a runtime value of the listener for statistics, so that load balancers with health checks use
//!    other Envoys. (kube-proxy already knows that the pod is being deleted.) Until all load balancers have noticed,
//!    new connections are still served. Envoy starts to close some connections, so that not all clients reconnect at
//!    the same time.
//! 2. After [`DrainTiming::minimum`], Envoy fails its health check. Every response then contains `connection: close` or is
//!    followed by a GOAWAY. Clients reconnect to another Envoy.
//! 3. When few enough connections are left, or at the deadline, the listeners close, and Envoy is told to exit.

mod envoy;
mod sidecar;

use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

pub use envoy::{AdminAddress, ClientLoad, DrainError, Envoy};
pub use sidecar::{listen, serve};

/// The interval of queries for Envoy's connections.
const INTERVAL: Duration = Duration::from_millis(250);
/// The interval of progress reports in the log.
const REPORT: Duration = Duration::from_secs(5);

/// The time limits of a drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DrainTiming {
    /// The time for load balancers to notice. Until then, no client is forced to reconnect.
    pub minimum: Duration,
    /// The maximum duration of the drain, from its start.
    pub deadline: Duration,
    /// The number of connections at which the drain ends.
    pub connections: u64,
}

/// The result of a drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrainOutcome {
    /// No more than the configured number of connections is left.
    Drained(u64),
    /// The deadline has passed, and this number of connections is left.
    Late(u64),
    /// Envoy has exited.
    Gone,
}

/// Drains `envoy`, and returns when Envoy has no work left. Repeated steps do no harm.
///
/// Errors: [`DrainError::Connect`] if Envoy cannot be reached at the start.
pub async fn drain(envoy: &Envoy, timing: DrainTiming) -> Result<DrainOutcome, DrainError> {
    let start = Instant::now();
    let deadline = start + timing.deadline;
    let first = envoy.count().await?;
    if let Err(error) = envoy.fail_readiness().await {
        // An Envoy with a custom bootstrap: only its health check makes it unready.
        tracing::warn!(%error, "the runtime cannot be changed: the health check fails at once");
        envoy.fail_health_check().await?;
    }
    envoy.close_gradually().await?;
    tracing::info!(
        connections = first.connections,
        requests = first.requests,
        minimum = ?timing.minimum,
        deadline = ?timing.deadline,
        "drain started: Envoy is no longer ready"
    );
    sleep_until((start + timing.minimum).min(deadline)).await;
    match envoy.fail_health_check().await {
        Ok(()) => tracing::info!("every response now asks its client to reconnect"),
        Err(error) if error.is_gone() => return Ok(DrainOutcome::Gone),
        Err(error) => return Err(error),
    }
    let mut outcome = until_few(envoy, timing.connections, start, deadline).await;
    if outcome != DrainOutcome::Gone {
        // New connections are refused from now on. Connections since the last query are still served.
        match envoy.close_listeners().await {
            Ok(()) => outcome = until_few(envoy, timing.connections, start, deadline).await,
            Err(error) => tracing::warn!(%error, "the listeners stay open"),
        }
    }
    let seconds = start.elapsed().as_secs();
    match outcome {
        DrainOutcome::Drained(connections) => tracing::info!(seconds, connections, "drained"),
        DrainOutcome::Late(connections) => {
            tracing::warn!(seconds, connections, "the deadline has passed: the remaining connections are closed")
        }
        DrainOutcome::Gone => tracing::info!(seconds, "Envoy has exited"),
    }
    Ok(outcome)
}

/// Waits until at most `most` connections are left.
async fn until_few(envoy: &Envoy, most: u64, start: Instant, deadline: Instant) -> DrainOutcome {
    let (mut reported, mut left) = (Instant::now(), u64::MAX);
    loop {
        let asked = Instant::now();
        match envoy.count().await {
            Ok(ClientLoad { connections, requests }) => {
                if connections <= most {
                    return DrainOutcome::Drained(connections);
                }
                left = connections;
                if reported.elapsed() >= REPORT {
                    reported = Instant::now();
                    tracing::info!(connections, requests, seconds = start.elapsed().as_secs(), "draining");
                }
            }
            Err(error) if error.is_gone() => return DrainOutcome::Gone,
            Err(error) => tracing::warn!(%error, "repeating the query"),
        }
        // An Envoy with very many statistics takes a while to search them, so it is queried less often.
        let next = Instant::now() + INTERVAL.max(asked.elapsed() * 5);
        if next >= deadline {
            sleep_until(deadline).await;
            return envoy.count().await.map_or(DrainOutcome::Late(left), |count| match count.connections <= most {
                true => DrainOutcome::Drained(count.connections),
                false => DrainOutcome::Late(count.connections),
            });
        }
        sleep_until(next).await;
    }
}

/// Tells Envoy to exit, and waits until it has.
///
/// Errors: [`DrainError::StillThere`] if it has not exited within `patience`.
pub async fn quit(envoy: &Envoy, patience: Duration) -> Result<(), DrainError> {
    let deadline = Instant::now() + patience;
    match envoy.quit().await {
        Err(error) if error.is_gone() => return Ok(()),
        // Envoy may exit before it has answered.
        Err(error) => tracing::debug!(%error, "quitquitquit"),
        Ok(()) => {}
    }
    while Instant::now() < deadline {
        if envoy.count().await.is_err_and(|error| error.is_gone()) {
            return Ok(());
        }
        sleep(INTERVAL / 5).await;
    }
    Err(DrainError::StillThere(patience))
}

#[cfg(test)]
mod tests;
