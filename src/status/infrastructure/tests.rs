#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use lockgate_route::objects::Transport;
use lockgate_route::testing::gateway::gateway_service;

use super::content::DesiredService;
use super::*;
use crate::status::queue::{WATCH_TIMEOUT, WriteOutcome};

const MILLISECOND: Duration = Duration::from_millis(1);

fn key() -> ObjectKey {
    ObjectKey::new("shop", "public-lockgate")
}

fn id() -> ObjectId {
    Kind::SERVICE.id(key())
}

/// The queue of the writes, and the confirmed contents.
struct Work {
    queue: Queue<Goal>,
    confirmed: Confirmed,
}

impl Default for Work {
    fn default() -> Self {
        Self { queue: Queue::new(None), confirmed: Confirmed::default() }
    }
}

impl Work {
    fn compare(&mut self, needs: &Needs, objects: &Objects, now: Instant) {
        self.queue.replace(self.confirmed.differences(needs, objects), now);
    }

    fn start(&mut self, now: Instant) -> Option<DueWrite<Goal>> {
        self.queue.start(now)
    }

    fn record(&mut self, write: DueWrite<Goal>, outcome: WriteOutcome, now: Instant) {
        self.queue.finish(&write, outcome, now);
        if outcome == WriteOutcome::Done {
            self.confirmed.insert(&write);
        }
    }
}

/// The plan that the Service of the Gateway `shop/public` has one port.
fn wants(target: u16) -> Needs {
    let content = DesiredObject::Service(DesiredService {
        key: key(),
        gateway: "public".into(),
        uid: "g".into(),
        class: "lockgate".into(),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        ports: vec![(Transport::Tcp, 80, target)],
        address: None,
        fleet: None,
        dedicated: None,
        draining: false,
    });
    Needs { wanted: [(content.id(), content)].into(), ..Needs::default() }
}

/// The objects, with the Service and its port or without.
fn has(target: Option<u16>) -> Objects {
    let mut objects = Objects::default();
    if let Some(target) = target {
        objects.apply(gateway_service("public", &[(80, target)]));
    }
    objects
}

#[test]
fn a_refused_write_is_pending_until_its_content_is_no_longer_wanted() {
    let (mut work, now) = (Work::default(), Instant::now());
    work.compare(&wants(12_345), &has(None), now);
    let write = work.start(now).unwrap();
    work.record(write, WriteOutcome::Done, now);
    work.compare(&wants(12_346), &has(Some(12_345)), now);
    assert!(work.queue.contains(&id()));
    let write = work.start(now).unwrap();
    assert!(work.queue.contains(&id()), "during the write");
    work.record(write, WriteOutcome::Failed, now);
    work.compare(&wants(12_346), &has(Some(12_345)), now);
    assert!(work.queue.contains(&id()));
    work.compare(&wants(12_345), &has(Some(12_345)), now);
    assert!(!work.queue.contains(&id()), "nothing is to be written, so no write ends the fault");
}

#[test]
fn no_namespace_delays_the_writes_of_another() {
    let service = |namespace: &str, name: &str| {
        let Some(DesiredObject::Service(service)) = wants(12_345).wanted.into_values().next() else {
            panic!("a Service")
        };
        let content = DesiredObject::Service(DesiredService { key: ObjectKey::new(namespace, name), ..service });
        (content.id(), content)
    };
    let all = [service("crowd", "a"), service("crowd", "b"), service("crowd", "c"), service("shop", "a")];
    let (mut work, now, plan) = (Work::default(), Instant::now(), Needs { wanted: all.into(), ..Needs::default() });
    work.compare(&plan, &Objects::default(), now);
    let order: Vec<String> = std::iter::from_fn(|| Some(work.start(now)?.id.key.to_string())).collect();
    assert_eq!(order, ["crowd/a", "shop/a", "crowd/b", "crowd/c"]);
}

#[test]
fn a_namespace_with_many_due_writes_gets_every_other_turn() {
    let service = |namespace: &str, name: &str| {
        let Some(DesiredObject::Service(service)) = wants(12_345).wanted.into_values().next() else {
            panic!("a Service")
        };
        let content = DesiredObject::Service(DesiredService { key: ObjectKey::new(namespace, name), ..service });
        (content.id(), content)
    };
    let crowd = (0..2000).map(|at| service("crowd", &format!("{at:04}")));
    let all = crowd.chain((0..3).map(|at| service("shop", &at.to_string())));
    let (mut work, now, plan) = (Work::default(), Instant::now(), Needs { wanted: all.collect(), ..Needs::default() });
    work.compare(&plan, &Objects::default(), now);
    let order: Vec<String> = std::iter::from_fn(|| Some(work.start(now)?.id.key.namespace.to_string())).collect();
    assert_eq!(order[..6], ["crowd", "shop", "crowd", "shop", "crowd", "shop"]);
    assert_eq!((order.len(), work.queue.count(Kind::SERVICE)), (2003, 2003), "all are in progress");
}

#[track_caller]
fn started(work: &mut Work, plan: &Needs, objects: &Objects, now: Instant) -> DueWrite<Goal> {
    work.compare(plan, objects, now);
    work.start(now).expect("a write")
}

#[test]
fn the_ports_of_a_created_object_are_known_before_the_watch_delivers_it() {
    let (mut work, now, plan) = (Work::default(), Instant::now(), wants(12_345));
    let write = started(&mut work, &plan, &has(None), now);
    assert!(write.item.base == Base::Object(None) && write.item.goal.is_some());
    work.compare(&plan, &has(None), now);
    assert_eq!((work.start(now), work.queue.count(Kind::SERVICE)), (None, 1), "it is in progress");
    work.record(write, WriteOutcome::Done, now);
    work.compare(&plan, &has(None), now);
    assert_eq!((work.start(now), work.queue.count(Kind::SERVICE)), (None, 1), "the watch has not reported it");
    assert_eq!(recent(&work.queue, &has(None)), [(key(), vec![(Transport::Tcp, 80, 12_345)])].into());
    work.compare(&plan, &has(Some(12_345)), now);
    assert_eq!((work.start(now), recent(&work.queue, &has(Some(12_345)))), (None, BTreeMap::new()));
}

#[test]
fn a_write_that_the_watch_does_not_deliver_is_repeated() {
    let (mut work, now, plan) = (Work::default(), Instant::now(), wants(12_345));
    let write = started(&mut work, &plan, &has(None), now);
    work.record(write, WriteOutcome::Done, now);
    let later = work.queue.next(now).expect("a time");
    assert_eq!(later, now + WATCH_TIMEOUT);
    started(&mut work, &plan, &has(None), later);
}

#[test]
fn a_new_leader_checks_every_object_once() {
    let (mut work, now, plan) = (Work::default(), Instant::now(), wants(12_345));
    let write = started(&mut work, &plan, &has(Some(12_345)), now);
    assert!(write.item.base != Base::Object(None), "labels are not observed");
    work.record(write, WriteOutcome::Done, now);
    for later in [now, now + WATCH_TIMEOUT, now + 10 * WATCH_TIMEOUT] {
        work.compare(&plan, &has(Some(12_345)), later);
        assert_eq!(work.start(later), None);
    }
    assert_eq!(work.queue.next(now + 10 * WATCH_TIMEOUT), None, "nothing to wait for");
}

#[test]
fn new_content_is_written_at_once_and_a_conflict_slows_down() {
    let (mut work, start) = (Work::default(), Instant::now());
    for target in [11_111, 12_222, 13_333] {
        let write = started(&mut work, &wants(target), &has(Some(10_000)), start);
        work.record(write, WriteOutcome::Done, start);
    }
    let (mut now, mut writes, plan) = (start, 0, wants(14_444));
    while now < start + Duration::from_secs(60) {
        // Another writer undoes each write with another value.
        let objects = has(Some(20_000 + writes));
        work.compare(&plan, &objects, now);
        match work.start(now) {
            Some(write) => {
                work.record(write, WriteOutcome::Done, now);
                writes += 1;
            }
            None => now = work.queue.next(now).expect("a time"),
        }
    }
    assert!((3..10).contains(&writes), "{writes}");
}

#[test]
fn failures_are_retried_with_backoff_and_delay_no_other_object() {
    let (mut work, mut now, mut plan) = (Work::default(), Instant::now(), wants(12_345));
    let mut waits = Vec::new();
    for _ in 0..9 {
        let write = started(&mut work, &plan, &has(None), now);
        work.record(write, WriteOutcome::Failed, now);
        work.compare(&plan, &has(None), now);
        let at = work.queue.next(now).expect("a time");
        assert_eq!(work.start(at - MILLISECOND), None);
        waits.push((at - now).as_millis());
        now = at;
    }
    assert_eq!(waits, [500, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000]);
    assert_eq!(work.queue.failures(&id()), 9);
    let write = started(&mut work, &plan, &has(None), now);
    work.record(write, WriteOutcome::Failed, now);
    let other = Kind::SERVICE.id(ObjectKey::new("shop", "other-lockgate"));
    plan.obsolete.insert(other.clone());
    let mut objects = has(None);
    objects.apply(gateway_service("other", &[(80, 11_111)]));
    let write = started(&mut work, &plan, &objects, now);
    assert_eq!((write.id, write.item.goal), (other, None));
}

#[test]
fn a_deleted_object_is_not_deleted_again() {
    let (mut work, now) = (Work::default(), Instant::now());
    let plan = Needs { obsolete: [id()].into(), ..Needs::default() };
    let objects = has(Some(12_345));
    let write = started(&mut work, &plan, &objects, now);
    work.record(write, WriteOutcome::Done, now);
    work.compare(&plan, &objects, now + Duration::from_secs(1));
    assert_eq!(work.start(now + Duration::from_secs(1)), None, "the watch delays deletions");
    work.compare(&Needs::default(), &has(None), now);
    assert_eq!(work.start(now), None);
}
