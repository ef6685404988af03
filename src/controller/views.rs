//! The stores that one pass brings up to date, one for each kind of client: Envoys that speak delta, all other Envoys,
//! and gRPC without a proxy.
//!
//! What several may have is one resource that their stores share. A view that nobody has asked for is not made, for it
//! costs what there is: time with each change, and memory. All count the same publications, so that one number says
//! since when something is served, whoever is asked.

mod foreign;
mod pace;
mod served;

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Instant;

use super::report;
use crate::envoy::api_listener;
use crate::envoy::{Builder, Built, Forms};
use crate::model::{ClusterName, Model, Touched};
use crate::settings::Settings;
use crate::snapshot::{Changes, Key, Resource, ResourceType, Snapshot, Update};

use pace::Pace;
pub use served::{Served, View, Wake};

type Changed = Update<Arc<Resource>>;

/// The views, as the loop has them.
#[derive(Debug)]
pub struct Views {
    served: Served,
    /// The number of the newest publication.
    generation: u64,
    builder: Builder,
    /// What of the primary view is in the form of that view alone, but for virtual hosts.
    own: BTreeSet<Key>,
    /// The form by RDS.
    whole: Pace,
    /// What is gone and stays in the view `Whole`, for its routes are stale and may lead there.
    leaving: BTreeSet<Key>,
    /// What gRPC clients have of their own.
    grpc: Pace,
    /// Whether the resources are not made here.
    is_foreign: bool,
}

impl Default for Views {
    fn default() -> Self {
        Self::new(View::Envoy, Box::new(|| ()))
    }
}

impl Views {
    /// Views of which `primary` is there from the beginning. `wake` is called when another is wanted: then
    /// [`Views::update`] is to be called, even if nothing has changed.
    pub fn new(primary: View, wake: Wake) -> Self {
        Self {
            served: Served::new(primary, wake),
            generation: 0,
            builder: Builder::default(),
            own: BTreeSet::new(),
            whole: Pace::default(),
            leaving: BTreeSet::new(),
            grpc: Pace::default(),
            is_foreign: false,
        }
    }

    /// The stores, for those who serve.
    pub fn served(&self) -> Served {
        self.served.clone()
    }

    /// The number of the newest publication.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The newest snapshot of the view that is always there.
    pub fn newest(&self) -> Option<Arc<Snapshot>> {
        self.served.newest(self.served.primary())
    }

    /// When [`Views::update`] has something to do although nothing has changed.
    pub fn due(&self) -> Option<Instant> {
        [&self.whole, &self.grpc].into_iter().filter_map(Pace::due).min()
    }

    /// Makes and publishes what `touched` has changed in `model`, and what is wanted or due besides. What that changed
    /// in the view that is always there.
    pub fn update(
        &mut self,
        model: &Model,
        touched: &Touched,
        settings: &Settings,
        settings_changed: bool,
        start: Instant,
    ) -> Arc<Changes> {
        if self.is_foreign {
            return Arc::default();
        }
        let everything = self.newest().is_none() || settings_changed;
        self.generation += u64::from(everything || !touched.is_empty());
        let [envoy, whole, grpc] = View::ALL.map(|view| self.served.is_wanted(view));
        self.whole.stale |= everything || !touched.http.is_empty() || self.served.newest(View::Whole).is_none();
        self.grpc.stale |= everything || leads_elsewhere(touched) || self.served.newest(View::Grpc).is_none();

        let forms = Forms { vhds: envoy, rds: false };
        let Built { shared, vhds, .. } = self.builder.update(model, touched, settings, settings_changed, forms);
        let mut changes = Arc::default();
        if envoy {
            let is_new = self.served.newest(View::Envoy).is_none();
            if is_new || settings_changed {
                self.own.extend(vhds.set.iter().map(|one| key(one)).filter(|key| key.0 != ResourceType::VIRTUAL_HOST));
            }
            changes = self.publish(View::Envoy, joined(&shared, vhds), true, &changes, start);
        }
        if whole {
            let make = |builder: &mut Builder| {
                let forms = Forms { rds: true, ..forms };
                builder.update(model, &Touched::default(), settings, false, forms).rds
            };
            let of_whole = self.update_whole(&shared, make, &changes, start);
            changes = if self.served.primary() == View::Whole { of_whole } else { changes };
        }
        if grpc {
            self.update_grpc(&shared, model, &changes, start);
        }
        changes
    }

    /// Brings the view `Whole` up to date. While its routes, which `make` makes, are too expensive to be made anew, it is
    /// given all but removals of what they may lead to.
    fn update_whole(
        &mut self,
        shared: &Changed,
        make: impl FnOnce(&mut Builder) -> Changed,
        told: &Changes,
        start: Instant,
    ) -> Arc<Changes> {
        let is_new = self.served.newest(View::Whole).is_none();
        let mut update = match self.newest().filter(|_| is_new) {
            None => Update { set: shared.set.clone(), remove: shared.remove.clone() },
            Some(primary) => {
                let all = primary.kinds().filter(|kind| *kind != ResourceType::VIRTUAL_HOST);
                let all = all.flat_map(|kind| primary.all(kind));
                Update::setting(all.filter(|one| !self.own.contains(&key(one))).cloned().collect())
            }
        };
        for resource in &update.set {
            self.leaving.remove(&key(resource));
        }
        if self.whole.stale && self.whole.may(start) {
            let begun = Instant::now();
            let rds = make(&mut self.builder);
            self.whole.made(begun, Instant::now());
            update = joined(&update, rds);
        }
        if self.whole.stale {
            let (leaving, gone) = update.remove.into_iter().partition(|(kind, _)| LED_TO.contains(kind));
            self.leaving.extend::<Vec<Key>>(leaving);
            update.remove = gone;
        } else {
            update.remove.extend(std::mem::take(&mut self.leaving));
        }
        self.publish(View::Whole, update, !self.whole.stale, told, start)
    }

    /// Brings the view `Grpc` up to date. While it is too expensive to be made anew, it is given endpoints alone.
    fn update_grpc(&mut self, shared: &Changed, model: &Model, told: &Changes, start: Instant) {
        let (begun, previous) = (Instant::now(), self.served.newest(View::Grpc));
        let update = match self.newest().filter(|_| self.grpc.stale && self.grpc.may(start)) {
            Some(primary) => {
                let own = api_listener::resources(model, &previous.unwrap_or_default());
                let common = [ResourceType::CLUSTER, ResourceType::ENDPOINTS].into_iter();
                let common = common.flat_map(|kind| primary.all(kind)).filter(|one| is_shared(one, model));
                let update = self.served.store(View::Grpc).difference_to(common.cloned().chain(own).collect());
                self.grpc.made(begun, Instant::now());
                update
            }
            None => {
                let endpoints = shared.set.iter().filter(|one| one.kind() == ResourceType::ENDPOINTS);
                Update::setting(endpoints.cloned().collect())
            }
        };
        self.publish(View::Grpc, update, !self.grpc.stale, told, start);
    }

    /// Publishes an update of one view; `complete`: with it the view has all of the newest publication. What the log
    /// was `told` is not told again.
    fn publish(&self, view: View, update: Changed, complete: bool, told: &Changes, start: Instant) -> Arc<Changes> {
        let store = self.served.store(view);
        let before = store.newest().map_or(0, |newest| newest.generation());
        let generation = if complete { self.generation } else { before };
        store.publish(update, generation, |changes| {
            report::published(view, &beyond(changes, told), start.elapsed());
        })
    }
}

/// What routes lead to.
const LED_TO: [ResourceType; 2] = [ResourceType::CLUSTER, ResourceType::ENDPOINTS];

/// Whether something is touched besides endpoints and secrets.
fn leads_elsewhere(touched: &Touched) -> bool {
    let Touched { http, https, clusters, endpoints: _, secrets: _ } = touched;
    !http.is_empty() || !https.is_empty() || !clusters.is_empty()
}

/// Whether gRPC clients have this resource just as Envoys do: clusters that gRPC takes, and every load assignment.
fn is_shared(resource: &Resource, model: &Model) -> bool {
    match resource.kind() {
        ResourceType::ENDPOINTS => true,
        ResourceType::CLUSTER => {
            model.clusters.get(&ClusterName(resource.name().clone())).is_some_and(api_listener::is_shared)
        }
        _ => false,
    }
}

/// `update`, and `more`.
fn joined(update: &Changed, more: Changed) -> Changed {
    let (mut set, mut remove) = (update.set.clone(), update.remove.clone());
    set.extend(more.set);
    remove.extend(more.remove);
    Update { set, remove }
}

fn key(resource: &Resource) -> Key {
    (resource.kind(), resource.name().clone())
}

/// What of `changes` is not told already by `told`.
fn beyond(changes: &Changes, told: &Changes) -> Changes {
    let told: HashSet<Key> = told.names().collect();
    let rest = |resources: &[Arc<Resource>]| {
        resources.iter().filter(|resource| !told.contains(&key(resource))).cloned().collect()
    };
    Changes {
        generation: changes.generation,
        added: rest(&changes.added),
        changed: rest(&changes.changed),
        removed: rest(&changes.removed),
    }
}

#[cfg(test)]
mod tests;
