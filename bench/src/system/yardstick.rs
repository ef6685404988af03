//! A measure of the current memory speed. On a shared machine, other guests slow memory down, which appears as CPU
//! time. It does not measure other effects, such as thread wake-ups.

use std::hint::black_box;
use std::time::Duration;

use anyhow::Context;
use nix::time::{ClockId, clock_gettime};

/// The number of cache lines in the walk, more than the L1 cache has.
const LINES: usize = 4096;

/// A fixed piece of work: a pointer walk through 256 KiB of memory.
#[derive(Debug)]
pub struct Yardstick(Vec<Line>);

#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Line {
    next: usize,
}

impl Default for Yardstick {
    fn default() -> Self {
        // Sattolo's shuffle: one cycle through all of them.
        let mut order: Vec<Line> = (0..LINES).map(|next| Line { next }).collect();
        let mut state = 1_u64;
        for at in (1..LINES).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            order.swap(at, (state >> 33) as usize % at);
        }
        Self(order)
    }
}

impl Yardstick {
    /// Returns the CPU time of the work in this thread.
    ///
    /// # Errors
    /// The system has no thread clock.
    pub fn measure(&self) -> anyhow::Result<Duration> {
        let now = || clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).context("no clock of a thread's CPU time");
        let before = now()?;
        black_box(self.walk());
        Ok(Duration::from(now()?) - Duration::from(before))
    }

    /// Returns the end of the walk and the number of steps.
    fn walk(&self) -> (usize, usize) {
        let (mut at, mut steps) = (0, 0);
        loop {
            at = self.0[at].next;
            steps += 1;
            if at == 0 {
                return (at, steps);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_walk_passes_everything_once() {
        assert_eq!(Yardstick::default().walk(), (0, LINES));
    }
}
