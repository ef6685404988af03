//! The desired state of a name at the client: the snapshot that it comes from, and the resources that it waits for.

use std::sync::Arc;

use super::State;
use crate::protocol::message::Variant;
use crate::protocol::push::Look;
use crate::snapshot::{Resource, ResourceType};

impl State {
    /// Returns the desired endpoints of a cluster. They never overtake a change of the cluster: until the change is sent,
    /// the client needs the endpoints of the old version.
    pub(super) fn endpoints(&self, name: &Arc<str>) -> Look {
        let kind = ResourceType::ENDPOINTS;
        let Some(clusters) = self.types.get(&ResourceType::CLUSTER) else {
            // A removed cluster may still be in use at the client, and needs no response. A warming cluster may wait for a
            // response forever, and the client requests clusters only afterwards, so this wait is limited.
            let may_serve = self.variant == Variant::Sotw && self.newest.clusters_of(name).next().is_none();
            return match Look::at(&self.newest, kind, name) {
                Look::Nothing if may_serve && self.gates.has_unreported_clusters(&self.types) => Look::Wait,
                look => look,
            };
        };
        let overtaking = self.newest.clusters_of(name).any(|cluster| {
            let wanted = self.newest.get(ResourceType::CLUSTER, cluster);
            clusters.covers(cluster) && wanted.is_some_and(|wanted| clusters.known(cluster).sent != *wanted)
        });
        // Envoy drops the endpoints of a removed cluster itself. For a cluster in use, their removal is sent at once. Envoy
        // ignores it, but it ends the warming of a cluster without endpoints.
        let going = self.newest.clusters_of(name).next().is_none() && self.gates.uses_endpoints(clusters, name);
        let waits = overtaking || (going && self.newest.get(kind, name).is_none());
        if !waits {
            return Look::at(&self.newest, kind, name);
        }
        let sent = self.types.get(&kind).map(|endpoints| endpoints.known(name).sent).unwrap_or_default();
        match sent.resource().or_else(|| self.gates.clusters_view().get(kind, name)) {
            Some(resource) => Look::ForNow(resource.clone()),
            None if sent.exists() => Look::Wait,
            // A cluster from an earlier stream is warm, and keeps its endpoints while there is no response.
            None if self.variant == Variant::Sotw && going && self.gates.retains_user_of(clusters, name) => Look::Wait,
            // The client has requested the endpoints, and a cluster may be warming until they arrive.
            None => Look::at(&self.newest, kind, name),
        }
    }

    /// Returns the desired state of a listener or route. It references only clusters that the client has confirmed.
    pub(super) fn before_the_gate(&self, kind: ResourceType, name: &Arc<str>) -> Look {
        let Some(view) = self.gates.routes_view() else { return Look::Wait };
        let behind = view.serial() != self.newest.serial();
        let sent = self.types.get(&kind).map(|subscription| subscription.known(name).sent);
        let sent = sent.as_ref().filter(|sent| sent.exists());
        let gone = self.newest.get(kind, name).is_none();
        match view.get(kind, name) {
            // A new listener that is already removed is not sent. New routes are sent even then, because a listener may reference them.
            Some(_) if gone && sent.is_none() && kind == ResourceType::LISTENER => Look::Nothing,
            Some(resource)
                if sent.is_some_and(|sent| self.gates.references_unaccepted_cluster(resource, sent, &self.types)) =>
            {
                Look::Wait
            }
            Some(resource)
                if kind == ResourceType::VIRTUAL_HOST
                    && sent.is_none()
                    && self.gates.references_suspects(resource, &self.types) =>
            {
                Look::Wait
            }
            Some(resource) if sent.is_some() && self.precedes_its_conditions(resource) => Look::Wait,
            Some(resource) if behind => Look::ForNow(resource.clone()),
            Some(resource) => Look::Send(resource.clone()),
            None if behind && !gone => Look::Wait,
            // A listener that will be replaced accepts connections with its filters until its successor is warm. Envoy
            // would drop these filters at once. It unsubscribes from their names with the listener.
            None if kind == ResourceType::EXTENSION
                && sent.is_some()
                && self.types.get(&kind).is_some_and(|extensions| extensions.named(name))
                && self.gates.will_drop_extension(&self.types, &self.newest, name) =>
            {
                Look::Keep
            }
            // A listener that is about to be removed, or to reference other routes, uses these until then.
            None if kind == ResourceType::ROUTES
                && sent.is_some()
                && self.gates.will_drop_routes(&self.types, &self.newest, name) =>
            {
                Look::Wait
            }
            None => Look::Nothing,
        }
    }

    /// Returns whether the client lacks a resource that an update of `resource` follows.
    fn precedes_its_conditions(&self, resource: &Resource) -> bool {
        resource.follows().iter().any(|(kind, name)| match self.types.get(kind) {
            Some(listeners) if *kind == ResourceType::LISTENER => listeners.dirty.contains_key(name),
            Some(subscription) => !subscription.known(name).accepted.exists(),
            None => true,
        })
    }
}
