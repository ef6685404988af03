//! The conflicts that were found, by source.

use std::collections::{BTreeMap, BTreeSet};

use lockgate_xds::provenance::ObjectRef;

use crate::few::Few;
use crate::objects::{ObjectId, ObjectKey};
use crate::translate::conflicts::Conflict;
use crate::translate::dialect::{self, Dialect};
use crate::translate::problem::Problem;

/// The conflicts of the sources whose kinds have a condition for them.
#[derive(Debug, Default)]
pub struct Conflicts {
    /// For each conflict, the number of times that it was found. Two hosts can share a conflict.
    pub found: BTreeMap<ObjectId, BTreeMap<Conflict, usize>>,
    /// The sources that include each object.
    pub includers: BTreeMap<ObjectId, Few<ObjectId>>,
    /// The sources whose verdicts may be outdated.
    pub changed: BTreeSet<ObjectId>,
}

impl Conflicts {
    pub fn add(&mut self, id: ObjectId, conflict: Conflict) {
        self.changed.insert(id.clone());
        *self.found.entry(id).or_default().entry(conflict).or_default() += 1;
    }

    pub fn remove(&mut self, id: ObjectId, conflict: &Conflict) {
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
    pub fn include(&mut self, id: &ObjectId, before: BTreeSet<ObjectId>, now: BTreeSet<ObjectId>) {
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

/// Returns the source of a problem if its kind has conditions for conflicts.
pub fn source_of(dialects: &[Dialect], problem: &Problem) -> Option<ObjectId> {
    let dialect = dialect::by_name(dialects, problem.object.kind)?;
    dialect.conflicts.and_then(|_| id_of(dialects, &problem.object))
}

/// Returns the identity of an object if a dialect has its kind.
pub fn id_of(dialects: &[Dialect], object: &ObjectRef) -> Option<ObjectId> {
    let ObjectRef { kind, namespace, name, .. } = object;
    let dialect = dialect::by_name(dialects, kind)?;
    Some(dialect.kind.id(ObjectKey { namespace: namespace.clone(), name: name.clone() }))
}
