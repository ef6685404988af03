#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use lockgate_route::objects::Transport;
use lockgate_route::testing::gateway::gateway_service;

use super::super::content::Service;
use super::*;

const MILLISECOND: Duration = Duration::from_millis(1);

fn key() -> ObjectKey {
    ObjectKey::new("shop", "public-lockgate")
}

fn id() -> ObjectId {
    Kind::SERVICE.id(key())
}

/// The plan that the Service of the Gateway `shop/public` has one port.
fn wants(target: u16) -> Plan {
    let content = Content::Service(Service {
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
    Plan { wanted: [(content.id(), content)].into(), ..Plan::default() }
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
    work.record(write, Outcome::Done, now);
    work.compare(&wants(12_346), &has(Some(12_345)), now);
    assert!(work.is_pending(&id()));
    let write = work.start(now).unwrap();
    assert!(work.is_pending(&id()), "during the write");
    work.record(write, Outcome::Failed, now);
    work.compare(&wants(12_346), &has(Some(12_345)), now);
    assert!(work.is_pending(&id()));
    work.compare(&wants(12_345), &has(Some(12_345)), now);
    assert!(!work.is_pending(&id()), "nothing is to be written, so no write ends the fault");
}

#[test]
fn no_namespace_delays_the_writes_of_another() {
    let service = |namespace: &str, name: &str| {
        let Some(Content::Service(service)) = wants(12_345).wanted.into_values().next() else { panic!("a Service") };
        let content = Content::Service(Service { key: ObjectKey::new(namespace, name), ..service });
        (content.id(), content)
    };
    let all = [service("crowd", "a"), service("crowd", "b"), service("crowd", "c"), service("shop", "a")];
    let (mut work, now, plan) = (Work::default(), Instant::now(), Plan { wanted: all.into(), ..Plan::default() });
    work.compare(&plan, &Objects::default(), now);
    let order: Vec<String> = std::iter::from_fn(|| Some(work.start(now)?.id.key.to_string())).collect();
    assert_eq!(order, ["crowd/a", "shop/a", "crowd/b", "crowd/c"]);
}

#[test]
fn a_namespace_with_many_due_writes_gets_every_other_turn() {
    let service = |namespace: &str, name: &str| {
        let Some(Content::Service(service)) = wants(12_345).wanted.into_values().next() else { panic!("a Service") };
        let content = Content::Service(Service { key: ObjectKey::new(namespace, name), ..service });
        (content.id(), content)
    };
    let crowd = (0..2000).map(|at| service("crowd", &format!("{at:04}")));
    let all = crowd.chain((0..3).map(|at| service("shop", &at.to_string())));
    let (mut work, now, plan) = (Work::default(), Instant::now(), Plan { wanted: all.collect(), ..Plan::default() });
    work.compare(&plan, &Objects::default(), now);
    let order: Vec<String> = std::iter::from_fn(|| Some(work.start(now)?.id.key.namespace.to_string())).collect();
    assert_eq!(order[..6], ["crowd", "shop", "crowd", "shop", "crowd", "shop"]);
    assert_eq!((order.len(), work.count(Kind::SERVICE)), (2003, 2003), "all are in progress");
}

#[track_caller]
fn started(work: &mut Work, plan: &Plan, objects: &Objects, now: Instant) -> Write {
    work.compare(plan, objects, now);
    work.start(now).expect("a write")
}

#[test]
fn the_ports_of_a_created_object_are_known_before_the_watch_delivers_it() {
    let (mut work, now, plan) = (Work::default(), Instant::now(), wants(12_345));
    let write = started(&mut work, &plan, &has(None), now);
    assert!(write.over.is_none() && write.content.is_some());
    work.compare(&plan, &has(None), now);
    assert_eq!((work.start(now), work.count(Kind::SERVICE)), (None, 1), "it is in progress");
    work.record(write, Outcome::Done, now);
    work.compare(&plan, &has(None), now);
    assert_eq!((work.start(now), work.count(Kind::SERVICE)), (None, 0));
    assert_eq!(work.recent(&has(None), now), [(key(), vec![(Transport::Tcp, 80, 12_345)])].into());
    work.compare(&plan, &has(Some(12_345)), now);
    assert_eq!((work.start(now), work.recent(&has(Some(12_345)), now)), (None, BTreeMap::new()));
}

#[test]
fn a_write_that_the_watch_does_not_deliver_is_repeated() {
    let (mut work, now, plan) = (Work::default(), Instant::now(), wants(12_345));
    let write = started(&mut work, &plan, &has(None), now);
    work.record(write, Outcome::Done, now);
    let later = work.next(now).expect("a time");
    assert_eq!(later, now + ECHO);
    assert_eq!(work.recent(&has(None), later), BTreeMap::new());
    started(&mut work, &plan, &has(None), later);
}

#[test]
fn a_new_leader_checks_every_object_once() {
    let (mut work, now, plan) = (Work::default(), Instant::now(), wants(12_345));
    let write = started(&mut work, &plan, &has(Some(12_345)), now);
    assert!(write.over.is_some(), "labels are not observed");
    work.record(write, Outcome::Done, now);
    for later in [now, now + ECHO, now + 10 * ECHO] {
        work.compare(&plan, &has(Some(12_345)), later);
        assert_eq!(work.start(later), None);
    }
    assert_eq!(work.next(now + 10 * ECHO), None, "nothing to wait for");
}

#[test]
fn new_content_is_written_at_once_and_a_conflict_slows_down() {
    let (mut work, start) = (Work::default(), Instant::now());
    for target in [11_111, 12_222, 13_333] {
        let write = started(&mut work, &wants(target), &has(Some(10_000)), start);
        work.record(write, Outcome::Done, start);
    }
    let (mut now, mut writes, plan) = (start, 0, wants(14_444));
    while now < start + Duration::from_secs(60) {
        // Another writer undoes each write with another value.
        let objects = has(Some(20_000 + writes));
        work.compare(&plan, &objects, now);
        match work.start(now) {
            Some(write) => {
                work.record(write, Outcome::Done, now);
                writes += 1;
            }
            None => now = work.next(now).expect("a time"),
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
        work.record(write, Outcome::Failed, now);
        work.compare(&plan, &has(None), now);
        let at = work.next(now).expect("a time");
        assert_eq!(work.start(at - MILLISECOND), None);
        waits.push((at - now).as_millis());
        now = at;
    }
    assert_eq!(waits, [500, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000]);
    assert_eq!(work.failures(&id()), 9);
    let write = started(&mut work, &plan, &has(None), now);
    work.record(write, Outcome::Failed, now);
    let other = Kind::SERVICE.id(ObjectKey::new("shop", "other-lockgate"));
    plan.obsolete.insert(other.clone());
    let mut objects = has(None);
    objects.apply(gateway_service("other", &[(80, 11_111)]));
    let write = started(&mut work, &plan, &objects, now);
    assert_eq!((write.id, write.content), (other, None));
}

#[test]
fn an_object_of_another_owner_is_checked_again_later() {
    let (mut work, now) = (Work::default(), Instant::now());
    let plan = Plan { obsolete: [id()].into(), ..Plan::default() };
    let objects = has(Some(12_345));
    let write = started(&mut work, &plan, &objects, now);
    work.record(write, Outcome::Foreign, now);
    for (later, is_due) in [(now + ECHO, false), (now + LONG, true)] {
        work.compare(&plan, &objects, later);
        assert_eq!(work.start(later).is_some(), is_due);
    }
}

#[test]
fn a_deleted_object_is_not_deleted_again() {
    let (mut work, now) = (Work::default(), Instant::now());
    let plan = Plan { obsolete: [id()].into(), ..Plan::default() };
    let objects = has(Some(12_345));
    let write = started(&mut work, &plan, &objects, now);
    work.record(write, Outcome::Done, now);
    work.compare(&plan, &objects, now + Duration::from_secs(1));
    assert_eq!(work.start(now + Duration::from_secs(1)), None, "the watch delays deletions");
    work.compare(&Plan::default(), &has(None), now);
    assert_eq!(work.start(now), None);
}
