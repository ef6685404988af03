//! Clusters, and the resources that follow others: the endpoints of a cluster, and the virtual hosts of a route configuration.

use std::sync::Arc;
use std::time::Instant;

use super::State;
use crate::protocol::push::Look;
use crate::protocol::subscription::{InFlight, Need, Subscription};
use crate::snapshot::{Resource, ResourceType};

impl State {
    /// Sends clusters ahead of all other types, and delays the removal of clusters that routes still use.
    pub(super) fn push_clusters(&mut self, now: Instant) {
        let kind = ResourceType::CLUSTER;
        if !self.types.contains_key(&kind) {
            self.gates.clusters_sent(&self.newest);
            return;
        }
        let removed: Vec<Arc<str>> = self.types.get(&kind).map_or_else(Vec::new, |clusters| {
            clusters.dirty.keys().filter(|name| self.newest.get(kind, name).is_none()).cloned().collect()
        });
        self.gates.retain_never_accepted(&removed, &self.types, &self.newest);
        let was_sent = |name: &Arc<str>| self.types.get(&kind).is_some_and(|types| types.known(name).sent.exists());
        let gone: Vec<Arc<str>> = removed.into_iter().filter(was_sent).collect();
        self.gates.retain_used(gone.clone(), &self.types, &self.newest, now, self.timing);
        if let Some(clusters) = self.types.get_mut(&kind) {
            gone.iter().filter(|name| self.gates.retains(name)).for_each(|name| clusters.withdraw(name));
        }
        let before = self.nonces;
        self.push(kind, now, |stream, name| match stream.newest.get(kind, name) {
            Some(resource) => Look::Send(resource.clone()),
            None if stream.gates.retains(name) => match stream.rejected_while_in_use(name) {
                Some(old) => Look::ForNow(old),
                None => Look::Wait,
            },
            None => Look::Nothing,
        });
        let Some(clusters) = self.types.get(&kind) else { return };
        if clusters.dirty.keys().all(|name| self.gates.retains(name) || clusters.is_pending(name)) {
            self.gates.clusters_sent(&self.newest);
        }
        if self.nonces != before {
            self.follow_with_endpoints();
        }
    }

    /// Returns the client's version of a retained cluster whose newer version was rejected. Sending this version again also
    /// sends the resources that were rejected with the newer version.
    pub(super) fn rejected_while_in_use(&self, name: &Arc<str>) -> Option<Arc<Resource>> {
        let clusters = self.types.get(&ResourceType::CLUSTER)?;
        let holds = clusters.state_at_client(name);
        let holds = holds.resource()?;
        (clusters.known(name).sent != *holds).then(|| holds.clone())
    }

    /// Sends the endpoints of every cluster that was just sent, even unchanged endpoints, because Envoy warms the
    /// cluster with them.
    pub(super) fn follow_with_endpoints(&mut self) {
        let Some(clusters) = self.types.get(&ResourceType::CLUSTER) else { return };
        let ahead = clusters.is_wildcard();
        let resources = clusters.in_flight.last().into_iter().flat_map(InFlight::resources);
        let names: Vec<Arc<str>> = resources.flat_map(|resource| resource.references().endpoints.to_vec()).collect();
        let Some(endpoints) = self.types.get_mut(&ResourceType::ENDPOINTS) else {
            self.unfollowed.extend(names);
            return;
        };
        for name in names {
            // Envoy accepts endpoints before it subscribes. A client that names its clusters subscribes to each itself.
            if endpoints.covers(&name) || (ahead && self.newest.get(ResourceType::ENDPOINTS, &name).is_some()) {
                endpoints.touch(&name, Need::Again);
            }
        }
    }

    /// Sends the virtual hosts, `<name>/<host>`, of every requested route configuration. Envoy drops them with the route
    /// configuration, and requests them only once on a stream. If there are none, the response reports an absent host:
    /// after an empty response, the listener would warm for 15 s. Source: Envoy VHDS, and its `RdsRouteConfigProvider`.
    pub(super) fn follow_with_virtual_hosts(&mut self) {
        let asked = std::mem::take(&mut self.asked_routes);
        if !self.types.contains_key(&ResourceType::VIRTUAL_HOST) {
            return;
        }
        let names: Vec<Arc<str>> = asked
            .iter()
            .flat_map(|routes| match self.hosts(routes).next() {
                Some(_) => self.hosts(routes).map(|host| host.name().clone()).collect(),
                None => vec![Arc::from(format!("{routes}/none"))],
            })
            .collect();
        let Some(hosts) = self.types.get_mut(&ResourceType::VIRTUAL_HOST) else { return };
        names.iter().for_each(|name| hosts.touch(name, Need::Asked));
    }

    /// Returns the virtual hosts of a route configuration.
    pub(super) fn hosts(&self, routes: &str) -> impl Iterator<Item = &Arc<Resource>> {
        let prefix = format!("{routes}/");
        self.newest.with_prefix(ResourceType::VIRTUAL_HOST, prefix)
    }

    /// Returns the route configurations of the client. A stream for virtual hosts only does not report them, so all
    /// route configurations count.
    pub(super) fn routes_at_client(&self) -> Box<dyn Iterator<Item = Arc<str>> + '_> {
        let kind = ResourceType::ROUTES;
        if !self.aggregated {
            return Box::new(self.newest.all(kind).map(|routes| routes.name().clone()));
        }
        Box::new(self.types.get(&kind).into_iter().flat_map(Subscription::names_sent))
    }

    pub(super) fn has_hosts(&self, routes: &str) -> bool {
        self.hosts(routes).next().is_some()
    }
}
