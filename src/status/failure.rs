//! The failures of writes, and the pause of all writes while the API server is unavailable. Time comes as an argument.

use std::time::Duration;

use tokio::time::Instant;

use super::queue::wait;
use crate::source::cluster::reason;

/// The timeout of one write. It is shorter than the time without a leader, so the last write of a leader ends before
/// the next leader begins.
pub(super) const WRITE_TIMEOUT: Duration = Duration::from_secs(4);
/// The first and the longest pause of all writes while the API server is unavailable.
const API_BACKOFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(15));

/// The reason why a write failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The API server rejected the write, or is unreachable.
    #[error("{}", reason(.0))]
    Api(#[from] kube::Error),
    /// The API server did not answer in time.
    #[error("no answer in {} s", WRITE_TIMEOUT.as_secs())]
    Timeout,
    /// The object exists, and Lockgate did not create it.
    #[error("it belongs to another owner")]
    Foreign,
}

impl Failure {
    /// Returns the HTTP status of the response, if there is one.
    pub fn code(&self) -> Option<u16> {
        match self {
            Failure::Api(kube::Error::Api(status)) => Some(status.code),
            _ => None,
        }
    }

    /// Returns whether any other write would fail now, too.
    pub fn affects_all_writes(&self) -> bool {
        match self {
            Self::Foreign => false,
            _ => self.code().is_none_or(|code| code == 429 || code >= 500 || code == 401),
        }
    }
}

/// Returns the result of a write, as the label of a metric.
pub(super) fn outcome(failure: Option<&Failure>) -> &'static str {
    match failure {
        None => "written",
        Some(Failure::Foreign) => "refused",
        Some(failure) => match failure.code() {
            Some(404) => "gone",
            Some(409) => "conflict",
            Some(400..=499) => "refused",
            _ => "failed",
        },
    }
}

/// Delays all writes of a plan while the API server is unavailable.
#[derive(Debug, Default)]
pub(super) struct ApiBackoff {
    failures: u32,
    until: Option<Instant>,
}

impl ApiBackoff {
    /// Records the result of a write.
    pub fn record(&mut self, failure: Option<&Failure>, now: Instant) {
        if failure.is_some_and(Failure::affects_all_writes) {
            // Concurrent failures count once.
            if self.until.is_none_or(|until| until <= now) {
                self.failures += 1;
                self.until = Some(now + wait(self.failures, API_BACKOFF));
            }
        } else {
            *self = Self::default();
        }
    }

    /// Returns the end of the current pause. It can be in the past. `None`: no write has failed.
    pub fn until(&self) -> Option<Instant> {
        self.until
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn refused(code: u16) -> Failure {
        let status = kube::core::Status::failure("no", "No").with_code(code);
        Failure::Api(kube::Error::Api(Box::new(status)))
    }

    #[test]
    fn a_failure_of_one_object_does_not_pause_the_writes() {
        let now = Instant::now();
        for failure in [404, 409, 403, 422].map(refused).into_iter().chain([Failure::Foreign]) {
            let mut backoff = ApiBackoff::default();
            backoff.record(Some(&failure), now);
            assert_eq!(backoff.until(), None, "{failure}");
        }
    }

    #[test]
    fn an_unavailable_api_server_gets_fewer_requests_until_it_recovers() {
        let mut now = Instant::now();
        let mut backoff = ApiBackoff::default();
        let mut pauses = Vec::new();
        for failure in [
            Failure::Timeout,
            refused(500),
            refused(503),
            refused(429),
            Failure::Timeout,
            Failure::Timeout,
            Failure::Timeout,
        ] {
            backoff.record(Some(&failure), now);
            // That of a write that was under way at the same time.
            backoff.record(Some(&failure), now);
            let over = backoff.until().unwrap();
            pauses.push((over - now).as_millis());
            now = over;
        }
        assert_eq!(pauses, [500, 1000, 2000, 4000, 8000, 15_000, 15_000]);
        backoff.record(None, now);
        assert_eq!(backoff.until(), None);
    }
}
