//! A wakeup flag for one task.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{self, Context, Poll};

use futures::task::AtomicWaker;

/// A flag that wakes one task. A publication wakes hundreds of tasks, and each polls its flag several times. A `Notify` would
/// take a lock each time.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    rung: AtomicBool,
    waker: AtomicWaker,
}

impl Bell {
    /// Wakes the waiting task, or the next one to wait.
    pub fn ring(&self) {
        self.rung.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// Returns ready if the bell was rung since the last ready poll.
    pub fn poll(&self, cx: &Context<'_>) -> Poll<()> {
        // Registered before the check, so that a ring in between wakes this waker.
        self.waker.register(cx.waker());
        let rung = self.rung.load(Ordering::Acquire) && self.rung.swap(false, Ordering::AcqRel);
        if rung { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl task::Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.ring();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ring();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::atomic::AtomicU32;
    use std::time::{Duration, Instant};

    use super::*;

    #[tokio::test]
    async fn a_watch_that_is_woken_while_falling_asleep_does_not_sleep() {
        const ROUNDS: u32 = 100_000;
        const LIMIT: Duration = Duration::from_secs(10);
        let bell = Arc::new(Bell::default());
        let asleep_soon = Arc::new(AtomicU32::new(0));
        let ringing = std::thread::spawn({
            let (bell, asleep_soon) = (bell.clone(), asleep_soon.clone());
            move || {
                for round in 1..=ROUNDS {
                    while asleep_soon.load(Ordering::Acquire) < round {
                        std::hint::spin_loop();
                    }
                    bell.ring();
                }
            }
        });
        for round in 1..=ROUNDS {
            asleep_soon.store(round, Ordering::Release);
            // A little later each time, so that every moment has its turn.
            (0..round % 64).for_each(|_| std::hint::spin_loop());
            let (rung, since) = (std::future::poll_fn(|cx| bell.poll(cx)), Instant::now());
            // Whose time is over is asked once more, and would answer then.
            tokio::time::timeout(LIMIT, rung).await.unwrap();
            assert!(since.elapsed() < LIMIT, "slept through call {round}");
        }
        ringing.join().unwrap();
    }
}
