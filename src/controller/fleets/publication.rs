//! The publication of one change to the views of a fleet.

use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use lockgate_xds::snapshot::{Changes, Key, Resource, Snapshot, Update};

use super::class::{Class, Stores, View};
use crate::controller::report::{self, Tally};
use crate::fleet::FleetId;

/// An update of a store with shared resources.
pub type SharedUpdate = Update<Arc<Resource>>;

/// One publication. All views number the same publications, so "since publication 7" has the same meaning for all clients.
#[derive(Debug, Clone, Copy)]
pub struct Publication<'a> {
    /// The fleet.
    pub fleet: &'a FleetId,
    /// The stores of all fleets.
    pub stores: &'a Stores,
    /// The number of the publication.
    pub generation: u64,
    /// The time at which the loop began to process the change.
    pub start: Instant,
    /// The published resources of this pass.
    pub tally: &'a RefCell<Tally>,
}

impl Publication<'_> {
    fn class(&self, view: View) -> Class {
        Class { fleet: self.fleet.clone(), view }
    }

    /// Returns the views that a client has requested.
    pub fn requested(&self) -> Vec<View> {
        View::ALL.into_iter().filter(|view| self.stores.get(&self.class(*view)).is_some()).collect()
    }

    /// Returns the newest snapshot of a view.
    pub fn newest(&self, view: View) -> Option<Arc<Snapshot>> {
        self.stores.newest(&self.class(view))
    }

    /// Returns the update that makes `resources` the complete content of a view.
    pub fn difference_to(&self, view: View, resources: Vec<Arc<Resource>>) -> SharedUpdate {
        self.stores.get_or_create(self.class(view)).difference_to(resources)
    }

    /// Publishes an update of a view. If the view still lacks a part of this publication, it is not `complete`, and keeps its
    /// number. Changes that are in `logged` are not logged again.
    pub fn publish(&self, view: View, update: SharedUpdate, complete: bool, logged: &Changes) -> Arc<Changes> {
        let store = self.stores.get_or_create(self.class(view));
        let before = store.newest().map_or(0, |newest| newest.generation());
        let generation = if complete { self.generation } else { before };
        store.publish(update, generation, |changes| {
            report::published(view, &without(changes, logged), self.start.elapsed(), &mut self.tally.borrow_mut());
        })
    }
}

/// Returns the changes that are not in `logged`.
fn without(changes: &Changes, logged: &Changes) -> Changes {
    let logged: HashSet<Key> = logged.names().collect();
    let rest = |resources: &[Arc<Resource>]| {
        resources.iter().filter(|resource| !logged.contains(&resource.key())).cloned().collect()
    };
    Changes {
        generation: changes.generation,
        added: rest(&changes.added),
        changed: rest(&changes.changed),
        removed: rest(&changes.removed),
    }
}
