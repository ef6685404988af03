//! A client in small that asks for whatever comes to its mind, of one type or of several at once: it takes what it has
//! asked for, rejects what it does not like, answers late or twice, breaks off and comes back. It keeps books of all of
//! this, and checks every response against what the server knew when it sent it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::harness::*;
use crate::server::{Request, Response, Variant};
use crate::snapshot::{Resource, ResourceType, Version};

/// What the client keeps of one type.
#[derive(Default)]
struct Holdings {
    /// Names, globs, aliases and `*` that it asks for.
    asked: BTreeSet<String>,
    /// The same as far as the server knows.
    told: BTreeSet<String>,
    /// State of the world: it says "everything" by an empty list, until it has given a name.
    by_empty_list: bool,
    /// Whether the server has seen a name on this stream, so that an empty list no longer means everything.
    named: bool,
    /// Whether the server has heard of other names in a request that was too old to count.
    let_go: bool,
    /// Whether it has said anything on this stream.
    begun: bool,
    has: BTreeMap<String, Arc<Resource>>,
    version: String,
    nonce: String,
    /// The nonce of what the server sent last.
    newest_nonce: String,
    /// State of the world: whether `version` was of everything.
    whole: bool,
    /// Contents of responses that it could not take, how much had happened when they were sent, and how often since.
    rejected: BTreeMap<Vec<(String, Version)>, (usize, usize)>,
    /// Requests of this stream, to be said again.
    old: Vec<Request>,
}

impl Holdings {
    fn covers(asked: &BTreeSet<String>, resource: &Resource) -> bool {
        let name = &**resource.name();
        let glob = |asked: &String| asked.strip_suffix('*').is_some_and(|prefix| name.starts_with(prefix));
        asked.contains(name) || asked.iter().any(glob) || resource.lease().aliases.iter().any(|a| asked.contains(&**a))
    }
}

/// One request in the log: what it answers, and what it asks for.
fn said(request: &Request) -> String {
    let kind = ResourceType::of_url(&request.type_url).map_or("?", short);
    let answer = if request.error.is_some() { "no" } else { "ok" };
    let answer = if request.nonce.is_empty() { String::new() } else { format!(" {answer}#{}", request.nonce) };
    let has: Vec<&String> = request.initial_versions.keys().collect();
    format!("> {kind}{answer} {:?}-{:?} has {has:?} {}", request.subscribe, request.unsubscribe, request.version)
}

pub struct Client {
    pub bench: Bench,
    kinds: BTreeMap<ResourceType, Holdings>,
    to_client: VecDeque<Response>,
    to_server: VecDeque<Request>,
    /// Contents that it does not take.
    refuses: BTreeSet<Version>,
    /// How much has happened that may make the server say something.
    happened: usize,
    pub log: Vec<String>,
    /// What the server should not have sent.
    pub faults: Vec<String>,
}

impl Client {
    pub fn new(bench: Bench, kinds: &[ResourceType], refuses: BTreeSet<Version>) -> Self {
        Self {
            bench: bench.into_grpc(),
            kinds: kinds.iter().map(|kind| (*kind, Holdings::default())).collect(),
            to_client: VecDeque::new(),
            to_server: VecDeque::new(),
            refuses,
            happened: 0,
            log: Vec::new(),
            faults: Vec::new(),
        }
    }

    fn is_delta(&self) -> bool {
        self.bench.variant == Variant::Delta
    }

    /// The store has changed.
    pub fn published(&mut self) {
        self.happened += 1;
        let sent = self.bench.catch_up();
        self.sent(sent);
    }

    /// Lets time pass. The client answers before the server gives up waiting: a NACK that comes later is not heard.
    pub fn wait(&mut self, time: Duration) {
        if time > Duration::from_secs(1) {
            self.run();
        }
        let sent = self.bench.wait(time);
        self.sent(sent);
    }

    /// Asks for `name`, or no longer, with a message of its own; or, in the other variant, with the new list.
    pub fn turn(&mut self, kind: ResourceType, name: &str) {
        if let Some(request) = self.changed_names(kind, name) {
            self.say(kind, request);
        }
    }

    /// The request that says that the interest in `name` has changed.
    fn changed_names(&mut self, kind: ResourceType, name: &str) -> Option<Request> {
        let delta = self.is_delta();
        let holdings = self.kinds.get_mut(&kind).unwrap();
        let leaves = holdings.asked.contains(name);
        let may_be_empty = !kind.wildcard_by_default() || delta || (holdings.begun && !holdings.by_empty_list);
        if leaves && holdings.asked.len() == 1 && !may_be_empty {
            return None; // An empty list would still mean everything.
        }
        if leaves {
            holdings.asked.remove(name);
            let asked = holdings.asked.clone();
            holdings.has.retain(|_, resource| Holdings::covers(&asked, resource));
        } else {
            holdings.asked.insert(name.to_owned());
        }
        if !holdings.begun {
            holdings.by_empty_list = name == "*" && kind.wildcard_by_default();
        }
        if !delta {
            return Some(self.whole_request(kind));
        }
        let mut request = delta_request(kind, &[], &[]);
        let list = if leaves { &mut request.unsubscribe } else { &mut request.subscribe };
        list.push(name.to_owned());
        if !leaves && !holdings.begun && holdings.by_empty_list {
            request.subscribe.clear();
        }
        Some(request)
    }

    /// State of the world: all names, the last version and nonce.
    fn whole_request(&mut self, kind: ResourceType) -> Request {
        let holdings = self.kinds.get_mut(&kind).unwrap();
        let everything = holdings.asked.len() == 1 && holdings.asked.contains("*");
        holdings.by_empty_list &= everything;
        let names = if holdings.by_empty_list { Vec::new() } else { holdings.asked.iter().cloned().collect() };
        let (version, nonce) = (holdings.version.clone(), holdings.nonce.clone());
        Request { type_url: kind.url().into(), subscribe: names, version, nonce, ..Request::default() }
    }

    fn say(&mut self, kind: ResourceType, request: Request) {
        let holdings = self.kinds.get_mut(&kind).unwrap();
        holdings.begun = true;
        holdings.old.push(request.clone());
        self.to_server.push_back(request);
    }

    /// Says an old thing again, which must count for nothing; or (delta) something that means little.
    pub fn repeat(&mut self, kind: ResourceType, which: usize) {
        let delta = self.is_delta();
        let holdings = &self.kinds[&kind];
        if !holdings.begun {
            return;
        }
        let stale = |old: &&Request| {
            let silent = old.subscribe.is_empty() && old.unsubscribe.is_empty() && !old.nonce.is_empty();
            old.nonce != holdings.nonce && old.initial_versions.is_empty() && (!delta || silent)
        };
        let stale: Vec<&Request> = holdings.old.iter().filter(stale).collect();
        let request = match (stale.get(which % (stale.len() + 1)), delta) {
            (Some(old), _) => (*old).clone(),
            (None, true) => delta_request(kind, &["", "q", "q"], &["q", "never", "never"]),
            (None, false) => return,
        };
        self.to_server.push_back(request);
    }

    /// Lets one message arrive at the server; whether there was one.
    pub fn step_server(&mut self) -> bool {
        let Some(request) = self.to_server.pop_front() else { return false };
        self.log.push(said(&request));
        let kind = ResourceType::of_url(&request.type_url).unwrap();
        let delta = self.is_delta();
        let holdings = self.kinds.get_mut(&kind).unwrap();
        let before = holdings.told.clone();
        if delta {
            if request.subscribe.is_empty() && request.unsubscribe.is_empty() && request.nonce.is_empty() {
                holdings.told.insert("*".to_owned());
            }
            holdings.told.extend(request.subscribe.iter().cloned());
            holdings.told.retain(|name| !request.unsubscribe.contains(name));
        } else {
            let mut names: BTreeSet<String> = request.subscribe.iter().cloned().collect();
            holdings.named |= !names.is_empty();
            if names.is_empty() && !holdings.named && kind.wildcard_by_default() {
                names.insert("*".to_owned());
            }
            if request.nonce == holdings.newest_nonce {
                holdings.told = names;
                self.happened += usize::from(std::mem::take(&mut holdings.let_go));
            } else {
                // Too old to count, but it tells that the client has perhaps let go of something.
                holdings.let_go |= names != holdings.told;
            }
        }
        // A pure answer changes nothing.
        self.happened += usize::from(!request.subscribe.is_empty() && delta || holdings.told != before);
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

    /// Nothing that was not asked for, and nothing twice that was rejected.
    fn check(&mut self, kind: ResourceType, response: &Response) {
        // Endpoints may follow their clusters, and virtual hosts their routes.
        let follows = kind == ENDPOINTS || kind == ResourceType::VIRTUAL_HOST;
        let holdings = self.kinds.get_mut(&kind).unwrap();
        holdings.newest_nonce.clone_from(&response.nonce);
        let content: Vec<_> = response.resources.iter().map(|r| (r.name().to_string(), r.version())).collect();
        for resource in &response.resources {
            if !follows && !Holdings::covers(&holdings.told, resource) {
                self.faults.push(format!("{} was not asked for: {}", line(response), resource.name()));
            }
        }
        let bad = response.resources.iter().any(|resource| self.refuses.contains(&resource.version()));
        if !bad {
            return;
        }
        let (since, times) = holdings.rejected.entry(content).or_default();
        *times = if *since == self.happened { *times + 1 } else { 1 };
        *since = self.happened;
        // Once more, when something that was rejected beside it has been mended.
        if *times > 2 {
            self.faults.push(format!("{} was rejected before, and nothing has happened since", line(response)));
        }
    }

    /// Lets one message arrive at the client; whether there was one. `turn`: a name whose answer brings a change of
    /// interest along.
    pub fn step_client(&mut self, turn: Option<&str>) -> bool {
        let Some(response) = self.to_client.pop_front() else { return false };
        let kind = ResourceType::of_url(&response.type_url).unwrap();
        let (delta, whole) = (self.is_delta(), !self.is_delta() && kind.full_state());
        let refused = response.resources.iter().find(|r| self.refuses.contains(&r.version()));
        let error = refused.map(|resource| format!("bad {}", resource.name()));
        let holdings = self.kinds.get_mut(&kind).unwrap();
        if error.is_none() {
            if whole {
                holdings.has.clear();
            }
            for resource in &response.resources {
                if Holdings::covers(&holdings.asked, resource) {
                    holdings.has.insert(resource.name().to_string(), resource.clone());
                }
            }
            for name in response.removed.iter().chain(&response.missing) {
                holdings.has.retain(|has, resource| **has != **name && !resource.lease().aliases.contains(name));
            }
            holdings.version.clone_from(&response.version);
            holdings.whole = holdings.told.len() == 1 && holdings.told.contains("*") && holdings.asked == holdings.told;
        }
        holdings.nonce.clone_from(&response.nonce);
        let names = turn.and_then(|name| self.changed_names(kind, name));
        let mut answer = match delta {
            true => names.unwrap_or_else(|| delta_request(kind, &[], &[])),
            false => self.whole_request(kind),
        };
        answer.nonce.clone_from(&response.nonce);
        answer.error = error;
        self.say(kind, answer);
        true
    }

    /// Exchanges messages until both have nothing more to say.
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

    /// The connection breaks, and the client comes back.
    pub fn reconnect(&mut self) {
        self.to_client.clear();
        self.to_server.clear();
        self.bench.reconnect();
        self.happened += 1;
        let delta = self.is_delta();
        for kind in self.kinds.keys().copied().collect::<Vec<_>>() {
            let holdings = self.kinds.get_mut(&kind).unwrap();
            holdings.nonce.clear();
            holdings.newest_nonce.clear();
            holdings.told.clear();
            (holdings.named, holdings.let_go) = (false, false);
            holdings.old.clear();
            holdings.begun = false;
            let everything = holdings.asked.len() == 1 && holdings.asked.contains("*");
            if holdings.asked.is_empty() || (everything && !holdings.whole) {
                // It has less than everything: its version would deceive.
                holdings.version.clear();
            }
            if holdings.asked.is_empty() {
                continue;
            }
            holdings.by_empty_list = everything && kind.wildcard_by_default();
            let request = if delta {
                let has = holdings.has.values();
                let initial_versions = has.map(|r| (r.name().to_string(), r.version().to_string())).collect();
                let mut names: Vec<&str> = holdings.asked.iter().map(String::as_str).collect();
                if holdings.by_empty_list {
                    names.clear();
                }
                Request { initial_versions, ..delta_request(kind, &names, &[]) }
            } else {
                self.whole_request(kind)
            };
            self.say(kind, request);
        }
    }

    /// What the client has that it should not have, and has not that it should.
    pub fn assert_current(&self) {
        let newest = self.bench.newest();
        for (kind, holdings) in &self.kinds {
            let context = || format!("{kind:?} asked {:?} after {:#?}", holdings.asked, self.log);
            for resource in newest.all(*kind).filter(|resource| Holdings::covers(&holdings.asked, resource)) {
                let has = holdings.has.get(&**resource.name()).map(|has| has.version());
                assert_eq!(has, Some(resource.version()), "{}: {}", resource.name(), context());
            }
            // Where state of the world has no word for what is gone, the client keeps it.
            if self.is_delta() || kind.full_state() {
                for name in holdings.has.keys() {
                    assert!(newest.get(*kind, name).is_some(), "{name} is gone: {}", context());
                }
            }
        }
    }
}
