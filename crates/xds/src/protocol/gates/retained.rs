//! Unused clusters that must not be removed yet, because routes or connections of the client may still use them.

use std::sync::Arc;
use std::time::Instant;

use super::{Gates, Replaced, Retention, Types, accepted};
use crate::protocol::order::{self, Timing};
use crate::protocol::subscription::{ClientState, InFlight, Subscription};
use crate::snapshot::{Resource, ResourceType, Snapshot};

impl Gates {
    /// Retains the `removed` clusters that the client has not accepted, while routes of its snapshot or of `newest`
    /// reference them.
    pub fn retain_never_accepted(&mut self, removed: &[Arc<str>], types: &Types, newest: &Snapshot) {
        let (view, clusters) = (self.routes.as_deref(), types.get(&ResourceType::CLUSTER));
        let leads = |snapshot: &Snapshot, name: &str| {
            order::before().any(|kind| snapshot.leading_to(kind, name).next().is_some())
        };
        let holds_routes = |name: &Arc<str>| {
            let accepted = clusters.is_none_or(|clusters| clusters.known(name).accepted.exists());
            !accepted && (leads(newest, name) || view.is_some_and(|view| leads(view, name)))
        };
        self.never_accepted.retain(&holds_routes);
        self.never_accepted.extend(removed.iter().filter(|name| holds_routes(name)).cloned());
    }

    /// Retains the `gone` clusters that the client's routes use. `gone` is sorted, and contains all clusters of the
    /// client that are no longer served.
    pub fn retain_used(&mut self, gone: Vec<Arc<str>>, types: &Types, newest: &Snapshot, now: Instant, timing: Timing) {
        self.retained.retain(|name, _| gone.binary_search(name).is_ok());
        for name in gone {
            match self.retained.get(&name) {
                // The client does not have a rejected cluster, and would reject it again.
                _ if types
                    .get(&ResourceType::CLUSTER)
                    .is_none_or(|own| !own.state_at_client(&name).exists() && !own.keeps_unknown(&name)) =>
                {
                    self.retained.remove(&name);
                }
                Some(Retention::InUse) => {}
                Some(Retention::Until(time)) if *time > now => {}
                _ if self.in_use(&name, types, newest) => drop(self.retained.insert(name, Retention::InUse)),
                Some(_) => drop(self.retained.insert(name, Retention::Over)),
                None => {
                    let routes = self.last_route_ack.map(|ack| ack + timing.removal_grace);
                    let grace = routes.max(self.draining.get(&name).copied()).filter(|time| *time > now);
                    self.retained.extend(grace.map(|time| (name, Retention::Until(time))));
                }
            }
        }
    }

    /// Returns whether the removal of a cluster is delayed.
    pub fn retains(&self, name: &str) -> bool {
        self.retained.get(name).is_some_and(|retained| *retained != Retention::Over)
    }

    /// Returns whether the removal of no cluster is delayed.
    pub fn retains_nothing(&self) -> bool {
        self.retained.is_empty()
    }

    /// Handles an ACK of listeners or routes. `listeners` contains the previous version of each accepted listener.
    pub fn routes_acked(&mut self, listeners: Vec<Arc<Resource>>, types: &Types, now: Instant, timing: Timing) {
        self.last_route_ack = Some(now);
        for old in listeners {
            let listeners = types.get(&ResourceType::LISTENER);
            let new = listeners.map(|listeners| listeners.known(old.name()).accepted).unwrap_or_default();
            for cluster in old.references().clusters.iter() {
                if !new.resource().is_some_and(|new| new.references().names_cluster(cluster)) {
                    self.draining.insert(cluster.clone(), now + timing.drain);
                }
            }
            let asked = new.resource().map_or([].as_slice(), |new| &new.references().routes);
            let waits_for: Vec<Arc<str>> =
                asked.iter().filter(|name| !accepted(types, ResourceType::ROUTES, name)).cloned().collect();
            if !waits_for.is_empty() {
                self.replaced.push(Replaced { old, waits_for, until: now + timing.gate_timeout });
            }
        }
    }

    /// Starts the grace period of clusters that the client's routes no longer use.
    pub fn start_grace_periods(&mut self, types: &Types, newest: &Snapshot, now: Instant, timing: Timing) {
        self.replaced.retain_mut(|replaced| {
            replaced.waits_for.retain(|name| !accepted(types, ResourceType::ROUTES, name));
            !replaced.waits_for.is_empty()
        });
        let in_use: Vec<Arc<str>> = self
            .retained
            .iter()
            .filter(|(_, retained)| **retained == Retention::InUse)
            .map(|(name, _)| name.clone())
            .collect();
        for name in in_use {
            if !self.in_use(&name, types, newest) {
                let grace = now + timing.removal_grace;
                let until = self.draining.get(&name).map_or(grace, |drained| grace.max(*drained));
                self.retained.insert(name, Retention::Until(until));
            }
        }
    }

    /// Returns whether a route of the client, or a route that may still be sent, references the cluster.
    fn in_use(&self, cluster: &str, types: &Types, newest: &Snapshot) -> bool {
        let may_use = |state: &ClientState| match state {
            ClientState::Resource(resource) => resource.references().names_cluster(cluster),
            // The content of a version from an earlier stream is unknown, so it may reference any cluster.
            ClientState::Version(_) => true,
            ClientState::Unknown | ClientState::Absent => false,
        };
        let of_replaced = |replaced: &Replaced| replaced.old.references().names_cluster(cluster);
        // Routes of an older snapshot may still be sent, because a client may subscribe to them.
        let view = self.routes.as_ref().filter(|view| view.serial() != newest.serial());
        let pending =
            order::before().any(|kind| view.is_some_and(|view| view.leading_to(kind, cluster).next().is_some()));
        pending
            || self.replaced.iter().any(of_replaced)
            || self.awaits_routes(types, newest)
            || types.get(&ResourceType::SCOPED_ROUTES).is_some_and(Subscription::has_unknown_resources)
            || order::before().any(|kind| {
                // A client that has just unsubscribed may subscribe again, so in-flight resources count.
                let under_way = types.get(&kind).into_iter().flat_map(|subscription| &subscription.in_flight);
                under_way.flat_map(InFlight::resources).any(|resource| resource.references().names_cluster(cluster))
            })
            || order::before().filter_map(|kind| types.get(&kind)).any(|subscription| {
                let kind = subscription.kind;
                let reachable = |name: &str| {
                    kind != ResourceType::ROUTES || newest.get(kind, name).is_some() || self.uses_routes(types, name)
                };
                let mut apart = subscription.tracked();
                let mut settled = newest.leading_to(kind, cluster).filter(|r| subscription.has_settled(r.name()));
                settled.any(|r| reachable(r.name()))
                    || apart.any(|(name, known)| (may_use(&known.sent) || may_use(&known.accepted)) && reachable(name))
            })
    }
}
