//! Different resources for different groups of clients: what is common to all, and what each group has of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Changes, Key, Resource, Store, Update, canonical};

/// A store for each group of clients. A group is served what is common to all groups, and what is its own; of two
/// resources with the same type and name, its own.
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
/// The stores are there to be read. Who changes one by himself has his changes undone, or not, by the next ones here.
#[derive(Debug, Default)]
pub struct Groups {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// What all have, and for clients without a group.
    common: Arc<Store>,
    groups: BTreeMap<String, Group>,
}

#[derive(Debug, Default)]
struct Group {
    store: Arc<Store>,
    /// What it has of its own.
    own: BTreeSet<Key>,
}

impl Groups {
    /// The store of `group`, if anything was ever set in it, or [`Groups::store_or_new`] has made it.
    pub fn store(&self, group: &str) -> Option<Arc<Store>> {
        self.lock().groups.get(group).map(|group| group.store.clone())
    }

    /// The store of `group`, made if there is none. It is served what is common to all once that is published, and
    /// until something of its own or common to all is set, its clients wait: to be told that there is nothing, they
    /// would drop what they have.
    ///
    /// It is kept until it is [removed](Groups::remove), so `group` must not be a name of the client's choosing, unless
    /// you trust your clients not to invent names without end.
    pub fn store_or_new(&self, group: &str) -> Arc<Store> {
        let mut state = self.lock();
        let State { common, groups } = &mut *state;
        let group = groups.entry(group.to_owned()).or_default();
        group.change(common, Update::default());
        group.store.clone()
    }

    /// The store with what is common to all, for clients that belong to no group.
    pub fn common(&self) -> Arc<Store> {
        self.lock().common.clone()
    }

    /// The groups that there are, sorted.
    pub fn names(&self) -> Vec<String> {
        self.lock().groups.keys().cloned().collect()
    }

    /// Sets and removes resources of `group` alone. Where one that is removed hid a common one, that is served again.
    ///
    /// Gives what changed for the clients of the group.
    pub fn update<R: Into<Arc<Resource>>>(&self, group: &str, update: Update<R>) -> Arc<Changes> {
        let mut state = self.lock();
        let State { common, groups } = &mut *state;
        groups.entry(group.to_owned()).or_default().change(common, shared(update))
    }

    /// Makes `resources` all that `group` has of its own.
    pub fn replace<R: Into<Arc<Resource>>>(&self, group: &str, resources: Vec<R>) -> Arc<Changes> {
        let mut state = self.lock();
        let State { common, groups } = &mut *state;
        let group = groups.entry(group.to_owned()).or_default();
        let remove = group.own.iter().cloned().collect();
        group.change(common, shared(Update { set: resources, remove }))
    }

    /// Sets and removes resources of all groups. A group that has one of its own keeps that.
    ///
    /// Gives what changed for clients without a group.
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

    /// Makes `resources` all that is common to all groups.
    pub fn replace_common<R: Into<Arc<Resource>>>(&self, resources: Vec<R>) -> Arc<Changes> {
        let set: Vec<Arc<Resource>> = resources.into_iter().map(Into::into).collect();
        let mut state = self.lock();
        let changes = state.common.replace(set.clone());
        let remove = changes.removed.iter().map(|resource| (resource.kind(), resource.name().clone())).collect();
        state.spread(Update { set, remove });
        changes
    }

    /// Forgets `group` and what it has of its own. The streams of its clients end; they come back, and are served
    /// whatever clients of an unknown group are.
    pub fn remove(&self, group: &str) {
        self.lock().groups.remove(group);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Passes an update of what is common on to the groups.
    fn spread(&mut self, update: Update<Arc<Resource>>) {
        for group in self.groups.values_mut() {
            if group.store.newest().is_none() {
                group.change(&self.common, Update::default());
                continue;
            }
            let set = update.set.iter().filter(|resource| !group.own.contains(&key(resource))).cloned().collect();
            let remove = update.remove.iter().filter(|key| !group.own.contains(*key)).cloned().collect();
            group.store.update(Update { set, remove });
        }
    }
}

impl Group {
    /// Applies an update of what the group has of its own, and with the first one all that is common. What is
    /// published is one change: nobody sees a part of it.
    fn change(&mut self, common: &Store, mut update: Update<Arc<Resource>>) -> Arc<Changes> {
        let gone: Vec<Key> =
            std::mem::take(&mut update.remove).into_iter().filter(|key| self.own.remove(key)).collect();
        self.own.extend(update.set.iter().map(key));
        let common = common.newest();
        for key in gone.into_iter().filter(|key| !self.own.contains(key)) {
            match common.as_ref().and_then(|common| common.get(key.0, &key.1)) {
                Some(resource) => update.set.push(resource.clone()),
                None => update.remove.push(key),
            }
        }
        if self.store.newest().is_none() {
            let common = common.iter().flat_map(|common| common.kinds().flat_map(|kind| common.all(kind)));
            update.set.extend(common.filter(|resource| !self.own.contains(&key(resource))).cloned());
            if update.set.is_empty() {
                return Arc::default();
            }
        }
        self.store.update(update)
    }
}

fn key(resource: &Arc<Resource>) -> Key {
    (resource.kind(), resource.name().clone())
}

/// The same update, of resources that several stores can share, with names as they are kept.
fn shared<R: Into<Arc<Resource>>>(update: Update<R>) -> Update<Arc<Resource>> {
    let remove = update.remove.into_iter().map(|(kind, name)| (kind, canonical(&name).as_ref().into())).collect();
    Update { set: update.set.into_iter().map(Into::into).collect(), remove }
}

#[cfg(test)]
mod tests;
