//! The gates of one stream: which snapshot routes may come from, and which unused clusters must stay for now.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::message::Request;
use super::order::{self, Timing};
use super::subscription::{InFlight, State, Subscription};
use crate::snapshot::{Resource, ResourceType, Snapshot, Version};

type Types = BTreeMap<ResourceType, Subscription>;

/// The gates of one stream.
#[derive(Debug)]
pub(super) struct Gates {
    /// The snapshot whose clusters were sent last.
    clusters: Arc<Snapshot>,
    /// The last snapshot whose clusters the client has accepted: the level that routes may rise to.
    routes: Option<Arc<Snapshot>>,
    /// When the stream opened, if the client came with resources of an earlier stream.
    reconnected_at: Option<Instant>,
    /// Clusters that are no longer wanted, but that the client's routes may still use.
    kept: BTreeMap<Arc<str>, Kept>,
    /// Listeners that were replaced by one that still waits for its routes: Envoy serves the old one meanwhile.
    replaced: Vec<Replaced>,
    last_route_ack: Option<Instant>,
}

#[derive(Debug, PartialEq)]
enum Kept {
    InUse,
    Until(Instant),
}

#[derive(Debug)]
struct Replaced {
    old: Arc<Resource>,
    waits_for: Vec<Arc<str>>,
}

impl Gates {
    pub fn new(snapshot: Arc<Snapshot>) -> Self {
        Self {
            clusters: snapshot,
            routes: None,
            reconnected_at: None,
            kept: BTreeMap::new(),
            replaced: Vec::new(),
            last_route_ack: None,
        }
    }

    /// The first request of the stream.
    pub fn opened(&mut self, now: Instant, request: &Request) {
        let has_resources = !request.version.is_empty() || !request.initial_versions.is_empty();
        self.reconnected_at = has_resources.then_some(now);
    }

    /// The snapshot whose clusters were sent last.
    pub fn clusters_view(&self) -> &Snapshot {
        &self.clusters
    }

    /// The snapshot that listeners and routes come from; `None` while a client that came back is not yet level.
    pub fn routes_view(&self) -> Option<&Arc<Snapshot>> {
        self.routes.as_ref()
    }

    /// All clusters of `snapshot` are on their way.
    pub fn clusters_sent(&mut self, snapshot: Arc<Snapshot>) {
        self.clusters = snapshot;
    }

    /// Lets the routes rise to the level of the clusters, if the client has accepted these.
    pub fn raise(&mut self, types: &Types, is_envoy: bool, now: Instant, timing: Timing) {
        let clusters = types.get(&ResourceType::CLUSTER);
        let open = clusters.is_none_or(|clusters| !clusters.in_flight.iter().any(InFlight::sets_something));
        // An Envoy that comes back while a cluster is warming asks for its clusters only when that is over.
        let not_level = |at: Instant| is_envoy && clusters.is_none() && now < at + timing.gate_timeout;
        match (&self.routes, self.reconnected_at) {
            (None, Some(at)) if !open || not_level(at) => {}
            // A client that starts has nothing that could break: its requests are answered as they come.
            (None, _) => self.routes = Some(self.clusters.clone()),
            (Some(_), _) if open => self.routes = Some(self.clusters.clone()),
            (Some(_), _) => {}
        }
    }

    /// `gone`: clusters at the client that nobody wants any more. Those that its routes use are kept.
    pub fn retire(&mut self, gone: Vec<Arc<str>>, types: &Types, newest: &Snapshot, now: Instant, timing: Timing) {
        self.kept.retain(|name, kept| gone.contains(name) && !matches!(kept, Kept::Until(time) if *time <= now));
        for name in gone {
            if self.kept.get(&name).is_some_and(|kept| *kept != Kept::InUse) {
                continue;
            }
            let grace = self.last_route_ack.map(|ack| ack + timing.removal_grace);
            if self.in_use(&name, types, newest) {
                self.kept.insert(name, Kept::InUse);
            } else if let Some(time) = grace.filter(|time| *time > now) {
                self.kept.insert(name, Kept::Until(time));
            } else {
                self.kept.remove(&name);
            }
        }
    }

    /// Whether the cluster stays although it is no longer wanted.
    pub fn keeps(&self, name: &str) -> bool {
        self.kept.contains_key(name)
    }

    /// The clusters that stay although they are no longer wanted.
    pub fn kept(&self) -> impl Iterator<Item = &Arc<str>> {
        self.kept.keys()
    }

    /// When something kept becomes due, or a client that came back is waited for no longer.
    pub fn deadline(&self, timing: Timing) -> Option<Instant> {
        let removals = self.kept.values().filter_map(|kept| match kept {
            Kept::Until(time) => Some(*time),
            Kept::InUse => None,
        });
        let level = self.reconnected_at.filter(|_| self.routes.is_none()).map(|at| at + timing.gate_timeout);
        removals.chain(level).min()
    }

    /// The version of a type in a response: that of the view, marked if it holds more than the view.
    pub fn version(&self, kind: ResourceType, view: &Snapshot) -> Version {
        let version = view.version(kind);
        if kind != ResourceType::CLUSTER {
            return version;
        }
        self.kept.keys().fold(version, |version, name| Version(xxh3_64_with_seed(name.as_bytes(), version.0)))
    }

    /// Whether `resource` leads to a cluster that the client was sent and never accepted.
    pub fn leads_nowhere(&self, resource: &Resource, types: &Types) -> bool {
        let unaccepted = types.get(&ResourceType::CLUSTER).into_iter().flat_map(Subscription::unaccepted);
        unaccepted.into_iter().any(|cluster| resource.references().names_cluster(cluster))
    }

    /// Whether a listener at the client asks for the route configuration `name`.
    pub fn uses_routes(&self, types: &Types, name: &str) -> bool {
        let Some(listeners) = types.get(&ResourceType::LISTENER) else { return true };
        let at_client = listeners.known.values().flat_map(|known| [known.sent.resource(), known.accepted.resource()]);
        at_client.flatten().chain(self.replaced.iter().map(|replaced| &replaced.old)).any(|listener| {
            let routes = &listener.references().routes;
            routes.binary_search_by(|route| (**route).cmp(name)).is_ok()
        })
    }

    /// Whether a cluster that is going away still needs the endpoints `name`.
    pub fn uses_endpoints(&self, clusters: &Subscription, name: &str) -> bool {
        let kept = self.kept.keys().filter_map(|cluster| clusters.known.get(cluster)?.sent.resource());
        let going = clusters.in_flight.iter().any(|response| !response.content.is_empty());
        going || kept.into_iter().any(|cluster| cluster.references().endpoints.iter().any(|used| **used == *name))
    }

    /// A response with listeners or routes was accepted; `listeners`: what each was before.
    pub fn routes_acked(&mut self, listeners: Vec<Arc<Resource>>, types: &Types, now: Instant) {
        self.last_route_ack = Some(now);
        for old in listeners {
            let listeners = types.get(&ResourceType::LISTENER);
            let new = listeners.and_then(|listeners| listeners.known.get(old.name())?.accepted.resource());
            let asked = new.map_or([].as_slice(), |new| &new.references().routes);
            let waits_for: Vec<Arc<str>> = asked.iter().filter(|name| !accepted(types, name)).cloned().collect();
            if !waits_for.is_empty() {
                self.replaced.push(Replaced { old, waits_for });
            }
        }
        self.replaced.retain_mut(|replaced| {
            replaced.waits_for.retain(|name| !accepted(types, name));
            !replaced.waits_for.is_empty()
        });
    }

    /// Starts the grace of clusters that the client's routes no longer use.
    pub fn settle(&mut self, types: &Types, newest: &Snapshot, now: Instant, timing: Timing) {
        let in_use: Vec<Arc<str>> =
            self.kept.iter().filter(|(_, kept)| **kept == Kept::InUse).map(|(name, _)| name.clone()).collect();
        for name in in_use {
            if !self.in_use(&name, types, newest) {
                self.kept.insert(name, Kept::Until(now + timing.removal_grace));
            }
        }
    }

    /// Whether a route that the client has, or is about to get, may lead to the cluster.
    fn in_use(&self, cluster: &str, types: &Types, newest: &Snapshot) -> bool {
        let may_use = |state: &State| match state {
            State::Resource(resource) => resource.references().names_cluster(cluster),
            // From an earlier stream: its content is not known, so it may use anything.
            State::Version(_) => true,
            State::Unknown | State::Absent => false,
        };
        let by_view = |kind, name: &str| {
            let pending = self.routes.as_ref().and_then(|view| view.get(kind, name));
            pending.is_some_and(|resource| resource.references().names_cluster(cluster))
        };
        let of_replaced = |replaced: &Replaced| replaced.old.references().names_cluster(cluster);
        self.replaced.iter().any(of_replaced)
            || order::before().any(|kind| {
                let known = types.get(&kind).into_iter().flat_map(|s| s.known.iter().map(move |entry| (s, entry)));
                known.into_iter().any(|(subscription, (name, known))| {
                    let reachable = kind != ResourceType::ROUTES
                        || newest.get(kind, name).is_some()
                        || self.uses_routes(types, name);
                    let pending = subscription.dirty.contains_key(name) && by_view(kind, name);
                    reachable && (may_use(&known.sent) || may_use(&known.accepted) || pending)
                })
            })
    }
}

fn accepted(types: &Types, route: &str) -> bool {
    let routes = types.get(&ResourceType::ROUTES);
    routes.is_some_and(|routes| routes.known.get(route).is_some_and(|known| known.accepted.exists()))
}
