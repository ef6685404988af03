//! What the clients of a fleet tell, and who waits for it.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use tokio::sync::Notify;

/// Whether something has happened, and whether a client has failed.
#[derive(Debug)]
pub struct News {
    stirred_at: Cell<Instant>,
    notify: Notify,
    failure: RefCell<Option<String>>,
}

impl Default for News {
    fn default() -> Self {
        Self { stirred_at: Cell::new(Instant::now()), notify: Notify::new(), failure: RefCell::new(None) }
    }
}

impl News {
    /// Something happened.
    pub fn stirred(&self) {
        self.stirred_at.set(Instant::now());
        self.notify.notify_waiters();
    }

    /// Returns the time of the last event.
    pub fn stirred_at(&self) -> Instant {
        self.stirred_at.get()
    }

    /// Records the failure of a client. Only the first failure is reported.
    pub fn failed(&self, error: &anyhow::Error) {
        self.failure.borrow_mut().get_or_insert(format!("{error:#}"));
        self.stirred();
    }

    /// Waits until `holds`, told of `what` it waits for.
    ///
    /// # Errors
    /// It takes longer than `limit`, or a client fails.
    pub async fn until(&self, limit: Duration, what: &str, holds: impl Fn() -> bool) -> anyhow::Result<()> {
        let deadline = Instant::now() + limit;
        loop {
            let notified = self.notify.notified();
            if let Some(failure) = &*self.failure.borrow() {
                bail!("a stream broke: {failure}");
            }
            if holds() {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "no {what} within {} s", limit.as_secs());
            let _ = tokio::time::timeout(Duration::from_millis(50), notified).await;
        }
    }
}
