//! A quota of log lines for each namespace, so that one tenant cannot crowd out the log lines of others. Time comes as
//! an argument.
//!
//! A user who may write objects can create and remove a fault a hundred times a second. A fixed window is sufficient,
//! because the lines need a limit but no smoothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The maximum number of lines about objects of one namespace in one window. The faults of a first installation fit
/// into it.
pub(super) const LINES: usize = 500;
/// The length of a window.
const WINDOW: Duration = Duration::from_secs(60);

/// The lines of each namespace in the current window.
#[derive(Debug, Default)]
pub struct Quota {
    since: Option<Instant>,
    lines: BTreeMap<Arc<str>, usize>,
}

impl Quota {
    /// Returns whether a line about an object of `namespace` may be written at `now`, and counts it.
    pub fn take(&mut self, namespace: &Arc<str>, now: Instant) -> bool {
        self.since.get_or_insert(now);
        let lines = self.lines.entry(namespace.clone()).or_default();
        *lines += 1;
        *lines <= LINES
    }

    /// Starts a new window if the current one has ended. Returns the namespaces with suppressed lines, and their
    /// number.
    pub fn end_window(&mut self, now: Instant) -> Vec<(Arc<str>, usize)> {
        if self.since.is_none_or(|since| now < since + WINDOW) {
            return Vec::new();
        }
        self.since = None;
        let lines = std::mem::take(&mut self.lines).into_iter();
        lines.filter(|(_, lines)| *lines > LINES).map(|(namespace, lines)| (namespace, lines - LINES)).collect()
    }

    /// Returns the time at which suppressed lines are reported, if there are any.
    pub fn due(&self) -> Option<Instant> {
        self.since.filter(|_| self.lines.values().any(|lines| *lines > LINES)).map(|since| since + WINDOW)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_beyond_the_quota_are_counted_and_cost_no_other_namespace() {
        let (mut quota, start) = (Quota::default(), Instant::now());
        let (attacker, victim) = (Arc::from("attacker"), Arc::from("victim"));
        let written = (0..18_000).filter(|_| quota.take(&attacker, start)).count();
        assert_eq!(written, LINES);
        assert!(quota.take(&victim, start));
        assert_eq!(quota.due(), Some(start + WINDOW));
        assert_eq!(quota.end_window(start + WINDOW / 2), []);
        assert_eq!(quota.end_window(start + WINDOW), [(attacker.clone(), 18_000 - LINES)]);
        assert_eq!((quota.due(), quota.end_window(start + 3 * WINDOW)), (None, vec![]));
        assert!(quota.take(&attacker, start + WINDOW), "a new window");
    }
}
