//! The gates of one stream: which snapshot routes may come from, and which unused clusters must stay for now.

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
    /// The snapshot whose clusters were sent last.
    clusters: Arc<Snapshot>,
    /// The last snapshot whose clusters the client has accepted: the level that routes may rise to.
    routes: Option<Arc<Snapshot>>,
    /// Whether the client came with resources of an earlier stream.
    reconnected: bool,
    /// Until when an Envoy that came back is given to say what it has: it asks for one type after the other.
    introduces_itself_until: Option<Instant>,
    /// Until when an Envoy that came back has asked for all types that it asks for at once.
    asks_until: Option<Instant>,
    /// Until when an Envoy that came back is given to warm its clusters, if it seems to do so.
    warms_up_until: Option<Instant>,
    /// Clusters that are no longer wanted, but that the client's routes may still use.
    kept: BTreeMap<Arc<str>, Kept>,
    /// Listeners that were replaced by one that still waits for its routes: Envoy serves the old one meanwhile.
    replaced: Vec<Replaced>,
    /// Clusters that a listener no longer names, and until when the connections that it had may still use them.
    draining: BTreeMap<Arc<str>, Instant>,
    /// Clusters that were removed before the client accepted them, while a route that was not sent yet leads there.
    never_accepted: BTreeSet<Arc<str>>,
    last_route_ack: Option<Instant>,
}

#[derive(Debug, PartialEq)]
enum Kept {
    InUse,
    Until(Instant),
    /// Its time is over.
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
            introduces_itself_until: None,
            asks_until: None,
            warms_up_until: None,
            kept: BTreeMap::new(),
            replaced: Vec::new(),
            draining: BTreeMap::new(),
            never_accepted: BTreeSet::new(),
            last_route_ack: None,
        }
    }

    /// The first request of a type.
    pub fn introduced(&mut self, node: &Node, request: &Request, types: &Types, now: Instant, timing: Timing) {
        if self.reconnected || (request.version.is_empty() && request.initial_versions.is_empty()) {
            return;
        }
        self.reconnected = true;
        if node.is_envoy() {
            self.introduces_itself_until = Some(now + timing.gate_timeout);
            self.asks_until = Some(now + timing.first_requests());
            self.warms_up_until = Some(now + timing.warm_up());
        }
        if !order::before().any(|kind| types.get(&kind).is_some_and(|routes| !routes.last_nonce.is_empty())) {
            self.routes = None;
        }
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
    pub fn clusters_sent(&mut self, snapshot: &Arc<Snapshot>) {
        if !Arc::ptr_eq(&self.clusters, snapshot) {
            self.clusters = snapshot.clone();
        }
    }

    /// Lets the routes rise to the level of the clusters, if the client has accepted these.
    pub fn raise(&mut self, types: &Types) {
        match &self.routes {
            None if self.reconnected && (self.awaits_clusters(types) || !open(types)) => {}
            // A client that starts has nothing that could break: its requests are answered as they come.
            None => self.routes = Some(self.clusters.clone()),
            Some(_) => self.raise_further(types),
        }
    }

    /// The same for routes that have a level.
    pub fn raise_further(&mut self, types: &Types) {
        let higher = self.routes.as_ref().is_some_and(|routes| !Arc::ptr_eq(routes, &self.clusters));
        if higher && open(types) {
            self.routes = Some(self.clusters.clone());
        }
    }

    /// The first request for clusters. An Envoy that came back asks for them when they are warm: its routes follow.
    pub fn asked_for_clusters(&mut self, now: Instant, timing: Timing) {
        if self.warms_up_until.take().is_some() {
            self.introduces_itself_until = Some(now + timing.gate_timeout);
        }
    }

    /// Whether types are still to be asked for that an Envoy that came back asks for at once.
    pub fn awaits_first_requests(&self) -> bool {
        self.asks_until.is_some()
    }

    /// Whether an Envoy that came back has yet to ask for clusters: it may have others than are served.
    pub fn conceals_clusters(&self, types: &Types) -> bool {
        self.warms_up_until.is_some() && !types.contains_key(&ResourceType::CLUSTER)
    }

    /// Whether routes would lead an Envoy that came back to clusters that it may not have yet. One whose clusters are
    /// warming asks for their endpoints and secrets, and for clusters only when they are warm. One that has its clusters
    /// from elsewhere asks for neither. Clusters that are not served are its own.
    fn awaits_clusters(&self, types: &Types) -> bool {
        let secrets_of_listeners =
            || self.clusters.all(ResourceType::LISTENER).any(|listener| !listener.references().secrets.is_empty());
        let seems_to_warm = types.contains_key(&ResourceType::ENDPOINTS)
            || (types.contains_key(&ResourceType::SECRET) && !secrets_of_listeners());
        let waits = self.asks_until.is_some() || seems_to_warm;
        let is_served = |cluster: &Arc<str>| self.clusters.get(ResourceType::CLUSTER, cluster).is_some();
        let mut routes = order::before().flat_map(|kind| self.clusters.all(kind));
        self.conceals_clusters(types)
            && waits
            && routes.any(|resource| resource.references().clusters.iter().any(is_served))
    }

    /// Remembers those of `removed` clusters that the client has not accepted, as long as routes of its level or of
    /// `newest` lead there.
    pub fn forget_clusters(&mut self, removed: &[Arc<str>], types: &Types, newest: &Snapshot) {
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

    /// `gone`: clusters at the client that nobody wants any more, sorted. Those that its routes use are kept.
    pub fn retire(&mut self, gone: Vec<Arc<str>>, types: &Types, newest: &Snapshot, now: Instant, timing: Timing) {
        self.kept.retain(|name, _| gone.binary_search(name).is_ok());
        for name in gone {
            match self.kept.get(&name) {
                // One that was rejected is not there to be kept, and would be rejected again.
                _ if types.get(&ResourceType::CLUSTER).is_none_or(|clusters| !clusters.holds(&name).exists()) => {
                    self.kept.remove(&name);
                }
                Some(Kept::InUse) => {}
                Some(Kept::Until(time)) if *time > now => {}
                _ if self.in_use(&name, types, newest) => drop(self.kept.insert(name, Kept::InUse)),
                Some(_) => drop(self.kept.insert(name, Kept::Over)),
                None => {
                    let routes = self.last_route_ack.map(|ack| ack + timing.removal_grace);
                    let grace = routes.max(self.draining.get(&name).copied()).filter(|time| *time > now);
                    self.kept.extend(grace.map(|time| (name, Kept::Until(time))));
                }
            }
        }
    }

    /// Whether the cluster stays although it is no longer wanted.
    pub fn keeps(&self, name: &str) -> bool {
        self.kept.get(name).is_some_and(|kept| *kept != Kept::Over)
    }

    /// Whether no cluster stays that is no longer wanted.
    pub fn keeps_nothing(&self) -> bool {
        self.kept.is_empty()
    }

    /// When something kept becomes due, or somebody is waited for no longer.
    pub fn deadline(&self) -> Option<Instant> {
        let removals = self.kept.values().filter_map(|kept| match kept {
            Kept::Until(time) => Some(*time),
            Kept::InUse | Kept::Over => None,
        });
        removals
            .chain(self.replaced.iter().map(|replaced| replaced.until))
            .chain(self.introduces_itself_until)
            .chain(self.asks_until)
            .chain(self.warms_up_until)
            .min()
    }

    /// Gives up what was waited for too long.
    pub fn on_time(&mut self, now: Instant) {
        self.introduces_itself_until = self.introduces_itself_until.filter(|limit| *limit > now);
        self.asks_until = self.asks_until.filter(|limit| *limit > now);
        self.warms_up_until = self.warms_up_until.filter(|limit| *limit > now);
        self.replaced.retain(|replaced| replaced.until > now);
        self.draining.retain(|_, until| *until > now);
    }

    /// Whether `resource` leads to a cluster that the client was sent and never accepted, and `sent`, which the client
    /// has in its place, does not. A listener leads there through routes that it newly asks for. A cluster that was
    /// removed after its rejection is not accepted either; one that was never served is the client's own.
    pub fn leads_nowhere(&self, resource: &Resource, sent: &ClientState, types: &Types) -> bool {
        let (view, sent) = (self.routes.as_ref(), sent.resource());
        let newly = |name: &&Arc<str>| !sent.is_some_and(|sent| names_routes(sent, name));
        let through = |name: &Arc<str>| view.and_then(|view| view.get(ResourceType::ROUTES, name));
        let leads_to = |cluster: &str| {
            let mut routes = resource.references().routes.iter().filter(newly).filter_map(through);
            resource.references().names_cluster(cluster) && !sent.is_some_and(|s| s.references().names_cluster(cluster))
                || routes.any(|routes| routes.references().names_cluster(cluster))
        };
        self.never_accepted.iter().any(|cluster| leads_to(cluster))
            || types.get(&ResourceType::CLUSTER).is_some_and(|clusters| clusters.unaccepted(leads_to))
    }

    /// Whether `resource` leads to a cluster that the client does not have, and that may yet prove to be good.
    pub fn leads_to_suspects(&self, resource: &Resource, types: &Types) -> bool {
        let Some(clusters) = types.get(&ResourceType::CLUSTER) else { return false };
        let is_suspect = |name: &Arc<str>| clusters.is_pending(name) && !clusters.known(name).accepted.exists();
        resource.references().clusters.iter().any(is_suspect)
    }

    /// Whether a listener at the client asks for the route configuration `name`.
    pub fn uses_routes(&self, types: &Types, name: &str) -> bool {
        types.get(&ResourceType::LISTENER).is_none_or(|listeners| {
            at_client(listeners)
                .chain(self.replaced.iter().map(|r| &r.old))
                .any(|listener| names_routes(listener, name))
        })
    }

    /// Whether a listener at the client asks for the route configuration `name`, but soon will no more.
    pub fn hands_over(&self, types: &Types, newest: &Snapshot, name: &str) -> bool {
        let now = types.get(&ResourceType::LISTENER).into_iter().flat_map(at_client);
        let mut leaving = now.filter(|listener| {
            !newest.get(ResourceType::LISTENER, listener.name()).is_some_and(|next| names_routes(next, name))
        });
        leaving.any(|listener| names_routes(listener, name))
            || self.replaced.iter().any(|replaced| names_routes(&replaced.old, name))
    }

    /// Whether a cluster that is going away still needs the endpoints `name`.
    pub fn uses_endpoints(&self, clusters: &Subscription, name: &str) -> bool {
        let may_use = |state: &ClientState| match state {
            ClientState::Resource(cluster) => cluster.references().endpoints.iter().any(|used| **used == *name),
            ClientState::Version(_) => true,
            ClientState::Unknown | ClientState::Absent => false,
        };
        let going = clusters.in_flight.iter().any(|response| !response.is_empty());
        going || self.kept.keys().any(|cluster| may_use(&clusters.known(cluster).sent))
    }

    /// Whether a cluster that is going away, and that the client has accepted, has the endpoints `name`.
    pub fn keeps_warm(&self, clusters: &Subscription, name: &str) -> bool {
        self.kept.keys().map(|cluster| clusters.known(cluster)).any(|known| {
            let uses = |cluster: &Arc<Resource>| cluster.references().endpoints.iter().any(|used| **used == *name);
            known.accepted == known.sent && known.sent.resource().is_some_and(uses)
        })
    }

    /// A response with listeners or routes was accepted; `listeners`: what each was before.
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
            let waits_for: Vec<Arc<str>> = asked.iter().filter(|name| !accepted(types, name)).cloned().collect();
            if !waits_for.is_empty() {
                self.replaced.push(Replaced { old, waits_for, until: now + timing.gate_timeout });
            }
        }
    }

    /// Starts the grace of clusters that the client's routes no longer use.
    pub fn settle(&mut self, types: &Types, newest: &Snapshot, now: Instant, timing: Timing) {
        self.replaced.retain_mut(|replaced| {
            replaced.waits_for.retain(|name| !accepted(types, name));
            !replaced.waits_for.is_empty()
        });
        let in_use: Vec<Arc<str>> =
            self.kept.iter().filter(|(_, kept)| **kept == Kept::InUse).map(|(name, _)| name.clone()).collect();
        for name in in_use {
            if !self.in_use(&name, types, newest) {
                let grace = now + timing.removal_grace;
                let until = self.draining.get(&name).map_or(grace, |drained| grace.max(*drained));
                self.kept.insert(name, Kept::Until(until));
            }
        }
    }

    /// Whether a route that the client has, or is about to get, may lead to the cluster.
    fn in_use(&self, cluster: &str, types: &Types, newest: &Snapshot) -> bool {
        let may_use = |state: &ClientState| match state {
            ClientState::Resource(resource) => resource.references().names_cluster(cluster),
            // From an earlier stream: its content is not known, so it may use anything.
            ClientState::Version(_) => true,
            ClientState::Unknown | ClientState::Absent => false,
        };
        let of_replaced = |replaced: &Replaced| replaced.old.references().names_cluster(cluster);
        // Routes of an older snapshot may still go out, and new ones be asked for.
        let view = self.routes.as_ref().filter(|view| view.serial() != newest.serial());
        let pending =
            order::before().any(|kind| view.is_some_and(|view| view.leading_to(kind, cluster).next().is_some()));
        pending
            || self.replaced.iter().any(of_replaced)
            || self.awaits_routes(types)
            || order::before().any(|kind| {
                // Also what is under way to a client that has just taken its interest back: it may want it anew.
                let under_way = types.get(&kind).into_iter().flat_map(|subscription| &subscription.in_flight);
                under_way.flat_map(InFlight::resources).any(|resource| resource.references().names_cluster(cluster))
            })
            || order::before().filter_map(|kind| types.get(&kind)).any(|subscription| {
                let kind = subscription.kind;
                let reachable = |name: &str| {
                    kind != ResourceType::ROUTES || newest.get(kind, name).is_some() || self.uses_routes(types, name)
                };
                let mut apart = subscription.standing_apart();
                let mut settled = newest.leading_to(kind, cluster).filter(|r| subscription.has_settled(r.name()));
                settled.any(|r| reachable(r.name()))
                    || apart.any(|(name, known)| (may_use(&known.sent) || may_use(&known.accepted)) && reachable(name))
            })
    }

    /// Whether the client has accepted all routes that its listeners ask for.
    pub fn has_routes_of_its_listeners(&self, types: &Types) -> bool {
        let mut listeners = types.get(&ResourceType::LISTENER).into_iter().flat_map(at_client);
        listeners.all(|listener| listener.references().routes.iter().all(|name| accepted(types, name)))
    }

    /// Whether an Envoy that came back has yet to say which listeners and routes it has. One whose routes it does not
    /// have yet is not in use: in its place an older one, of which it says nothing, may be.
    fn awaits_routes(&self, types: &Types) -> bool {
        self.introduces_itself_until.is_some()
            && (!types.contains_key(&ResourceType::LISTENER) || !self.has_routes_of_its_listeners(types))
    }
}

/// Whether all clusters that were sent are accepted, or given up.
fn open(types: &Types) -> bool {
    let clusters = types.get(&ResourceType::CLUSTER);
    clusters.is_none_or(|clusters| !clusters.in_flight.iter().any(InFlight::sets_something))
}

/// The listeners that the client has or may have.
fn at_client(listeners: &Subscription) -> impl Iterator<Item = &Arc<Resource>> {
    listeners.at_client()
}

fn names_routes(listener: &Resource, name: &str) -> bool {
    listener.references().routes.binary_search_by(|route| (**route).cmp(name)).is_ok()
}

fn accepted(types: &Types, route: &str) -> bool {
    let routes = types.get(&ResourceType::ROUTES);
    routes.is_some_and(|routes| routes.known(route).accepted.exists())
}
