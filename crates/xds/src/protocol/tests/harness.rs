//! A test bench for one stream: a store, a simulated clock, and a client that records the state of the protocol. A
//! transcript shows the responses in one line.
//!
//! `CDS{a,b} EDS{b}` means two responses in this order with these resources. `CDS{b}-{a}` also removes a, `CDS-{a}`
//! only removes it, `RDS?{x}` reports that x does not exist, and `CDS{}` is empty.

mod resources;
mod transcript;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use envoy_types::pb::envoy::service::discovery::v3 as discovery_v3;
use prost::Message;

use crate::protocol::{
    Node, Notice, Output, Refusal, Rejection, RejectionScope, Request, Response, Stream, Timing, Variant, encode,
};
use crate::snapshot::{Resource, ResourceType, Snapshot, Store, Update};

pub use resources::*;
pub use transcript::*;

pub const CLUSTER: ResourceType = ResourceType::CLUSTER;
pub const ENDPOINTS: ResourceType = ResourceType::ENDPOINTS;
pub const EXTENSION: ResourceType = ResourceType::EXTENSION;
pub const LISTENER: ResourceType = ResourceType::LISTENER;
pub const ROUTES: ResourceType = ResourceType::ROUTES;
pub const SCOPED_ROUTES: ResourceType = ResourceType::SCOPED_ROUTES;
pub const SECRET: ResourceType = ResourceType::SECRET;
pub const VIRTUAL_HOST: ResourceType = ResourceType::VIRTUAL_HOST;
/// The types of the push plan.
pub const KINDS: [ResourceType; 5] = [CLUSTER, ENDPOINTS, LISTENER, ROUTES, SECRET];

/// The grace period of unused clusters.
pub const GRACE: Duration = Duration::from_secs(1);
/// The drain time of the connections of a listener.
pub const DRAIN: Duration = Duration::from_secs(60);
/// The timeout of a gate.
pub const GATE_TIMEOUT: Duration = Duration::from_secs(20);

pub fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The client's state of a type.
#[derive(Debug, Clone, Default)]
struct Books {
    names: Vec<String>,
    version: String,
    nonce: String,
}

/// One stream and its client.
pub struct Bench {
    pub store: Arc<Store>,
    pub stream: Stream,
    pub variant: Variant,
    /// The type of a stream that is not aggregated.
    pub only: Option<ResourceType>,
    pub now: Instant,
    pub notices: Vec<Notice>,
    /// Whether each response is encoded and decoded again, to check its encoding.
    pub decodes: bool,
    large: usize,
    agent: &'static str,
    introduced: bool,
    books: BTreeMap<ResourceType, Books>,
    nonces: HashSet<String>,
}

impl Bench {
    pub fn new<const N: usize>(variant: Variant, only: Option<ResourceType>, resources: [Resource; N]) -> Self {
        let store = Arc::new(Store::default());
        store.replace(resources.into());
        Self::over(store, variant, only)
    }

    /// Creates a stream over a shared store.
    pub fn over(store: Arc<Store>, variant: Variant, only: Option<ResourceType>) -> Self {
        Self::pacing(store, variant, only, Timing::default().large)
    }

    /// Creates a stream that paces resources above `large` bytes.
    pub fn pacing(store: Arc<Store>, variant: Variant, only: Option<ResourceType>, large: usize) -> Self {
        let timing = Timing { gate_timeout: GATE_TIMEOUT, removal_grace: GRACE, drain: DRAIN, large };
        let snapshot = store.newest().unwrap();
        Self {
            stream: Stream::new(variant, only.is_none(), timing, snapshot),
            large,
            store,
            variant,
            only,
            now: Instant::now(),
            notices: Vec::new(),
            decodes: true,
            agent: "envoy",
            introduced: false,
            books: BTreeMap::new(),
            nonces: HashSet::new(),
        }
    }

    /// Creates an aggregated state-of-the-world stream of an Envoy.
    pub fn sotw<const N: usize>(resources: [Resource; N]) -> Self {
        Self::new(Variant::Sotw, None, resources)
    }

    /// Creates an aggregated delta stream of an Envoy.
    pub fn delta<const N: usize>(resources: [Resource; N]) -> Self {
        Self::new(Variant::Delta, None, resources)
    }

    /// Creates both forms of a stream for `kind`: aggregated, and by type.
    pub fn both<const N: usize>(variant: Variant, kind: ResourceType, resources: [Resource; N]) -> [Self; 2] {
        [Self::new(variant, None, resources.clone()), Self::new(variant, Some(kind), resources)]
    }

    /// Turns the client into a gRPC client: it supports `resource_errors` and names all its subscriptions.
    pub fn into_grpc(mut self) -> Self {
        self.agent = "gRPC C-core";
        self
    }

    /// Opens another stream of the same client, as after a disconnection. The state of the client stays, and the server
    /// state is new.
    pub fn reconnect(&mut self) {
        let mut fresh = Self::pacing(self.store.clone(), self.variant, self.only, self.large);
        (fresh.now, fresh.agent, fresh.decodes) = (self.now, self.agent, self.decodes);
        let books = std::mem::take(&mut self.books);
        fresh.books = books.into_iter().map(|(kind, b)| (kind, Books { nonce: String::new(), ..b })).collect();
        *self = fresh;
    }

    /// Sends any request. The first one identifies the client.
    pub fn request(&mut self, request: Request) -> Sent {
        self.try_request(request).unwrap()
    }

    pub fn try_request(&mut self, mut request: Request) -> Result<Sent, Refusal> {
        if request.node.is_none() && !self.introduced {
            request.node = Some(Node { id: "one".into(), user_agent: self.agent.into(), ..Node::default() });
        }
        self.introduced = true;
        let outputs = self.stream.on_request(request, self.only, self.now)?;
        Ok(self.collect(outputs))
    }

    /// State of the world: subscribes to exactly these names, with the last version and nonce of the type.
    pub fn ask<const N: usize>(&mut self, kind: ResourceType, names: [&str; N]) -> Sent {
        self.ask_list(kind, &names)
    }

    pub fn ask_list(&mut self, kind: ResourceType, names: &[&str]) -> Sent {
        assert_eq!(self.variant, Variant::Sotw);
        self.books.entry(kind).or_default().names = names.iter().map(|name| (*name).to_owned()).collect();
        let request = self.next_request(kind);
        self.request(request)
    }

    /// State of the world: returns the request for the recorded state: last version, last nonce, all names.
    pub fn next_request(&mut self, kind: ResourceType) -> Request {
        let books = self.books.entry(kind).or_default().clone();
        let subscribe = if self.variant == Variant::Sotw { books.names } else { Vec::new() };
        Request {
            type_url: kind.url().into(),
            nonce: books.nonce,
            version: books.version,
            subscribe,
            ..Request::default()
        }
    }

    /// Delta: sends a request that answers no response.
    pub fn differ<const N: usize, const M: usize>(
        &mut self,
        kind: ResourceType,
        subscribe: [&str; N],
        unsubscribe: [&str; M],
    ) -> Sent {
        self.request(delta_request(kind, &subscribe, &unsubscribe))
    }

    pub fn subscribe<const N: usize>(&mut self, kind: ResourceType, names: [&str; N]) -> Sent {
        self.differ(kind, names, [])
    }

    pub fn unsubscribe<const N: usize>(&mut self, kind: ResourceType, names: [&str; N]) -> Sent {
        self.differ(kind, [], names)
    }

    /// Delta: sends the first request of a type after a reconnection.
    pub fn resume<const N: usize>(
        &mut self,
        kind: ResourceType,
        subscribe: &[&str],
        versions: [(&str, String); N],
    ) -> Sent {
        let initial = versions.into_iter().map(|(name, version)| (name.to_owned(), version)).collect();
        self.request(Request { initial_versions: initial, ..delta_request(kind, subscribe, &[]) })
    }

    /// Sends the first request of a type in either variant: for all resources (`[]`), or these names.
    pub fn start<const N: usize>(&mut self, kind: ResourceType, names: [&str; N]) -> Sent {
        match self.variant {
            Variant::Sotw => self.ask(kind, names),
            Variant::Delta => self.subscribe(kind, names),
        }
    }

    /// Subscribes, and acknowledges all responses.
    pub fn settled<const N: usize>(&mut self, kind: ResourceType, names: [&str; N]) -> Sent {
        self.settled_list(kind, &names)
    }

    pub fn settled_list(&mut self, kind: ResourceType, names: &[&str]) -> Sent {
        let sent = match self.variant {
            Variant::Sotw => self.ask_list(kind, names),
            Variant::Delta => self.request(delta_request(kind, names, &[])),
        };
        let mut queue: Vec<Response> = sent.0.clone();
        while !queue.is_empty() {
            queue = queue.iter().flat_map(|response| self.ack(response).0).collect();
        }
        sent
    }

    pub fn ack(&mut self, response: &Response) -> Sent {
        let request = self.ack_request(response);
        self.request(request)
    }

    /// Returns the recorded subscription.
    pub fn names(&self, kind: ResourceType) -> Vec<String> {
        self.books.get(&kind).map(|books| books.names.clone()).unwrap_or_default()
    }

    /// Records that the client has applied a response, before or without an ACK.
    pub fn taken(&mut self, response: &Response) {
        let kind = ResourceType::of_url(&response.type_url).unwrap();
        self.books.entry(kind).or_default().version.clone_from(&response.version);
    }

    /// Records the subscription of the next request.
    pub fn set_names(&mut self, kind: ResourceType, names: Vec<String>) {
        self.books.entry(kind).or_default().names = names;
    }

    /// State of the world: sends an ACK with other names.
    pub fn ack_asking<const N: usize>(&mut self, response: &Response, names: [&str; N]) -> Sent {
        let kind = ResourceType::of_url(&response.type_url).unwrap();
        self.set_names(kind, names.map(str::to_owned).into());
        self.ack(response)
    }

    /// Acknowledges all of these, in order.
    pub fn ack_all(&mut self, sent: &Sent) -> Sent {
        Sent(sent.0.iter().flat_map(|response| self.ack(response).0).collect())
    }

    pub fn ack_request(&mut self, response: &Response) -> Request {
        let kind = ResourceType::of_url(&response.type_url).unwrap();
        let books = self.books.entry(kind).or_default();
        books.version.clone_from(&response.version);
        books.nonce.clone_from(&response.nonce);
        let mut request = self.next_request(kind);
        if self.variant == Variant::Delta {
            request.version.clear();
        }
        request
    }

    pub fn nack(&mut self, response: &Response, why: &str) -> Sent {
        let request = self.nack_request(response, why);
        self.request(request)
    }

    /// Sends a NACK: it contains the last accepted version and the nonce of the rejected response.
    pub fn nack_request(&mut self, response: &Response, why: &str) -> Request {
        let kind = ResourceType::of_url(&response.type_url).unwrap();
        self.books.entry(kind).or_default().nonce.clone_from(&response.nonce);
        Request { error: Some(why.into()), ..self.next_request(kind) }
    }

    /// Publishes `resources` as the complete content.
    pub fn publish<const N: usize>(&mut self, resources: [Resource; N]) -> Sent {
        self.store.replace(resources.into());
        self.catch_up()
    }

    /// Publishes these resources in addition.
    pub fn set<const N: usize>(&mut self, resources: [Resource; N]) -> Sent {
        self.store.update(Update { set: resources.into(), remove: Vec::new() });
        self.catch_up()
    }

    /// Publishes the removal of these resources.
    pub fn remove<const N: usize>(&mut self, names: [(ResourceType, &str); N]) -> Sent {
        let remove = names.into_iter().map(|(kind, name)| (kind, Arc::from(name))).collect();
        self.store.update(Update::removing(remove));
        self.catch_up()
    }

    /// Passes the newest snapshot to the stream.
    pub fn catch_up(&mut self) -> Sent {
        let outputs = self.stream.on_snapshot(self.store.newest().unwrap(), self.now);
        self.collect(outputs)
    }

    /// Lets time pass, and wakes the stream at its deadlines.
    pub fn wait(&mut self, time: Duration) -> Sent {
        let until = self.now + time;
        let mut sent = Vec::new();
        while let Some(due) = self.stream.deadline().filter(|due| *due <= until) {
            self.now = due.max(self.now);
            let outputs = self.stream.on_time(self.now);
            sent.extend(self.collect(outputs).0);
            let next = self.stream.deadline();
            assert!(
                next.is_none_or(|next| next > self.now),
                "the stream wants to be woken again at once: it would spin"
            );
        }
        self.now = until;
        Sent(sent)
    }

    pub fn newest(&self) -> Arc<Snapshot> {
        self.store.newest().unwrap()
    }

    /// Returns the version of a resource in the newest snapshot.
    pub fn version(&self, kind: ResourceType, name: &str) -> String {
        self.newest().get(kind, name).unwrap().version().to_string()
    }

    /// Returns all rejections of responses and of single resources.
    pub fn rejections(&self) -> impl Iterator<Item = &Rejection> {
        self.notices.iter().filter_map(|notice| match notice {
            Notice::Rejected(rejection) => Some(rejection),
            _ => None,
        })
    }

    pub fn nacks(&self) -> usize {
        self.rejections().filter(|one| matches!(one.scope, RejectionScope::Response { .. })).count()
    }

    fn collect(&mut self, outputs: Vec<Output>) -> Sent {
        let mut sent = Vec::new();
        for output in outputs {
            match output {
                Output::Send(response) => {
                    self.check(&response);
                    sent.push(response);
                }
                Output::Notice(notice) => self.notices.push(notice),
            }
        }
        Sent(sent)
    }

    /// Asserts the rules of every response: case A7, and no name in two lists (D20, D31).
    fn check(&mut self, response: &Response) {
        assert!(!response.nonce.is_empty() && self.nonces.insert(response.nonce.clone()), "nonce: {response:?}");
        let mut seen = BTreeSet::new();
        let told = response.removed.iter().chain(&response.missing).map(|name| &**name);
        for name in names(response).into_iter().chain(told) {
            assert!(seen.insert(name), "{name} is in there twice: {response:?}");
        }
        if self.decodes {
            self.check_encoded(response);
        }
    }

    fn check_encoded(&self, response: &Response) {
        let bytes = encode::response(response, self.variant, "lockgate-test").into_bytes();
        let (type_url, nonce, anys, removed, identifier) = match self.variant {
            Variant::Sotw => {
                let decoded = discovery_v3::DiscoveryResponse::decode(bytes).unwrap();
                assert!(!decoded.version_info.is_empty());
                assert!(response.removed.is_empty(), "state of the world has no word for removal: {response:?}");
                let plane = decoded.control_plane.unwrap();
                (decoded.type_url, decoded.nonce, decoded.resources, Vec::new(), plane.identifier)
            }
            Variant::Delta => {
                let decoded = discovery_v3::DeltaDiscoveryResponse::decode(bytes).unwrap();
                // A missing virtual host is reported as an alias without content.
                let unknown = |name: &str| response.missing.iter().any(|missing| **missing == *name);
                let given: Vec<_> = decoded.resources.iter().filter(|r| !unknown(&r.name)).collect();
                assert_eq!(given.iter().map(|r| &*r.name).collect::<Vec<_>>(), names(response));
                assert!(given.iter().all(|r| !r.version.is_empty()));
                let anys = decoded.resources.iter().filter_map(|r| r.resource.clone()).collect();
                let plane = decoded.control_plane.unwrap();
                (decoded.type_url, decoded.nonce, anys, decoded.removed_resources, plane.identifier)
            }
        };
        assert_eq!((&*type_url, &*nonce, &*identifier), (&*response.type_url, &*response.nonce, "lockgate-test"));
        let fits = |url: &str| url == type_url || (response.leases && url.ends_with("discovery.v3.Resource"));
        assert!(anys.iter().all(|any| fits(&any.type_url)), "an Any of another type: {response:?}");
        assert!(removed.iter().map(|name| &**name).eq(response.removed.iter().map(|name| &**name)));
    }
}

/// Returns a delta request that answers no response.
pub fn delta_request(kind: ResourceType, subscribe: &[&str], unsubscribe: &[&str]) -> Request {
    Request {
        type_url: kind.url().into(),
        subscribe: subscribe.iter().map(|name| (*name).to_owned()).collect(),
        unsubscribe: unsubscribe.iter().map(|name| (*name).to_owned()).collect(),
        ..Request::default()
    }
}
