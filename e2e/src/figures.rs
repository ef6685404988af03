//! Figures that a test prints.

use std::fmt;
use std::time::Duration;

/// Measured times.
#[derive(Debug, Clone, Default)]
pub struct Durations(Vec<Duration>);

impl Durations {
    /// Adds a time.
    pub fn push(&mut self, duration: Duration) {
        self.0.push(duration);
    }

    /// Adds all times of another set.
    pub fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Returns the number of times.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns the quantile for a share from 0 to 1, or zero without times.
    pub fn quantile(&self, share: f64) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let last = sorted.len().saturating_sub(1);
        sorted.get((last as f64 * share).round() as usize).copied().unwrap_or_default()
    }

    /// Returns the maximum.
    pub fn max(&self) -> Duration {
        self.quantile(1.0)
    }
}

/// Formats `median 1.2 ms, p99 3.4 ms, max 5.6 ms`.
impl fmt::Display for Durations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |share| self.quantile(share).as_secs_f64() * 1000.0;
        write!(f, "median {:.1} ms, p99 {:.1} ms, max {:.1} ms", ms(0.5), ms(0.99), ms(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_of_the_sorted_times() {
        let mut durations = Durations::default();
        for ms in (0..=100).rev() {
            durations.push(Duration::from_millis(ms));
        }
        assert_eq!(durations.to_string(), "median 50.0 ms, p99 99.0 ms, max 100.0 ms");
        assert_eq!(Durations::default().max(), Duration::ZERO);
    }
}
