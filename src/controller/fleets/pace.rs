//! The pace of expensive builds. The first build is immediate. The pause before the next one is a multiple of the cost.

use std::time::{Duration, Instant};

/// The length of a pause, as a multiple of the last build.
const PAUSE_FACTOR: u32 = 5;
/// The longest pause.
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// The time of the next build.
#[derive(Debug, Default)]
pub struct Pace {
    /// Whether the last build is out of date.
    pub stale: bool,
    not_before: Option<Instant>,
}

impl Pace {
    /// Returns whether to build now.
    pub fn is_due(&self, now: Instant) -> bool {
        self.stale && self.not_before.is_none_or(|not_before| not_before <= now)
    }

    /// Records a build.
    pub fn built(&mut self, start: Instant, end: Instant) {
        let pause = (end.saturating_duration_since(start) * PAUSE_FACTOR).min(MAX_PAUSE);
        *self = Self { stale: false, not_before: Some(start + pause) };
    }

    /// Returns the end of the pause, if a build waits for it.
    pub fn due(&self) -> Option<Instant> {
        self.not_before.filter(|_| self.stale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_build_is_immediate_and_the_next_waits_five_times_the_cost() {
        let (mut pace, start) = (Pace { stale: true, ..Pace::default() }, Instant::now());
        let ms = |ms| start + Duration::from_millis(ms);
        assert!(pace.is_due(start));
        pace.built(start, ms(10));
        assert_eq!(pace.due(), None, "nothing to build");
        pace.stale = true;
        assert!(!pace.is_due(ms(49)) && pace.is_due(ms(50)));
        assert_eq!(pace.due(), Some(ms(50)));
        pace.built(start, ms(60_000));
        pace.stale = true;
        assert!(pace.is_due(ms(5_000)), "the longest pause");
    }
}
