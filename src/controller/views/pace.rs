//! How often what costs much is made: the first time at once, and then not before a multiple of what it cost.

use std::time::{Duration, Instant};

/// Of the time of the loop, what is paced takes at most this part.
const SHARE: u32 = 5;
/// Nothing is put off for longer.
const LONGEST: Duration = Duration::from_secs(5);

/// When something may be made again.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Something has changed since it was made.
    pub stale: bool,
    not_before: Option<Instant>,
}

impl Pace {
    /// Whether it may be made now.
    pub fn may(&self, now: Instant) -> bool {
        self.not_before.is_none_or(|not_before| not_before <= now)
    }

    /// It was made from `start` to `end`.
    pub fn made(&mut self, start: Instant, end: Instant) {
        let pause = (end.saturating_duration_since(start) * SHARE).min(LONGEST);
        *self = Self { stale: false, not_before: Some(start + pause) };
    }

    /// When it is to be made, if it is stale.
    pub fn due(&self) -> Option<Instant> {
        self.not_before.filter(|_| self.stale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_at_once_the_next_not_before_five_times_its_cost() {
        let (mut pace, start) = (Pace { stale: true, ..Pace::default() }, Instant::now());
        let ms = |ms| start + Duration::from_millis(ms);
        assert!(pace.may(start));
        pace.made(start, ms(10));
        assert_eq!(pace.due(), None, "nothing to make");
        pace.stale = true;
        assert!(!pace.may(ms(49)) && pace.may(ms(50)));
        assert_eq!(pace.due(), Some(ms(50)));
        pace.made(start, ms(60_000));
        assert!(pace.may(ms(5_000)), "however long it took");
    }
}
