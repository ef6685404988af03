//! Futures and timers that share a task with more frequent wakeups.
//!
//! A change wakes hundreds of streams, each of them twice. Memory that a stream reads then is no longer in any CPU cache. A
//! stream therefore polls only the futures that woke it, and resets a timer only if necessary.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Instant;

use futures::future::BoxFuture;
use tokio::time::Sleep;

use crate::snapshot::Bell;

/// A poll function that runs only when it has woken the task itself, regardless of other wakeups of the task.
pub(super) struct Rarely {
    bell: Arc<Bell>,
    /// The waker that rings the bell.
    waker: Waker,
    /// Whether the next poll may be ready: the first poll, and every poll after a ready one.
    more: bool,
}

impl Rarely {
    pub fn new() -> Self {
        let bell = Arc::new(Bell::default());
        Self { waker: Waker::from(bell.clone()), bell, more: true }
    }

    /// Calls `poll` if it has woken the task or may be ready.
    pub fn poll<T>(&mut self, cx: &Context<'_>, poll: impl FnOnce(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
        let rung = self.bell.poll(cx).is_ready();
        if !rung && !self.more {
            return Poll::Pending;
        }
        let given = poll(&mut Context::from_waker(&self.waker));
        self.more = given.is_ready();
        given
    }

    /// Wraps a future that is polled only when it has woken the task.
    pub fn wait<'a, T>(future: impl Future<Output = T> + Send + 'a) -> BoxFuture<'a, T> {
        Box::pin(async move {
            let (mut rarely, mut future) = (Self::new(), pin!(future));
            std::future::poll_fn(|cx| rarely.poll(cx, |cx| future.as_mut().poll(cx))).await
        })
    }
}

/// A timer whose deadline is usually postponed before it expires. The timer underneath is set to the earliest deadline, and
/// reset when it expires, because each reset takes a lock that all streams share.
pub(super) struct Alarm {
    timer: Pin<Box<Sleep>>,
    /// The current deadline of the timer, until it expires.
    set_to: Option<Instant>,
}

impl Alarm {
    /// Returns a timer without a deadline. Must be called within a runtime.
    pub fn new() -> Self {
        Self { timer: Box::pin(tokio::time::sleep_until(Instant::now().into())), set_to: None }
    }

    /// Waits until `time`, or forever if `time` is `None`. The future can be dropped and replaced by one with another time.
    pub async fn until(&mut self, time: Option<Instant>) {
        match time {
            Some(time) => std::future::poll_fn(|cx| self.poll(time, cx)).await,
            None => std::future::pending().await,
        }
    }

    fn poll(&mut self, time: Instant, cx: &mut Context<'_>) -> Poll<()> {
        if self.set_to.is_none_or(|set_to| time < set_to) {
            self.set(time);
        }
        loop {
            ready!(self.timer.as_mut().poll(cx));
            if self.set_to.take() == Some(time) {
                return Poll::Ready(());
            }
            self.set(time);
        }
    }

    fn set(&mut self, time: Instant) {
        self.timer.as_mut().reset(time.into());
        self.set_to = Some(time);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use futures::{FutureExt, poll};
    use tokio::sync::watch;

    use super::*;

    #[tokio::test]
    async fn a_rarely_polled_future_is_polled_when_it_wakes() {
        let (sender, mut receiver) = watch::channel(false);
        let looks = AtomicU32::new(0);
        let told = async {
            let mut told = std::pin::pin!(receiver.wait_for(|told| *told));
            std::future::poll_fn(|cx| {
                looks.fetch_add(1, Ordering::Relaxed);
                told.as_mut().poll(cx).map(|told| told.is_ok())
            })
            .await
        };
        let mut told = Rarely::wait(told);
        for _ in 0..100 {
            assert!(poll!(&mut told).is_pending());
        }
        assert_eq!(looks.load(Ordering::Relaxed), 1);
        sender.send_replace(true);
        assert!(told.await);
        assert_eq!(looks.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn a_rarely_polled_future_wakes_its_task() {
        let (sender, mut receiver) = watch::channel(false);
        let waiting = tokio::spawn(Rarely::wait(async move { receiver.wait_for(|told| *told).await.is_ok() }));
        tokio::task::yield_now().await;
        sender.send_replace(true);
        assert_eq!(tokio::time::timeout(Duration::from_secs(10), waiting).await.map(|told| told.ok()), Ok(Some(true)));
    }

    #[tokio::test]
    async fn an_alarm_fires_at_the_last_requested_time() {
        const LIMIT: Duration = Duration::from_secs(10);
        let at = |milliseconds| Some(Instant::now() + Duration::from_millis(milliseconds));
        let mut alarm = Alarm::new();
        for (before, wanted) in [(None, 20), (Some(60), 20), (Some(10), 40), (Some(0), 20), (Some(20_000), 20)] {
            alarm.until(before.and_then(at)).now_or_never();
            // Nobody waits meanwhile, perhaps past the time that it is set to.
            let meanwhile = at(15);
            tokio::time::timeout_at(meanwhile.map_or_else(tokio::time::Instant::now, Into::into), alarm.until(None))
                .await
                .ok();
            let wanted = at(wanted);
            assert_eq!(tokio::time::timeout(LIMIT, alarm.until(wanted)).await, Ok(()), "it does not go off");
            assert!(Some(Instant::now()) >= wanted, "it goes off too early");
        }
    }
}
