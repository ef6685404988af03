//! Conflicts: the problems that are found when the sources of a host are combined, and the verdicts on sources.
//!
//! A dialect declares verdicts on its object. A conflict with other objects becomes a verdict too, in the condition
//! that the dialect defines for it. The status writers therefore read only verdicts.
//!
//! A source can include other objects, and declare the verdicts on them. These replace the verdicts that an included object declares on
//! itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::state::Translator;
use super::state::conflicts::{id_of, source_of};
use crate::few::Few;
use crate::objects::ObjectId;
use crate::translate::conflicts::{Conflict, ConflictPlace};
use crate::translate::dialect;
use crate::translate::problem::Problem;
use crate::translate::source::Source;
use crate::translate::verdict::{self, Verdict};

impl Translator {
    /// Replaces the problems that were found at a host, in the ledger and among the conflicts.
    pub(super) fn replace_conflicts(&mut self, place: ConflictPlace, before: &[Arc<Problem>], now: &[Arc<Problem>]) {
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

    /// Records that a source declares other verdicts.
    pub(super) fn replace_verdicts(&mut self, id: &ObjectId, before: Option<&Source>, now: Option<&Source>) {
        let verdicts = |source: Option<&Source>| source.map_or(0, |source| source.verdicts.len());
        if verdicts(before) + verdicts(now) == 0 {
            return;
        }
        let included = |source: Option<&Source>| source.map(|source| self.included(source)).unwrap_or_default();
        let (old, new) = (included(before), included(now));
        self.conflicts.include(id, old, new);
        self.conflicts.changed.insert(id.clone());
    }

    /// Returns the sources that include an object.
    pub(super) fn includers<'a>(&'a self, id: &ObjectId) -> impl Iterator<Item = &'a ObjectId> + use<'a> {
        self.conflicts.includers.get(id).into_iter().flat_map(Few::iter)
    }

    /// Returns the objects that a source includes: those on which it declares verdicts.
    pub(super) fn included(&self, source: &Source) -> BTreeSet<ObjectId> {
        let others = source.verdicts.iter().filter(|verdict| verdict.object != source.origin);
        others.filter_map(|verdict| id_of(self.dialects, &verdict.object)).collect()
    }

    /// Updates the verdicts on sources: those that they or their includers declare, and those of their conflicts.
    pub(super) fn update_verdicts(&mut self) {
        for id in std::mem::take(&mut self.conflicts.changed) {
            let verdicts = self.sources.get(&id).map(|source| self.verdicts_on(&id, source)).unwrap_or_default();
            match verdicts.is_empty() {
                true => drop(self.verdicts.remove(&id)),
                false => drop(self.verdicts.insert(id, verdict::bounded(&verdicts))),
            }
        }
    }

    fn verdicts_on(&self, id: &ObjectId, source: &Source) -> Vec<Verdict> {
        let includers = self.includers(id).filter_map(|id| self.sources.get(id));
        let includers: Vec<&Source> = includers.map(|source| &**source).collect();
        let speakers = if includers.is_empty() { vec![source] } else { includers };
        let declared = speakers.into_iter().flat_map(|speaker| &speaker.verdicts);
        let mut verdicts: Vec<Verdict> = declared.filter(|verdict| verdict.object == source.origin).cloned().collect();
        if let Some(of_conflicts) = dialect::of(self.dialects, id.kind).and_then(|dialect| dialect.conflicts) {
            let found: Vec<&Conflict> = self.conflicts.found.get(id).into_iter().flat_map(BTreeMap::keys).collect();
            verdicts.extend(of_conflicts(source, &found));
        }
        verdicts
    }
}
