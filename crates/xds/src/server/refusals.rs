//! Refused connections: every refusal is counted, and log lines are limited.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::observer::Observer;

/// The interval in which refusals for the same reason share a log line.
const PAUSE: Duration = Duration::from_secs(10);
/// The maximum number of stored log lines. Beyond it, refusals with the same reason share a line.
const MOST: usize = 100;

/// The reason of a refused connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// The client did not identify itself in time.
    Timeout,
    /// The client had not identified itself when a newer connection evicted it.
    Evicted,
    /// The client presented no certificate.
    NoCertificate,
    /// The TLS handshake failed.
    Handshake,
    /// No name in the client's certificate grants a role.
    Name,
    /// Plain text is limited to loopback.
    PlainText,
    /// There are too many connections.
    Connections,
}

impl Refused {
    /// Returns the reason as a metric label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Evicted => "evicted",
            Self::NoCertificate => "no_certificate",
            Self::Handshake => "handshake",
            Self::Name => "name",
            Self::PlainText => "plain_text",
            Self::Connections => "connections",
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Timeout => "the client did not identify itself in time",
            Self::Evicted => "the client did not identify itself, and a newer connection evicted it",
            Self::NoCertificate => "the TLS handshake failed: the client presented no certificate",
            Self::Handshake => "the TLS handshake failed",
            Self::Name => "the client is not accepted",
            Self::PlainText => "no TLS",
            Self::Connections => "a connection limit is reached",
        }
    }
}

/// Counts and logs refusals.
pub(super) struct Refusals {
    observer: Arc<dyn Observer>,
    /// For each line, the time of the last log line and the number of suppressed lines since.
    lines: Mutex<BTreeMap<String, (Instant, u64)>>,
}

impl Refusals {
    pub fn new(observer: Arc<dyn Observer>) -> Self {
        Self { observer, lines: Mutex::default() }
    }

    /// Counts the refusal of a connection from `peer`, and logs it unless the same line was logged recently.
    pub fn count(&self, peer: SocketAddr, reason: Refused, detail: &str) {
        self.observer.refused(peer, reason);
        let key = match reason {
            // Each name identifies a client that its operator looks for.
            Refused::Name => detail,
            _ => reason.as_str(),
        };
        let Some(count) = self.due(key, reason, Instant::now()) else { return };
        let colon = if detail.is_empty() { "" } else { ": " };
        let help = match reason {
            Refused::Name => self.observer.help_with_names(),
            _ => String::new(),
        };
        tracing::warn!(%peer, count, "xDS connection refused: {}{colon}{detail}{help}", reason.text());
    }

    /// Returns the number of refusals that a log line for `key` covers, if the line is due.
    fn due(&self, key: &str, reason: Refused, now: Instant) -> Option<u64> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() >= MOST {
            lines.retain(|_, (logged, _)| now.duration_since(*logged) < PAUSE);
        }
        let key = if lines.len() < MOST || lines.contains_key(key) { key } else { reason.as_str() };
        match lines.get_mut(key) {
            Some((logged, left_out)) if now.duration_since(*logged) < PAUSE => {
                *left_out += 1;
                None
            }
            Some((logged, left_out)) => {
                *logged = now;
                Some(std::mem::take(left_out) + 1)
            }
            None => {
                lines.insert(key.to_owned(), (now, 0));
                Some(1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nobody;

    impl Observer for Nobody {}

    #[test]
    fn one_line_covers_all_refusals_of_its_interval() {
        let refusals = Refusals::new(Arc::new(Nobody));
        let start = Instant::now();
        let due = |key: &str, seconds| refusals.due(key, Refused::Name, start + Duration::from_secs(seconds));
        assert_eq!(due("a", 0), Some(1));
        assert_eq!(due("a", 1), None);
        assert_eq!(due("b", 1), Some(1), "another name is another line");
        assert_eq!(due("a", 9), None);
        assert_eq!(due("a", 10), Some(3));
    }

    #[test]
    fn the_lines_are_bounded() {
        let refusals = Refusals::new(Arc::new(Nobody));
        let now = Instant::now();
        let logged = (0..MOST * 10).filter(|i| refusals.due(&i.to_string(), Refused::Name, now).is_some()).count();
        assert_eq!(logged, MOST + 1);
    }
}
