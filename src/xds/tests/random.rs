//! Histories by chance: worlds are published one after the other while messages are under way in both directions, and
//! the model of an Envoy must lose no request, never wait for endpoints in vain, and be current in the end.

use std::fmt;
use std::time::Duration;

use proptest::prelude::*;

use super::envoy::Envoy;
use super::harness::*;
use crate::snapshot::{References, Resource};
use crate::xds::Variant;

const CLUSTERS: [&str; 4] = ["a", "b", "c", "d"];

/// What happens, one after the other.
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
    /// Messages that arrive at the server, then at the client.
    Steps(usize, usize),
    Wait(Duration),
    Reconnect,
}

/// Everything that is published at one moment. What is referred to exists.
#[derive(Clone)]
struct World {
    /// Content of each cluster, and of its endpoints if it has any.
    clusters: [Option<(i64, Option<u32>)>; 4],
    /// Clusters, counted from the first that exists, that each route configuration leads to.
    routes: [Vec<usize>; 2],
    /// The route configuration of each listener.
    listeners: [Option<usize>; 2],
}

impl World {
    fn resources(&self) -> Vec<Resource> {
        let mut resources = Vec::new();
        let there: Vec<usize> = (0..4).filter(|i| self.clusters[*i].is_some()).collect();
        for (name, content) in CLUSTERS.into_iter().zip(&self.clusters) {
            let Some((content, endpoints)) = content else { continue };
            resources.push(cluster_at(name, content + 1));
            resources.extend(endpoints.map(|port| endpoints_at(name, port)));
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
            resources.push(routes_for(name, "*", &to));
        }
        for (name, routes) in ["l0", "l1"].into_iter().zip(self.listeners) {
            resources.extend(routes.map(|i| listener(name, ["r0", "r1"][i])));
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

fn worlds() -> impl Strategy<Value = World> {
    let cluster = || prop::option::weighted(0.7, (0..2i64, prop::option::weighted(0.9, 1..3u32)));
    let routes = || prop::collection::vec(0..4usize, 1..3);
    let listener = || prop::option::weighted(0.8, 0..2usize);
    let clusters = [cluster(), cluster(), cluster(), cluster()];
    (clusters, [routes(), routes()], [listener(), listener()]).prop_map(|(clusters, routes, listeners)| World {
        clusters,
        routes,
        listeners,
    })
}

fn histories(reconnects: u32) -> impl Strategy<Value = History> {
    let event = prop_oneof![
        4 => worlds().prop_map(Event::Publish),
        6 => (0..6usize, 0..6usize).prop_map(|(server, client)| Event::Steps(server, client)),
        2 => (0..1500u64).prop_map(|time| Event::Wait(ms(time))),
        reconnects => Just(Event::Reconnect),
    ];
    prop::collection::vec(event, 1..30).prop_map(History)
}

fn live(variant: Variant, first: &World, history: &History) -> Envoy {
    let bench = Bench::new(variant, None, []);
    bench.store.replace(first.resources());
    let mut envoy = Envoy::start(Bench::over(bench.store.clone(), variant, None));
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
    }
    for _ in 0..40 {
        envoy.run();
        envoy.wait(ms(1000));
    }
    envoy.run();
    envoy
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sotw_loses_no_request_and_arrives(first in worlds(), history in histories(0)) {
        let envoy = live(Variant::Sotw, &first, &history);
        envoy.assert_current();
        prop_assert!(envoy.failures.is_empty(), "{:#?}", envoy.failures);
        prop_assert_eq!(envoy.fetch_timeouts, 0);
    }

    #[test]
    fn delta_loses_no_request_and_arrives(first in worlds(), history in histories(0)) {
        let envoy = live(Variant::Delta, &first, &history);
        envoy.assert_current();
        prop_assert!(envoy.failures.is_empty(), "{:#?}", envoy.failures);
        prop_assert_eq!(envoy.fetch_timeouts, 0);
    }

    #[test]
    fn delta_loses_no_request_over_lost_connections(first in worlds(), history in histories(2)) {
        let envoy = live(Variant::Delta, &first, &history);
        envoy.assert_current();
        prop_assert!(envoy.failures.is_empty(), "{:#?}", envoy.failures);
    }

    /// A state-of-the-world client does not say what it has, so a cluster may go before its routes do.
    #[test]
    fn sotw_arrives_over_lost_connections(first in worlds(), history in histories(2)) {
        live(Variant::Sotw, &first, &history).assert_current();
    }
}
