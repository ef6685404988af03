//! Random resources that a client rejects, in random batches. In the end, the client has every valid resource and the
//! last accepted version of each invalid one. The number of responses is bounded.
//!
//! The client handles an invalid response like Envoy 1.40: it applies nothing, or (for late faults of clusters,
//! listeners, and scopes) the valid part.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use super::super::harness::*;
use super::*;
use crate::protocol::{Notice, RejectionScope, Request, Response, Variant};
use crate::snapshot::{Resource, ResourceType, Snapshot, Store, Update, Version};

const NAMES: [&str; 16] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p"];
const TYPES: [ResourceType; 7] = [CLUSTER, ENDPOINTS, LISTENER, ROUTES, SECRET, SCOPED_ROUTES, VIRTUAL_HOST];
/// The lowest content that the client rejects.
const BAD: usize = 6;

/// Returns the resource `name`. Resources are cached, because encoding them takes long.
fn resource(kind: ResourceType, name: &'static str, content: usize) -> Resource {
    thread_local! {
        static MADE: RefCell<HashMap<(ResourceType, &'static str, usize), Resource>> = RefCell::default();
    }
    let make = || match kind {
        VIRTUAL_HOST => virtual_host(name, &format!("{name}-{content}")),
        _ => any_kind(kind, name, content as u32),
    };
    MADE.with_borrow_mut(|made| made.entry((kind, name, content)).or_insert_with(make).clone())
}

fn bad(kind: ResourceType) -> BTreeSet<Version> {
    NAMES.iter().flat_map(|name| (BAD..2 * BAD).map(move |at| resource(kind, name, at).version())).collect()
}

/// The message of a NACK.
#[derive(Debug, Clone, Copy)]
enum Text {
    /// It contains all invalid names.
    All,
    /// It contains the first invalid name.
    First,
    Nothing,
    /// It contains a valid name, or the first invalid one.
    Lies,
}

struct Client {
    bench: Bench,
    kind: ResourceType,
    bad: BTreeSet<Version>,
    takes_good: bool,
    text: Text,
    has: BTreeMap<String, Version>,
    /// The number of responses with a change, and of rejected ones.
    messages: usize,
    nacks: usize,
    /// The contents of rejected responses, none of which may be repeated.
    rejected: BTreeSet<Vec<(String, Version)>>,
    /// The names that the client had when it returned to a new controller, which does not know their content, and that have
    /// existed since.
    kept: BTreeSet<String>,
    log: Vec<String>,
}

/// The number of different clients of one type: with a stream of its own or not, with the two ways to reject, and with
/// the four texts.
const FORMS: u64 = 2 * 2 * 4;

impl Client {
    fn new(store: &Arc<Store>, variant: Variant, kind: ResourceType, form: u64) -> Self {
        let mut choices = Choices(form);
        let only = (choices.take(2) == 0).then_some(kind);
        let mut bench = Bench::over(store.clone(), variant, only);
        bench.decodes = false;
        let semantic = [CLUSTER, LISTENER, SCOPED_ROUTES].contains(&kind) && choices.take(2) == 0;
        let text = [Text::All, Text::First, Text::Nothing, Text::Lies][choices.take(4)];
        Self {
            bench,
            kind,
            bad: bad(kind),
            takes_good: semantic,
            text,
            has: BTreeMap::new(),
            messages: 0,
            nacks: 0,
            rejected: BTreeSet::new(),
            kept: BTreeSet::new(),
            log: vec![format!("{kind:?} {variant:?} {semantic} {text:?} {}", only.is_none())],
        }
    }

    fn start(&mut self) {
        let names: Vec<&str> = if self.kind.wildcard_by_default() { Vec::new() } else { NAMES.to_vec() };
        let sent = match self.bench.variant {
            Variant::Sotw => self.bench.ask_list(self.kind, &names),
            Variant::Delta => self.bench.request(delta_request(self.kind, &names, &[])),
        };
        self.run(sent);
    }

    /// Returns to a new controller with the same resources.
    fn come_back(&mut self) {
        let store = Arc::new(Store::default());
        let newest = self.bench.newest();
        store.replace(TYPES.iter().flat_map(|kind| newest.all(*kind)).map(|resource| (**resource).clone()).collect());
        self.bench.store = store;
        self.bench.reconnect();
        self.bench.notices.clear();
        self.kept = self.has.keys().cloned().collect();
        self.rejected.clear();
        self.messages = 0;
        self.log.push("returned".to_owned());
        self.start();
    }

    fn run(&mut self, sent: Sent) {
        let mut queue: std::collections::VecDeque<Response> = sent.0.into();
        loop {
            while let Some(response) = queue.pop_front() {
                self.messages += 1;
                assert!(self.messages < 2000, "no end of it: {:#?}", &self.log[self.log.len() - 20..]);
                let answer = self.take(&response);
                queue.extend(self.bench.request(answer).0);
            }
            // The pauses of the server.
            let Some(due) = self.bench.stream.deadline() else { break };
            let wait = due.saturating_duration_since(self.bench.now);
            queue.extend(self.bench.wait(wait).0);
        }
    }

    fn take(&mut self, response: &Response) -> Request {
        let whole = self.bench.variant == Variant::Sotw && self.kind.full_state();
        let is_bad = |resource: &&Arc<Resource>| self.bad.contains(&resource.version());
        let bad: Vec<&str> = response.resources.iter().filter(is_bad).map(|resource| &**resource.name()).collect();
        self.log.push(format!("{} bad {bad:?}", line(response)));
        if bad.is_empty() || self.takes_good {
            let set: BTreeSet<&str> = names(response).into_iter().collect();
            if whole {
                let newest = self.bench.newest();
                self.kept.retain(|name| newest.get(self.kind, name).is_some());
                let lost: Vec<&String> = self.kept.iter().filter(|name| !set.contains(&***name)).collect();
                assert!(lost.is_empty(), "{lost:?} would be deleted: {:#?}", self.log);
                self.has.retain(|name, _| set.contains(&**name));
            }
            for resource in response.resources.iter().filter(|resource| !is_bad(resource)) {
                self.has.insert(resource.name().to_string(), resource.version());
            }
            self.has.retain(|name, _| !response.removed.iter().any(|gone| **gone == **name));
        }
        if bad.is_empty() {
            return self.bench.ack_request(response);
        }
        self.nacks += 1;
        let content = response.resources.iter().map(|r| (r.name().to_string(), r.version())).collect();
        assert!(self.rejected.insert(content), "rejected before: {:#?}", self.log);
        let good = || names(response).into_iter().find(|name| !bad.contains(name));
        let why = match self.text {
            Text::All if self.takes_good => {
                format!(
                    "Error adding/updating cluster(s) {}",
                    bad.iter().map(|name| format!("{name}: no")).collect::<Vec<_>>().join(", ")
                )
            }
            Text::All => format!("they are bad: {}", bad.join(", ")),
            Text::First => format!("name: \"{}\"", bad[0]),
            Text::Nothing => "it is bad".to_owned(),
            Text::Lies => format!("[resource index 0: {}: no]", good().unwrap_or(bad[0])),
        };
        self.bench.nack_request(response, &why)
    }

    /// Returns the expected resources: valid ones from `newest`, and invalid ones from `fallback`.
    fn assert_has(&mut self, newest: &Snapshot, fallback: &BTreeMap<String, Version>) {
        let wanted: BTreeMap<String, Version> = newest
            .all(self.kind)
            .filter_map(|resource| match self.bad.contains(&resource.version()) {
                true => Some((resource.name().to_string(), *fallback.get(&**resource.name())?)),
                false => Some((resource.name().to_string(), resource.version())),
            })
            .collect();
        let mut has = self.has.clone();
        if self.bench.variant == Variant::Sotw && !self.kind.full_state() {
            has.retain(|name, _| newest.get(self.kind, name).is_some());
        }
        assert_eq!(has, wanted, "{:#?}", self.log);
        let told: BTreeSet<String> =
            self.bench.stream.state.types[&self.kind].rejected_names().map(|n| n.to_string()).collect();
        let bad = newest.all(self.kind).filter(|resource| self.bad.contains(&resource.version()));
        assert_eq!(told, bad.map(|resource| resource.name().to_string()).collect(), "{:#?}", self.log);
        assert!(self.bench.wait(ms(600_000)).is_empty(), "{:#?}", self.log);
    }
}

#[derive(Clone)]
struct History(Vec<u64>);

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

/// Returns a batch of changes, and the number of invalid resources.
fn batch(kind: ResourceType, choices: u64) -> (Update, usize) {
    let mut changes: BTreeMap<&'static str, Option<usize>> = BTreeMap::new();
    let mut choices = Choices(choices);
    let (many, few_bad) = (choices.take(12), choices.take(2) == 0);
    for _ in 0..=many {
        let name = NAMES[choices.take(16)];
        let content = choices.take(14);
        let content = if few_bad && choices.take(3) > 0 { content % BAD } else { content };
        changes.insert(name, (content < 2 * BAD).then_some(content));
    }
    let mut update = Update::default();
    for (name, content) in changes {
        match content {
            Some(content) => update.set.push(resource(kind, name, content)),
            None => update.remove.push((kind, Arc::from(name))),
        }
    }
    let refused = bad(kind);
    let bad = update.set.iter().filter(|resource| refused.contains(&resource.version())).count();
    (update, bad)
}

/// Returns 2·log2(n)+2.
fn bound(suspects: usize) -> usize {
    2 * suspects.max(1).next_power_of_two().trailing_zeros() as usize + 2
}

fn live(variant: Variant, kind: ResourceType, form: u64, history: &History) {
    let store = Arc::new(Store::default());
    let (first, mut first_bad) = batch(kind, history.0[0]);
    let count = first.set.len();
    store.replace(first.set);
    let mut client = Client::new(&store, variant, kind, form);
    client.start();
    let mut fallback = BTreeMap::new();
    let mut set = count;
    for (at, choices) in history.0.iter().enumerate() {
        // One response, and the bound for each invalid resource.
        let most = 2 + first_bad * bound(set);
        assert!(client.messages <= most, "{} messages, not {most}: {:#?}", client.messages, client.log);
        client.assert_has(&store.newest().unwrap(), &fallback);
        if at == 0 {
            continue;
        }
        fallback = client.has.clone();
        let (update, bad) = batch(kind, *choices);
        // Resources that are already rejected are not sent again.
        (set, first_bad) = (update.set.len(), bad);
        store.update(update);
        client.messages = 0;
        client.rejected.clear();
        let sent = client.bench.catch_up();
        client.run(sent);
    }
    client.assert_has(&store.newest().unwrap(), &fallback);
    let most = 2 + first_bad * bound(set);
    assert!(client.messages <= most, "{} messages, not {most}: {:#?}", client.messages, client.log);
    // A new client receives suspects last, so no valid resource is rejected with them.
    let mut fresh = Client::new(&store, variant, kind, form);
    fresh.text = Text::Nothing;
    fresh.start();
    let has = |client: &Client| client.has.clone();
    if variant == Variant::Delta || kind.full_state() {
        assert_eq!(has(&fresh), has(&client), "{:#?} and {:#?}", fresh.log, client.log);
    }
    let bad = store.newest().unwrap().all(kind).filter(|r| fresh.bad.contains(&r.version())).count();
    assert!(fresh.messages <= 2 + 2 * bad, "{:#?}", fresh.log);
    // All resources are valid in the end.
    let better = NAMES.iter().map(|name| resource(kind, name, 0));
    store.update(Update::setting(better.collect()));
    for client in [&mut client, &mut fresh] {
        client.rejected.clear();
        let sent = client.bench.catch_up();
        client.run(sent);
        client.assert_has(&store.newest().unwrap(), &BTreeMap::new());
        let apart: Vec<_> = client.bench.stream.state.types[&kind].tracked().collect();
        assert!(apart.is_empty(), "remembered for nothing: {apart:?} in {:#?}", client.log);
        let open = client.bench.notices.iter().fold(0i64, |open, notice| match notice {
            Notice::Rejected(one) if matches!(one.scope, RejectionScope::Resource { .. }) => open + 1,
            _ => open,
        });
        assert!(open == 0 || client.bench.notices.iter().any(|n| matches!(n, Notice::Recovered { .. })));
    }
}

/// Found by the property test: a cluster is removed, and added again in the version that was rejected before.
#[test]
fn a_removed_resource_is_not_restored_by_its_rejection() {
    let history = [7934504308910251371, 278719127556859728, 4878128743641173678, 15338956469512294179];
    live(Variant::Delta, CLUSTER, 0, &History(history.into()));
}

/// The controller restarts before or after changes. No resource that the client has is deleted while it exists.
fn comes_back(kind: ResourceType, form: u64, history: &History) {
    let store = Arc::new(Store::default());
    store.replace(batch(kind, history.0[0]).0.set);
    let mut client = Client::new(&store, Variant::Sotw, kind, form);
    client.start();
    for (at, choices) in history.0.iter().enumerate().skip(1) {
        if choices % 3 == 0 || at == 1 {
            client.come_back();
        }
        client.messages = 0;
        client.rejected.clear();
        client.bench.store.update(batch(kind, choices / 3).0);
        let sent = client.bench.catch_up();
        client.run(sent);
        let known = client.bench.stream.state.types[&kind].culprits().count();
        if client.takes_good && matches!(client.text, Text::All) {
            // The message of Envoy lists the invalid resources, so all others are accepted.
            let newest = client.bench.newest();
            let invalid = newest.all(kind).filter(|resource| client.bad.contains(&resource.version())).count();
            assert_eq!(known, invalid, "{:#?}", client.log);
            let valid = newest.all(kind).filter(|resource| !client.bad.contains(&resource.version()));
            for resource in valid {
                assert_eq!(client.has.get(&**resource.name()), Some(&resource.version()), "{:#?}", client.log);
            }
        }
    }
    client.rejected.clear();
    client.bench.store.update(Update::setting(NAMES.iter().map(|name| resource(kind, name, 0)).collect()));
    let sent = client.bench.catch_up();
    client.run(sent);
    client.assert_has(&client.bench.newest(), &BTreeMap::new());
}

fn histories() -> impl Strategy<Value = History> {
    prop::collection::vec(any::<u64>(), 1..8).prop_map(History)
}

proptest! {
    #![proptest_config(config(4_000))]

    #[test]
    fn sotw_isolates_invalid_resources(kind in 0..6usize, form in any::<u64>(), history in histories()) {
        live(Variant::Sotw, TYPES[kind], form, &history);
    }

    #[test]
    fn delta_isolates_invalid_resources(kind in 0..7usize, form in any::<u64>(), history in histories()) {
        live(Variant::Delta, TYPES[kind], form, &history);
    }
}

proptest! {
    #![proptest_config(config(4_000))]

    #[test]
    fn sotw_deletes_no_resource_of_a_returning_client(kind in 0..3usize, form in any::<u64>(), history in histories()) {
        comes_back([CLUSTER, LISTENER, SCOPED_ROUTES][kind], form, &history);
    }
}

/// A client that rejects everything receives each resource a few times, with increasing pauses, and then no more.
#[test]
fn a_client_that_rejects_everything_receives_few_responses() {
    for kind in TYPES {
        for variant in [Variant::Sotw, Variant::Delta] {
            if kind == VIRTUAL_HOST && variant == Variant::Sotw {
                continue;
            }
            for form in 0..FORMS {
                rejects_everything(kind, variant, form);
            }
        }
    }
}

fn rejects_everything(kind: ResourceType, variant: Variant, form: u64) {
    let store = Arc::new(Store::default());
    store.replace(NAMES.map(|name| resource(kind, name, BAD)).into());
    let mut client = Client::new(&store, variant, kind, form);
    let begun = client.bench.now;
    client.start();
    assert!(client.messages < 2 * NAMES.len(), "{:#?}", client.log);
    assert!(client.bench.now - begun > ms(1000), "without a pause: {:#?}", client.log);
    client.assert_has(&store.newest().unwrap(), &BTreeMap::new());
    store.update(Update::setting(vec![resource(kind, "a", BAD + 1)]));
    client.messages = 0;
    let sent = client.bench.catch_up();
    client.run(sent);
    assert_eq!(client.messages, 1, "{:#?}", client.log);
}
