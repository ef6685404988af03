//! The fleets, and the stores of their clients.
//!
//! A fleet is a group of Envoys, and other clients, with the same listeners. It has a view for each form of the resources
//! ([`View`]). A fleet and a view form a [`Class`] of clients, with one store. The views of a fleet share equal resources.

mod class;
mod foreign;
mod grpc;
mod pace;
mod publication;
mod views;
mod whole;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use lockgate_route::envoy::Change;
use lockgate_route::model::{ListenerId, Model};
use lockgate_xds::snapshot::{Changes, Snapshot};

use super::report::Quota;

pub use class::{Class, FleetId, Stores, View};
use publication::Publication;
use views::Views;

/// Called when a client requests a view that does not exist.
pub type Wake = Box<dyn Fn() + Send + Sync>;

/// The listeners of a fleet; `None` means all listeners of the model.
pub type Listeners = Option<BTreeSet<ListenerId>>;

/// All fleets.
#[derive(Debug)]
pub struct Fleets {
    fleets: BTreeMap<FleetId, Fleet>,
    stores: Arc<Stores>,
    /// The view of each fleet that always exists.
    primary: View,
    /// The number of the newest publication.
    generation: u64,
    /// Whether the resources come from a directory and not from a model.
    is_foreign: bool,
    /// The log lines of each namespace.
    pub(super) quota: RefCell<Quota>,
}

/// One fleet.
#[derive(Debug)]
struct Fleet {
    listeners: Listeners,
    /// The part of the model that these listeners need. Empty for a fleet with all listeners.
    subset: Model,
    views: Views,
}

impl Default for Fleets {
    fn default() -> Self {
        Self::shared(View::Envoy, Box::new(|| ()))
    }
}

impl Fleets {
    /// Returns the fleets with these listeners. The view `primary` of each fleet always exists. When `wake` is called,
    /// [`Fleets::update`] must be called, even if nothing has changed.
    pub fn new(fleets: impl IntoIterator<Item = (FleetId, Listeners)>, primary: View, wake: Wake) -> Self {
        let fleet = |listeners| Fleet { listeners, subset: Model::default(), views: Views::new(primary) };
        let fleets: BTreeMap<_, _> = fleets.into_iter().map(|(id, listeners)| (id, fleet(listeners))).collect();
        let classes = fleets.keys().map(|fleet| Class { fleet: fleet.clone(), view: primary });
        let stores = Arc::new(Stores::new(classes, wake));
        let quota = RefCell::default();
        Self { fleets, stores, primary, generation: 0, is_foreign: false, quota }
    }

    /// Returns one fleet for all clients.
    pub fn shared(primary: View, wake: Wake) -> Self {
        Self::new([(FleetId::shared(), None)], primary, wake)
    }

    /// Returns the stores, to serve clients from. Requesting a store makes the loop fill it.
    pub fn stores(&self) -> Arc<Stores> {
        self.stores.clone()
    }

    /// Returns the number of the newest publication.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the newest snapshot of the primary view of the shared fleet.
    pub fn newest(&self) -> Option<Arc<Snapshot>> {
        self.stores.newest(&Class::shared(self.primary))
    }

    /// Returns the numbers of objects with and without statistics, once for each host.
    pub fn statistics(&self) -> (usize, usize) {
        let counts = self.fleets.values().map(|fleet| fleet.views.statistics());
        counts.fold((0, 0), |(counted, omitted), (more, fewer)| (counted + more, omitted + fewer))
    }

    /// Returns whether a requested view was never built.
    pub fn is_incomplete(&self) -> bool {
        self.stores.classes().iter().any(|class| self.stores.newest(class).is_none())
    }

    /// Returns when [`Fleets::update`] has work although nothing has changed.
    pub fn due(&self) -> Option<Instant> {
        self.fleets.values().filter_map(|fleet| fleet.views.due()).min()
    }

    /// Publishes a change to all fleets, and builds views that are newly requested or due. Returns the changes of the primary
    /// view of the shared fleet.
    pub fn update(&mut self, change: Change<'_>, start: Instant) -> Arc<Changes> {
        if self.is_foreign {
            return Arc::default();
        }
        let is_first = self.newest().is_none();
        self.generation += u64::from(is_first || change.settings_changed || !change.touched.is_empty());
        self.publish(start, |fleet, to| fleet.update(change, to))
    }

    /// Calls `publish` for each fleet. Returns the changes of the shared fleet.
    fn publish(
        &mut self,
        start: Instant,
        mut publish: impl FnMut(&mut Fleet, &Publication<'_>) -> Arc<Changes>,
    ) -> Arc<Changes> {
        let Self { stores, generation, quota, .. } = self;
        let mut of_shared = Arc::default();
        for (id, fleet) in &mut self.fleets {
            let to = Publication { fleet: id, stores, generation: *generation, start, quota };
            let changes = publish(fleet, &to);
            if *id == FleetId::shared() {
                of_shared = changes;
            }
        }
        of_shared
    }
}

impl Fleet {
    /// Publishes a change of the model, or of the part that the listeners of this fleet need.
    fn update(&mut self, change: Change<'_>, to: &Publication<'_>) -> Arc<Changes> {
        let Some(listeners) = &self.listeners else { return self.views.update(change, to) };
        let before = std::mem::replace(&mut self.subset, change.model.subset(listeners));
        let touched = change.touched.in_subset(&before, &self.subset);
        self.views.update(Change { model: &self.subset, touched: &touched, ..change }, to)
    }
}

#[cfg(test)]
mod tests;
