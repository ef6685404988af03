//! Conflicts: the problems that are found when the sources of a host are combined, and the verdicts on sources.
//!
//! A dialect declares verdicts on its object. A conflict with other objects becomes a verdict too, in the condition
//! that the dialect defines for it. The status writers therefore read only verdicts.
//!
//! A source can include other objects, and declare the verdicts on them. These replace the verdicts that an included object declares on
//! itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use super::Translator;
use crate::few::Few;
use crate::objects::{ObjectId, ObjectKey};
use crate::translate::conflicts::{Conflict, ConflictPlace};
use crate::translate::dialect::{self, Dialect};
use crate::translate::problem::Problem;
use crate::translate::source::Source;
use crate::translate::verdict::{self, Verdict};

/// The conflicts of the sources whose kinds have a condition for them.
#[derive(Debug, Default)]
pub struct Conflicts {
    /// For each conflict, the number of times that it was found. Two hosts can share a conflict.
    found: BTreeMap<ObjectId, BTreeMap<Conflict, usize>>,
    /// The sources that include each object.
    includers: BTreeMap<ObjectId, Few<ObjectId>>,
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

    /// Replaces the objects that a source includes.
    fn include(&mut self, id: &ObjectId, before: BTreeSet<ObjectId>, now: BTreeSet<ObjectId>) {
        for included in before.difference(&now) {
            if let Some(includers) = self.includers.get_mut(included) {
                includers.remove(id);
                if includers.is_empty() {
                    self.includers.remove(included);
                }
            }
        }
        for included in now.difference(&before) {
            self.includers.entry(included.clone()).or_default().insert(id.clone());
        }
        self.changed.extend(before.into_iter().chain(now));
    }
}

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

/// Returns the source of a problem if its kind has conditions for conflicts.
fn source_of(dialects: &[Dialect], problem: &Problem) -> Option<ObjectId> {
    let dialect = dialect::by_name(dialects, problem.object.kind)?;
    dialect.conflicts.and_then(|_| id_of(dialects, &problem.object))
}

/// Returns the identity of an object if a dialect has its kind.
pub fn id_of(dialects: &[Dialect], object: &ObjectRef) -> Option<ObjectId> {
    let ObjectRef { kind, namespace, name, .. } = object;
    let dialect = dialect::by_name(dialects, kind)?;
    Some(dialect.kind.id(ObjectKey { namespace: namespace.clone(), name: name.clone() }))
}
