//! Groups of clients: resources that all groups share, and resources of one group.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Changes, Key, Resource, Store, StoreMap, Update, canonical};

/// The stores of all groups of clients. A group receives the common resources and its own. Group-specific resources take
/// precedence over common resources with the same type and name.
///
/// ```
/// use std::sync::Arc;
/// use lockgate_xds::snapshot::{Groups, Resource, ResourceType, Update};
/// use envoy_types::pb::envoy::config::cluster::v3::Cluster;
///
/// let cluster = |name: &str| Resource::new(name, &Cluster { name: name.to_owned(), ..Cluster::default() }, vec![]);
/// let groups = Groups::default();
/// groups.update_common(Update::setting(vec![cluster("logs")]));
/// groups.update("edge", Update::setting(vec![cluster("shop")]));
///
/// let served = |store: Arc<lockgate_xds::snapshot::Store>| store.newest().map(|all| all.len(ResourceType::CLUSTER));
/// assert_eq!(groups.store("edge").and_then(served), Some(2));
/// assert_eq!(served(groups.common()), Some(1));
/// assert!(groups.store("unheard of").is_none());
/// ```
///
/// Only read these stores. `Groups` may overwrite changes that are made directly in a store. A program that computes the
/// complete content of each store uses a [`StoreMap`] instead.
#[derive(Debug, Default)]
pub struct Groups {
    stores: StoreMap<String>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The store with the common resources, which also serves clients without a group.
    common: Arc<Store>,
    groups: BTreeMap<String, Group>,
}

#[derive(Debug)]
struct Group {
    store: Arc<Store>,
    /// The group-specific resources.
    own: BTreeSet<Key>,
}

impl Groups {
    /// Returns the store of `group`, if the group ever had resources, or [`Groups::store_or_new`] has created it.
    pub fn store(&self, group: &str) -> Option<Arc<Store>> {
        self.stores.get(group)
    }

    /// Returns the store of `group`, which is created if necessary. It contains the common resources once they are published.
    /// Until common or group-specific resources are set, its clients wait, because an empty response would delete their
    /// configuration.
    ///
    /// The store exists until it is [removed](Groups::remove). Do not use names that untrusted clients choose, because they
    /// could create any number of stores.
    pub fn store_or_new(&self, group: &str) -> Arc<Store> {
        self.edit(group, |common, group| {
            group.change(common, Update::default());
            group.store.clone()
        })
    }

    /// Returns the store with the common resources, for clients without a group.
    pub fn common(&self) -> Arc<Store> {
        self.lock().common.clone()
    }

    /// Returns the names of all groups, sorted.
    pub fn names(&self) -> Vec<String> {
        self.stores.classes()
    }

    /// Sets and removes resources of `group`. If a removed resource had hidden a common one, the common one is served again.
    ///
    /// Returns the changes for the clients of the group.
    pub fn update<R: Into<Arc<Resource>>>(&self, group: &str, update: Update<R>) -> Arc<Changes> {
        self.edit(group, |common, group| group.change(common, shared(update)))
    }

    /// Replaces all group-specific resources of `group` by `resources`.
    pub fn replace<R: Into<Arc<Resource>>>(&self, group: &str, resources: Vec<R>) -> Arc<Changes> {
        self.edit(group, |common, group| {
            let remove = group.own.iter().cloned().collect();
            group.change(common, shared(Update { set: resources, remove }))
        })
    }

    /// Sets and removes common resources. Group-specific resources with the same names stay in effect.
    ///
    /// Returns the changes for clients without a group.
    pub fn update_common<R: Into<Arc<Resource>>>(&self, update: Update<R>) -> Arc<Changes> {
        let update = shared(update);
        let mut state = self.lock();
        if update.set.is_empty() && state.common.newest().is_none() {
            return Arc::default();
        }
        let changes = state.common.update(Update { set: update.set.clone(), remove: update.remove.clone() });
        state.spread(update);
        changes
    }

    /// Replaces all common resources by `resources`.
    pub fn replace_common<R: Into<Arc<Resource>>>(&self, resources: Vec<R>) -> Arc<Changes> {
        let set: Vec<Arc<Resource>> = resources.into_iter().map(Into::into).collect();
        let mut state = self.lock();
        let changes = state.common.replace(set.clone());
        let remove = changes.removed.iter().map(|resource| resource.key()).collect();
        state.spread(Update { set, remove });
        changes
    }

    /// Removes `group` and its resources. The streams of its clients end. When the clients reconnect, they belong to an unknown
    /// group.
    pub fn remove(&self, group: &str) {
        let mut state = self.lock();
        state.groups.remove(group);
        self.stores.remove(group);
    }

    /// Calls `edit` with the common resources and a group, which is created if necessary.
    fn edit<T>(&self, group: &str, edit: impl FnOnce(&Store, &mut Group) -> T) -> T {
        let mut state = self.lock();
        let State { common, groups } = &mut *state;
        let create = |name: &String| Group { store: self.stores.get_or_create(name.clone()), own: BTreeSet::new() };
        edit(common, groups.entry(group.to_owned()).or_insert_with_key(create))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Applies an update of the common resources to all groups.
    fn spread(&mut self, update: Update<Arc<Resource>>) {
        for group in self.groups.values_mut() {
            if group.store.newest().is_none() {
                group.change(&self.common, Update::default());
                continue;
            }
            let set = update.set.iter().filter(|resource| !group.own.contains(&resource.key())).cloned().collect();
            let remove = update.remove.iter().filter(|key| !group.own.contains(*key)).cloned().collect();
            group.store.update(Update { set, remove });
        }
    }
}

impl Group {
    /// Applies an update of the group-specific resources. The first update also adds all common resources. The update is
    /// published atomically.
    fn change(&mut self, common: &Store, mut update: Update<Arc<Resource>>) -> Arc<Changes> {
        let gone: Vec<Key> =
            std::mem::take(&mut update.remove).into_iter().filter(|key| self.own.remove(key)).collect();
        self.own.extend(update.set.iter().map(|resource| resource.key()));
        let common = common.newest();
        for key in gone.into_iter().filter(|key| !self.own.contains(key)) {
            match common.as_ref().and_then(|common| common.get(key.0, &key.1)) {
                Some(resource) => update.set.push(resource.clone()),
                None => update.remove.push(key),
            }
        }
        if self.store.newest().is_none() {
            let common = common.iter().flat_map(|common| common.kinds().flat_map(|kind| common.all(kind)));
            update.set.extend(common.filter(|resource| !self.own.contains(&resource.key())).cloned());
            if update.set.is_empty() {
                return Arc::default();
            }
        }
        self.store.update(update)
    }
}

/// Converts an update to shared resources and canonical names.
fn shared<R: Into<Arc<Resource>>>(update: Update<R>) -> Update<Arc<Resource>> {
    let remove = update.remove.into_iter().map(|(kind, name)| (kind, canonical(&name).as_ref().into())).collect();
    Update { set: update.set.into_iter().map(Into::into).collect(), remove }
}

#[cfg(test)]
mod tests;
