//! The clusters that Ingresses look at, and which of them routes lead to.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::ledger::Ledger;
use super::{Translator, set};
use crate::model::{Cluster, ClusterId, Discovery, Route, ServicePortId, Touched};
use crate::objects::{Kind, ObjectKey, Objects};
use crate::parallel;
use crate::translate::backend::{Context, Fault, Located, Made};
use crate::translate::few::beyond;
use crate::translate::{ChangedInputs, endpoints_of};

/// The clusters that Ingresses look at.
#[derive(Debug, Default)]
pub struct Clusters {
    made: BTreeMap<ClusterId, Made>,
    /// How many Ingresses look at each.
    readers: BTreeMap<ClusterId, usize>,
    /// How many routes lead to each.
    uses: BTreeMap<ClusterId, usize>,
    /// Those that may not be as the model has them.
    changed: BTreeSet<ClusterId>,
    /// Those that lost their last reader, and may have found another since.
    released: BTreeSet<ClusterId>,
}

/// Clusters that were made while an Ingress was read, since they were not known.
pub type NewClusters = BTreeMap<ClusterId, Made>;

impl Clusters {
    /// The body of a 403 if access to the cluster of a port is denied, or why the cluster cannot be built. It is made into
    /// `new` if it is not known.
    pub fn judge(&self, located: &Located, context: Context, new: &mut NewClusters) -> Result<Option<Arc<str>>, Fault> {
        let id = &located.cluster;
        let made = match self.made.get(id) {
            Some(made) => made,
            None => new.entry(id.clone()).or_insert_with(|| located.make(context)),
        };
        made.cluster.as_ref().map(|_| made.denied.clone()).map_err(|fault| Fault::clone(fault))
    }

    /// Takes in what was made, but for what another Ingress had made before.
    pub fn keep(&mut self, new: NewClusters, ledger: &mut Ledger) {
        for (id, made) in new {
            if let Entry::Vacant(place) = self.made.entry(id) {
                ledger.add(&made.problems);
                self.changed.insert(place.key().clone());
                place.insert(made);
            }
        }
    }

    /// An Ingress that looked at `before` now looks at `now`.
    pub fn read(&mut self, before: &[ClusterId], now: &[ClusterId]) {
        for id in beyond(now, before) {
            *self.readers.entry(id.clone()).or_default() += 1;
        }
        for id in beyond(before, now) {
            if released(&mut self.readers, id) {
                self.released.insert(id.clone());
            }
        }
    }

    /// Those that nobody looks at go. Not before all Ingresses are noted: one that is yet to be noted may have found it.
    pub fn forget_unread(&mut self, ledger: &mut Ledger) {
        for id in std::mem::take(&mut self.released) {
            if !self.readers.contains_key(&id) {
                self.forget(&id, ledger);
            }
        }
    }

    /// A Service has changed: its clusters are made anew by those who look at them.
    pub fn forget_service(&mut self, service: &ObjectKey, ledger: &mut Ledger) {
        let ids: Vec<ClusterId> = clusters_of(service, &self.made).cloned().collect();
        ids.iter().for_each(|id| self.forget(id, ledger));
    }

    fn forget(&mut self, id: &ClusterId, ledger: &mut Ledger) {
        if let Some(made) = self.made.remove(id) {
            ledger.remove(&made.problems);
            self.changed.insert(id.clone());
        }
    }

    /// The Services whose clusters were made by looking at Namespaces.
    pub fn readers_of_namespaces(&self) -> impl Iterator<Item = ObjectKey> {
        let read = self.made.iter().filter(|(_, made)| made.reads_namespaces);
        read.map(|(id, _)| id.port.service().clone())
    }

    /// Replaces the routes `before` by `now`.
    pub fn lead(&mut self, before: &[Arc<Route>], now: &[Arc<Route>]) {
        for id in led_to(now) {
            let uses = self.uses.entry(id.clone()).or_default();
            *uses += 1;
            if *uses == 1 {
                self.changed.insert(id.clone());
            }
        }
        for id in led_to(before) {
            if released(&mut self.uses, id) {
                self.changed.insert(id.clone());
            }
        }
    }

    /// Those that may not be as the model has them, each as it should be: `None` if no route leads there.
    pub fn take_changed(&mut self) -> Vec<(ClusterId, Option<Arc<Cluster>>)> {
        let changed = std::mem::take(&mut self.changed);
        let now = |id: &ClusterId| {
            self.uses.get(id)?;
            self.made.get(id)?.cluster.clone().ok()
        };
        changed.into_iter().map(|id| (id.clone(), now(&id))).collect()
    }
}

/// Counts down; whether that was the last.
fn released(counts: &mut BTreeMap<ClusterId, usize>, id: &ClusterId) -> bool {
    match counts.get_mut(id) {
        Some(count) if *count > 1 => {
            *count -= 1;
            false
        }
        _ => counts.remove(id).is_some(),
    }
}

/// Returns the clusters of a Service among `clusters`.
fn clusters_of<'a, T>(
    service: &'a ObjectKey,
    clusters: &'a BTreeMap<ClusterId, T>,
) -> impl Iterator<Item = &'a ClusterId> {
    let from = clusters.range(ClusterId::first_of(service.clone())..).map(|(id, _)| id);
    from.take_while(move |id| id.port.service() == service)
}

/// Returns whether a cluster reaches the endpoints of a Service port.
fn has_endpoints(port: &ServicePortId, clusters: &BTreeMap<ClusterId, Arc<Cluster>>) -> bool {
    let from = clusters.range(ClusterId::from(port.clone())..);
    from.take_while(|(id, _)| id.port == *port).any(|(_, cluster)| cluster.discovery == Discovery::Eds)
}

/// Returns the clusters that `routes` lead to, with repetitions.
fn led_to(routes: &[Arc<Route>]) -> impl Iterator<Item = &ClusterId> {
    routes.iter().flat_map(|route| route.action.clusters())
}

impl Translator {
    /// Brings clusters and endpoints up to date.
    pub(super) fn update_clusters(
        &mut self,
        objects: &Objects,
        changed: &ChangedInputs,
        services: &BTreeSet<ObjectKey>,
        touched: &mut Touched,
    ) {
        // A Service is also the origin of its endpoints, and names their port.
        let moved = changed.of_kind(Kind::ENDPOINT_SLICE).chain(services);
        let moved = moved.flat_map(|service| clusters_of(service, &self.model.clusters));
        let mut endpoints: BTreeSet<ServicePortId> = moved.map(|id| id.port.clone()).collect();
        for (id, now) in self.clusters.take_changed() {
            let before = self.model.clusters.get(&id);
            if before == now.as_ref() {
                continue;
            }
            let certificate = |cluster: Option<&Arc<Cluster>>| cluster?.policy.client_certificate.clone();
            let secrets = (certificate(before), certificate(now.as_ref()));
            self.use_secret(secrets.0, secrets.1, touched);
            set(&mut self.model.clusters, &id, now);
            endpoints.insert(id.port.clone());
            touched.clusters.insert(id);
        }
        let endpoints: Vec<ServicePortId> = endpoints.into_iter().collect();
        let made = parallel::map(&endpoints, |port| {
            has_endpoints(port, &self.model.clusters).then(|| endpoints_of(objects, port).unwrap_or_default())
        });
        for (port, now) in endpoints.into_iter().zip(made) {
            let (now, problems) = now.map_or((None, Vec::new()), |(endpoints, problems)| (Some(endpoints), problems));
            let problems: Vec<_> = problems.into_iter().map(Arc::new).collect();
            let before = self.endpoint_problems.remove(&port).unwrap_or_default();
            self.ledger.replace(&before, &problems);
            if !problems.is_empty() {
                self.endpoint_problems.insert(port.clone(), problems);
            }
            if self.model.endpoints.get(&port) != now.as_ref() {
                set(&mut self.model.endpoints, &port, now);
                touched.endpoints.insert(port);
            }
        }
    }
}

#[cfg(test)]
mod tests;
