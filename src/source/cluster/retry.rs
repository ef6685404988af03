//! The delays between the attempts of a watch.
//!
//! A replica that lags behind after an outage of the API server gives old configuration to an Envoy that moves to it.
//! All watches therefore reconnect as soon as one of them succeeds.

use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::stream::{Stream, unfold};
use kube::client::retry::RetryPolicy;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, DefaultBackoff};
use lockgate_route::objects::Kind;
use tokio::sync::watch::{Receiver, Sender};

use super::installed::Installed;
use super::watch::{Arrival, WatchStream};

/// The maximum retry delay while the API server is unavailable or starting.
pub(super) const MAX_UNAVAILABLE_DELAY: Duration = Duration::from_secs(4);
/// The maximum retry delay while the API server denies access.
const MAX_DENIED_DELAY: Duration = Duration::from_secs(30);
/// The retry delay for a kind whose CustomResourceDefinition is absent. The creation of the definition ends the delay.
pub(super) const ABSENT_DELAY: Duration = Duration::from_secs(30);

/// A result of a watch, or a failure with the time until the next attempt. The watch is not polled before.
pub(super) type WatchResult = Result<Arrival, (watcher::Error, Duration)>;

/// Wakes all waiting watches when a failed watch succeeds. All clones share the channel.
#[derive(Clone, Default)]
pub(super) struct Recovery(pub(super) Sender<()>);

/// Returns the results of a watch, with a pause after each failure.
pub(super) fn with_backoff(
    kind: Kind,
    watch: WatchStream,
    installed: Installed,
    recovery: Recovery,
) -> impl Stream<Item = WatchResult> + Send {
    let retry = Retry::new(kind, watch, installed, recovery);
    unfold(retry, |mut retry| async move { Some((retry.next().await?, retry)) })
}

struct Retry {
    kind: Kind,
    watch: WatchStream,
    installed: Installed,
    recovery: Recovery,
    recovered: Receiver<()>,
    backoff: DefaultBackoff,
    pause: Pause,
    /// Whether the last attempt did not reach the API server. Only the end of this is a recovery: if two watches failed again and
    /// again behind a response, each would wake the other.
    unreachable: bool,
    /// The time of the last expiry.
    expired: Option<Instant>,
}

/// The pause before the next attempt of a watch.
#[derive(Clone, Copy)]
enum Pause {
    None,
    For(Duration),
    /// Until the time has passed, or another watch recovers.
    UntilRecovery(Duration),
    /// Until the kind has a CustomResourceDefinition, at most [`ABSENT_DELAY`].
    UntilInstalled,
}

impl Retry {
    fn new(kind: Kind, watch: WatchStream, installed: Installed, recovery: Recovery) -> Self {
        Self {
            kind,
            watch,
            installed,
            recovered: recovery.0.subscribe(),
            recovery,
            backoff: DefaultBackoff::default(),
            pause: Pause::None,
            unreachable: false,
            expired: None,
        }
    }

    async fn next(&mut self) -> Option<WatchResult> {
        match std::mem::replace(&mut self.pause, Pause::None) {
            Pause::None => {}
            Pause::For(wait) => tokio::time::sleep(wait).await,
            Pause::UntilRecovery(wait) => drop(tokio::time::timeout(wait, self.recovered.changed()).await),
            Pause::UntilInstalled => drop(tokio::time::timeout(ABSENT_DELAY, self.installed.has(self.kind)).await),
        }
        // A recovery during the attempt ends the pause after it.
        self.recovered.mark_unchanged();
        let error = match self.watch.next().await? {
            Ok(Arrival::ListStarted) => return Some(Ok(Arrival::ListStarted)),
            Ok(arrival) => {
                self.backoff.reset();
                if std::mem::take(&mut self.unreachable) {
                    self.recovery.0.send_replace(());
                }
                return Some(Ok(arrival));
            }
            Err(error) => error,
        };
        let wait = self.fail(&error);
        Some(Err((error, wait)))
    }

    /// Returns the time until the next attempt after `error`.
    fn fail(&mut self, error: &watcher::Error) -> Duration {
        // An API server that is starting may not serve a kind yet, although its definition is installed.
        if status_code(error) == Some(404) && self.installed.lacks(self.kind) {
            self.pause = Pause::UntilInstalled;
            return ABSENT_DELAY;
        }
        if is_expired(error) {
            // The response shows that the API server is back.
            if std::mem::take(&mut self.unreachable) {
                self.recovery.0.send_replace(());
            }
            let last = self.expired.replace(Instant::now());
            if last.is_none_or(|last| last.elapsed() > MAX_UNAVAILABLE_DELAY) {
                return Duration::ZERO;
            }
        }
        // An API server that starts refuses requests until it has read its roles.
        if self.unreachable && is_refused(error) {
            self.backoff.reset();
        }
        let wait = bounded(error, self.backoff.next().unwrap_or(MAX_DENIED_DELAY));
        self.unreachable = is_unreachable(error);
        self.pause = if self.unreachable { Pause::UntilRecovery(wait) } else { Pause::For(wait) };
        wait
    }
}

/// Returns the time until the next attempt. While an API server is unavailable, removals of backends are unknown, so
/// the maximum delay is short. It is longer if access is denied.
pub(super) fn bounded(error: &watcher::Error, wait: Duration) -> Duration {
    at_most(if is_refused(error) { MAX_DENIED_DELAY } else { MAX_UNAVAILABLE_DELAY }, wait)
}

/// Returns `wait`, or a delay up to `longest` that keeps its random part, so that the watches of all replicas do not
/// reconnect at once.
fn at_most(longest: Duration, wait: Duration) -> Duration {
    if wait <= longest {
        return wait;
    }
    let half = longest / 2;
    half + Duration::from_nanos((wait.as_nanos() % half.as_nanos()) as u64)
}

/// Returns whether the API server denies the request itself.
fn is_refused(error: &watcher::Error) -> bool {
    status_code(error).is_some_and(|code| (400..500).contains(&code) && code != 410)
}

/// Returns whether the request did not reach an API server that can answer it.
fn is_unreachable(error: &watcher::Error) -> bool {
    use watcher::Error::{InitialListFailed, WatchStartFailed};
    match error {
        InitialListFailed(kube::Error::Api(status)) | WatchStartFailed(kube::Error::Api(status)) => status.code >= 500,
        InitialListFailed(error) | WatchStartFailed(error) => {
            matches!(error, kube::Error::Service(_) | kube::Error::HyperError(_))
        }
        _ => false,
    }
}

/// The delays of a watch of a few objects, at most [`MAX_UNAVAILABLE_DELAY`].
#[derive(Default)]
pub struct ShortBackoff(DefaultBackoff);

impl Iterator for ShortBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.0.next().map(|wait| at_most(MAX_UNAVAILABLE_DELAY, wait))
    }
}

impl Backoff for ShortBackoff {
    fn reset(&mut self) {
        self.0.reset();
    }
}

/// Returns how the client repeats a request that the API server answers with 429, 503, or 504. A storage that is
/// starting needs about a second. The defaults of kube double the delay 15 times, up to 82 s, without a message.
pub(super) fn of_requests() -> RetryPolicy {
    RetryPolicy::new(Duration::from_millis(5), Duration::from_secs(1), 8, true).unwrap_or_default()
}

/// Returns the HTTP status of the API server's response.
pub(super) fn status_code(error: &watcher::Error) -> Option<u16> {
    use watcher::Error::{InitialListFailed, WatchFailed, WatchStartFailed};
    match error {
        InitialListFailed(kube::Error::Api(status))
        | WatchStartFailed(kube::Error::Api(status))
        | WatchFailed(kube::Error::Api(status)) => Some(status.code),
        _ => None,
    }
}

/// Returns whether the API server no longer has the version of a watch.
pub fn is_expired(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::WatchError(status) => status.code == 410,
        watcher::Error::WatchStartFailed(kube::Error::Api(status)) => status.code == 410,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use futures::stream::pending;
    use kube::core::Status;

    use super::*;

    #[test]
    fn a_refusal_by_a_starting_api_server_delays_a_watch_briefly() {
        let failure = |code| {
            let status = Status::failure("not now", "Failure").with_code(code);
            watcher::Error::WatchStartFailed(kube::Error::Api(status.boxed()))
        };
        let mut retry = Retry::new(Kind::INGRESS, pending().boxed(), Installed::default(), Recovery::default());
        let waits: Vec<Duration> = (0..12).map(|_| retry.fail(&failure(503))).collect();
        assert!(waits.iter().all(|wait| *wait <= MAX_UNAVAILABLE_DELAY), "{waits:?}");
        let first = retry.fail(&failure(403));
        assert!(first < Duration::from_secs(2), "{first:?}");
        let later: Vec<Duration> = (0..12).map(|_| retry.fail(&failure(403))).collect();
        assert!(*later.last().unwrap() > Duration::from_secs(10), "a permission that stays revoked: {later:?}");
    }
}
