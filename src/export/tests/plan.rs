//! Make before break without ACKs.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;
use crate::export::ExportTiming;
use crate::export::plan::{Next, Op, Plan};

const SETTLE: Duration = Duration::from_secs(1);
const GRACE: Duration = Duration::from_secs(5);

/// Returns a service `name` behind the route `web`.
fn shop(name: &str, port: u16) -> Items {
    items([cluster(name), endpoints(name, port), routes("web", name), listener("web", "web")])
}

/// A directory in memory, with a clock.
struct Lab {
    plan: Plan,
    now: Instant,
}

impl Lab {
    fn new() -> Self {
        let timing = ExportTiming { settle: SETTLE, removal_grace: GRACE };
        let now = Instant::now();
        Self { plan: Plan::new(timing, Items::new(), true, now), now }
    }

    /// Returns a lab in which `shop("a")` was written a while ago.
    fn with_a() -> Self {
        let mut lab = Self::new();
        lab.plan.set_target(shop("a", 1));
        lab.written();
        lab.now += SETTLE;
        lab
    }

    /// Performs all writes that are due now.
    fn written(&mut self) -> Vec<String> {
        let mut all = Vec::new();
        while let Next::Write(ops) = self.plan.next(self.now) {
            all.extend(ops.iter().map(describe));
            self.plan.done(ops, self.now);
        }
        all
    }

    /// Returns the time until the next action.
    fn pause(&mut self) -> Option<Duration> {
        match self.plan.next(self.now) {
            Next::Write(ops) => panic!("{ops:?}"),
            Next::Wait(until) => until.map(|until| until - self.now),
        }
    }

    /// Waits for `pause`, as the plan requires, and writes.
    fn after(&mut self, pause: Duration) -> Vec<String> {
        assert_eq!(self.pause(), Some(pause));
        self.now += pause;
        self.written()
    }
}

/// Formats an operation: `Cluster a,b`, `ClusterLoadAssignment b`, `no ClusterLoadAssignment a`.
fn describe(op: &Op) -> String {
    match op {
        Op::Alone(item) => format!("{:?} {}", item.resource.kind(), item.resource.name()),
        Op::Remove((kind, name)) => format!("no {kind:?} {name}"),
        Op::Together(kind, items) => {
            let names: Vec<_> = items.iter().map(|item| &**item.resource.name()).collect();
            format!("{kind:?} {}", names.join(","))
        }
    }
}

#[test]
fn f2_the_first_files_are_written_without_a_pause_the_listeners_last() {
    let mut lab = Lab::new();
    assert_eq!(lab.pause(), None);
    lab.plan.set_target(shop("a", 1));
    let expected = ["ClusterLoadAssignment a", "Cluster a", "RouteConfiguration web", "Listener web"];
    assert_eq!(lab.written(), expected);
    assert!(lab.plan.is_idle(lab.now));
}

#[test]
fn f2_files_are_written_even_if_there_is_nothing() {
    let mut lab = Lab::new();
    lab.plan.set_target(Items::new());
    assert_eq!(lab.written(), ["Cluster ", "Listener "]);
}

#[test]
fn f1_a_rename_takes_three_steps() {
    let mut lab = Lab::with_a();
    lab.plan.set_target(shop("b", 1));
    assert_eq!(lab.written(), ["ClusterLoadAssignment b", "Cluster a,b"]);
    assert_eq!(lab.after(SETTLE), ["RouteConfiguration web"]);
    assert_eq!(lab.after(GRACE), ["Cluster b"]);
    assert_eq!(lab.after(GRACE), ["no ClusterLoadAssignment a"]);
    assert_eq!(lab.pause(), None);
}

#[test]
fn f1_a_restart_may_be_right_after_new_clusters() {
    let mut lab = Lab::new();
    let timing = ExportTiming { settle: SETTLE, removal_grace: GRACE };
    let mut written = shop("a", 1);
    written.extend(items([cluster("b"), endpoints("b", 1)]));
    lab.plan = Plan::new(timing, written, false, lab.now);
    lab.plan.set_target(shop("b", 1));
    assert_eq!(lab.written(), ["Cluster a,b", "Listener web"][..1]);
    assert_eq!(lab.after(SETTLE), ["RouteConfiguration web", "Listener web"]);
}

#[test]
fn f1_endpoints_wait_for_nothing() {
    let mut lab = Lab::with_a();
    lab.plan.set_target(shop("a", 2));
    assert_eq!(lab.written(), ["ClusterLoadAssignment a"]);
    lab.plan.set_target(shop("b", 1));
    lab.written();
    let mut both = shop("b", 2);
    both.extend(items([cluster("a"), endpoints("a", 3)]));
    lab.plan.set_target(both);
    assert_eq!(lab.written(), ["ClusterLoadAssignment a", "ClusterLoadAssignment b"]);
}

#[test]
fn f1_routes_to_known_clusters_wait_for_nothing() {
    let mut lab = Lab::new();
    let mut both = shop("a", 1);
    both.extend(items([cluster("b"), endpoints("b", 1)]));
    lab.plan.set_target(both.clone());
    lab.written();
    lab.now += SETTLE;
    both.extend(items([routes("web", "b")]));
    lab.plan.set_target(both);
    assert_eq!(lab.written(), ["RouteConfiguration web"]);
}

#[test]
fn f1_changes_that_go_on_put_nothing_off() {
    let mut lab = Lab::with_a();
    let mut routes = Vec::new();
    for i in 0..8 {
        lab.plan.set_target(shop(&format!("b{i}"), 1));
        routes.extend(lab.written().into_iter().filter(|describe| describe.starts_with("Route")));
        lab.now += SETTLE * 2 / 5;
    }
    assert_eq!(routes.len(), 2, "routes to b0 after 1.2 s, then routes to b3");
}

#[test]
fn f1_what_cannot_be_written_holds_up_nothing_newer() {
    let mut lab = Lab::with_a();
    lab.plan.set_target(shop("b", 1));
    lab.written();
    lab.now += SETTLE;
    let Next::Write(ops) = lab.plan.next(lab.now) else { panic!("the routes are due") };
    assert_eq!(ops.iter().map(describe).collect::<Vec<_>>(), ["RouteConfiguration web"]);
    lab.plan.failed();
    lab.plan.set_target(shop("c", 1));
    assert_eq!(lab.written(), ["ClusterLoadAssignment c", "Cluster a,b,c"]);
    assert_eq!(lab.after(SETTLE), ["RouteConfiguration web"]);
    assert_eq!(lab.after(GRACE - SETTLE), ["Cluster a,c"], "no route ever led to b");
}

#[test]
fn f1_what_is_taken_back_in_time_never_happens() {
    let mut lab = Lab::with_a();
    lab.plan.set_target(shop("b", 1));
    lab.written();
    lab.plan.set_target(shop("a", 1));
    assert_eq!(lab.written(), [""; 0]);
    assert_eq!(lab.after(GRACE), ["Cluster a"]);
}

#[test]
fn f1_listeners_go_before_their_routes_and_these_before_their_clusters() {
    let mut lab = Lab::with_a();
    lab.plan.set_target(Items::new());
    assert_eq!(lab.written(), ["Listener "]);
    assert_eq!(lab.after(GRACE), ["no RouteConfiguration web"]);
    assert_eq!(lab.after(GRACE), ["Cluster "]);
    assert_eq!(lab.after(GRACE), ["no ClusterLoadAssignment a"]);
}

#[test]
fn f1_a_route_configuration_stays_as_long_as_a_listener_names_it() {
    let mut lab = Lab::with_a();
    lab.plan.set_target(items([listener("web", "web")]));
    assert_eq!(lab.written(), [""; 0]);
    assert_eq!(lab.pause(), None);
}

/// The files on disk in the property test.
#[derive(Default)]
struct Files {
    items: Items,
    /// The time since when each cluster has existed.
    since: std::collections::BTreeMap<Arc<str>, Instant>,
}

impl Files {
    fn apply(&mut self, op: &Op, now: Instant, first: bool) {
        let key = |item: &Arc<Item>| (item.resource.kind(), item.resource.name().clone());
        match op {
            Op::Alone(item) => drop(self.items.insert(key(item), item.clone())),
            Op::Remove(key) => drop(self.items.remove(key)),
            Op::Together(kind, items) => {
                self.items.retain(|(other, _), _| other != kind);
                self.items.extend(items.iter().map(|item| (key(item), item.clone())));
                if *kind == ResourceType::CLUSTER {
                    let names: BTreeSet<_> = items.iter().map(|item| item.resource.name().clone()).collect();
                    self.since.retain(|name, _| names.contains(name));
                    let known: BTreeSet<_> = self.since.keys().cloned().collect();
                    self.since.extend(names.into_iter().filter(|name| !known.contains(name)).map(|name| (name, now)));
                }
            }
        }
        for item in self.items.values() {
            let references = item.resource.references();
            let has = |kind, name: &Arc<str>| self.items.contains_key(&(kind, name.clone()));
            assert!(
                references.endpoints.iter().all(|name| has(ResourceType::ENDPOINTS, name)),
                "no endpoints: {item:?}"
            );
            assert!(references.routes.iter().all(|name| has(ResourceType::ROUTES, name)), "no routes: {item:?}");
            assert!(references.clusters.iter().all(|name| has(ResourceType::CLUSTER, name)), "no cluster: {item:?}");
        }
        if let Op::Alone(item) = op
            && item.resource.kind() == ResourceType::ROUTES
            && !first
        {
            for name in item.resource.references().clusters.iter() {
                assert!(now - self.since[name] >= SETTLE, "{name} was not given the time: {item:?}");
            }
        }
    }
}

proptest! {
    #[test]
    fn f1_no_file_ever_names_what_is_not_there(
        steps in prop::collection::vec((prop::collection::vec((0..4u8, 0..3u8, 1..3u16), 0..4), 0..4000u64), 1..12),
    ) {
        let (mut lab, mut files) = (Lab::new(), Files::default());
        let mut run = |lab: &mut Lab, until: Instant, first: bool| loop {
            match lab.plan.next(lab.now) {
                Next::Write(ops) => {
                    ops.iter().for_each(|op| files.apply(op, lab.now, first));
                    lab.plan.done(ops, lab.now);
                }
                Next::Wait(Some(next)) if next <= until => lab.now = next,
                Next::Wait(_) => return files.items.clone(),
            }
        };
        let mut target = Items::new();
        for (i, (services, pause)) in steps.into_iter().enumerate() {
            target = services.into_iter().flat_map(|(listen, service, port)| {
                let (name, web) = (format!("s{service}"), format!("web{listen}"));
                items([cluster(&name), endpoints(&name, port), routes(&web, &name), listener(&web, &web)])
            }).collect();
            lab.plan.set_target(target.clone());
            let until = lab.now + Duration::from_millis(pause);
            run(&mut lab, until, i == 0);
            lab.now = until;
        }
        let end = lab.now + (SETTLE + GRACE) * 10;
        prop_assert_eq!(run(&mut lab, end, false), target);
    }
}
