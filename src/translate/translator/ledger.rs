//! All problems that were found, each as often as it was found: one that two hosts have in common goes with the second.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::translate::problem::{Problem, Problems};

/// All problems that were found.
#[derive(Debug, Default)]
pub struct Ledger {
    found: Problems,
    /// Those that were found more than once, and how often.
    often: BTreeMap<Arc<Problem>, usize>,
}

impl Ledger {
    /// Each problem once.
    pub fn found(&self) -> &Problems {
        &self.found
    }

    /// Takes in what was found.
    pub fn add(&mut self, problems: &[Arc<Problem>]) {
        for problem in problems {
            if self.found.insert(problem.clone()).is_some() {
                *self.often.entry(problem.clone()).or_insert(1) += 1;
            }
        }
    }

    /// Takes out what was added before.
    pub fn remove(&mut self, problems: &[Arc<Problem>]) {
        for problem in problems {
            match self.often.get_mut(problem) {
                Some(2) => drop(self.often.remove(problem)),
                Some(times) => *times -= 1,
                None => drop(self.found.remove(problem)),
            }
        }
    }

    /// Takes out `before` and takes in `now`.
    pub fn replace(&mut self, before: &[Arc<Problem>], now: &[Arc<Problem>]) {
        if before != now {
            self.add(now);
            self.remove(before);
        }
    }
}
