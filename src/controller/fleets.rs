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
use lockgate_route::model::{ListenerId, Part, Touched};
use lockgate_route::translate::Dedicated;
use lockgate_xds::snapshot::{Changes, Snapshot};

use super::report::Tally;
use crate::fleet::FleetId;

pub use class::{Class, Stores, View};
use publication::Publication;
use views::Views;

/// Called when a client requests a view that does not exist.
pub type Wake = Box<dyn Fn() + Send + Sync>;

/// All fleets: the shared one, and the dedicated fleet of each Gateway that has one.
#[derive(Debug)]
pub struct Fleets {
    fleets: BTreeMap<FleetId, Fleet>,
    stores: Arc<Stores>,
    /// The view of each fleet that always exists.
    primary: View,
    /// The listeners that the shared fleet does not serve.
    dedicated: Arc<Dedicated>,
    /// The number of the newest publication.
    generation: u64,
    /// Whether the resources come from a directory and not from a model.
    is_foreign: bool,
    /// The published resources that the log does not contain yet.
    tally: RefCell<Tally>,
}

/// One fleet.
#[derive(Debug)]
struct Fleet {
    /// The part of the model that its listeners need. `None`: the fleet serves the whole model, without a copy.
    part: Option<Part>,
    views: Views,
}

/// The listeners that move between fleets with a change.
struct Moves<'a> {
    dedicated: &'a Dedicated,
    moved: BTreeSet<ListenerId>,
}

impl Default for Fleets {
    fn default() -> Self {
        Self::shared(View::Envoy, Box::new(|| ()))
    }
}

impl Fleets {
    /// Creates one fleet for all clients. The view `primary` of each fleet always exists. `wake` requests a call of
    /// [`Fleets::update`], even without a change.
    pub fn shared(primary: View, wake: Wake) -> Self {
        let fleet = Fleet { part: None, views: Views::new(primary) };
        let stores = Arc::new(Stores::new([Class::shared(primary)], wake));
        Self {
            fleets: [(FleetId::shared(), fleet)].into(),
            stores,
            primary,
            dedicated: Arc::default(),
            generation: 0,
            is_foreign: false,
            tally: RefCell::default(),
        }
    }

    /// Returns the stores for clients. The loop fills each requested store.
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

    /// Takes the numbers of published resources since the last call.
    pub(super) fn take_tally(&mut self) -> Tally {
        self.tally.take()
    }

    /// Returns whether a requested view was never built.
    pub fn is_incomplete(&self) -> bool {
        self.stores.classes().iter().any(|class| self.stores.newest(class).is_none())
    }

    /// Returns the time at which [`Fleets::update`] has work without a change.
    pub fn due(&self) -> Option<Instant> {
        self.fleets.values().filter_map(|fleet| fleet.views.due()).min()
    }

    /// Publishes a change to all fleets, and builds views that are newly requested or due. `dedicated` are the listeners that
    /// the shared fleet does not serve. Returns the changes of the primary view of the shared fleet.
    pub fn update(&mut self, change: Change<'_>, dedicated: &Arc<Dedicated>, start: Instant) -> Arc<Changes> {
        let moved = self.assign(dedicated);
        if self.is_foreign {
            return Arc::default();
        }
        let is_first = self.newest().is_none();
        let is_changed = change.settings_changed || !change.touched.is_empty() || !moved.is_empty();
        self.generation += u64::from(is_first || is_changed);
        let moves = Moves { dedicated, moved };
        self.publish(start, |fleet, to| fleet.update(change, &moves, to))
    }

    /// Adds and removes fleets. Returns the listeners that move. The streams of a removed fleet end, and its Envoys keep their
    /// configuration until their pods are deleted.
    fn assign(&mut self, dedicated: &Arc<Dedicated>) -> BTreeSet<ListenerId> {
        let mut moved = BTreeSet::new();
        if !Arc::ptr_eq(&self.dedicated, dedicated) {
            let before = std::mem::replace(&mut self.dedicated, dedicated.clone());
            let both = before.listeners.keys().chain(dedicated.listeners.keys());
            moved.extend(both.filter(|id| before.listeners.get(*id) != dedicated.listeners.get(*id)).cloned());
            moved.extend(before.moving.symmetric_difference(&dedicated.moving).cloned());
            moved.extend(before.draining.symmetric_difference(&dedicated.draining).cloned());
            let wanted: BTreeSet<FleetId> = dedicated.fleets.iter().map(FleetId::of_gateway).collect();
            self.fleets.retain(|id, _| *id == FleetId::shared() || wanted.contains(id));
            for id in wanted {
                let new = || Fleet { part: Some(Part::default()), views: Views::new(self.primary) };
                self.fleets.entry(id).or_insert_with(new);
            }
        }
        for class in self.stores.classes().iter().filter(|class| !self.fleets.contains_key(&class.fleet)) {
            self.stores.remove(class);
        }
        for id in self.fleets.keys() {
            self.stores.get_or_create(Class { fleet: id.clone(), view: self.primary });
        }
        moved
    }

    /// Calls `publish` for each fleet. Returns the changes of the shared fleet.
    fn publish(
        &mut self,
        start: Instant,
        mut publish: impl FnMut(&mut Fleet, &Publication<'_>) -> Arc<Changes>,
    ) -> Arc<Changes> {
        let Self { stores, generation, tally, .. } = self;
        let mut of_shared = Arc::default();
        for (id, fleet) in &mut self.fleets {
            let to = Publication { fleet: id, stores, generation: *generation, start, tally };
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
    fn update(&mut self, change: Change<'_>, moves: &Moves<'_>, to: &Publication<'_>) -> Arc<Changes> {
        let all = change.model;
        let Moves { dedicated, moved } = moves;
        let is_shared = *to.fleet == FleetId::shared();
        let is_in = |id: &ListenerId| match dedicated.listeners.get(id) {
            Some(_) if is_shared => dedicated.moving.contains(id) || dedicated.draining.contains(id),
            Some(gateway) => FleetId::of_gateway(gateway) == *to.fleet,
            None => is_shared,
        };
        let none = BTreeSet::new();
        let hidden = if is_shared { &dedicated.draining } else { &none };
        if self.part.is_none() && dedicated.listeners.is_empty() {
            return self.views.update(change, hidden, to);
        }
        let mut touched = change.touched.clone();
        match &mut self.part {
            None => {
                let mut part = Part::default();
                part.update(all, &Touched::all(all), &BTreeSet::new(), is_in);
                touched.extend(part.rest(all));
                self.part = Some(part);
            }
            Some(part) if is_shared && dedicated.listeners.is_empty() => {
                touched.extend(part.rest(all));
                // Some of them were hidden.
                touched.listeners.extend(moved.iter().cloned());
                self.part = None;
            }
            Some(part) if to.newest(self.views.primary()).is_none() => {
                // The listeners of a new fleet may have been in the model for a while.
                let own: BTreeSet<ListenerId> = dedicated.listeners.keys().filter(|id| is_in(id)).cloned().collect();
                touched = part.update(all, &Touched { stats_tls: true, ..touched }, &own, is_in);
            }
            Some(part) => touched = part.update(all, &touched, moved, is_in),
        }
        let model = self.part.as_ref().map_or(all, Part::model);
        self.views.update(Change { model, touched: &touched, ..change }, hidden, to)
    }
}

#[cfg(test)]
mod tests;
