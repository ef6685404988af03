//! A token bucket, which limits a rate. No I/O; time comes as an argument.

use std::time::Duration;

use tokio::time::Instant;

/// A token bucket: a burst, and then a constant rate.
#[derive(Debug)]
pub(super) struct TokenBucket {
    per_second: u32,
    burst: u32,
    /// The time at which the bucket is full if no token is taken.
    full: Option<Instant>,
}

impl TokenBucket {
    /// Creates a full bucket.
    pub fn new(per_second: u32, burst: u32) -> Self {
        Self { per_second: per_second.max(1), burst: burst.max(1), full: None }
    }

    /// Returns the time at which the next token is available, at least `now`.
    pub fn next(&self, now: Instant) -> Instant {
        let room = self.time(self.burst - 1);
        self.full.and_then(|full| full.checked_sub(room)).map_or(now, |at| at.max(now))
    }

    /// Takes a token if one is available. Returns whether it did.
    pub fn take(&mut self, now: Instant) -> bool {
        let there = self.next(now) <= now;
        if there {
            self.full = Some(self.full.map_or(now, |full| full.max(now)) + self.time(1));
        }
        there
    }

    /// Returns whether the bucket is full.
    pub fn is_full(&self, now: Instant) -> bool {
        self.full.is_none_or(|full| full <= now)
    }

    fn time(&self, tokens: u32) -> Duration {
        Duration::from_secs(1) * tokens / self.per_second
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_and_then_an_even_rate() {
        let start = Instant::now();
        let mut bucket = TokenBucket::new(10, 5);
        let taken = (0..20).filter(|_| bucket.take(start)).count();
        assert_eq!(taken, 5);
        assert_eq!(bucket.next(start), start + Duration::from_millis(100));
        let over = (1..=1000).filter(|ms| bucket.take(start + Duration::from_millis(*ms))).count();
        assert_eq!(over, 10);
        let later = start + Duration::from_secs(60);
        assert_eq!(bucket.next(later), later);
        assert_eq!((0..20).filter(|_| bucket.take(later)).count(), 5, "no more than the burst gathers");
    }
}
