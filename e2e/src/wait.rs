//! Waiting for a condition, with a deadline.

use std::time::{Duration, Instant};

/// How long anything may take that takes well under a second on an idle machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// How often a condition is looked at: often enough to measure milliseconds with it.
const INTERVAL: Duration = Duration::from_millis(2);

/// What `check` gives, once it gives something; and how long that took.
///
/// # Panics
/// With `what` if [`PATIENCE`] is over.
pub async fn wait_for<T>(what: &str, check: impl AsyncFnMut() -> Option<T>) -> (T, Duration) {
    wait_at_most(PATIENCE, INTERVAL, what, check).await
}

/// The same with a deadline of its own, looking again after `interval`: for what takes long, or is dear to look at.
///
/// # Panics
/// With `what` if the time is over.
pub async fn wait_at_most<T>(
    limit: Duration,
    interval: Duration,
    what: &str,
    mut check: impl AsyncFnMut() -> Option<T>,
) -> (T, Duration) {
    let start = Instant::now();
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if let Some(found) = check().await {
            return (found, start.elapsed());
        }
        assert!(start.elapsed() < limit, "waited {} s in vain for: {what}", limit.as_secs());
    }
}

/// How long it took until `check` held.
///
/// # Panics
/// With `what` if [`PATIENCE`] is over.
pub async fn wait_until(what: &str, mut check: impl AsyncFnMut() -> bool) -> Duration {
    wait_for(what, async || check().await.then_some(())).await.1
}

/// How many requests in a row must agree: each worker of Envoy sees a new connection with equal chance, so that one of two
/// is missed once in 2^11 times.
const IN_A_ROW: usize = 12;

/// How long it took until `check`, which opens a connection each time, held for all of Envoy's workers: each of them takes
/// up new routes and listeners at a time of its own, shortly after Envoy's ACK.
///
/// # Panics
/// With `what` if [`PATIENCE`] is over.
pub async fn wait_everywhere(what: &str, mut check: impl AsyncFnMut() -> bool) -> Duration {
    wait_until(what, async || {
        for _ in 0..IN_A_ROW {
            if !check().await {
                return false;
            }
        }
        true
    })
    .await
}
