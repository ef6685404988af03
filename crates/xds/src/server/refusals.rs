//! Connections that were refused: counted one by one, logged once in a while.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::observer::Observer;

/// Refusals for the same reason within this time share one line in the log.
const PAUSE: Duration = Duration::from_secs(10);
/// Different lines that are remembered. Beyond that, lines are told apart by their reason alone.
const MOST: usize = 100;

/// Why a connection was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// The client did not say who it is in time.
    Timeout,
    /// The client did not say who it is, and had to make room for a newer connection.
    Evicted,
    /// The client showed no certificate.
    NoCertificate,
    /// The TLS handshake failed.
    Handshake,
    /// No name in the client's certificate gives it a role.
    Name,
    /// Plain text is for loopback only.
    PlainText,
    /// There are too many connections.
    Connections,
}

impl Refused {
    /// The reason as a label of a metric.
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
            Self::Timeout => "the client did not say who it is in time",
            Self::Evicted => "the client did not say who it is, and others wait",
            Self::NoCertificate => "the TLS handshake failed: the client showed no certificate",
            Self::Handshake => "the TLS handshake failed",
            Self::Name => "the client is not accepted",
            Self::PlainText => "no TLS",
            Self::Connections => "no place is free",
        }
    }
}

/// Counts and logs refusals.
pub(super) struct Refusals {
    observer: Arc<dyn Observer>,
    /// By line: when it was logged last, and how often it was left out since.
    lines: Mutex<BTreeMap<String, (Instant, u64)>>,
}

impl Refusals {
    pub fn new(observer: Arc<dyn Observer>) -> Self {
        Self { observer, lines: Mutex::default() }
    }

    /// Counts the refusal of a connection from `peer`, and logs it unless it was logged a moment ago.
    pub fn count(&self, peer: SocketAddr, reason: Refused, detail: &str) {
        self.observer.refused(peer, reason);
        let key = match reason {
            // Each name is a client of its own, which its operator looks for.
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

    /// Returns how many refusals a line for `key` stands for, if it is due.
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
    fn a_line_stands_for_all_refusals_of_its_time() {
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
