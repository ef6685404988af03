//! Worlds are published one after the other, with messages in flight in both directions. The model of an Envoy must
//! lose no request, never wait for endpoints until the timeout, and have the last world in the end.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::super::envoy::Envoy;
use super::super::harness::*;
use super::*;
use crate::protocol::Variant;
use crate::snapshot::{References, Resource, Store};

/// The content of a cluster that the Envoy rejects.
const BAD: i64 = 2;
const CLUSTERS: [&str; 4] = ["a", "b", "c", "d"];

/// The events of a history.
#[derive(Clone)]
struct History(Vec<Event>);

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|event| write!(f, "\n  {event:?}"))
    }
}

#[derive(Debug, Clone)]
enum Event {
    Publish(World),
    /// Delivers messages to the server, and then to the client.
    Steps(usize, usize),
    Wait(Duration),
    Reconnect,
}

/// All resources of one publication. All referenced resources exist.
#[derive(Clone)]
struct World {
    /// The content of each cluster, and of its endpoints if it has any.
    clusters: [Option<(i64, Option<u32>)>; 4],
    /// The clusters of each route configuration, as indices of existing clusters.
    routes: [Vec<usize>; 2],
    /// The route configuration of each listener.
    listeners: [Option<usize>; 2],
}

impl Event {
    fn is_trouble(&self) -> bool {
        match self {
            Event::Publish(world) => world.is_trouble(),
            Event::Reconnect => true,
            Event::Steps(..) | Event::Wait(_) => false,
        }
    }
}

impl World {
    fn is_trouble(&self) -> bool {
        self.clusters.iter().flatten().any(|(content, _)| *content == BAD)
    }

    fn resources(&self) -> Vec<Resource> {
        let mut resources = Vec::new();
        let there: Vec<usize> = (0..4).filter(|i| self.clusters[*i].is_some()).collect();
        for (name, content) in CLUSTERS.into_iter().zip(&self.clusters) {
            let Some((content, endpoints)) = content else { continue };
            resources.push(made(format!("{name} {content}"), || cluster_at(name, content + 1)));
            let endpoints = endpoints.map(|port| made(format!("{name}:{port}"), || endpoints_at(name, port)));
            resources.extend(endpoints);
        }
        for (i, name) in ["r0", "r1"].into_iter().enumerate() {
            if !self.listeners.contains(&Some(i)) {
                continue;
            }
            let mut to: Vec<&str> = Vec::new();
            if !there.is_empty() {
                to = self.routes[i].iter().map(|at| CLUSTERS[there[at % there.len()]]).collect();
                to.sort_unstable();
                to.dedup();
            }
            resources.push(made(format!("{name} {to:?}"), || routes_for(name, "*", &to)));
        }
        for (name, routes) in ["l0", "l1"].into_iter().zip(self.listeners) {
            resources.extend(routes.map(|i| made(format!("{name} {i}"), || listener(name, ["r0", "r1"][i]))));
        }
        resources
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for resource in self.resources() {
            let References { clusters, routes, .. } = resource.references();
            let refers: Vec<&str> = clusters.iter().chain(routes.iter()).map(|name| &**name).collect();
            let version = &resource.version().to_string()[..4];
            write!(f, "{} {}@{version}->{refers:?}; ", short(resource.kind()), resource.name())?;
        }
        Ok(())
    }
}

impl World {
    /// Generates worlds with cluster contents below `contents`.
    fn of(choices: &mut Choices, contents: i64) -> Self {
        let clusters = [(); 4].map(|()| {
            let content = choices.take(contents as u64) as i64;
            let endpoints = choices.happens(9).then_some(1);
            let endpoints = endpoints.map(|port| port + choices.take(2) as u32);
            choices.happens(7).then_some((content, endpoints))
        });
        let routes = [(); 2].map(|()| (0..=choices.take(2)).map(|_| choices.take(4)).collect());
        let listeners = [(); 2].map(|()| {
            let routes = choices.take(2);
            choices.happens(8).then_some(routes)
        });
        World { clusters, routes, listeners }
    }
}

/// Generates sequences of worlds with cluster contents below `contents`.
fn worlds(contents: i64) -> impl Strategy<Value = World> {
    any::<u64>().prop_map(move |number| World::of(&mut Choices(number), contents))
}

fn histories(reconnects: u64, contents: i64) -> impl Strategy<Value = History> {
    let event = any::<u64>().prop_map(move |number| {
        let mut choices = Choices(number);
        match choices.take(12 + reconnects) {
            0..=5 => Event::Steps(choices.take(6), choices.take(6)),
            6..=9 => Event::Publish(World::of(&mut choices, contents)),
            10..=11 => Event::Wait(ms(choices.take(1500) as u64)),
            _ => Event::Reconnect,
        }
    });
    prop::collection::vec(event, 1..30).prop_map(History)
}

/// Returns a resource by its parameters. Resources are cached, because encoding them takes long.
fn made(key: String, make: impl FnOnce() -> Resource) -> Resource {
    thread_local! {
        static MADE: RefCell<HashMap<String, Resource>> = RefCell::default();
    }
    MADE.with_borrow_mut(|made| made.entry(key).or_insert_with(make).clone())
}

fn live(variant: Variant, first: &World, history: &History) -> Envoy {
    let store = Arc::new(Store::default());
    store.replace(first.resources());
    // In every other history, all resources are large and paced.
    let large = if history.0.len().is_multiple_of(2) { 0 } else { usize::MAX };
    let mut bench = Bench::pacing(store, variant, None, large);
    bench.decodes = false;
    let mut envoy = Envoy::start(bench);
    envoy.refuses =
        CLUSTERS.map(|name| made(format!("{name} {BAD}"), || cluster_at(name, BAD + 1)).version().to_string()).into();
    envoy.lenient = first.is_trouble() || history.0.iter().any(Event::is_trouble);
    for event in &history.0 {
        match event {
            Event::Publish(world) => envoy.publish(world.resources()),
            Event::Steps(server, client) => {
                let _ = (0..*server).all(|_| envoy.step_server());
                let _ = (0..*client).all(|_| envoy.step_client());
            }
            Event::Wait(time) => envoy.wait(*time),
            Event::Reconnect => envoy.reconnect(),
        }
        if !envoy.lenient {
            envoy.assert_served_if_level();
        }
    }
    // Until all gates are open and all unused resources are removed.
    for _ in 0..40 {
        envoy.run();
        if envoy.rests() {
            break;
        }
        envoy.wait(ms(1000));
    }
    envoy.run();
    envoy
}

proptest! {
    #![proptest_config(config(4_000))]

    #[test]
    fn sotw_loses_no_request_and_arrives(first in worlds(BAD), history in histories(0, BAD)) {
        let envoy = live(Variant::Sotw, &first, &history);
        envoy.assert_current();
        prop_assert!(envoy.failures.is_empty(), "{:#?}", envoy.failures);
        prop_assert!(envoy.fetch_timeouts == 0, "waited in vain in {:?}", envoy.log);
    }

    #[test]
    fn delta_loses_no_request_and_arrives(first in worlds(BAD), history in histories(0, BAD)) {
        let envoy = live(Variant::Delta, &first, &history);
        envoy.assert_current();
        prop_assert!(envoy.failures.is_empty(), "{:#?}", envoy.failures);
        prop_assert!(envoy.fetch_timeouts == 0, "waited in vain in {:?}", envoy.log);
    }

    #[test]
    fn delta_loses_no_request_over_lost_connections(first in worlds(BAD), history in histories(2, BAD)) {
        let envoy = live(Variant::Delta, &first, &history);
        envoy.assert_current();
        prop_assert!(envoy.failures.is_empty(), "{:#?}", envoy.failures);
    }

    /// Some worlds contain clusters that the Envoy rejects, with all resources in the same response. The last world has
    /// none. (Routes to a rejected cluster cannot be excluded: a new listener receives such routes rather than none.)
    #[test]
    fn rejections_are_overcome(
        first in worlds(BAD + 1),
        history in histories(0, BAD + 1),
        last in worlds(BAD),
        sotw in any::<bool>(),
    ) {
        let mut history = history;
        history.0.push(Event::Publish(last));
        let envoy = live(if sotw { Variant::Sotw } else { Variant::Delta }, &first, &history);
        envoy.assert_current();
        prop_assert!(envoy.fetch_timeouts == 0, "waited in vain in {:?}", envoy.log);
    }

    /// A state-of-the-world client does not report its resources, so a cluster may be removed before its routes.
    #[test]
    fn sotw_arrives_over_lost_connections(first in worlds(BAD), history in histories(2, BAD)) {
        live(Variant::Sotw, &first, &history).assert_current();
    }
}
