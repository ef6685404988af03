//! What a name should be at the client now: which level of the world it comes from, and what it waits for.

use std::sync::Arc;

use super::Stream;
use crate::server::message::Variant;
use crate::server::push::Look;
use crate::snapshot::ResourceType;

impl Stream {
    /// Endpoints never overtake a change of their cluster: until that is sent, those of its old form are the right ones.
    pub(super) fn endpoints(&self, name: &Arc<str>) -> Look {
        let kind = ResourceType::ENDPOINTS;
        let Some(clusters) = self.types.get(&ResourceType::CLUSTER) else {
            // A cluster that is gone from the newest snapshot may still serve there, and goes on without an answer. But one
            // that is warming may wait for one for ever, and clusters are asked for after it: hence the limit.
            let may_serve = self.variant == Variant::Sotw && self.newest.clusters_of(name).next().is_none();
            return match Look::at(&self.newest, kind, name) {
                Look::Nothing if may_serve && self.gates.conceals_clusters(&self.types) => Look::Wait,
                look => look,
            };
        };
        let overtaking = self.newest.clusters_of(name).any(|cluster| {
            let wanted = self.newest.get(ResourceType::CLUSTER, cluster);
            clusters.covers(cluster) && wanted.is_some_and(|wanted| clusters.known(cluster).sent != *wanted)
        });
        // Envoy forgets the endpoints of a cluster that goes by itself. For a live one their removal is told at once,
        // although Envoy does not heed it: it ends the warming of a cluster that has none.
        let going = self.newest.clusters_of(name).next().is_none() && self.gates.uses_endpoints(clusters, name);
        let waits = overtaking || (going && self.newest.get(kind, name).is_none());
        if !waits {
            return Look::at(&self.newest, kind, name);
        }
        let sent = self.types.get(&kind).map(|endpoints| endpoints.known(name).sent).unwrap_or_default();
        match sent.resource().or_else(|| self.gates.clusters_view().get(kind, name)) {
            Some(resource) => Look::ForNow(resource.clone()),
            None if sent.exists() => Look::Wait,
            // A cluster that an earlier stream brought is warm: it keeps its endpoints as long as nothing is said.
            None if self.variant == Variant::Sotw && going && self.gates.keeps_warm(clusters, name) => Look::Wait,
            // The client asks, and a cluster may be warming until it has an answer.
            None => Look::at(&self.newest, kind, name),
        }
    }

    /// Listeners and routes lead only where the client has confirmed what lies behind.
    pub(super) fn before_the_gate(&self, kind: ResourceType, name: &Arc<str>) -> Look {
        let Some(view) = self.gates.routes_view() else { return Look::Wait };
        let behind = view.serial() != self.newest.serial();
        let sent = self.types.get(&kind).map(|subscription| subscription.known(name).sent);
        let sent = sent.as_ref().filter(|sent| sent.exists());
        let gone = self.newest.get(kind, name).is_none();
        match view.get(kind, name) {
            // Not worth beginning with. Routes are: a listener of the same view may ask for them.
            Some(_) if gone && sent.is_none() && kind == ResourceType::LISTENER => Look::Nothing,
            Some(resource) if sent.is_some_and(|sent| self.gates.leads_nowhere(resource, sent, &self.types)) => {
                Look::Wait
            }
            Some(resource)
                if kind == ResourceType::VIRTUAL_HOST
                    && sent.is_none()
                    && self.gates.leads_to_suspects(resource, &self.types) =>
            {
                Look::Wait
            }
            Some(resource) if behind => Look::ForNow(resource.clone()),
            Some(resource) => Look::Send(resource.clone()),
            None if behind && !gone => Look::Wait,
            // A listener that is about to go, or to ask for other routes, serves with these until then.
            None if kind == ResourceType::ROUTES
                && sent.is_some()
                && self.gates.hands_over(&self.types, &self.newest, name) =>
            {
                Look::Wait
            }
            None => Look::Nothing,
        }
    }
}
