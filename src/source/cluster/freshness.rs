//! The time of the last news of each kind from the API server: a metric, and a log line if it is long ago.

use std::time::{Duration, Instant, SystemTime};

use lockgate_route::objects::Kind;

use crate::metrics::Metrics;

/// The interval of checks.
pub const PERIOD: Duration = Duration::from_secs(30);
/// A watch without news for this time makes no progress: the API server ends every watch after half of it.
const STALE: Duration = Duration::from_secs(600);

/// The last successes of the watches of one kind: a complete list, an event, or a regular end.
pub struct Freshness {
    kind: Kind,
    metrics: Metrics,
    /// The last success of each watch, initially the start.
    last: Vec<Instant>,
    /// The time of the last warning.
    warned: Option<Instant>,
}

impl Freshness {
    /// Creates the state of `watches` watches of `kind` that start `now`.
    pub fn new(kind: Kind, watches: usize, metrics: Metrics, now: Instant) -> Self {
        let this = Self { kind, metrics, last: vec![now; watches], warned: None };
        this.publish(now);
        this
    }

    /// Records a success of watch `i`.
    pub fn succeeded(&mut self, i: usize, now: Instant) {
        if let Some(last) = self.last.get_mut(i) {
            *last = now;
        }
        self.publish(now);
        if self.warned.is_some() && self.age(now).is_some_and(|age| age < STALE) {
            self.warned = None;
            tracing::info!(kind = self.kind.as_str(), "{} are watched again", self.kind.resource());
        }
    }

    /// Logs a warning if a watch makes no progress, at most once per [`STALE`].
    pub fn check(&mut self, now: Instant) {
        let Some(age) = self.age(now).filter(|age| *age >= STALE) else { return };
        if self.warned.is_some_and(|warned| now.saturating_duration_since(warned) < STALE) {
            return;
        }
        self.warned = Some(now);
        let (kind, plural, minutes) = (self.kind.as_str(), self.kind.resource(), age.as_secs() / 60);
        tracing::error!(
            kind,
            "no news of {plural} for {minutes} minutes: their changes are not served; check the errors above and the API server"
        );
    }

    /// Returns the time since the last success of the watch that has waited longest.
    fn age(&self, now: Instant) -> Option<Duration> {
        self.last.iter().min().map(|last| now.saturating_duration_since(*last))
    }

    fn publish(&self, now: Instant) {
        if let Some(age) = self.age(now)
            && let Some(time) = SystemTime::now().checked_sub(age)
        {
            self.metrics.set_source_success(self.kind.as_str(), time);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the age in the metric, in seconds.
    fn shown(metrics: &Metrics) -> u64 {
        let text = metrics.encode();
        let line = "lockgate_source_last_success_timestamp_seconds{kind=\"Secret\"} ";
        let value = text.lines().find_map(|text| text.strip_prefix(line)).and_then(|value| value.parse::<u64>().ok());
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        now - value.unwrap_or_default()
    }

    #[test]
    fn the_watch_that_has_waited_longest_decides() {
        let (metrics, start) = (Metrics::default(), Instant::now());
        let mut freshness = Freshness::new(Kind::SECRET, 2, metrics.clone(), start);
        assert!(shown(&metrics) <= 1);
        freshness.succeeded(0, start + Duration::from_secs(400));
        assert!((400..=402).contains(&shown(&metrics)), "{}", shown(&metrics));
        freshness.succeeded(1, start + Duration::from_secs(500));
        assert!((100..=102).contains(&shown(&metrics)), "{}", shown(&metrics));
    }

    #[test]
    fn a_watch_without_progress_is_logged_once_in_a_while() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut freshness = Freshness::new(Kind::SECRET, 1, Metrics::default(), start);
        let mut warned = Vec::new();
        for seconds in [30, 599, 600, 630, 1199, 1200] {
            freshness.check(after(seconds));
            warned.push(freshness.warned.map(|at| (at - start).as_secs()));
        }
        assert_eq!(warned, [None, None, Some(600), Some(600), Some(600), Some(1200)]);
        freshness.succeeded(0, after(1300));
        freshness.check(after(1301));
        assert_eq!(freshness.warned, None);
    }

    #[test]
    fn without_a_watch_there_is_nothing_to_wait_for() {
        let (metrics, start) = (Metrics::default(), Instant::now());
        let mut freshness = Freshness::new(Kind::SECRET, 0, metrics.clone(), start);
        freshness.check(start + STALE);
        assert!(freshness.warned.is_none() && !metrics.encode().contains("kind=\"Secret\""));
    }
}
