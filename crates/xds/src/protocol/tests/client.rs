//! A model of a client with random requests, for one type or several. It accepts requested resources, rejects some
//! contents, answers late or twice, disconnects, and reconnects. It records the state of the protocol, and checks every
//! response against the knowledge of the server when it was sent.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::harness::*;
use crate::protocol::{Request, Response, Variant};
use crate::snapshot::{Resource, ResourceType, Version};

/// The client's state of one type.
#[derive(Default)]
struct TypeState {
    /// The requested names, globs, aliases, and `*`.
    requested: BTreeSet<String>,
    /// The requested names in the last request that the server has received.
    received: BTreeSet<String>,
    /// State of the world: whether an empty list requests all resources. This ends with the first name.
    by_empty_list: bool,
    /// State of the world: whether the server has received a name on this stream, so that an empty list no longer
    /// requests all resources.
    named: bool,
    /// Whether the server has received other names in an outdated request.
    has_dropped: bool,
    /// Whether the client has sent a request on this stream.
    has_requested: bool,
    has: BTreeMap<String, Arc<Resource>>,
    version: String,
    nonce: String,
    /// The nonce of the last response that the server has sent.
    newest_nonce: String,
    /// State of the world: whether `version` describes all resources.
    is_complete: bool,
    /// The contents of rejected responses, the value of `events` when they were sent, and the number of repetitions
    /// since.
    rejected: BTreeMap<Vec<(String, Version)>, (usize, usize)>,
    /// The requests of this stream, for repetitions.
    past_requests: Vec<Request>,
}

impl TypeState {
    fn covers(requested: &BTreeSet<String>, resource: &Resource) -> bool {
        let name = &**resource.name();
        let glob = |requested: &String| requested.strip_suffix('*').is_some_and(|prefix| name.starts_with(prefix));
        requested.contains(name)
            || requested.iter().any(glob)
            || resource.lease().aliases.iter().any(|a| requested.contains(&**a))
    }
}

/// Formats a request for the log: the answer, and the requested names.
fn describe(request: &Request) -> String {
    let kind = ResourceType::of_url(&request.type_url).map_or("?", short);
    let answer = if request.error.is_some() { "no" } else { "ok" };
    let answer = if request.nonce.is_empty() { String::new() } else { format!(" {answer}#{}", request.nonce) };
    let has: Vec<&String> = request.initial_versions.keys().collect();
    format!("> {kind}{answer} {:?}-{:?} has {has:?} {}", request.subscribe, request.unsubscribe, request.version)
}

pub struct Client {
    pub bench: Bench,
    kinds: BTreeMap<ResourceType, TypeState>,
    to_client: VecDeque<Response>,
    to_server: VecDeque<Request>,
    /// The contents that the client rejects.
    rejects: BTreeSet<Version>,
    /// The number of events that may cause a response.
    events: usize,
    pub log: Vec<String>,
    /// The violations of the server.
    pub faults: Vec<String>,
}

impl Client {
    pub fn new(bench: Bench, kinds: &[ResourceType], rejects: BTreeSet<Version>) -> Self {
        Self {
            bench: bench.into_grpc(),
            kinds: kinds.iter().map(|kind| (*kind, TypeState::default())).collect(),
            to_client: VecDeque::new(),
            to_server: VecDeque::new(),
            rejects,
            events: 0,
            log: Vec::new(),
            faults: Vec::new(),
        }
    }

    fn is_delta(&self) -> bool {
        self.bench.variant == Variant::Delta
    }

    /// Handles a change of the store.
    pub fn published(&mut self) {
        self.events += 1;
        let sent = self.bench.catch_up();
        self.sent(sent);
    }

    /// Lets time pass. The client answers before the timeout of the server, because a later NACK is ignored.
    pub fn wait(&mut self, time: Duration) {
        if time > Duration::from_secs(1) {
            self.run();
        }
        let sent = self.bench.wait(time);
        self.sent(sent);
    }

    /// Subscribes to `name` or unsubscribes from it: with a separate message for delta, and with the new list
    /// otherwise.
    pub fn toggle(&mut self, kind: ResourceType, name: &str) {
        if let Some(request) = self.changed_names(kind, name) {
            self.send(kind, request);
        }
    }

    /// Returns the request that changes the subscription to `name`.
    fn changed_names(&mut self, kind: ResourceType, name: &str) -> Option<Request> {
        let delta = self.is_delta();
        let state = self.kinds.get_mut(&kind).unwrap();
        let leaves = state.requested.contains(name);
        let may_be_empty = !kind.wildcard_by_default() || delta || (state.has_requested && !state.by_empty_list);
        if leaves && state.requested.len() == 1 && !may_be_empty {
            return None; // An empty list would still mean everything.
        }
        if leaves {
            state.requested.remove(name);
            let requested = state.requested.clone();
            state.has.retain(|_, resource| TypeState::covers(&requested, resource));
        } else {
            state.requested.insert(name.to_owned());
        }
        if !state.has_requested {
            state.by_empty_list = name == "*" && kind.wildcard_by_default();
        }
        if !delta {
            return Some(self.whole_request(kind));
        }
        let mut request = delta_request(kind, &[], &[]);
        let list = if leaves { &mut request.unsubscribe } else { &mut request.subscribe };
        list.push(name.to_owned());
        if !leaves && !state.has_requested && state.by_empty_list {
            request.subscribe.clear();
        }
        Some(request)
    }

    /// State of the world: returns the request with all names, the last version, and the last nonce.
    fn whole_request(&mut self, kind: ResourceType) -> Request {
        let state = self.kinds.get_mut(&kind).unwrap();
        let everything = state.requested.len() == 1 && state.requested.contains("*");
        state.by_empty_list &= everything;
        let names = if state.by_empty_list { Vec::new() } else { state.requested.iter().cloned().collect() };
        let (version, nonce) = (state.version.clone(), state.nonce.clone());
        Request { type_url: kind.url().into(), subscribe: names, version, nonce, ..Request::default() }
    }

    fn send(&mut self, kind: ResourceType, request: Request) {
        let state = self.kinds.get_mut(&kind).unwrap();
        state.has_requested = true;
        state.past_requests.push(request.clone());
        self.to_server.push_back(request);
    }

    /// Repeats an old request, which must have no effect, or sends a redundant delta request.
    pub fn repeat(&mut self, kind: ResourceType, which: usize) {
        let delta = self.is_delta();
        let state = &self.kinds[&kind];
        if !state.has_requested {
            return;
        }
        let stale = |request: &&Request| {
            let silent = request.subscribe.is_empty() && request.unsubscribe.is_empty() && !request.nonce.is_empty();
            request.nonce != state.nonce && request.initial_versions.is_empty() && (!delta || silent)
        };
        let stale: Vec<&Request> = state.past_requests.iter().filter(stale).collect();
        let request = match (stale.get(which % (stale.len() + 1)), delta) {
            (Some(request), _) => (*request).clone(),
            (None, true) => delta_request(kind, &["", "q", "q"], &["q", "never", "never"]),
            (None, false) => return,
        };
        self.to_server.push_back(request);
    }

    /// Delivers one message to the server. Returns whether there was one.
    pub fn step_server(&mut self) -> bool {
        let Some(request) = self.to_server.pop_front() else { return false };
        self.log.push(describe(&request));
        let kind = ResourceType::of_url(&request.type_url).unwrap();
        let delta = self.is_delta();
        let state = self.kinds.get_mut(&kind).unwrap();
        let before = state.received.clone();
        if delta {
            if request.subscribe.is_empty() && request.unsubscribe.is_empty() && request.nonce.is_empty() {
                state.received.insert("*".to_owned());
            }
            state.received.extend(request.subscribe.iter().cloned());
            state.received.retain(|name| !request.unsubscribe.contains(name));
        } else {
            let mut names: BTreeSet<String> = request.subscribe.iter().cloned().collect();
            state.named |= !names.is_empty();
            if names.is_empty() && !state.named && kind.wildcard_by_default() {
                names.insert("*".to_owned());
            }
            if request.nonce == state.newest_nonce {
                state.received = names;
                self.events += usize::from(std::mem::take(&mut state.has_dropped));
            } else {
                // The request is outdated, but it shows that the client may have dropped some resources.
                state.has_dropped |= names != state.received;
            }
        }
        // A pure answer changes nothing.
        self.events += usize::from(!request.subscribe.is_empty() && delta || state.received != before);
        let sent = self.bench.request(request);
        self.sent(sent);
        true
    }

    fn sent(&mut self, sent: Sent) {
        for response in sent.0 {
            self.log.push(format!("{}#{}", line(&response), response.nonce));
            let kind = ResourceType::of_url(&response.type_url).unwrap();
            self.check(kind, &response);
            self.to_client.push_back(response);
        }
    }

    /// Checks that a response contains only requested resources, and repeats no rejected response.
    fn check(&mut self, kind: ResourceType, response: &Response) {
        // Endpoints may follow their clusters, and virtual hosts their routes.
        let follows = kind == ENDPOINTS || kind == ResourceType::VIRTUAL_HOST;
        let state = self.kinds.get_mut(&kind).unwrap();
        state.newest_nonce.clone_from(&response.nonce);
        let content: Vec<_> = response.resources.iter().map(|r| (r.name().to_string(), r.version())).collect();
        for resource in &response.resources {
            if !follows && !TypeState::covers(&state.received, resource) {
                self.faults.push(format!("{} was not asked for: {}", line(response), resource.name()));
            }
        }
        let bad = response.resources.iter().any(|resource| self.rejects.contains(&resource.version()));
        if !bad {
            return;
        }
        let (since, times) = state.rejected.entry(content).or_default();
        *times = if *since == self.events { *times + 1 } else { 1 };
        *since = self.events;
        // One repetition is permitted when another rejected resource has been corrected.
        if *times > 2 {
            self.faults.push(format!("{} was rejected before, and nothing has happened since", line(response)));
        }
    }

    /// Delivers one message to the client. Returns whether there was one. `toggled` is a name whose subscription changes
    /// with the answer.
    pub fn step_client(&mut self, toggled: Option<&str>) -> bool {
        let Some(response) = self.to_client.pop_front() else { return false };
        let kind = ResourceType::of_url(&response.type_url).unwrap();
        let (delta, is_complete) = (self.is_delta(), !self.is_delta() && kind.full_state());
        let refused = response.resources.iter().find(|r| self.rejects.contains(&r.version()));
        let error = refused.map(|resource| format!("bad {}", resource.name()));
        let state = self.kinds.get_mut(&kind).unwrap();
        if error.is_none() {
            if is_complete {
                state.has.clear();
            }
            for resource in &response.resources {
                if TypeState::covers(&state.requested, resource) {
                    state.has.insert(resource.name().to_string(), resource.clone());
                }
            }
            for name in response.removed.iter().chain(&response.missing) {
                state.has.retain(|has, resource| **has != **name && !resource.lease().aliases.contains(name));
            }
            state.version.clone_from(&response.version);
            state.is_complete =
                state.received.len() == 1 && state.received.contains("*") && state.requested == state.received;
        }
        state.nonce.clone_from(&response.nonce);
        let names = toggled.and_then(|name| self.changed_names(kind, name));
        let mut answer = match delta {
            true => names.unwrap_or_else(|| delta_request(kind, &[], &[])),
            false => self.whole_request(kind),
        };
        answer.nonce.clone_from(&response.nonce);
        answer.error = error;
        self.send(kind, answer);
        true
    }

    /// Exchanges messages until neither side has more to send.
    pub fn run(&mut self) {
        let mut steps = 0;
        while self.step_server() || self.step_client(None) {
            steps += 1;
            if steps > 1000 {
                self.faults.push("there is no end of it".to_owned());
                return;
            }
        }
    }

    /// Disconnects and reconnects the client.
    pub fn reconnect(&mut self) {
        self.to_client.clear();
        self.to_server.clear();
        self.bench.reconnect();
        self.events += 1;
        let delta = self.is_delta();
        for kind in self.kinds.keys().copied().collect::<Vec<_>>() {
            let state = self.kinds.get_mut(&kind).unwrap();
            state.nonce.clear();
            state.newest_nonce.clear();
            state.received.clear();
            (state.named, state.has_dropped) = (false, false);
            state.past_requests.clear();
            state.has_requested = false;
            let everything = state.requested.len() == 1 && state.requested.contains("*");
            if state.requested.is_empty() || (everything && !state.is_complete) {
                // The client has only some resources, so its version would be misleading.
                state.version.clear();
            }
            if state.requested.is_empty() {
                continue;
            }
            state.by_empty_list = everything && kind.wildcard_by_default();
            let request = if delta {
                let has = state.has.values();
                let initial_versions = has.map(|r| (r.name().to_string(), r.version().to_string())).collect();
                let mut names: Vec<&str> = state.requested.iter().map(String::as_str).collect();
                if state.by_empty_list {
                    names.clear();
                }
                Request { initial_versions, ..delta_request(kind, &names, &[]) }
            } else {
                self.whole_request(kind)
            };
            self.send(kind, request);
        }
    }

    /// Returns the missing and the unexpected resources of the client.
    pub fn assert_current(&self) {
        let newest = self.bench.newest();
        for (kind, state) in &self.kinds {
            let context = || format!("{kind:?} asked {:?} after {:#?}", state.requested, self.log);
            for resource in newest.all(*kind).filter(|resource| TypeState::covers(&state.requested, resource)) {
                let has = state.has.get(&**resource.name()).map(|has| has.version());
                assert_eq!(has, Some(resource.version()), "{}: {}", resource.name(), context());
            }
            // State of the world cannot express this removal, so the client keeps the resource.
            if self.is_delta() || kind.full_state() {
                for name in state.has.keys() {
                    assert!(newest.get(*kind, name).is_some(), "{name} is gone: {}", context());
                }
            }
        }
    }
}
