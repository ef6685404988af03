//! A client with arbitrary requests for one type or several, in both variants.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use super::super::client::Client;
use super::super::harness::*;
use super::*;
use crate::protocol::Variant;
use crate::snapshot::{Lease, Resource, ResourceType, Store, Update};

const HOSTS: ResourceType = ResourceType::VIRTUAL_HOST;
const SCOPES: ResourceType = ResourceType::SCOPED_ROUTES;
/// The content that the client rejects.
const BAD: usize = 3;
/// The names of resources. `d` has an alias in some types. The last two are in one collection.
const NAMES: [&str; 6] = ["a", "b", "c", "d", "xdstp://lockgate/T/p/1", "xdstp://lockgate/T/p/2"];

/// Returns the possible subscriptions of a type. Most of them occur several times.
fn askable(kind: ResourceType, variant: Variant) -> Vec<&'static str> {
    let mut names = vec!["*", "a", "b", "c", "a", "b", "absent"];
    if variant == Variant::Delta {
        names.extend(["xdstp://lockgate/T/p/*", NAMES[4]]);
        names.extend(has_alias(kind).then_some("also-d"));
    }
    if kind == SECRET {
        names.remove(0);
    }
    names
}

fn has_alias(kind: ResourceType) -> bool {
    kind == ENDPOINTS || kind == SECRET
}

/// Returns the resource `name`. Resources are cached, because encoding them takes long.
fn resource(kind: ResourceType, name: &'static str, content: usize) -> Resource {
    thread_local! {
        static MADE: RefCell<HashMap<(ResourceType, &'static str, usize), Resource>> = RefCell::default();
    }
    let make = || {
        let plain = match kind {
            HOSTS => virtual_host(name, &format!("host-{content}")),
            _ => any_kind(kind, name, content as u32),
        };
        let aliases = if has_alias(kind) && name == "d" { vec![Arc::from("also-d")] } else { Vec::new() };
        let ttl = (kind == ENDPOINTS && content == 2).then(|| ms(7000));
        match aliases.is_empty() && ttl.is_none() {
            true => plain,
            false => Resource::with_lease(
                kind,
                name,
                &plain.message(),
                Lease { ttl, aliases, ..Lease::default() },
                Vec::new(),
            ),
        }
    };
    MADE.with_borrow_mut(|made| made.entry((kind, name, content)).or_insert_with(make).clone())
}

/// The events of a history.
#[derive(Clone)]
struct History(Vec<u64>);

#[derive(Debug)]
enum Event {
    /// Sets some resources by type, name, and content. `None`: the resource is removed.
    Publish(Vec<(ResourceType, &'static str, Option<usize>)>),
    /// The client subscribes to this name, or unsubscribes.
    Turn(ResourceType, &'static str),
    /// Delivers messages to the server, and then to the client. One answer changes a subscription.
    Steps(usize, usize, Option<&'static str>),
    Repeat(ResourceType, usize),
    Wait(u64),
    Reconnect,
}

impl Event {
    fn of(number: u64, variant: Variant, kinds: &[ResourceType]) -> Self {
        let mut choices = Choices(number);
        let what = choices.take(16);
        let kind = kinds[choices.take(kinds.len() as u64)];
        let askable = askable(kind, variant);
        let name = askable[choices.take(askable.len() as u64)];
        match what {
            0..=3 => Event::Turn(kind, name),
            4..=7 => {
                let some = 1 + choices.take(3);
                let change = |_| {
                    let kind = kinds[choices.take(kinds.len() as u64)];
                    let name = NAMES[choices.take(NAMES.len() as u64)];
                    let content = choices.take(6);
                    (kind, name, (content <= BAD).then_some(content))
                };
                Event::Publish((0..some).map(change).collect())
            }
            8..=12 => {
                let (server, client) = (choices.take(4), choices.take(4));
                // `*` is not valid for every type that may be answered.
                let turn = choices.take(4) == 0 && name != "*" && name != "also-d";
                Event::Steps(server, client, turn.then_some(name))
            }
            13 => Event::Repeat(kind, choices.take(8)),
            14 => Event::Wait([10, 800, 4000, 25_000][choices.take(4)]),
            _ => Event::Reconnect,
        }
    }
}

impl History {
    fn events(&self, variant: Variant, kinds: &[ResourceType]) -> Vec<Event> {
        self.0.iter().map(|number| Event::of(*number, variant, kinds)).collect()
    }
}

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

fn histories() -> impl Strategy<Value = History> {
    prop::collection::vec(any::<u64>(), 1..24).prop_map(History)
}

fn live(variant: Variant, only: Option<ResourceType>, kinds: &[ResourceType], history: &History) {
    let store = Arc::new(Store::default());
    let first = kinds.iter().flat_map(|kind| ["a", "d"].map(|name| resource(*kind, name, 0)));
    store.replace(first.collect());
    let refuses = kinds.iter().flat_map(|kind| NAMES.map(|name| resource(*kind, name, BAD).version()));
    let refuses: BTreeSet<_> = refuses.collect();
    let mut bad: BTreeMap<(ResourceType, &'static str), bool> = BTreeMap::new();
    // In every other history, all resources are large and paced.
    let large = if history.0.len().is_multiple_of(2) { 0 } else { usize::MAX };
    let mut bench = Bench::pacing(store.clone(), variant, only, large);
    bench.decodes = false;
    let mut client = Client::new(bench, kinds, refuses);
    let events = history.events(variant, kinds);
    for event in &events {
        match event {
            Event::Publish(changes) => {
                client.log.push(format!("{changes:?}"));
                let mut update = Update::default();
                for (kind, name, content) in changes {
                    bad.insert((*kind, name), *content == Some(BAD));
                    match content {
                        Some(content) => update.set.push(resource(*kind, name, *content)),
                        None => update.remove.push((*kind, Arc::from(*name))),
                    }
                }
                // In a batch, set resources take precedence over removed ones.
                for (kind, name, content) in changes {
                    if *content == Some(BAD) {
                        bad.insert((*kind, name), true);
                    }
                }
                store.update(update);
                client.published();
            }
            Event::Turn(kind, name) => client.toggle(*kind, name),
            Event::Steps(server, client_steps, turn) => {
                let _ = (0..*server).all(|_| client.step_server());
                let _ = (0..*client_steps).all(|step| client.step_client(turn.filter(|_| step == 0)));
            }
            Event::Repeat(kind, which) => client.repeat(*kind, *which),
            Event::Wait(time) => client.wait(ms(*time)),
            Event::Reconnect => {
                client.log.push("lost".to_owned());
                client.reconnect();
            }
        }
    }
    // The client can be at rest with rejected resources. In the end, it receives valid ones.
    client.run();
    let better = bad.iter().filter(|(_, bad)| **bad).map(|((kind, name), _)| resource(*kind, name, 0));
    store.update(Update { set: better.collect(), remove: Vec::new() });
    client.published();
    for _ in 0..5 {
        client.run();
        client.wait(ms(9000));
    }
    client.run();
    assert!(client.faults.is_empty(), "{:#?}\nin {:#?}", client.faults, client.log);
    client.assert_current();
}

const KINDS_OF_STREAMS: [ResourceType; 7] = [CLUSTER, ENDPOINTS, LISTENER, ROUTES, SECRET, HOSTS, SCOPES];

proptest! {
    #![proptest_config(config(20_000))]

    #[test]
    fn sotw_of_one_type_arrives(kind in 0..7usize, history in histories()) {
        let kind = KINDS_OF_STREAMS[kind];
        live(Variant::Sotw, Some(kind), &[kind], &history);
    }

    #[test]
    fn delta_of_one_type_arrives(kind in 0..7usize, history in histories()) {
        let kind = KINDS_OF_STREAMS[kind];
        live(Variant::Delta, Some(kind), &[kind], &history);
    }

    #[test]
    fn sotw_of_several_types_arrives(first in 0..7usize, second in 0..7usize, history in histories()) {
        let kinds = BTreeSet::from([first, second]).into_iter().map(|i| KINDS_OF_STREAMS[i]).collect::<Vec<_>>();
        live(Variant::Sotw, None, &kinds, &history);
    }

    #[test]
    fn delta_of_several_types_arrives(first in 0..7usize, second in 0..7usize, history in histories()) {
        let kinds = BTreeSet::from([first, second]).into_iter().map(|i| KINDS_OF_STREAMS[i]).collect::<Vec<_>>();
        live(Variant::Delta, None, &kinds, &history);
    }
}
