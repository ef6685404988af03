//! Updates the clusters and the endpoints of the model.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::state::clusters::{clusters_of, has_endpoints};
use super::state::{Translator, set};
use crate::model::{Cluster, SecretId, ServicePortId, Touched};
use crate::objects::{Kind, ObjectKey, Objects};
use crate::parallel;
use crate::settings::Settings;
use crate::translate::ChangedInputs;
use crate::translate::endpoints::{PortShare, endpoints_of, health_check_port};
use crate::translate::envoys::{self, Envoys};

impl Translator {
    /// Updates the addresses and ports of the Envoys. Returns the Services whose endpoints may be concerned.
    ///
    /// The update iterates over the endpoints of all used Services, because Envoys and listeners rarely change.
    fn update_envoys(
        &mut self,
        objects: &Objects,
        settings: &Settings,
        changed: &ChangedInputs,
        touched: &Touched,
    ) -> BTreeSet<ObjectKey> {
        let mut of_services = changed.of_kind(Kind::ENDPOINT_SLICE).chain(changed.of_kind(Kind::SERVICE));
        let concerns = changed.is_everything()
            || !touched.listeners.is_empty()
            || of_services.any(|service| envoys::is_in_namespace_of_envoys(service, settings));
        if !concerns {
            return BTreeSet::new();
        }
        let now = Envoys::new(objects, settings, &self.model);
        if now == self.envoys {
            return BTreeSet::new();
        }
        let before = std::mem::replace(&mut self.envoys, now);
        let services: BTreeSet<&ObjectKey> = self.model.clusters.keys().map(|id| id.port.service()).collect();
        let is_near = |service: &&ObjectKey| {
            before.share_addresses(objects, service) || self.envoys.share_addresses(objects, service)
        };
        services.into_iter().filter(is_near).cloned().collect()
    }

    /// Updates clusters and endpoints.
    pub(super) fn update_clusters(
        &mut self,
        objects: &Objects,
        settings: &Settings,
        changed: &ChangedInputs,
        services: &BTreeSet<ObjectKey>,
        touched: &mut Touched,
    ) {
        let near_envoys = self.update_envoys(objects, settings, changed, touched);
        // A Service is also an origin of its endpoints, and names their port.
        let moved = changed.of_kind(Kind::ENDPOINT_SLICE).chain(services).chain(&near_envoys);
        let moved = moved.flat_map(|service| clusters_of(service, &self.model.clusters));
        let mut endpoints: BTreeSet<ServicePortId> = moved.map(|id| id.port.clone()).collect();
        let mut with_other_ports = BTreeSet::new();
        for (id, now) in self.clusters.take_changed() {
            let before = self.model.clusters.get(&id);
            if before == now.as_ref() {
                continue;
            }
            if before.is_none() || now.is_none() {
                with_other_ports.insert(id.port.service().clone());
            }
            let secrets = |cluster: Option<&Arc<Cluster>>| -> Vec<SecretId> {
                cluster.into_iter().flat_map(|cluster| cluster.policy.secrets()).cloned().collect()
            };
            let (old, new) = (secrets(before), secrets(now.as_ref()));
            new.into_iter().for_each(|secret| self.use_secret(None, Some(secret), touched));
            old.into_iter().for_each(|secret| self.use_secret(Some(secret), None, touched));
            set(&mut self.model.clusters, &id, now);
            endpoints.insert(id.port.clone());
            touched.clusters.insert(id);
        }
        // The used ports of a Service share the limit of endpoints.
        let ports = |service| clusters_of(service, &self.model.clusters).map(|id| id.port.clone());
        endpoints.extend(with_other_ports.iter().flat_map(ports));
        let services: BTreeSet<&ObjectKey> = endpoints.iter().map(ServicePortId::service).collect();
        let is_used = |port: &ServicePortId| has_endpoints(port, &self.model.clusters);
        let used = |service| ports(service).filter(is_used).collect::<BTreeSet<_>>();
        let used: BTreeMap<ObjectKey, BTreeSet<ServicePortId>> =
            services.into_iter().map(|key| (key.clone(), used(key))).collect();
        let endpoints: Vec<ServicePortId> = endpoints.into_iter().collect();
        let made = parallel::map(&endpoints, |port| {
            let used = used.get(port.service()).filter(|used| used.contains(port))?;
            let share = PortShare { used: used.len(), reports: used.first() == Some(port) };
            let (mut made, problems) = endpoints_of(objects, &self.envoys, port, share).unwrap_or_default();
            made.health_check_port = health_check_port(objects, &self.envoys, &self.backend_policies, port, &made);
            Some((made, problems))
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
