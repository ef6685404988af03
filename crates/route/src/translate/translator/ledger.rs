//! All problems, and the reported problems: the first [`MOST`] of each object and reason, and a summary of the others.
//!
//! Each problem has a reference count: a problem that two hosts share is removed with the second host.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use crate::translate::problem::{MOST, Problem, Problems, Reason};

/// All problems that were found.
#[derive(Debug, Default)]
pub struct Ledger {
    groups: BTreeMap<Key, Group>,
    reported: Problems,
}

/// The object and the reason.
type Key = (ObjectRef, Reason);

/// The problems of one object with one reason.
#[derive(Debug, Default)]
struct Group {
    /// Each problem, and the number of times that it was found.
    all: BTreeMap<Arc<Problem>, usize>,
    reported: Vec<Arc<Problem>>,
}

impl Group {
    /// Returns the problems that are no summaries.
    fn listed(&self) -> impl Iterator<Item = &Arc<Problem>> {
        self.all.keys().filter(|problem| problem.others().is_none())
    }

    /// Returns the number of problems that are not listed.
    fn summarized(&self) -> usize {
        self.all.keys().filter_map(|problem| problem.others()).sum()
    }
}

impl Ledger {
    /// Returns the reported problems, each once.
    pub fn found(&self) -> &Problems {
        &self.reported
    }

    /// Adds problems.
    pub fn add(&mut self, problems: &[Arc<Problem>]) {
        let changed = self.count(problems);
        self.report(changed);
    }

    /// Removes problems that were added before.
    pub fn remove(&mut self, problems: &[Arc<Problem>]) {
        let changed = self.discount(problems);
        self.report(changed);
    }

    /// Replaces `before` with `now`.
    pub fn replace(&mut self, before: &[Arc<Problem>], now: &[Arc<Problem>]) {
        if before != now {
            let mut changed = self.count(now);
            changed.extend(self.discount(before));
            self.report(changed);
        }
    }

    fn count(&mut self, problems: &[Arc<Problem>]) -> BTreeSet<Key> {
        let mut changed = BTreeSet::new();
        for problem in problems {
            let key = key(problem);
            let group = self.groups.entry(key.clone()).or_default();
            *group.all.entry(Problem::bounded(problem)).or_default() += 1;
            changed.insert(key);
        }
        changed
    }

    fn discount(&mut self, problems: &[Arc<Problem>]) -> BTreeSet<Key> {
        let mut changed = BTreeSet::new();
        for problem in problems {
            let key = key(problem);
            let Some(group) = self.groups.get_mut(&key) else { continue };
            let problem = Problem::bounded(problem);
            match group.all.get_mut(&problem) {
                Some(times) if *times > 1 => *times -= 1,
                _ => drop(group.all.remove(&problem)),
            }
            changed.insert(key);
        }
        changed
    }

    /// Updates the reported problems of these groups.
    fn report(&mut self, changed: BTreeSet<Key>) {
        for key in changed {
            let Some(group) = self.groups.get_mut(&key) else { continue };
            let mut reported: Vec<Arc<Problem>> = group.listed().take(MOST).cloned().collect();
            let others = group.listed().count().saturating_sub(MOST) + group.summarized();
            if others > 0 {
                reported.push(Arc::new(Problem::further(&key.0, key.1, others)));
            }
            for problem in group.reported.iter().filter(|problem| !reported.contains(problem)) {
                self.reported.remove(problem);
            }
            for problem in reported.iter().filter(|problem| !group.reported.contains(problem)) {
                self.reported.insert(problem.clone());
            }
            group.reported = reported;
            if group.all.is_empty() {
                self.groups.remove(&key);
            }
        }
    }
}

fn key(problem: &Problem) -> Key {
    (problem.object.clone(), problem.reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(name: &str, field: usize, reason: Reason) -> Arc<Problem> {
        let object = ObjectRef::new("Ingress", "shop", name);
        let (message, consequence) = (format!("host \"{}\" is wrong", "x".repeat(1000)), "left out".to_owned());
        Arc::new(Problem { object, field: format!("{field:05}"), reason, message, consequence })
    }

    #[test]
    fn the_first_of_many_problems_are_reported_and_the_others_are_counted() {
        let mut ledger = Ledger::default();
        let many: Vec<_> = (0..18_000).map(|at| problem("cart", at, Reason::HostNotValid)).collect();
        let few = [problem("cart", 7, Reason::Conflicted), problem("other", 7, Reason::HostNotValid)];
        ledger.add(&many);
        ledger.add(&few);
        assert_eq!(ledger.found().len(), MOST + 1 + few.len());
        let total: usize = ledger.found().iter().map(|problem| problem.others().unwrap_or(1)).sum();
        assert_eq!(total, 18_000 + few.len());
        assert!(ledger.found().iter().all(|problem| problem.to_string().len() < 500));
        // Removed problems make room for problems that were not reported.
        ledger.remove(&many[..17_995]);
        let fields: Vec<&str> = ledger.found().iter().map(|problem| &*problem.field).collect();
        // Sorted by object and field, regardless of the reason.
        assert_eq!(fields, ["00007", "17995", "17996", "17997", "17998", "17999", "00007"]);
        ledger.replace(&many[17_995..], &[]);
        ledger.remove(&few);
        assert!(ledger.found().is_empty() && ledger.groups.is_empty());
    }

    #[test]
    fn a_problem_that_was_found_twice_is_removed_with_the_second() {
        let mut ledger = Ledger::default();
        let one = [problem("cart", 1, Reason::HostNotValid)];
        ledger.add(&one);
        ledger.add(&one);
        ledger.remove(&one);
        assert_eq!(ledger.found().len(), 1);
        ledger.remove(&one);
        assert!(ledger.found().is_empty());
    }
}
