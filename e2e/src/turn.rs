//! Turns of tests that measure times: a second one at the same time would distort their figures.

use tokio::sync::{Mutex, MutexGuard};

static TURN: Mutex<()> = Mutex::const_new(());

/// The turn of a test, until it is dropped.
pub type Turn = MutexGuard<'static, ()>;

/// Waits until no other test has a turn.
pub async fn turn() -> Turn {
    TURN.lock().await
}
