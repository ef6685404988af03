//! Waiting for a condition, with a deadline.

use std::time::{Duration, Instant};

/// The time limit for anything that takes less than a second on an idle machine. A busy machine starts several API servers at once.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The polling interval, short enough to measure milliseconds.
const INTERVAL: Duration = Duration::from_millis(2);

/// Polls `check` until it returns a value. Returns the value and the elapsed time.
///
/// # Panics
/// With `what` after [`PATIENCE`].
pub async fn wait_for<T>(what: &str, check: impl AsyncFnMut() -> Option<T>) -> (T, Duration) {
    wait_at_most(PATIENCE, INTERVAL, what, check).await
}

/// Like [`wait_for`], with another deadline and interval, for slow or expensive conditions. A pause is never shorter than the
/// check before it, which may be a program that takes a core.
///
/// # Panics
/// With `what` after the deadline.
pub async fn wait_at_most<T>(
    limit: Duration,
    interval: Duration,
    what: &str,
    mut check: impl AsyncFnMut() -> Option<T>,
) -> (T, Duration) {
    let start = Instant::now();
    loop {
        let before = Instant::now();
        if let Some(found) = check().await {
            return (found, start.elapsed());
        }
        assert!(start.elapsed() < limit, "waited {} s in vain for: {what}", limit.as_secs());
        tokio::time::sleep(interval.max(before.elapsed())).await;
    }
}

/// Polls `check` until it returns true. Returns the elapsed time.
///
/// # Panics
/// With `what` after [`PATIENCE`].
pub async fn wait_until(what: &str, mut check: impl AsyncFnMut() -> bool) -> Duration {
    wait_for(what, async || check().await.then_some(())).await.1
}

/// The number of consecutive requests that must agree. Each of Envoy's two workers gets a new connection with the same
/// probability, so one is missed once in 2^11 times.
const IN_A_ROW: usize = 12;

/// Polls `check`, which opens a new connection each time, until it holds for all of Envoy's workers. Each worker
/// applies routes and listeners at its own time, shortly after Envoy's ACK. Returns the elapsed time.
///
/// # Panics
/// With `what` after [`PATIENCE`].
pub async fn wait_everywhere(what: &str, check: impl AsyncFnMut() -> bool) -> Duration {
    wait_everywhere_at_most(PATIENCE, what, check).await
}

/// Like [`wait_everywhere`], with another deadline.
///
/// # Panics
/// With `what` after the deadline.
pub async fn wait_everywhere_at_most(limit: Duration, what: &str, mut check: impl AsyncFnMut() -> bool) -> Duration {
    let all = async || {
        for _ in 0..IN_A_ROW {
            if !check().await {
                return None;
            }
        }
        Some(())
    };
    wait_at_most(limit, INTERVAL, what, all).await.1
}
