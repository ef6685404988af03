//! Conflicts: the problems that are found when the sources of a host are combined.
//!
//! A dialect declares verdicts on single objects. A conflict with other objects becomes a verdict too, in the condition
//! that the dialect defines for it. The status writers therefore read only verdicts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Translator;
use crate::model::{Host, ListenerId};
use crate::objects::{ObjectId, ObjectKey};
use crate::translate::dialect::{self, Dialect};
use crate::translate::gateway::{self, attach::ListenerOwner, parser::Attached};
use crate::translate::problem::Problem;
use crate::translate::verdict::{self, Verdict};

/// The place of a conflict.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A host on a listener of a Gateway.
    Host(ListenerId, Host),
    /// All hosts of a route on the listeners of an owner.
    Listeners(ListenerOwner),
    /// A host on the listeners that all Ingresses share.
    Shared,
}

/// The conflicts of the sources whose kinds have a condition for them.
#[derive(Debug, Default)]
pub struct Conflicts {
    /// For each conflict, the number of times that it was found. Two hosts can share a conflict.
    found: BTreeMap<ObjectId, BTreeMap<(Place, Arc<Problem>), usize>>,
    /// The sources whose verdicts may be outdated.
    changed: BTreeSet<ObjectId>,
}

impl Conflicts {
    fn add(&mut self, id: ObjectId, conflict: (Place, Arc<Problem>)) {
        self.changed.insert(id.clone());
        *self.found.entry(id).or_default().entry(conflict).or_default() += 1;
    }

    fn remove(&mut self, id: ObjectId, conflict: &(Place, Arc<Problem>)) {
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
                self.conflicts.add(id, (place.clone(), problem.clone()));
            }
        }
        for problem in before {
            if let Some(id) = source_of(self.dialects, problem) {
                self.conflicts.remove(id, &(place.clone(), problem.clone()));
            }
        }
    }

    /// Adds the changed conflicts of sources to the verdicts on them.
    pub(super) fn update_verdicts(&mut self) {
        for id in std::mem::take(&mut self.conflicts.changed) {
            let found = self.conflicts.found.get(&id).into_iter().flat_map(BTreeMap::keys);
            let dialect = self.dialects.iter().find(|dialect| dialect.kind == id.kind);
            let verdicts: Vec<Verdict> = if let Some((source, dialect)) = self.sources.get(&id).zip(dialect) {
                let found = found.filter_map(|(_, problem)| (dialect.conflict)(problem));
                source.verdicts.iter().cloned().chain(found).collect()
            } else if let Some(route) = self.gateways.route(&id) {
                of_route(route, found).chain(route.verdicts.iter().cloned()).collect()
            } else {
                continue;
            };
            match verdicts.is_empty() {
                true => drop(self.verdicts.remove(&id)),
                false => drop(self.verdicts.insert(id, verdict::bounded(&verdicts))),
            }
        }
    }
}

/// Returns the verdicts for the conflicts of a route. Many hosts have the same conflict.
fn of_route<'a>(
    route: &'a Attached,
    found: impl Iterator<Item = &'a (Place, Arc<Problem>)>,
) -> impl Iterator<Item = Verdict> {
    let places = route.parents_by_place();
    let (mut at_parents, mut left_out) = (BTreeSet::new(), Vec::new());
    for (place, problem) in found {
        match place {
            Place::Host(id, host) => {
                let parents = places.get(&(id, host)).into_iter().flatten();
                at_parents.extend(parents.map(|parent| (*parent, problem)));
            }
            Place::Listeners(owner) => left_out.push((owner, problem)),
            Place::Shared => {}
        }
    }
    let at_parents = at_parents.into_iter().map(move |(parent, problem)| route.conflict(parent, problem));
    at_parents.chain(left_out.into_iter().flat_map(move |(owner, problem)| route.refusals(owner, problem)))
}

/// Returns the source of a problem if its kind has a condition for conflicts.
fn source_of(dialects: &[Dialect], problem: &Problem) -> Option<ObjectId> {
    let object = &problem.object;
    let kind = match dialect::by_name(dialects, object.kind) {
        Some(dialect) => (dialect.conflict)(problem).map(|_| dialect.kind),
        None => gateway::route_kind(object.kind),
    }?;
    Some(kind.id(ObjectKey { namespace: object.namespace.clone(), name: object.name.clone() }))
}
