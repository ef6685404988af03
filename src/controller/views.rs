//! The stores that one pass brings up to date, one for each kind of client: Envoys that speak delta, all other Envoys,
//! and gRPC without a proxy.
//!
//! What several may have is one resource that their stores share. A view that nobody has asked for is not made, for it
//! costs what there is: time with each change, and memory. All count the same publications, so that one number says
//! since when something is served, whoever is asked.

mod foreign;
mod pace;
mod served;

use std::cell::RefCell;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Instant;

use lockgate_route::envoy::api_listener;
use lockgate_route::envoy::{Builder, Built, Forms};
use lockgate_route::model::{Model, Touched};
use lockgate_route::settings::{Discovery, Settings};
use lockgate_xds::snapshot::{Changes, Key, Resource, ResourceType, Snapshot, Update};

use super::report::{self, Quota};

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
    /// What is gone and stays where route configurations are whole, for these are stale and may lead there.
    leaving: BTreeSet<Key>,
    /// What gRPC clients have of their own.
    grpc: Pace,
    /// Whether the resources are not made here.
    is_foreign: bool,
    /// The log lines of each namespace.
    pub(super) quota: RefCell<Quota>,
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
            quota: RefCell::default(),
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

    /// Whether a view is wanted that was never made.
    pub fn is_incomplete(&self) -> bool {
        View::ALL.into_iter().any(|view| self.served.is_wanted(view) && self.served.newest(view).is_none())
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
        self.whole.stale |= everything || touched.has_plain_routes(model) || self.served.newest(View::Whole).is_none();
        self.grpc.stale |= everything || leads_elsewhere(touched) || self.served.newest(View::Grpc).is_none();

        let by_host = envoy && settings.routes.discovery != Discovery::Rds;
        // A bucket is a scope that names its routes, and Envoy takes such routes from no file.
        let no_buckets = self.served.primary() == View::Whole;
        let forms = Forms { vhds: by_host, rds: false, no_buckets };
        let Built { shared, vhds, rds } = self.builder.update(model, touched, settings, settings_changed, forms);
        let mut changes = Arc::default();
        if everything {
            let own = vhds.set.iter().map(|one| key(one));
            self.own = own.filter(|(kind, _)| *kind != ResourceType::VIRTUAL_HOST).collect();
        }
        if by_host {
            changes = self.publish(View::Envoy, joined(&shared, vhds), true, &changes, start);
        }
        let whole = [(View::Envoy, envoy && !by_host), (View::Whole, whole)];
        let whole: Vec<View> = whole.into_iter().filter(|(_, wanted)| *wanted).map(|(view, _)| view).collect();
        if !whole.is_empty() {
            self.leaving.extend(rds.remove);
            let rds = (self.whole.stale && self.whole.may(start)).then(|| {
                let begun = Instant::now();
                let forms = Forms { rds: true, ..forms };
                let built = self.builder.update(model, &Touched::default(), settings, false, forms);
                self.whole.made(begun, Instant::now());
                built.rds
            });
            changes = self.update_whole(&whole, &shared, rds, changes, start);
        }
        if grpc {
            self.update_grpc(&shared, model, &changes, start);
        }
        changes
    }

    /// Brings views with whole route configurations up to date, with `rds` if these are made. While they are too
    /// expensive to be made anew, the views are given all but removals of what they may lead to. What that changed in
    /// the view that is always there, if not `told` before.
    fn update_whole(
        &mut self,
        views: &[View],
        shared: &Changed,
        rds: Option<Changed>,
        mut told: Arc<Changes>,
        start: Instant,
    ) -> Arc<Changes> {
        let rds = rds.unwrap_or_default();
        for resource in shared.set.iter().chain(&rds.set) {
            self.leaving.remove(&key(resource));
        }
        let is_led_to = |key: &&Key| self.whole.stale && LED_TO.contains(&key.0);
        self.leaving.extend(shared.remove.iter().filter(is_led_to).cloned().collect::<Vec<_>>());
        for view in views {
            let newest = self.served.newest(*view);
            let mut update = match self.newest().filter(|_| newest.is_none()) {
                None => joined(shared, Update { set: rds.set.clone(), remove: rds.remove.clone() }),
                Some(primary) => {
                    let all = primary.kinds().filter(|kind| *kind != ResourceType::VIRTUAL_HOST);
                    let all = all.flat_map(|kind| primary.all(kind)).filter(|one| !self.own.contains(&key(one)));
                    Update::setting(all.chain(&rds.set).cloned().collect())
                }
            };
            if self.whole.stale {
                update.remove.retain(|key| !self.leaving.contains(key));
            } else {
                update.remove.extend(self.leaving.iter().cloned());
                // Of another setting.
                let hosts = newest.iter().flat_map(|newest| newest.all(ResourceType::VIRTUAL_HOST));
                update.remove.extend(hosts.map(|host| key(host)));
            }
            let changes = self.publish(*view, update, !self.whole.stale, &told, start);
            told = if *view == self.served.primary() { changes } else { told };
        }
        if !self.whole.stale {
            self.leaving.clear();
        }
        told
    }

    /// Brings the view `Grpc` up to date. While it is too expensive to be made anew, it is given endpoints alone.
    fn update_grpc(&mut self, shared: &Changed, model: &Model, told: &Changes, start: Instant) {
        let (begun, previous) = (Instant::now(), self.served.newest(View::Grpc));
        let update = match self.newest().filter(|_| self.grpc.stale && self.grpc.may(start)) {
            Some(primary) => {
                let own = api_listener::resources(model, &previous.unwrap_or_default());
                let clusters = api_listener::shared_clusters(model);
                let clusters = clusters.filter_map(|name| primary.get(ResourceType::CLUSTER, &name));
                let common = clusters.chain(primary.all(ResourceType::ENDPOINTS));
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
            report::published(view, &beyond(changes, told), start.elapsed(), &mut self.quota.borrow_mut());
        })
    }
}

/// What routes lead to.
const LED_TO: [ResourceType; 2] = [ResourceType::CLUSTER, ResourceType::ENDPOINTS];

/// Whether something is touched that leads to clusters.
fn leads_elsewhere(touched: &Touched) -> bool {
    touched.has_routes() || !touched.clusters.is_empty()
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
