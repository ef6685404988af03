//! One client: an aggregated stream with the subscriptions of Envoy. It subscribes to clusters first, then to their
//! endpoints by name, to listeners, to the routes that they name, and to virtual hosts, scopes, and secrets as needed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::Context;
use bytes::Bytes;

use super::bits::Bits;
use super::clients::{Shared, Sight};
use super::names::FIRST_SPARE;
use super::sight::{self, Sighting, Type, Wanted};
use crate::http2::{Connection, Received, Tls};
use crate::wire::{self, Part, Request, Responses, Variant};

/// The HTTP/2 window; Envoy's default is larger.
const WINDOW: u32 = 16 << 20;
/// The pause after a refused connection.
const AGAIN: Duration = Duration::from_millis(5);

/// The options of a client.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The controller.
    pub address: SocketAddr,
    /// The protocol variant.
    pub variant: Variant,
    /// The TLS configuration of the connection.
    pub tls: Option<Tls>,
    /// `node.id`.
    pub node: String,
    /// `node.cluster`.
    pub cluster: String,
    /// The deadline of connection attempts.
    pub until: Instant,
}

/// Runs until the stream ends or the task is aborted.
///
/// # Errors
/// The connection fails, or the server ends the stream.
pub async fn run(plan: Plan, shared: Rc<Shared>) -> anyhow::Result<()> {
    let permit = shared.syncing.clone().acquire_owned().await?;
    let mut connection = loop {
        match Connection::open(plan.address, plan.tls.as_ref(), plan.variant.method(), WINDOW).await {
            Ok(connection) => break connection,
            Err(error) if Instant::now() > plan.until => return Err(error),
            Err(_) => tokio::time::sleep(AGAIN).await,
        }
    };
    let mut client = Client::new(&plan, shared.clone());
    client.permit = Some(permit);
    let mut responses = Responses::new(plan.variant);
    client.ask(Type::Cluster, Bytes::new(), Bytes::new());
    loop {
        for parts in client.outgoing.drain(..) {
            connection.send(&parts).await?;
        }
        let Received::Data(piece) = connection.receive().await? else { continue };
        shared.bytes.set(shared.bytes.get() + piece.len() as u64);
        responses.feed(piece, |part| match part {
            Part::Resource(resource) => client.resource(resource),
            Part::Removed(name) => client.removed.push(name.to_vec()),
            Part::End { nonce, version, type_url, .. } => client.end(nonce, version, type_url),
        })?;
        shared.stirred();
    }
}

/// The state of one type on a stream.
#[derive(Debug, Default)]
struct Asked {
    asked: bool,
    nonce: String,
    version: String,
}

struct Client {
    variant: Variant,
    node: Option<String>,
    cluster: String,
    shared: Rc<Shared>,
    outgoing: Vec<[Bytes; 3]>,
    asked: BTreeMap<Type, Asked>,
    removed: Vec<Vec<u8>>,
    /// The subscribed load assignments, and the load assignments of the clusters in this response (state of the world).
    endpoints: Bits,
    told: Bits,
    added: Vec<usize>,
    listeners: BTreeMap<Vec<u8>, Wanted>,
    scopes: BTreeMap<Vec<u8>, String>,
    routes: BTreeSet<String>,
    secrets: BTreeSet<String>,
    virtual_hosts: bool,
    has_hosts: Bits,
    has_spare_hosts: Bits,
    has_endpoints: Bits,
    has_changes: Bits,
    complete: bool,
    /// The permit of the first sync, released when it is complete.
    permit: Option<tokio::sync::OwnedSemaphorePermit>,
}

impl Client {
    fn new(plan: &Plan, shared: Rc<Shared>) -> Self {
        Self {
            variant: plan.variant,
            node: Some(plan.node.clone()),
            cluster: plan.cluster.clone(),
            shared,
            outgoing: Vec::new(),
            asked: BTreeMap::new(),
            removed: Vec::new(),
            endpoints: Bits::default(),
            told: Bits::default(),
            added: Vec::new(),
            listeners: BTreeMap::new(),
            scopes: BTreeMap::new(),
            routes: BTreeSet::new(),
            secrets: BTreeSet::new(),
            virtual_hosts: false,
            has_hosts: Bits::default(),
            has_spare_hosts: Bits::default(),
            has_endpoints: Bits::default(),
            has_changes: Bits::default(),
            complete: false,
            permit: None,
        }
    }

    /// Returns a request that is not an ACK, or that has new names.
    fn ask(&mut self, kind: Type, names: Bytes, gone: Bytes) {
        let node = self.node.take();
        let asked = self.asked.entry(kind).or_default();
        asked.asked = true;
        let nonce = if self.variant == Variant::Sotw { asked.nonce.as_str() } else { "" };
        let request = Request {
            node: node.as_deref(),
            cluster: &self.cluster,
            type_url: kind.url(),
            nonce,
            version: &asked.version,
            nack: false,
        };
        self.outgoing.push([request.encode(self.variant), names, gone]);
    }

    fn resource(&mut self, resource: &[u8]) {
        let Some(Sighting { kind, name, body }) = sight::sight(resource, self.variant) else { return };
        self.shared.counted(kind, resource.len());
        if kind.has_hosts() {
            self.hosts(body);
        }
        match kind {
            Type::Cluster => {
                if let Some(endpoints) = sight::endpoints_of(&name, body) {
                    let number = self.shared.names.borrow_mut().cluster(&name, endpoints);
                    match self.variant {
                        Variant::Sotw => {
                            self.told.insert(number);
                        }
                        Variant::Delta if self.endpoints.insert(number) => self.added.push(number),
                        Variant::Delta => {}
                    }
                }
            }
            Type::Endpoint => {
                let number = self.shared.names.borrow_mut().number(&name);
                self.has_endpoints.insert(number);
                if let Some(change) = sight::marker(body)
                    && self.has_changes.insert(change)
                {
                    self.shared.saw(Sight::Change(change));
                }
            }
            Type::Listener => {
                self.listeners.insert(name.into_owned(), sight::wanted_by(body));
            }
            Type::Route => self.virtual_hosts |= sight::wants_virtual_hosts(body),
            Type::Scope => {
                if let Some(route) = sight::route_of_scope(body) {
                    self.scopes.insert(name.into_owned(), route);
                }
            }
            Type::VirtualHost | Type::Secret => {}
        }
    }

    fn hosts(&mut self, body: &[u8]) {
        for change in sight::markers(body) {
            if self.has_changes.insert(change) {
                self.shared.saw(Sight::Change(change));
            }
        }
        for host in sight::hosts(body) {
            match host.checked_sub(FIRST_SPARE) {
                None => {
                    self.has_hosts.insert(host);
                }
                Some(spare) => {
                    if self.has_spare_hosts.insert(spare) {
                        self.shared.saw(Sight::Host(host));
                    }
                }
            }
        }
    }

    /// Accepts a response, and subscribes to the resources that it names.
    fn end(&mut self, nonce: &str, version: &str, type_url: &str) {
        let Some(kind) = Type::of(type_url.as_bytes()) else { return };
        self.shared.messages.set(self.shared.messages.get() + 1);
        let asked = self.asked.entry(kind).or_default();
        (asked.nonce, asked.version) = (nonce.to_owned(), version.to_owned());
        let names = if self.variant == Variant::Sotw { self.names(kind) } else { Bytes::new() };
        let request = Request { type_url: kind.url(), nonce, version, ..Request::default() };
        self.outgoing.push([request.encode(self.variant), names, Bytes::new()]);
        let removed = std::mem::take(&mut self.removed);
        match kind {
            Type::Cluster => self.clusters(&removed),
            Type::Listener => {
                removed.iter().for_each(|name| drop(self.listeners.remove(name)));
                self.follow();
            }
            Type::Scope => {
                removed.iter().for_each(|name| drop(self.scopes.remove(name)));
                self.follow();
            }
            Type::Route if self.virtual_hosts && !self.is_asked(Type::VirtualHost) => {
                self.ask(Type::VirtualHost, Bytes::new(), Bytes::new());
            }
            Type::Endpoint if !self.is_asked(Type::Listener) => self.ask(Type::Listener, Bytes::new(), Bytes::new()),
            _ => {}
        }
        let shared = &self.shared;
        if !self.complete
            && self.has_hosts.len() >= shared.hosts.get()
            && self.has_endpoints.len() >= shared.hosts.get()
        {
            self.complete = true;
            self.permit = None;
            shared.completed();
        }
    }

    fn is_asked(&self, kind: Type) -> bool {
        self.asked.get(&kind).is_some_and(|asked| asked.asked)
    }

    /// Encodes all subscribed names, which each request of state of the world contains.
    fn names(&self, kind: Type) -> Bytes {
        match kind {
            Type::Endpoint => self.shared.names.borrow_mut().encoded(&self.endpoints),
            Type::Route => wire::names(self.routes.iter().map(String::as_str)),
            Type::Secret => wire::names(self.secrets.iter().map(String::as_str)),
            _ => Bytes::new(),
        }
    }

    fn clusters(&mut self, removed: &[Vec<u8>]) {
        let told = std::mem::take(&mut self.told);
        let added = std::mem::take(&mut self.added);
        let mut gone = Vec::new();
        match self.variant {
            Variant::Sotw => {
                let changed = told != self.endpoints;
                self.endpoints = told;
                if changed {
                    self.ask(Type::Endpoint, self.names(Type::Endpoint), Bytes::new());
                }
            }
            Variant::Delta => {
                for cluster in removed {
                    let number = self.shared.names.borrow().endpoints_of(cluster);
                    gone.extend(number.filter(|number| self.endpoints.remove(*number)));
                }
                if !added.is_empty() || !gone.is_empty() {
                    let (added, gone) = {
                        let names = self.shared.names.borrow();
                        (
                            wire::names(added.iter().map(|n| names.name(*n))),
                            wire::gone(gone.iter().map(|n| names.name(*n))),
                        )
                    };
                    self.ask(Type::Endpoint, added, gone);
                }
            }
        }
        if self.endpoints.is_empty() && !self.is_asked(Type::Listener) {
            self.ask(Type::Listener, Bytes::new(), Bytes::new());
        }
    }

    /// Subscribes to the resources that listeners and scopes name.
    fn follow(&mut self) {
        let of_listeners = self.listeners.values().flat_map(|wanted| wanted.routes.iter());
        let routes: BTreeSet<String> = of_listeners.chain(self.scopes.values()).cloned().collect();
        let secrets: BTreeSet<String> =
            self.listeners.values().flat_map(|wanted| wanted.secrets.iter()).cloned().collect();
        if self.listeners.values().any(|wanted| wanted.scopes) && !self.is_asked(Type::Scope) {
            self.ask(Type::Scope, Bytes::new(), Bytes::new());
        }
        let before = std::mem::replace(&mut self.routes, routes);
        self.resubscribe(Type::Route, &before);
        let before = std::mem::replace(&mut self.secrets, secrets);
        self.resubscribe(Type::Secret, &before);
    }

    fn resubscribe(&mut self, kind: Type, before: &BTreeSet<String>) {
        let now = if kind == Type::Route { &self.routes } else { &self.secrets };
        if now == before {
            return;
        }
        let (names, gone) = match self.variant {
            Variant::Sotw => (self.names(kind), Bytes::new()),
            Variant::Delta => (
                wire::names(now.difference(before).map(String::as_str)),
                wire::gone(before.difference(now).map(String::as_str)),
            ),
        };
        self.ask(kind, names, gone);
    }
}

/// The error for a stream that ends, which fails the run.
pub(super) async fn guarded(plan: Plan, shared: Rc<Shared>) {
    let node = plan.node.clone();
    if let Err(error) = run(plan, shared.clone()).await.with_context(|| format!("client {node}")) {
        shared.failed(&error);
    }
}
