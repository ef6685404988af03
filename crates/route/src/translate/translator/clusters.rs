//! The clusters that Ingresses look at, and which of them routes lead to.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::ledger::Ledger;
use super::{Translator, set};
use crate::model::{Action, Cluster, ClusterName, Discovery, Touched, VirtualHost};
use crate::objects::{Kind, ObjectKey, Objects};
use crate::parallel;
use crate::translate::backend::{Context, Fault, Located, Made};
use crate::translate::few::beyond;
use crate::translate::{ChangedInputs, endpoints_of};

/// The clusters that Ingresses look at.
#[derive(Debug, Default)]
pub struct Clusters {
    made: BTreeMap<ClusterName, Made>,
    /// How many Ingresses look at each.
    readers: BTreeMap<ClusterName, usize>,
    /// How many virtual hosts lead to each.
    uses: BTreeMap<ClusterName, usize>,
    /// Those that may not be as the model has them.
    changed: BTreeSet<ClusterName>,
    /// Those that lost their last reader, and may have found another since.
    released: BTreeSet<ClusterName>,
}

/// Clusters that were made while an Ingress was read, since they were not known.
pub type NewClusters = BTreeMap<ClusterName, Made>;

impl Clusters {
    /// The body of a 403 if access to the cluster of a port is denied, or why the cluster cannot be built. It is made into
    /// `new` if it is not known.
    pub fn judge(&self, located: &Located, context: Context, new: &mut NewClusters) -> Result<Option<Arc<str>>, Fault> {
        let name = &located.name;
        let made = match self.made.get(name) {
            Some(made) => made,
            None => new.entry(name.clone()).or_insert_with(|| located.make(context)),
        };
        made.cluster.as_ref().map(|_| made.denied.clone()).map_err(|fault| Fault::clone(fault))
    }

    /// Takes in what was made, but for what another Ingress had made before.
    pub fn keep(&mut self, new: NewClusters, ledger: &mut Ledger) {
        for (name, made) in new {
            if let Entry::Vacant(place) = self.made.entry(name) {
                ledger.add(&made.problems);
                self.changed.insert(place.key().clone());
                place.insert(made);
            }
        }
    }

    /// An Ingress that looked at `before` now looks at `now`.
    pub fn read(&mut self, before: &[ClusterName], now: &[ClusterName]) {
        for name in beyond(now, before) {
            *self.readers.entry(name.clone()).or_default() += 1;
        }
        for name in beyond(before, now) {
            if released(&mut self.readers, name) {
                self.released.insert(name.clone());
            }
        }
    }

    /// Those that nobody looks at go. Not before all Ingresses are noted: one that is yet to be noted may have found it.
    pub fn forget_unread(&mut self, ledger: &mut Ledger) {
        for name in std::mem::take(&mut self.released) {
            if !self.readers.contains_key(&name) {
                self.forget(&name, ledger);
            }
        }
    }

    /// A Service has changed: its clusters are made anew by those who look at them.
    pub fn forget_service(&mut self, service: &ObjectKey, ledger: &mut Ledger) {
        for name in names_of(service, &self.made) {
            self.forget(&name, ledger);
        }
    }

    fn forget(&mut self, name: &ClusterName, ledger: &mut Ledger) {
        if let Some(made) = self.made.remove(name) {
            ledger.remove(&made.problems);
            self.changed.insert(name.clone());
        }
    }

    /// The Services whose clusters were made by looking at Namespaces.
    pub fn readers_of_namespaces(&self) -> impl Iterator<Item = ObjectKey> {
        let read = self.made.iter().filter(|(_, made)| made.reads_namespaces);
        read.filter_map(|(name, _)| {
            let mut parts = name.0.split('/');
            Some(ObjectKey::new(parts.next()?, parts.next()?))
        })
    }

    /// A virtual host that led to `before` now leads to `now`.
    pub fn lead(&mut self, before: &BTreeSet<ClusterName>, now: &BTreeSet<ClusterName>) {
        for name in now.difference(before) {
            let uses = self.uses.entry(name.clone()).or_default();
            *uses += 1;
            if *uses == 1 {
                self.changed.insert(name.clone());
            }
        }
        for name in before.difference(now) {
            if released(&mut self.uses, name) {
                self.changed.insert(name.clone());
            }
        }
    }

    /// Those that may not be as the model has them, each as it should be: `None` if no route leads there.
    pub fn take_changed(&mut self) -> Vec<(ClusterName, Option<Arc<Cluster>>)> {
        let changed = std::mem::take(&mut self.changed);
        let now = |name: &ClusterName| {
            self.uses.get(name)?;
            self.made.get(name)?.cluster.clone().ok()
        };
        changed.into_iter().map(|name| (name.clone(), now(&name))).collect()
    }
}

/// Counts down; whether that was the last.
fn released(counts: &mut BTreeMap<ClusterName, usize>, name: &ClusterName) -> bool {
    match counts.get_mut(name) {
        Some(count) if *count > 1 => {
            *count -= 1;
            false
        }
        _ => counts.remove(name).is_some(),
    }
}

/// The clusters of a Service among `clusters`.
pub fn names_of<T>(service: &ObjectKey, clusters: &BTreeMap<ClusterName, T>) -> Vec<ClusterName> {
    let first = ClusterName(format!("{}/{}/", service.namespace, service.name).into());
    let from = clusters.range(first.clone()..).map(|(name, _)| name);
    from.take_while(|name| name.0.starts_with(&*first.0)).cloned().collect()
}

/// The clusters that a virtual host leads to.
pub fn led_to(host: Option<&VirtualHost>) -> BTreeSet<ClusterName> {
    let actions = host.into_iter().flat_map(|host| &host.routes).map(|route| &route.action);
    let forwards = actions.filter_map(|action| match action {
        Action::Forward(forward) => Some(forward),
        Action::RedirectToHttps { .. } | Action::Deny { .. } | Action::Respond { .. } => None,
    });
    forwards.flat_map(|forward| forward.clusters.iter().map(|weighted| weighted.cluster.clone())).collect()
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
        let mut endpoints: BTreeSet<ClusterName> =
            moved.flat_map(|service| names_of(service, &self.model.clusters)).collect();
        for (name, now) in self.clusters.take_changed() {
            let before = self.model.clusters.get(&name);
            if before == now.as_ref() {
                continue;
            }
            let certificate = |cluster: Option<&Arc<Cluster>>| cluster?.client_certificate.clone();
            let secrets = (certificate(before), certificate(now.as_ref()));
            self.use_secret(secrets.0, secrets.1, touched);
            set(&mut self.model.clusters, &name, now);
            touched.clusters.insert(name.clone());
            endpoints.insert(name);
        }
        let endpoints: Vec<ClusterName> = endpoints.into_iter().collect();
        let made = parallel::map(&endpoints, |name| {
            let discovery = self.model.clusters.get(name).map(|cluster| &cluster.discovery);
            (discovery == Some(&Discovery::Eds)).then(|| endpoints_of(objects, name).unwrap_or_default())
        });
        for (name, now) in endpoints.into_iter().zip(made) {
            let (now, problems) = now.map_or((None, Vec::new()), |(endpoints, problems)| (Some(endpoints), problems));
            let problems: Vec<_> = problems.into_iter().map(Arc::new).collect();
            let before = self.endpoint_problems.remove(&name).unwrap_or_default();
            self.ledger.replace(&before, &problems);
            if !problems.is_empty() {
                self.endpoint_problems.insert(name.clone(), problems);
            }
            if self.model.endpoints.get(&name) != now.as_ref() {
                set(&mut self.model.endpoints, &name, now);
                touched.endpoints.insert(name);
            }
        }
    }
}
