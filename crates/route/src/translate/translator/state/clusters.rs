//! The clusters that sources reference, and the number of their routes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use crate::few::beyond;
use crate::model::{Cluster, ClusterId, Destination, Discovery, Route, ServicePortId};
use crate::objects::{Kind, ObjectKey};
use crate::translate::backend::{BackendFault, BuiltCluster, Context, Located};
use crate::translate::problem::Problem;
use crate::translate::translator::ledger::Ledger;

/// The clusters that sources reference.
#[derive(Debug, Default)]
pub struct Clusters {
    /// The clusters with a reader.
    pub entries: BTreeMap<ClusterId, Entry>,
    /// The clusters whose entry in the model may be outdated.
    changed: BTreeSet<ClusterId>,
    /// The clusters that lost their last reader, and may have gained a new reader since.
    released: BTreeSet<ClusterId>,
    /// The policies of Services whose features some clusters do not have, with the problem of each cluster.
    unmet: BTreeMap<ObjectRef, BTreeMap<ClusterId, Arc<Problem>>>,
    /// The policies for which `unmet` has changed.
    changed_policies: BTreeSet<ObjectRef>,
}

/// A cluster and its users.
#[derive(Debug, Default)]
pub struct Entry {
    /// The cluster. `None` while its Service has changed and no reader has built it again.
    made: Option<BuiltCluster>,
    /// The number of sources that reference it.
    readers: usize,
    /// The number of routes and destinations that use it.
    uses: usize,
}

impl Entry {
    fn is_empty(&self) -> bool {
        let Self { made, readers, uses } = self;
        made.is_none() && (*readers, *uses) == (0, 0)
    }
}

/// New clusters that were built while a source was parsed.
pub type NewClusters = BTreeMap<ClusterId, BuiltCluster>;

impl Clusters {
    /// Returns the body of a 403 if access to the cluster of a port is denied, or the reason why the cluster cannot be
    /// built. A new cluster is built and added to `new`.
    pub fn authorize(
        &self,
        located: &Located,
        context: Context,
        new: &mut NewClusters,
    ) -> Result<Option<Arc<str>>, BackendFault> {
        let id = &located.cluster;
        let made = match self.entries.get(id).and_then(|entry| entry.made.as_ref()) {
            Some(made) => made,
            None => new.entry(id.clone()).or_insert_with(|| located.make(context)),
        };
        made.cluster.as_ref().map(|_| made.denied.clone()).map_err(|fault| BackendFault::clone(fault))
    }

    /// Stores new clusters, except for clusters that already exist.
    pub fn add(&mut self, new: NewClusters, ledger: &mut Ledger) {
        for (id, made) in new {
            let entry = self.entries.entry(id.clone()).or_default();
            if entry.made.is_none() {
                ledger.add(&made.problems);
                for problem in of_policies(&made) {
                    self.unmet.entry(problem.object.clone()).or_default().insert(id.clone(), problem.clone());
                    self.changed_policies.insert(problem.object.clone());
                }
                entry.made = Some(made);
                self.changed.insert(id);
            }
        }
    }

    /// Replaces the references `before` of a source by `now`.
    pub fn read(&mut self, before: &[ClusterId], now: &[ClusterId]) {
        for id in beyond(now, before) {
            self.entries.entry(id.clone()).or_default().readers += 1;
        }
        for id in beyond(before, now) {
            self.change(id, |entry| entry.readers = entry.readers.saturating_sub(1));
            if self.entries.get(id).is_some_and(|entry| entry.readers == 0) {
                self.released.insert(id.clone());
            }
        }
    }

    /// Removes clusters without readers. Call it after all sources are recorded, because a later source may reference a
    /// released cluster.
    pub fn forget_unread(&mut self, ledger: &mut Ledger) {
        for id in std::mem::take(&mut self.released) {
            if self.entries.get(&id).is_some_and(|entry| entry.readers == 0) {
                self.forget(&id, ledger);
            }
        }
    }

    /// Drops the clusters of a changed Service. Their readers build them again.
    pub fn forget_service(&mut self, service: &ObjectKey, ledger: &mut Ledger) {
        let ids: Vec<ClusterId> = clusters_of(service, &self.entries).cloned().collect();
        ids.iter().for_each(|id| self.forget(id, ledger));
    }

    pub fn forget(&mut self, id: &ClusterId, ledger: &mut Ledger) {
        let mut made = None;
        self.change(id, |entry| made = entry.made.take());
        if let Some(made) = made {
            ledger.remove(&made.problems);
            for Problem { object: policy, .. } in of_policies(&made).map(|problem| &**problem) {
                if let Some(clusters) = self.unmet.get_mut(policy) {
                    clusters.remove(id);
                }
                if self.unmet.get(policy).is_some_and(BTreeMap::is_empty) {
                    self.unmet.remove(policy);
                }
                self.changed_policies.insert(policy.clone());
            }
            self.changed.insert(id.clone());
        }
    }

    /// Returns the first problem of a policy whose features the clusters of a Service do not have.
    pub fn unmet(&self, policy: &ObjectRef, service: &ObjectKey) -> Option<&Arc<Problem>> {
        let clusters = self.unmet.get(policy)?;
        let first = clusters_of(service, clusters).next()?;
        clusters.get(first)
    }

    /// Returns the policies for which [`Clusters::unmet`] may have changed.
    pub fn take_changed_policies(&mut self) -> BTreeSet<ObjectRef> {
        std::mem::take(&mut self.changed_policies)
    }

    /// Changes an entry if it exists, and removes it if it is empty afterwards.
    fn change(&mut self, id: &ClusterId, change: impl FnOnce(&mut Entry)) {
        let Some(entry) = self.entries.get_mut(id) else { return };
        change(entry);
        if entry.is_empty() {
            self.entries.remove(id);
        }
    }

    /// Returns the Services whose clusters depend on Namespaces.
    pub fn readers_of_namespaces(&self) -> impl Iterator<Item = ObjectKey> {
        self.services_of(|made| made.reads_namespaces)
    }

    /// Returns the Services whose clusters present the client certificate of the settings.
    pub fn readers_of_client_certificate(&self) -> impl Iterator<Item = ObjectKey> {
        self.services_of(|made| made.reads_client_certificate)
    }

    fn services_of(&self, matches: fn(&BuiltCluster) -> bool) -> impl Iterator<Item = ObjectKey> {
        let found = self.entries.iter().filter(move |(_, entry)| entry.made.as_ref().is_some_and(matches));
        found.map(|(id, _)| id.port.service().clone())
    }

    /// Replaces the routes `before` by `now`.
    pub fn replace_routes(&mut self, before: &[Arc<Route>], now: &[Arc<Route>]) {
        self.replace_uses(led_to(before), led_to(now));
    }

    /// Replaces the destination `before` of connections or datagrams by `now`.
    pub fn connect(&mut self, before: Option<&Destination>, now: Option<&Destination>) {
        let clusters = |to: Option<&'_ Destination>| -> Vec<ClusterId> {
            to.into_iter().flat_map(|to| &to.clusters).map(|one| one.cluster.clone()).collect()
        };
        self.replace_uses(clusters(before).iter(), clusters(now).iter());
    }

    fn replace_uses<'a>(
        &mut self,
        before: impl Iterator<Item = &'a ClusterId>,
        now: impl Iterator<Item = &'a ClusterId>,
    ) {
        for id in now {
            let uses = &mut self.entries.entry(id.clone()).or_default().uses;
            *uses += 1;
            if *uses == 1 {
                self.changed.insert(id.clone());
            }
        }
        for id in before {
            let mut is_last = false;
            self.change(id, |entry| {
                is_last = entry.uses == 1;
                entry.uses = entry.uses.saturating_sub(1);
            });
            if is_last {
                self.changed.insert(id.clone());
            }
        }
    }

    /// Returns the clusters whose entry may be outdated, with their current content. The content is `None` if no route
    /// uses the cluster.
    pub fn take_changed(&mut self) -> Vec<(ClusterId, Option<Arc<Cluster>>)> {
        let changed = std::mem::take(&mut self.changed);
        let now = |id: &ClusterId| {
            let entry = self.entries.get(id).filter(|entry| entry.uses > 0)?;
            entry.made.as_ref()?.cluster.clone().ok()
        };
        changed.into_iter().map(|id| (id.clone(), now(&id))).collect()
    }
}

/// Returns the problems of policies of Services whose features a cluster does not have.
fn of_policies(made: &BuiltCluster) -> impl Iterator<Item = &Arc<Problem>> {
    made.problems.iter().filter(|problem| problem.object.kind == Kind::BACKEND_POLICY.as_str())
}

/// Returns the clusters of a Service among `clusters`.
pub fn clusters_of<'a, T>(
    service: &'a ObjectKey,
    clusters: &'a BTreeMap<ClusterId, T>,
) -> impl Iterator<Item = &'a ClusterId> {
    let from = clusters.range(ClusterId::first_of(service.clone())..).map(|(id, _)| id);
    from.take_while(move |id| id.port.service() == service)
}

/// Returns whether a cluster reaches the endpoints of a Service port.
pub fn has_endpoints(port: &ServicePortId, clusters: &BTreeMap<ClusterId, Arc<Cluster>>) -> bool {
    let from = clusters.range(ClusterId::from(port.clone())..);
    from.take_while(|(id, _)| id.port == *port).any(|(_, cluster)| cluster.discovery == Discovery::Eds)
}

/// Returns the clusters of `routes`, with repetitions.
fn led_to(routes: &[Arc<Route>]) -> impl Iterator<Item = &ClusterId> {
    routes.iter().flat_map(|route| route.clusters())
}
