//! Fuzz targets: the number of inputs, the seed, and the printed result.
//!
//! A target is a test named `fuzz_…`, or in a module named `fuzz`. It calls [`run`] with a function that makes one input
//! from a [`Random`], gives it to the code, and returns a label for the outcome. `cargo test` runs a few inputs of each
//! target; `make fuzz` runs a million in the `fuzz` profile. Environment variables:
//!
//! - `FUZZ_INPUTS`: the number of inputs of each target.
//! - `FUZZ_SEED`: the seed of the first input. A failure prints the seed that repeats it.
//! - `FUZZ_SECONDS`: a time limit for each target. A target that reaches it prints the inputs that it ran.

#![allow(clippy::panic)]

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::{Duration, Instant};

/// The seed of the first input, unless `FUZZ_SEED` is set: two ordinary runs use the same inputs.
const SEED: u64 = 1;
/// The distance between the seeds of successive inputs: the increment of SplitMix64.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Runs `input` with `few` random sources, or with `FUZZ_INPUTS`, and prints how often each outcome occurred.
///
/// A panic in `input` fails the test; the seed of that input is printed.
pub fn run(target: &str, few: u64, mut input: impl FnMut(&mut Random) -> &'static str) {
    let inputs = variable("FUZZ_INPUTS").unwrap_or(few);
    let limit = variable("FUZZ_SECONDS").map(Duration::from_secs);
    let first = variable("FUZZ_SEED").unwrap_or(SEED);
    let (start, mut slowest, mut run) = (Instant::now(), (Duration::ZERO, first), 0);
    let mut outcomes: BTreeMap<&str, u64> = BTreeMap::new();
    while run < inputs && limit.is_none_or(|limit| start.elapsed() < limit) {
        let seed = first.wrapping_add(run.wrapping_mul(STEP));
        let failure = Failure { target, seed };
        let begin = Instant::now();
        *outcomes.entry(input(&mut Random(seed))).or_default() += 1;
        slowest = slowest.max((begin.elapsed(), seed));
        std::mem::forget(failure);
        run += 1;
    }
    let outcomes: Vec<String> = outcomes.iter().map(|(outcome, count)| format!("{count} {outcome}")).collect();
    println!(
        "fuzz {target}: {run} inputs, {:.1} s, slowest {:.1} ms (FUZZ_SEED={}); {}",
        start.elapsed().as_secs_f64(),
        slowest.0.as_secs_f64() * 1e3,
        slowest.1,
        outcomes.join(", ")
    );
}

fn variable(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name}={value} is not a number")))
}

/// Prints how to repeat an input, when the input panics.
struct Failure<'a> {
    target: &'a str,
    seed: u64,
}

impl Drop for Failure<'_> {
    fn drop(&mut self) {
        eprintln!("fuzz {}: failed; FUZZ_SEED={} FUZZ_INPUTS=1 repeats it", self.target, self.seed);
    }
}

/// A source of choices for one input: SplitMix64, which takes any seed.
pub struct Random(u64);

impl Random {
    /// Returns a source for a seed. Adjacent seeds give unrelated choices.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; 0 if there is none.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.bits() % bound.max(1) as u64) as usize
    }

    /// A number in `range`.
    pub fn within(&mut self, range: RangeInclusive<usize>) -> usize {
        range.start() + self.below(range.end() - range.start() + 1)
    }

    /// Whether an event with the probability 1 : `in_how_many` occurs.
    pub fn one_in(&mut self, in_how_many: usize) -> bool {
        self.below(in_how_many) == 0
    }

    /// One of `choices`, which must not be empty.
    pub fn choose<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }

    /// Returns `bytes` with one to eight changes, mostly few: bytes set, flipped, inserted, removed, or repeated, and parts copied from
    /// one of `others`.
    pub fn mutate(&mut self, bytes: &[u8], others: &[impl AsRef<[u8]>]) -> Vec<u8> {
        const INTERESTING: [u8; 12] = [0, 1, 0x7f, 0x80, 0xff, 0xc0, b'\n', b' ', b'"', b'/', b'.', b'*'];
        let mut bytes = bytes.to_vec();
        let most = self.within(1..=8);
        for _ in 0..self.within(1..=most) {
            let at = self.below(bytes.len());
            let end = at + self.below((bytes.len() - at).min(64) + 1);
            match self.below(8) {
                0 if !bytes.is_empty() => bytes[at] ^= 1 << self.below(8),
                1 if !bytes.is_empty() => bytes[at] = *self.choose(&INTERESTING),
                2 if !bytes.is_empty() => bytes[at] = self.bits() as u8,
                3 => bytes.insert(at, *self.choose(&INTERESTING)),
                4 => drop(bytes.drain(at..end)),
                5 => {
                    let part = bytes[at..end].repeat(self.within(1..=4));
                    drop(bytes.splice(at..at, part));
                }
                6 if self.one_in(4) => bytes.truncate(at),
                7 if !others.is_empty() => {
                    let other = self.choose(others).as_ref();
                    let from = self.below(other.len());
                    let to = from + self.below((other.len() - from).min(256) + 1);
                    drop(bytes.splice(at..end, other[from..to].iter().copied()));
                }
                _ => {}
            }
        }
        bytes
    }
}

/// The texts of all files in `directory` of the repository whose paths end with `suffix`, in a fixed order.
pub fn files(directory: &str, suffix: &str) -> Vec<String> {
    let (mut paths, mut pending) =
        (Vec::new(), vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(directory)]);
    while let Some(directory) = pending.pop() {
        let entries = std::fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
        for path in entries.flatten().map(|entry| entry.path()) {
            match path.is_dir() {
                true => pending.push(path),
                false => paths.extend(Some(path).filter(|path| path.to_string_lossy().ends_with(suffix))),
            }
        }
    }
    paths.sort();
    paths.iter().filter_map(|path| std::fs::read_to_string(path).ok()).collect()
}
