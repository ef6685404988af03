//! Conflicts: the problems that are found when the sources of a host are combined.
//!
//! A dialect declares verdicts on single objects. A conflict with other objects becomes a verdict too, in the condition
//! that the dialect defines for it. The status writers therefore read only verdicts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Translator;
use crate::objects::{ObjectId, ObjectKey};
use crate::translate::conflicts::{Conflict, Place};
use crate::translate::dialect::{self, Dialect};
use crate::translate::problem::Problem;
use crate::translate::verdict::{self, Verdict};

/// The conflicts of the sources whose kinds have a condition for them.
#[derive(Debug, Default)]
pub struct Conflicts {
    /// For each conflict, the number of times that it was found. Two hosts can share a conflict.
    found: BTreeMap<ObjectId, BTreeMap<Conflict, usize>>,
    /// The sources whose verdicts may be outdated.
    changed: BTreeSet<ObjectId>,
}

impl Conflicts {
    fn add(&mut self, id: ObjectId, conflict: Conflict) {
        self.changed.insert(id.clone());
        *self.found.entry(id).or_default().entry(conflict).or_default() += 1;
    }

    fn remove(&mut self, id: ObjectId, conflict: &Conflict) {
        let Some(found) = self.found.get_mut(&id) else { return };
        match found.get_mut(conflict) {
            Some(times) if *times > 1 => *times -= 1,
            _ => drop(found.remove(conflict)),
        }
        if found.is_empty() {
            self.found.remove(&id);
        }
        self.changed.insert(id);
    }

    /// Records that the verdicts of a source itself have changed.
    pub fn verdicts_changed(&mut self, id: &ObjectId) {
        if self.found.contains_key(id) {
            self.changed.insert(id.clone());
        }
    }
}

impl Translator {
    /// Replaces the problems that were found at a host, in the ledger and among the conflicts.
    pub(super) fn replace_conflicts(&mut self, place: Place, before: &[Arc<Problem>], now: &[Arc<Problem>]) {
        if before == now {
            return;
        }
        self.ledger.replace(before, now);
        for problem in now {
            if let Some(id) = source_of(self.dialects, problem) {
                self.conflicts.add(id, Conflict { place: place.clone(), problem: problem.clone() });
            }
        }
        for problem in before {
            if let Some(id) = source_of(self.dialects, problem) {
                self.conflicts.remove(id, &Conflict { place: place.clone(), problem: problem.clone() });
            }
        }
    }

    /// Adds the changed conflicts of sources to the verdicts on them.
    pub(super) fn update_verdicts(&mut self) {
        for id in std::mem::take(&mut self.conflicts.changed) {
            let conflicts_of = dialect::of(self.dialects, id.kind).and_then(|dialect| dialect.conflicts);
            let Some((source, conflicts_of)) = self.sources.get(&id).zip(conflicts_of) else { continue };
            let found: Vec<&Conflict> = self.conflicts.found.get(&id).into_iter().flat_map(BTreeMap::keys).collect();
            let verdicts: Vec<Verdict> = source.verdicts.iter().cloned().chain(conflicts_of(source, &found)).collect();
            match verdicts.is_empty() {
                true => drop(self.verdicts.remove(&id)),
                false => drop(self.verdicts.insert(id, verdict::bounded(&verdicts))),
            }
        }
    }
}

/// Returns the source of a problem if its kind has conditions for conflicts.
fn source_of(dialects: &[Dialect], problem: &Problem) -> Option<ObjectId> {
    let object = &problem.object;
    let dialect = dialect::by_name(dialects, object.kind).filter(|dialect| dialect.conflicts.is_some())?;
    Some(dialect.kind.id(ObjectKey { namespace: object.namespace.clone(), name: object.name.clone() }))
}
