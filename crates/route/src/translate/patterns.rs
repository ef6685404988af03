//! The check of the regular expressions of one object.
//!
//! The check of a short pattern can take a millisecond, and an object of 1.5 MB can have tens of thousands of them. All objects
//! wait meanwhile, so the steps of one object have a limit.

use std::collections::HashMap;

use crate::re2::{self, Cost, Limits, Rejection};
use crate::settings::Regexes;

/// The steps for the patterns of one object, as a multiple of the limit of a host. Envoy never receives patterns of a host beyond
/// that limit.
const HOSTS: u32 = 20;
/// The steps of a check in addition to those of the automaton, which depend on the size of the program and the length of the text.
const CHECK: u32 = 20;

/// The regular expressions of one object, each checked once.
#[derive(Debug)]
pub struct Patterns {
    limits: Limits,
    left: u32,
    known: HashMap<String, Result<Cost, Rejection>>,
}

impl Patterns {
    /// Creates the check of an object.
    pub fn new(limits: &Regexes) -> Self {
        Self {
            limits: Limits { size: limits.max_size, steps: limits.max_steps },
            left: limits.max_steps_per_host.saturating_mul(HOSTS),
            known: HashMap::new(),
        }
    }

    /// Returns the cost of a pattern.
    ///
    /// # Errors
    /// Envoy rejects the pattern, it is too expensive, or the patterns of the object take too many steps.
    pub fn cost(&mut self, pattern: &str) -> Result<Cost, Rejection> {
        if let Some(known) = self.known.get(pattern) {
            return known.clone();
        }
        if self.left == 0 {
            let message = "the regular expressions of the object take too many steps to check".to_owned();
            return Err(Rejection::TooExpensive(message));
        }
        let cost = re2::cost(pattern, self.limits);
        let (size, steps) = match &cost {
            Ok(cost) => (cost.size, cost.steps),
            Err(Rejection::Invalid(_)) => (0, 0),
            Err(Rejection::TooExpensive(_)) => (self.limits.size, self.limits.steps),
        };
        let length = u32::try_from(pattern.len()).unwrap_or(u32::MAX);
        let spent = [CHECK, length, size, steps].into_iter().fold(0, u32::saturating_add);
        self.left = self.left.saturating_sub(spent);
        self.known.insert(pattern.to_owned(), cost.clone());
        cost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_patterns_of_an_object_have_a_limited_number_of_steps() {
        let limits = Regexes::default();
        let mut patterns = Patterns::new(&limits);
        let pattern = |at: usize| format!("/{at}[a-z]{{20}}/[0-9]+");
        let accepted = (0..100_000).take_while(|at| patterns.cost(&pattern(*at)).is_ok()).count();
        assert!((1000..50_000).contains(&accepted), "{accepted}");
        assert!(patterns.cost(&pattern(0)).is_ok(), "a known pattern costs nothing");
        // A pattern that is rejected counts as much as the most expensive one.
        let mut patterns = Patterns::new(&limits);
        let rejected = |at: usize| format!("/{at}.*a.{{20}}");
        let checked = (0..100_000).take_while(|at| {
            let rejection = patterns.cost(&rejected(*at)).err();
            !format!("{rejection:?}").contains("of the object")
        });
        let checked = checked.count();
        assert!((50..=100).contains(&checked), "{checked}");
    }
}
