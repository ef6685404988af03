//! The acceptance of objects by the Envoys of this replica.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockgate_route::objects::{Kept, Kind, ObjectKey};
use lockgate_xds::server::{Acceptance, Registry};
use lockgate_xds::snapshot::{Resource, Store};
use tokio::sync::watch;

use super::{Reached, WantedObject};
use crate::fleet::FleetId;
use crate::inspection::{Inspection, Published};

/// The acceptance of objects by the Envoys of this replica.
#[derive(Debug, Clone)]
pub struct Here {
    registry: Arc<Registry>,
    stores: FleetStores,
    inspected: watch::Receiver<Arc<Inspection>>,
}

impl Here {
    /// Combines the streams of `registry`, whose stores are published together, with the objects in `inspected`. `stores`
    /// returns the stores of each fleet.
    pub fn new(
        registry: Arc<Registry>,
        stores: impl Fn() -> BTreeMap<FleetId, Vec<Arc<Store>>> + Send + Sync + 'static,
        inspected: watch::Receiver<Arc<Inspection>>,
    ) -> Self {
        Self { registry, stores: FleetStores(Arc::new(stores)), inspected }
    }

    /// Returns the progress of the Envoys with each of `wanted`. No Envoy has accepted an object that this replica does
    /// not know.
    pub fn reached(&self, wanted: &[WantedObject]) -> Reached {
        let inspection = self.inspected.borrow().clone();
        if !inspection.complete {
            return Reached::nobody(wanted.len());
        }
        let mut fleets: BTreeSet<FleetId> = wanted.iter().flat_map(fleets_of).collect();
        fleets.insert(FleetId::shared());
        let stores = (self.stores.0)();
        let acceptance = |fleet: FleetId| {
            let of_fleet = stores.get(&fleet).map_or(&[][..], Vec::as_slice);
            let is_in = |store: Option<&Arc<Store>>| {
                // Without dedicated fleets, no lookup of the stream is necessary.
                stores.len() <= 1 && fleet == FleetId::shared()
                    || store.is_some_and(|store| of_fleet.iter().any(|one| Arc::ptr_eq(one, store)))
            };
            let acceptance = self.registry.acceptance(|node, store| node.is_envoy() && is_in(store));
            (fleet, acceptance)
        };
        let fleets: BTreeMap<FleetId, Acceptance> = fleets.into_iter().map(acceptance).collect();
        let of_object = |wanted: &WantedObject| {
            let of = |fleet: FleetId| fleets.get(&fleet);
            let acceptances: Vec<&Acceptance> = fleets_of(wanted).into_iter().filter_map(of).collect();
            let expected: usize = acceptances.iter().map(|acceptance| acceptance.clients.len()).sum();
            let Some(kind) = Kind::of_resource(&wanted.resource) else { return (0, expected) };
            let key = ObjectKey::new(&wanted.namespace, &wanted.name);
            let known = inspection.published(kind, &key).filter(|known| is(known, wanted));
            let by = |known: &Published| {
                acceptances.iter().map(|acceptance| accepted(acceptance, known.since, kind, &key)).sum()
            };
            (known.map_or(0, by), expected)
        };
        let (accepted, expected) = wanted.iter().map(of_object).unzip();
        let envoys = fleets.get(&FleetId::shared()).map_or(0, |acceptance| acceptance.clients.len());
        Reached { envoys, accepted, expected }
    }

    /// Returns the progress of each Envoy of this replica, by node ID.
    pub fn envoys(&self) -> Vec<EnvoyProgress> {
        let Acceptance { clients, mut rejected } = self.registry.acceptance(|node, _| node.is_envoy());
        let progress = |(id, answered): (String, Option<u64>)| {
            let rejected = rejected.remove(&id).unwrap_or_default();
            EnvoyProgress { id, answered, rejected }
        };
        clients.into_iter().map(progress).collect()
    }

    /// Returns the last good content of Secrets that this replica serves.
    pub(super) fn kept(&self) -> Arc<[Kept]> {
        self.inspected.borrow().kept.clone()
    }

    /// Returns a notifier of possible changes of [`Here::reached`]. Create it before the first call, and drop it after the last
    /// call.
    pub fn changes(&self) -> Changes {
        Changes { progress: self.registry.progress(), inspected: self.inspected.clone() }
    }
}

/// The stores of each fleet, determined when they are needed.
#[derive(Clone)]
struct FleetStores(Arc<dyn Fn() -> BTreeMap<FleetId, Vec<Arc<Store>>> + Send + Sync>);

impl std::fmt::Debug for FleetStores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FleetStores")
    }
}

/// Returns the fleets of a wanted object.
fn fleets_of(wanted: &WantedObject) -> Vec<FleetId> {
    match wanted.fleets.as_slice() {
        [] => vec![FleetId::shared()],
        fleets => fleets.iter().map(|name| FleetId::new(name)).collect(),
    }
}

/// The progress of one Envoy.
#[derive(Debug, Clone)]
pub struct EnvoyProgress {
    /// The node ID.
    pub id: String,
    /// The publication up to which the Envoy has answered all responses. `None`: it does not have its first configuration.
    pub answered: Option<u64>,
    /// The resources that the Envoy has not accepted in their current version.
    pub rejected: Vec<Arc<Resource>>,
}

/// Returns whether `known` is the wanted object in the wanted revision. Another replica may ask for a revision that this replica
/// does not serve yet.
fn is(known: &Published, wanted: &WantedObject) -> bool {
    known.served && *known.uid == *wanted.uid && known.revision == wanted.revision
}

/// Returns the number of Envoys that have answered publication number `since` and rejected no resource of the object.
fn accepted(acceptance: &Acceptance, since: u64, kind: Kind, key: &ObjectKey) -> usize {
    let is_in = |resource: &Arc<Resource>| {
        let mut origins = resource.origins().iter().filter(|origin| origin.kind == kind.as_str());
        origins.any(|origin| origin.namespace == key.namespace && origin.name == key.name)
    };
    let but = acceptance.rejected.iter();
    let but = but.filter(|(client, all)| acceptance.has_answered(client, since) && all.iter().any(is_in));
    acceptance.answered(since) - but.count()
}

/// A notifier of changes of this replica.
#[derive(Debug)]
pub struct Changes {
    progress: watch::Receiver<()>,
    inspected: watch::Receiver<Arc<Inspection>>,
}

impl Changes {
    /// Waits for the next change, or forever if no change is possible.
    pub async fn next(&mut self) {
        let changed = tokio::select! {
            changed = self.progress.changed() => changed,
            changed = self.inspected.changed() => changed,
        };
        if changed.is_err() {
            std::future::pending().await
        }
    }
}
