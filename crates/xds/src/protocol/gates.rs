//! The gates of one stream: the snapshot that routes may come from, and the unused clusters that must not be removed
//! yet.

mod retained;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use super::message::{Node, Request};
use super::order::{self, Timing};
use super::subscription::{ClientState, InFlight, Subscription};
use crate::snapshot::{Resource, ResourceType, Snapshot};

type Types = BTreeMap<ResourceType, Subscription>;

/// The gates of one stream.
#[derive(Debug)]
pub(super) struct Gates {
    /// The last snapshot whose clusters were sent.
    clusters: Arc<Snapshot>,
    /// The last snapshot whose clusters the client has accepted. Listeners and routes come from it.
    routes: Option<Arc<Snapshot>>,
    /// Whether the client has resources of an earlier stream.
    reconnected: bool,
    /// The deadline for a returning Envoy to report its resources. It subscribes to one type after the other.
    reports_until: Option<Instant>,
    /// The deadline for the subscriptions that a returning Envoy opens without waiting for a response.
    subscribes_until: Option<Instant>,
    /// The deadline for a returning Envoy to warm its clusters, if its requests indicate warming clusters.
    warms_until: Option<Instant>,
    /// Removed clusters that the client's routes may still use.
    retained: BTreeMap<Arc<str>, Retention>,
    /// Replaced listeners whose successor still waits for its routes. Envoy serves the old listener during that time.
    replaced: Vec<Replaced>,
    /// Clusters that a listener no longer references, and the time at which its old connections have drained.
    draining: BTreeMap<Arc<str>, Instant>,
    /// Clusters that were removed before the client accepted them, while an unsent route references them.
    never_accepted: BTreeSet<Arc<str>>,
    last_route_ack: Option<Instant>,
}

#[derive(Debug, PartialEq)]
enum Retention {
    InUse,
    Until(Instant),
    /// The grace period is over.
    Over,
}

#[derive(Debug)]
struct Replaced {
    old: Arc<Resource>,
    waits_for: Vec<Arc<str>>,
    until: Instant,
}

impl Gates {
    pub fn new(snapshot: Arc<Snapshot>) -> Self {
        Self {
            clusters: snapshot,
            routes: None,
            reconnected: false,
            reports_until: None,
            subscribes_until: None,
            warms_until: None,
            retained: BTreeMap::new(),
            replaced: Vec::new(),
            draining: BTreeMap::new(),
            never_accepted: BTreeSet::new(),
            last_route_ack: None,
        }
    }

    /// Detects a returning client by the first request for a type.
    pub fn on_first_request(&mut self, node: &Node, request: &Request, types: &Types, now: Instant, timing: Timing) {
        if self.reconnected || (request.version.is_empty() && request.initial_versions.is_empty()) {
            return;
        }
        self.reconnected = true;
        if node.is_envoy() {
            self.reports_until = Some(now + timing.gate_timeout);
            self.subscribes_until = Some(now + timing.first_requests());
            self.warms_until = Some(now + timing.warm_up());
        }
        if !order::before().any(|kind| types.get(&kind).is_some_and(|routes| !routes.last_nonce.is_empty())) {
            self.routes = None;
        }
    }

    /// Returns the last snapshot whose clusters were sent.
    pub fn clusters_view(&self) -> &Snapshot {
        &self.clusters
    }

    /// Returns the snapshot that listeners and routes come from, or `None` while a returning client has yet to confirm
    /// its clusters.
    pub fn routes_view(&self) -> Option<&Arc<Snapshot>> {
        self.routes.as_ref()
    }

    /// Records that all clusters of `snapshot` have been sent.
    pub fn clusters_sent(&mut self, snapshot: &Arc<Snapshot>) {
        if !Arc::ptr_eq(&self.clusters, snapshot) {
            self.clusters = snapshot.clone();
        }
    }

    /// Advances the snapshot of the routes to the snapshot of the clusters, if the client has accepted the clusters.
    pub fn advance_routes(&mut self, types: &Types) {
        match &self.routes {
            None if self.reconnected && (self.awaits_clusters(types) || !open(types)) => {}
            // A starting client has no routes that could break, so its requests are answered in any order.
            None => self.routes = Some(self.clusters.clone()),
            Some(_) => self.advance_existing_routes(types),
        }
    }

    /// Advances the snapshot of the routes, unless there is none yet.
    pub fn advance_existing_routes(&mut self, types: &Types) {
        let higher = self.routes.as_ref().is_some_and(|routes| !Arc::ptr_eq(routes, &self.clusters));
        if higher && open(types) {
            self.routes = Some(self.clusters.clone());
        }
    }

    /// Handles the first request for clusters. A returning Envoy sends it when its clusters are warm; its routes follow.
    pub fn on_first_cluster_request(&mut self, now: Instant, timing: Timing) {
        if self.warms_until.take().is_some() {
            self.reports_until = Some(now + timing.gate_timeout);
        }
    }

    /// Returns whether a returning Envoy may still open subscriptions without waiting for a response.
    pub fn awaits_first_requests(&self) -> bool {
        self.subscribes_until.is_some()
    }

    /// Returns whether a returning Envoy has yet to subscribe to clusters. It may have clusters that are not served.
    pub fn has_unreported_clusters(&self, types: &Types) -> bool {
        self.warms_until.is_some() && !types.contains_key(&ResourceType::CLUSTER)
    }

    /// Returns whether routes could send a returning Envoy to clusters that it may not have yet. An Envoy with warming
    /// clusters requests their endpoints and secrets, and requests clusters only when they are warm. An Envoy with clusters
    /// from another source requests neither. Clusters that are not served belong to that other source.
    fn awaits_clusters(&self, types: &Types) -> bool {
        let with_secrets = order::before().chain([ResourceType::LISTENER]);
        let secrets_of_others = || {
            let mut others = with_secrets.flat_map(|kind| self.clusters.all(kind));
            others.any(|resource| !resource.references().secrets.is_empty())
        };
        let seems_to_warm = types.contains_key(&ResourceType::ENDPOINTS)
            || (types.contains_key(&ResourceType::SECRET) && !secrets_of_others());
        let waits = self.subscribes_until.is_some() || seems_to_warm;
        let is_served = |cluster: &Arc<str>| self.clusters.get(ResourceType::CLUSTER, cluster).is_some();
        let mut routes = order::before().flat_map(|kind| self.clusters.all(kind));
        self.has_unreported_clusters(types)
            && waits
            && routes.any(|resource| resource.references().clusters.iter().any(is_served))
    }

    /// Returns the time of the next removal or timeout.
    pub fn deadline(&self) -> Option<Instant> {
        let removals = self.retained.values().filter_map(|retained| match retained {
            Retention::Until(time) => Some(*time),
            Retention::InUse | Retention::Over => None,
        });
        removals
            .chain(self.replaced.iter().map(|replaced| replaced.until))
            .chain(self.reports_until)
            .chain(self.subscribes_until)
            .chain(self.warms_until)
            .min()
    }

    /// Ends the waits whose deadline has passed.
    pub fn on_time(&mut self, now: Instant) {
        self.reports_until = self.reports_until.filter(|limit| *limit > now);
        self.subscribes_until = self.subscribes_until.filter(|limit| *limit > now);
        self.warms_until = self.warms_until.filter(|limit| *limit > now);
        self.replaced.retain(|replaced| replaced.until > now);
        self.draining.retain(|_, until| *until > now);
    }

    /// Returns whether `resource` references a cluster that was sent but never accepted, and `sent`, the client's current
    /// version, does not. A listener also references the clusters of its new route configurations and discovered filters. A
    /// cluster that was removed after its rejection counts as never accepted. A cluster that was never served belongs to the
    /// client.
    pub fn references_unaccepted_cluster(&self, resource: &Resource, sent: &ClientState, types: &Types) -> bool {
        let (view, sent) = (self.routes.as_ref(), sent.resource());
        let (new, old) = (resource.references(), sent.map(|sent| sent.references()));
        let through = |kind: ResourceType, name: &Arc<str>| view.and_then(|view| view.get(kind, name));
        let leads_to = |cluster: &str| {
            let routes = new.routes.iter().filter(|name| !old.is_some_and(|old| old.names_routes(name)));
            let routes = routes.filter_map(|name| through(ResourceType::ROUTES, name));
            let filters = new.extensions.iter().filter(|name| !old.is_some_and(|old| old.names_extension(name)));
            let filters = filters.filter_map(|name| through(ResourceType::EXTENSION, name));
            new.names_cluster(cluster) && !old.is_some_and(|old| old.names_cluster(cluster))
                || routes.chain(filters).any(|one| one.references().names_cluster(cluster))
        };
        self.never_accepted.iter().any(|cluster| leads_to(cluster))
            || types.get(&ResourceType::CLUSTER).is_some_and(|clusters| clusters.has_unaccepted(leads_to))
    }

    /// Returns whether `resource` references a cluster that the client does not have, and that isolation may still accept.
    pub fn references_suspects(&self, resource: &Resource, types: &Types) -> bool {
        let Some(clusters) = types.get(&ResourceType::CLUSTER) else { return false };
        let is_suspect = |name: &Arc<str>| clusters.is_pending(name) && !clusters.known(name).accepted.exists();
        resource.references().clusters.iter().any(is_suspect)
    }

    /// Returns whether a listener of the client references the route configuration `name`.
    pub fn uses_routes(&self, types: &Types, name: &str) -> bool {
        types.get(&ResourceType::LISTENER).is_none_or(|listeners| {
            at_client(listeners)
                .chain(self.replaced.iter().map(|r| &r.old))
                .any(|listener| listener.references().names_routes(name))
        })
    }

    /// Returns whether a listener of the client references the route configuration `name` now, but not in `newest`.
    pub fn will_drop_routes(&self, types: &Types, newest: &Snapshot, name: &str) -> bool {
        let now = types.get(&ResourceType::LISTENER).into_iter().flat_map(at_client);
        let mut leaving = now.filter(|listener| {
            !newest
                .get(ResourceType::LISTENER, listener.name())
                .is_some_and(|next| next.references().names_routes(name))
        });
        leaving.any(|listener| listener.references().names_routes(name))
            || self.replaced.iter().any(|replaced| replaced.old.references().names_routes(name))
    }

    /// Returns whether a listener of the client has, or may have, the discovered filter `name`, and no listener of `newest` has
    /// it. The content of listeners from an earlier stream is unknown.
    pub fn will_drop_extension(&self, types: &Types, newest: &Snapshot, name: &str) -> bool {
        let names = |listener: &Arc<Resource>| listener.references().names_extension(name);
        let is_unknown = |state: &ClientState| matches!(state, ClientState::Version(_));
        let may_name = |listeners: &Subscription| {
            at_client(listeners).any(names)
                || listeners.tracked().any(|(_, known)| is_unknown(&known.sent) || is_unknown(&known.accepted))
        };
        !newest.all(ResourceType::LISTENER).any(names) && types.get(&ResourceType::LISTENER).is_none_or(may_name)
    }

    /// Returns whether a cluster that is being removed still uses the endpoints `name`.
    pub fn uses_endpoints(&self, clusters: &Subscription, name: &str) -> bool {
        let may_use = |state: &ClientState| match state {
            ClientState::Resource(cluster) => cluster.references().endpoints.iter().any(|used| **used == *name),
            ClientState::Version(_) => true,
            ClientState::Unknown | ClientState::Absent => false,
        };
        let going = clusters.in_flight.iter().any(|response| !response.is_empty());
        going || self.retained.keys().any(|cluster| may_use(&clusters.known(cluster).sent))
    }

    /// Returns whether an accepted cluster that is being removed uses the endpoints `name`.
    pub fn retains_user_of(&self, clusters: &Subscription, name: &str) -> bool {
        self.retained.keys().map(|cluster| clusters.known(cluster)).any(|known| {
            let uses = |cluster: &Arc<Resource>| cluster.references().endpoints.iter().any(|used| **used == *name);
            known.accepted == known.sent && known.sent.resource().is_some_and(uses)
        })
    }

    /// Returns whether the client has accepted all route configurations, and all discovered filters, that its listeners
    /// reference.
    pub fn has_routes_of_its_listeners(&self, types: &Types) -> bool {
        let mut listeners = types.get(&ResourceType::LISTENER).into_iter().flat_map(at_client);
        let served = |name: &str| self.clusters.get(ResourceType::EXTENSION, name).is_some();
        listeners.all(|listener| {
            let mut extensions = listener.references().extensions.iter().filter(|name| served(name));
            listener.references().routes.iter().all(|name| accepted(types, ResourceType::ROUTES, name))
                && extensions.all(|name| accepted(types, ResourceType::EXTENSION, name))
        })
    }

    /// Returns whether a returning Envoy has yet to report its listeners, routes, and scopes. A listener without its routes is
    /// not in use: Envoy may still serve an older one, which it does not report.
    fn awaits_routes(&self, types: &Types, newest: &Snapshot) -> bool {
        let unreported_scopes =
            || newest.len(ResourceType::SCOPED_ROUTES) > 0 && !types.contains_key(&ResourceType::SCOPED_ROUTES);
        self.reports_until.is_some()
            && (!types.contains_key(&ResourceType::LISTENER)
                || !self.has_routes_of_its_listeners(types)
                || unreported_scopes())
    }
}

/// Returns whether no cluster waits for an ACK.
fn open(types: &Types) -> bool {
    let clusters = types.get(&ResourceType::CLUSTER);
    clusters.is_none_or(|clusters| !clusters.in_flight.iter().any(InFlight::sets_something))
}

/// Returns the listeners that the client has or may have.
fn at_client(listeners: &Subscription) -> impl Iterator<Item = &Arc<Resource>> {
    listeners.at_client()
}

fn accepted(types: &Types, kind: ResourceType, name: &str) -> bool {
    types.get(&kind).is_some_and(|types| types.known(name).accepted.exists())
}
