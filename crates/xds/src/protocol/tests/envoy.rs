//! A model of an Envoy on the wire: its requests, its handling of responses, and the times of its ACKs. The numbers are
//! facts about Envoy 1.40.
//!
//! 1: the ACK of clusters waits until each has its endpoints, except during start-up. 2: a changed cluster needs its
//! endpoints again, with a timeout of 15 s. 3: the ACK of a listener is immediate, while the listener still waits for
//! its routes and the old listener serves. 4: a route to a missing or warming cluster fails requests. 5: a NACK. 8:
//! start-up and reconnection. 9: an Envoy with a warming cluster does not subscribe to clusters. 11: endpoints of
//! unknown clusters, and removals of endpoints in use, are ignored. 13: a deleted listener keeps its routes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::harness::*;
use crate::protocol::{Request, Response, Variant};
use crate::snapshot::{Resource, ResourceType};

const FETCH_TIMEOUT: Duration = Duration::from_secs(15);

type Names = BTreeMap<String, Arc<Resource>>;

pub struct Envoy {
    pub bench: Bench,
    /// The sent types, in order.
    pub log: Vec<String>,
    /// The failed requests, and their cause.
    pub failures: Vec<String>,
    /// The clusters that waited for their endpoints until the timeout.
    pub fetch_timeouts: usize,
    /// Whether only listeners count that have served successfully before. After a reconnection, the server cannot
    /// distinguish an Envoy that was still starting from a new one. It then prefers routes to a rejected cluster to a
    /// listener without routes.
    pub lenient: bool,
    /// The contents that the Envoy rejects.
    pub refuses: BTreeSet<String>,
    /// The responses in flight, with the number of the flush in which each was sent.
    to_client: VecDeque<(usize, Response)>,
    flushes: usize,
    to_server: VecDeque<Request>,
    started: bool,
    clusters: Names,
    warming: BTreeMap<String, (Arc<Resource>, Instant)>,
    /// The responses with clusters whose ACK is delayed.
    unacked: Vec<Response>,
    endpoints: BTreeMap<String, Option<Arc<Resource>>>,
    listeners: Names,
    waiting_listeners: Names,
    routes: BTreeMap<String, Option<Arc<Resource>>>,
    drained_routes: BTreeSet<String>,
    /// The routes of a deleted listener. A new listener uses them until it receives its own. No request is lost,
    /// because there was no listener before.
    revived_routes: BTreeSet<String>,
    /// The listeners that have served successfully.
    served: BTreeSet<String>,
    asked_clusters: bool,
}

impl Envoy {
    /// Creates an Envoy that has just started.
    pub fn start(bench: Bench) -> Self {
        let mut envoy = Self {
            bench,
            log: Vec::new(),
            failures: Vec::new(),
            fetch_timeouts: 0,
            lenient: false,
            refuses: BTreeSet::new(),
            to_client: VecDeque::new(),
            flushes: 0,
            to_server: VecDeque::new(),
            started: false,
            clusters: Names::new(),
            warming: BTreeMap::new(),
            unacked: Vec::new(),
            endpoints: BTreeMap::new(),
            listeners: Names::new(),
            waiting_listeners: Names::new(),
            routes: BTreeMap::new(),
            drained_routes: BTreeSet::new(),
            revived_routes: BTreeSet::new(),
            served: BTreeSet::new(),
            asked_clusters: true,
        };
        let request = envoy.bench.next_request(CLUSTER);
        envoy.to_server.push_back(request);
        envoy
    }

    /// Publishes `resources` as the complete content. Only the server sends messages so far.
    pub fn publish(&mut self, resources: Vec<Resource>) {
        self.bench.store.replace(resources);
        let sent = self.bench.catch_up();
        self.sent(sent);
    }

    /// Delivers one message to the server. Returns whether there was one.
    pub fn step_server(&mut self) -> bool {
        let Some(request) = self.to_server.pop_front() else { return false };
        let sent = self.bench.request(request);
        self.sent(sent);
        true
    }

    /// Delivers one message to the client. Returns whether there was one.
    pub fn step_client(&mut self) -> bool {
        let Some((flush, response)) = self.to_client.pop_front() else { return false };
        self.take(&response);
        // A listener that moves to changed routes has the old routes between two messages.
        if !self.lenient || self.to_client.front().is_none_or(|(next, _)| *next != flush) {
            self.check();
        }
        true
    }

    /// Exchanges messages until neither side has more to send.
    pub fn run(&mut self) {
        let mut steps = 0;
        while self.step_server() || self.step_client() {
            steps += 1;
            assert!(steps < 10_000, "no end of it: {:?}", &self.log[self.log.len() - 20..]);
        }
    }

    /// Returns whether neither side waits for the other.
    pub fn rests(&self) -> bool {
        self.bench.stream.deadline().is_none() && self.warming.is_empty()
    }

    /// Lets time pass for the server and for clusters that wait for their endpoints.
    pub fn wait(&mut self, time: Duration) {
        let sent = self.bench.wait(time);
        self.sent(sent);
        let now = self.bench.now;
        let late = self.warming.iter().filter(|(_, (_, since))| *since + FETCH_TIMEOUT <= now);
        let late: Vec<String> = late.map(|(name, _)| name.clone()).collect();
        for name in late {
            self.fetch_timeouts += 1;
            self.warmed(&name);
        }
        self.clusters_settled();
    }

    /// Returns the sent types since the last call, in one line.
    pub fn wire(&mut self) -> String {
        std::mem::take(&mut self.log).join(" ")
    }

    /// Disconnects and reconnects the client.
    pub fn reconnect(&mut self) {
        self.to_client.clear();
        self.to_server.clear();
        self.bench.reconnect();
        self.lenient = true;
        self.asked_clusters = self.warming.is_empty();
        self.unacked.clear();
        if self.asked_clusters {
            self.ask_clusters_again();
        }
        let names: Vec<String> = self.endpoints.keys().cloned().collect();
        let held = self.endpoints.values().flatten().cloned().collect();
        self.ask_again(ENDPOINTS, names, held);
        if self.started {
            let held = self.listeners.values().cloned().chain(self.waiting_listeners.values().cloned()).collect();
            self.ask_again(LISTENER, Vec::new(), held);
            let names: Vec<String> = self.routes.keys().cloned().collect();
            let held = self.routes.values().flatten().cloned().collect();
            self.ask_again(ROUTES, names, held);
        }
    }

    /// Asserts that the client has the content of `newest`.
    pub fn assert_current(&self) {
        let newest = self.bench.newest();
        assert!(self.is_level(), "the server does not know it, after {:?}", self.log);
        let wanted = |kind| newest.all(kind).map(|r| (r.name().to_string(), r.clone())).collect::<Names>();
        let context = || format!("after {:?}", self.log);
        assert_eq!(self.clusters, wanted(CLUSTER), "clusters {}", context());
        assert!(self.warming.is_empty() && self.waiting_listeners.is_empty(), "warming {}", context());
        assert_eq!(self.listeners, wanted(LISTENER), "listeners {}", context());
        for name in self.clusters.keys() {
            if let Some(wanted) = newest.get(ENDPOINTS, name) {
                assert_eq!(self.endpoints[name].as_ref(), Some(wanted), "endpoints {}", context());
            }
        }
        for listener in self.listeners.values() {
            let routes = &*listener.references().routes[0];
            assert_eq!(self.routes[routes].as_ref(), newest.get(ROUTES, routes), "routes {}", context());
        }
    }

    /// Returns whether the server reports that the client has answered all responses.
    pub fn is_level(&self) -> bool {
        let newest = self.bench.newest();
        self.bench.stream.level(&newest) >= Some(newest.generation())
    }

    /// Asserts that the client serves the desired content if the server reports it as accepted. Resources to be removed
    /// may still exist.
    pub fn assert_served_if_level(&self) {
        if !self.is_level() {
            return;
        }
        let newest = self.bench.newest();
        let context = || format!("after {:?}", self.log);
        for cluster in newest.all(CLUSTER) {
            assert_eq!(self.clusters.get(&**cluster.name()), Some(cluster), "cluster {}", context());
        }
        for listener in newest.all(LISTENER) {
            assert_eq!(self.listeners.get(&**listener.name()), Some(listener), "listener {}", context());
            let routes = &*listener.references().routes[0];
            let serves = self.routes.get(routes).and_then(Option::as_ref);
            assert_eq!(serves, newest.get(ROUTES, routes), "routes {}", context());
        }
    }

    fn sent(&mut self, sent: Sent) {
        self.log.extend(sent.iter().map(line));
        self.flushes += 1;
        self.to_client.extend(sent.0.into_iter().map(|response| (self.flushes, response)));
    }

    fn is_delta(&self) -> bool {
        self.bench.variant == Variant::Delta
    }

    fn ask_again(&mut self, kind: ResourceType, names: Vec<String>, held: Vec<Arc<Resource>>) {
        let mut request = self.bench.next_request(kind);
        if self.is_delta() {
            request.version.clear();
            request.subscribe = names;
            request.initial_versions =
                held.into_iter().map(|r| (r.name().to_string(), r.version().to_string())).collect();
        }
        if !request.subscribe.is_empty() || kind == CLUSTER || kind == LISTENER {
            self.to_server.push_back(request);
        }
    }

    fn ask_clusters_again(&mut self) {
        let held = self.clusters.values().cloned().collect();
        self.ask_again(CLUSTER, Vec::new(), held);
    }

    /// Subscribes to `names`.
    fn interest(&mut self, kind: ResourceType, names: Vec<String>) {
        let before = self.bench.names(kind);
        if before == names {
            return;
        }
        self.bench.set_names(kind, names.clone());
        let mut request = Request { nonce: String::new(), ..self.bench.next_request(kind) };
        if self.is_delta() {
            request.version.clear();
            request.subscribe = names.iter().filter(|name| !before.contains(name)).cloned().collect();
            request.unsubscribe = before.iter().filter(|name| !names.contains(name)).cloned().collect();
        } else {
            request.nonce = self.bench.next_request(kind).nonce;
        }
        self.to_server.push_back(request);
    }

    fn take(&mut self, response: &Response) {
        let refused = response.resources.iter().find(|r| self.refuses.contains(&r.version().to_string()));
        if let Some(refused) = refused {
            let nack = self.bench.nack_request(response, &format!("bad {}", refused.name()));
            self.to_server.push_back(nack);
            return;
        }
        self.bench.taken(response);
        match ResourceType::of_url(&response.type_url).unwrap() {
            CLUSTER => self.take_clusters(response),
            ENDPOINTS => self.take_endpoints(response),
            LISTENER => self.take_listeners(response),
            ROUTES => self.take_routes(response),
            _ => self.ack(response),
        }
    }

    fn ack(&mut self, response: &Response) {
        let ack = self.bench.ack_request(response);
        self.to_server.push_back(ack);
    }

    /// Returns the names in `held` that a response removes.
    fn gone(&self, response: &Response, held: Vec<String>) -> Vec<String> {
        let set = names(response);
        match self.bench.variant {
            Variant::Sotw => held.into_iter().filter(|name| !set.contains(&&**name)).collect(),
            Variant::Delta => response.removed.iter().map(ToString::to_string).collect(),
        }
    }

    fn take_clusters(&mut self, response: &Response) {
        let held = self.clusters.keys().chain(self.warming.keys()).cloned().collect();
        for name in self.gone(response, held) {
            self.clusters.remove(&name);
            self.warming.remove(&name);
            self.endpoints.remove(&name);
        }
        let now = self.bench.now;
        for resource in &response.resources {
            let name = resource.name().to_string();
            let has = self.warming.get(&name).map(|(warming, _)| warming).or_else(|| self.clusters.get(&name));
            if has.is_some_and(|has| has == resource) {
                continue;
            }
            self.warming.insert(name.clone(), (resource.clone(), now));
            self.endpoints.entry(name).or_insert(None);
        }
        let names = self.endpoints.keys().cloned().collect();
        self.interest(ENDPOINTS, names);
        if self.started {
            self.unacked.push(response.clone());
        } else {
            self.ack(response);
        }
        self.clusters_settled();
    }

    fn take_endpoints(&mut self, response: &Response) {
        for resource in &response.resources {
            let name = resource.name().to_string();
            if let Some(endpoints) = self.endpoints.get_mut(&name) {
                *endpoints = Some(resource.clone());
                self.warmed(&name);
            }
        }
        for name in &response.removed {
            self.warmed(name);
        }
        self.ack(response);
        self.clusters_settled();
    }

    fn warmed(&mut self, name: &str) {
        if let Some((cluster, _)) = self.warming.remove(name) {
            self.clusters.insert(name.to_owned(), cluster);
        }
    }

    /// When no cluster is warming, sends the delayed ACKs and the delayed subscriptions.
    fn clusters_settled(&mut self) {
        if !self.warming.is_empty() {
            return;
        }
        let mut unacked = std::mem::take(&mut self.unacked);
        if !self.is_delta() {
            unacked = unacked.pop().into_iter().collect();
        }
        unacked.iter().for_each(|response| self.ack(response));
        if !self.asked_clusters {
            self.asked_clusters = true;
            self.ask_clusters_again();
        } else if !self.started && !self.log.is_empty() {
            self.started = true;
            let request = self.bench.next_request(LISTENER);
            self.to_server.push_back(request);
        }
    }

    fn take_listeners(&mut self, response: &Response) {
        let held = self.listeners.keys().chain(self.waiting_listeners.keys()).cloned().collect();
        for name in self.gone(response, held) {
            self.waiting_listeners.remove(&name);
            if let Some(old) = self.listeners.remove(&name) {
                self.drained_routes.insert(old.references().routes[0].to_string());
            }
        }
        for resource in &response.resources {
            let name = resource.name().to_string();
            let has = self.waiting_listeners.get(&name).or_else(|| self.listeners.get(&name));
            if has.is_some_and(|has| has == resource) {
                continue;
            }
            self.waiting_listeners.insert(name, resource.clone());
        }
        self.ack(response);
        self.listeners_settled();
    }

    fn take_routes(&mut self, response: &Response) {
        for resource in &response.resources {
            if let Some(routes) = self.routes.get_mut(&**resource.name()) {
                *routes = Some(resource.clone());
                self.revived_routes.remove(&**resource.name());
            }
        }
        self.ack(response);
        self.listeners_settled();
    }

    /// Activates listeners that have their routes, and subscribes to the routes of the others.
    fn listeners_settled(&mut self) {
        for (name, listener) in std::mem::take(&mut self.waiting_listeners) {
            let routes = listener.references().routes[0].to_string();
            if self.routes.get(&routes).is_some_and(Option::is_some) {
                let serves = |routes: &str| self.listeners.values().any(|l| *l.references().routes[0] == *routes);
                if self.drained_routes.contains(&routes) && !serves(&routes) {
                    self.revived_routes.insert(routes);
                }
                self.listeners.insert(name, listener);
            } else {
                self.routes.entry(routes).or_insert(None);
                self.waiting_listeners.insert(name, listener);
            }
        }
        let used = self.listeners.values().chain(self.waiting_listeners.values());
        let mut used: BTreeSet<String> = used.map(|listener| listener.references().routes[0].to_string()).collect();
        used.extend(self.drained_routes.iter().cloned());
        self.routes.retain(|name, _| used.contains(name));
        let names = self.routes.keys().cloned().collect();
        self.interest(ROUTES, names);
    }

    /// Records whether a request would fail now.
    fn check(&mut self) {
        self.served.retain(|name| self.listeners.contains_key(name));
        for (name, listener) in &self.listeners {
            let failures = self.failures_of(listener);
            if failures.is_empty() {
                self.served.insert(name.clone());
            } else if self.served.contains(name) || !self.lenient {
                self.failures.extend(failures);
            }
        }
    }

    fn failures_of(&self, listener: &Resource) -> Vec<String> {
        let name = &*listener.references().routes[0];
        let Some(routes) = self.routes.get(name).and_then(Option::as_ref) else {
            return vec![format!("{} has lost {name}", listener.name())];
        };
        let clusters = routes.references().clusters.iter().filter(|_| !self.revived_routes.contains(name));
        let missing = clusters.filter(|cluster| !self.clusters.contains_key(&***cluster));
        let failure = |to| format!("{} -> {name} -> {to} after {}", listener.name(), self.log.join(" "));
        missing.map(failure).collect()
    }
}
