//! Random histories: publications, requests, answers, rejections, and disconnections in any order, with messages in
//! flight in both directions. [`envoys`] uses a model of an Envoy that must lose no request. [`clients`] uses a model
//! of a client with arbitrary requests.
//!
//! All runs have the same histories: `make fuzz` all, `make test` the first quarter. A failing history is shrunk and printed.
//! `PROPTEST_RNG_SEED=7` selects other histories, and `PROPTEST_CASES=1000000` runs more of each property. Both together
//! reproduce a failure on another machine.

mod clients;
mod domains;
mod envoys;
mod names;
mod rejections;

use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, RngSeed};

/// Returns a runner of `cases` histories for one property, or of a quarter of them outside of `make fuzz`.
fn config(cases: u32) -> ProptestConfig {
    let mut config =
        ProptestConfig { failure_persistence: None, rng_algorithm: RngAlgorithm::XorShift, ..Default::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = if std::env::var_os("FUZZ_INPUTS").is_some() { cases } else { cases / 4 };
    }
    if matches!(config.rng_seed, RngSeed::Random) {
        config.rng_seed = RngSeed::Fixed(1);
    }
    config
}

/// A random number that is divided into choices. Only this number is generated, which is cheap.
struct Choices(u64);

impl Choices {
    /// Returns a number in `0..of`.
    fn take(&mut self, of: u64) -> usize {
        let choice = self.0 % of;
        self.0 /= of;
        choice as usize
    }

    /// Returns whether an event with a probability of `of` in ten happens.
    fn happens(&mut self, in_ten: u64) -> bool {
        // Inverted, so that the smallest number gives the largest world.
        (self.take(10) as u64) < in_ten
    }
}
