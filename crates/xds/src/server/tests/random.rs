//! Histories by chance, many in each run: what is published, asked for, answered, rejected, broken off, in any order
//! and with messages under way in both directions. [`envoys`] play a model of an Envoy that must lose no request;
//! [`clients`] play one that asks for anything in any way.
//!
//! They are the same in every run. A history that fails is printed at its shortest. `PROPTEST_RNG_SEED=7` plays others,
//! `PROPTEST_CASES=1000000` more of each property; both together repeat what somebody else has seen.

mod clients;
mod envoys;
mod names;
mod rejections;

use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, RngSeed};

/// `cases` histories for one property.
fn config(cases: u32) -> ProptestConfig {
    let mut config =
        ProptestConfig { failure_persistence: None, rng_algorithm: RngAlgorithm::XorShift, ..Default::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = cases;
    }
    if matches!(config.rng_seed, RngSeed::Random) {
        config.rng_seed = RngSeed::Fixed(1);
    }
    config
}

/// A number that chance gave, taken apart into choices. It is all that is generated, and cheap so.
struct Choices(u64);

impl Choices {
    /// One of `0..of`.
    fn take(&mut self, of: u64) -> usize {
        let choice = self.0 % of;
        self.0 /= of;
        choice as usize
    }

    /// Whether something happens that does so `of` ten times.
    fn happens(&mut self, in_ten: u64) -> bool {
        // The other way round, so that the smallest number is the fullest world.
        (self.take(10) as u64) < in_ten
    }
}
