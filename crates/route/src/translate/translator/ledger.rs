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
    /// The groups whose reported problems are outdated.
    changed: BTreeSet<Key>,
    reported: Problems,
}

/// The object and the reason.
type Key = (ObjectRef, Reason);

/// The problems of one object with one reason.
#[derive(Debug, Default)]
struct Group {
    /// Each problem, and the number of times that it was found.
    all: BTreeMap<Arc<Problem>, usize>,
    /// The number of summaries among them, and of the problems that these summarize.
    summaries: usize,
    summarized: usize,
    reported: Vec<Arc<Problem>>,
}

impl Group {
    fn count(&mut self, problem: Arc<Problem>) {
        let others = problem.others();
        let times = self.all.entry(problem).or_default();
        *times += 1;
        if let Some(others) = others.filter(|_| *times == 1) {
            self.summaries += 1;
            self.summarized += others;
        }
    }

    fn discount(&mut self, problem: &Arc<Problem>) {
        match self.all.get_mut(problem) {
            Some(times) if *times > 1 => *times -= 1,
            Some(_) => {
                self.all.remove(problem);
                if let Some(others) = problem.others() {
                    self.summaries -= 1;
                    self.summarized -= others;
                }
            }
            None => {}
        }
    }

    /// Returns the first problems, and a summary of the others.
    fn to_report(&self, (object, reason): &Key) -> Vec<Arc<Problem>> {
        let listed = self.all.keys().filter(|problem| problem.others().is_none());
        let mut reported: Vec<Arc<Problem>> = listed.take(MOST).cloned().collect();
        let others = self.all.len() - self.summaries - reported.len() + self.summarized;
        if others > 0 {
            reported.push(Arc::new(Problem::further(object, *reason, others)));
        }
        reported
    }
}

impl Ledger {
    /// Returns the reported problems at the last call of [`Ledger::report`], each once.
    pub fn found(&self) -> &Problems {
        &self.reported
    }

    /// Adds problems.
    pub fn add(&mut self, problems: &[Arc<Problem>]) {
        for problem in problems {
            let key = key(problem);
            self.groups.entry(key.clone()).or_default().count(Problem::bounded(problem));
            self.changed.insert(key);
        }
    }

    /// Removes problems that were added before.
    pub fn remove(&mut self, problems: &[Arc<Problem>]) {
        for problem in problems {
            let key = key(problem);
            if let Some(group) = self.groups.get_mut(&key) {
                group.discount(&Problem::bounded(problem));
                self.changed.insert(key);
            }
        }
    }

    /// Replaces `before` with `now`.
    pub fn replace(&mut self, before: &[Arc<Problem>], now: &[Arc<Problem>]) {
        if before != now {
            self.add(now);
            self.remove(before);
        }
    }

    /// Updates the reported problems of the changed groups. An object can have 100,000 problems, which are found one by one, so this
    /// is not part of each change.
    pub fn report(&mut self) {
        for key in std::mem::take(&mut self.changed) {
            let Some(group) = self.groups.get_mut(&key) else { continue };
            let reported = group.to_report(&key);
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
        Arc::new(Problem { object, field: format!("{field:05}"), reason, message: message.into(), consequence })
    }

    #[test]
    fn the_first_of_many_problems_are_reported_and_the_others_are_counted() {
        let mut ledger = Ledger::default();
        let many: Vec<_> = (0..18_000).map(|at| problem("cart", at, Reason::HostNotValid)).collect();
        let few = [problem("cart", 7, Reason::Conflicted), problem("other", 7, Reason::HostNotValid)];
        ledger.add(&many);
        ledger.add(&few);
        ledger.report();
        assert_eq!(ledger.found().len(), MOST + 1 + few.len());
        let total: usize = ledger.found().iter().map(|problem| problem.others().unwrap_or(1)).sum();
        assert_eq!(total, 18_000 + few.len());
        assert!(ledger.found().iter().all(|problem| problem.to_string().len() < 500));
        // Removed problems make room for problems that were not reported.
        ledger.remove(&many[..17_995]);
        ledger.report();
        let fields: Vec<&str> = ledger.found().iter().map(|problem| &*problem.field).collect();
        // Sorted by object and field, regardless of the reason.
        assert_eq!(fields, ["00007", "17995", "17996", "17997", "17998", "17999", "00007"]);
        ledger.replace(&many[17_995..], &[]);
        ledger.remove(&few);
        ledger.report();
        assert!(ledger.found().is_empty() && ledger.groups.is_empty());
    }

    #[test]
    fn a_problem_that_was_found_twice_is_removed_with_the_second() {
        let mut ledger = Ledger::default();
        let one = [problem("cart", 1, Reason::HostNotValid)];
        ledger.add(&one);
        ledger.add(&one);
        ledger.remove(&one);
        ledger.report();
        assert_eq!(ledger.found().len(), 1);
        ledger.remove(&one);
        ledger.report();
        assert!(ledger.found().is_empty());
    }
}
