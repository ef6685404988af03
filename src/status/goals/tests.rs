#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::networking::v1::IngressSpec;
use lockgate_route::objects::{Ingress, IngressStatus, Kind, Meta, Revision};

use super::*;
use crate::inspection::Published;
use crate::status::kind::LoadBalancerAddress;
use crate::status::queue::{CONFLICT_BACKOFF, FAILURE_BACKOFF, WATCH_TIMEOUT, wait};
use crate::status::tests::harness::{self, StatusQueue};

type Started = harness::Started<Vec<LoadBalancerAddress>>;

const US: &str = "lockgate/ingress/lockgate";

fn ip(address: &str) -> LoadBalancerAddress {
    LoadBalancerAddress { ip: Some(address.into()), ..LoadBalancerAddress::default() }
}

/// The Ingress of a test.
#[derive(Clone)]
struct Given {
    namespace: &'static str,
    name: &'static str,
    ours: bool,
    served: bool,
    revision: u64,
    version: u32,
    addresses: Vec<LoadBalancerAddress>,
    writers: Vec<&'static str>,
}

fn given(name: &'static str) -> Given {
    Given {
        namespace: "shop",
        name,
        ours: true,
        served: true,
        revision: 1,
        version: 1,
        addresses: vec![],
        writers: vec![],
    }
}

impl Given {
    fn key(&self) -> ObjectKey {
        ObjectKey::new(self.namespace, self.name)
    }

    fn published(&self) -> Published {
        Published {
            uid: self.name.into(),
            revision: Revision(self.revision),
            since: 7,
            served: self.served,
            fleets: Arc::default(),
        }
    }

    /// Returns the Ingress after this write.
    fn written(&self, write: &Started) -> Self {
        assert_eq!(*write.version, *self.version.to_string());
        Self { version: self.version + 1, addresses: write.status.clone(), writers: vec![US], ..self.clone() }
    }
}

fn inspection(given: &[Given]) -> Arc<Inspection> {
    let mut inspection = Inspection { complete: true, ..Inspection::default() };
    for given in given {
        let meta = Meta {
            key: given.key(),
            uid: given.name.into(),
            // The generation stays when an annotation changes.
            generation: 1,
            created: 0,
            terminating: false,
            annotations: BTreeMap::new(),
            labels: BTreeMap::new(),
        };
        let status = IngressStatus {
            addresses: given.addresses.clone(),
            writers: given.writers.iter().map(|writer| Arc::from(*writer)).collect(),
            version: given.version.to_string().into(),
        };
        inspection.objects.apply(Object::new(Ingress { meta, spec: IngressSpec::default(), status }));
        if given.ours {
            inspection.sources.insert(Kind::INGRESS.id(given.key()), given.published());
        }
    }
    Arc::new(inspection)
}

fn ours() -> Arc<[LoadBalancerAddress]> {
    [ip("192.0.2.1")].into()
}

fn queue() -> StatusQueue<Ingress> {
    StatusQueue::new(US.into())
}

fn waiting(queue: &StatusQueue<Ingress>) -> Vec<(ObjectKey, Published)> {
    queue.waiting().batch(None, usize::MAX)
}

/// Lets the Envoys accept the Ingress. Returns the next write.
#[track_caller]
fn accepted_and_started(queue: &mut StatusQueue<Ingress>, given: &Given, now: Instant) -> Started {
    assert_eq!(waiting(queue), [(given.key(), given.published())]);
    assert_eq!(queue.start(now), None, "before the ACK");
    queue.record_acceptance(&given.key(), &given.published(), 2, now);
    queue.start(now).expect("a write")
}

#[test]
fn an_address_is_written_once_after_all_envoys_have_accepted() {
    let (mut queue, now, cart) = (queue(), Instant::now(), given("cart"));
    queue.update(inspection(std::slice::from_ref(&cart)), ours(), now);
    let write = accepted_and_started(&mut queue, &cart, now);
    assert_eq!((&*write.status, &*write.version), (&[ip("192.0.2.1")][..], "1"));
    assert_eq!(write.programmed, Some((cart.published(), 2)));
    queue.record_result(&write, WriteOutcome::Done, now);
    assert_eq!((queue.start(now + DEBOUNCE), waiting(&queue)), (None, vec![]));
    queue.update(inspection(&[cart.written(&write)]), ours(), now);
    assert_eq!((queue.len(), queue.start(now + WATCH_TIMEOUT)), (0, None));
}

const DEBOUNCE: Duration = Duration::from_secs(1);

#[test]
fn changes_of_other_kinds_do_not_concern_a_writer() {
    let (mut queue, now, cart) = (queue(), Instant::now(), given("cart"));
    let state = |given: &Given, other| {
        let mut inspection = inspection(std::slice::from_ref(given));
        Arc::make_mut(&mut inspection).sources.insert(Kind::HTTP_ROUTE.id(cart.key()), Published::example(other, 1));
        inspection
    };
    assert!(queue.goals.concerns(state(&cart, 1)), "the first state");
    queue.update(state(&cart, 1), ours(), now);
    assert!(!queue.goals.concerns(state(&cart, 2)));
    let published = Given { revision: 2, ..cart.clone() };
    assert!(queue.goals.concerns(state(&published, 2)));
    assert!(queue.goals.concerns(state(&Given { version: 2, ..cart.clone() }, 2)));
}

#[test]
fn a_current_status_is_not_written() {
    let (mut queue, now) = (queue(), Instant::now());
    let right = Given { addresses: ours().to_vec(), ..given("right") };
    let other = Given { ours: false, addresses: vec![ip("203.0.113.1")], ..given("other") };
    queue.update(inspection(&[right, other]), ours(), now);
    assert_eq!((queue.len(), queue.next()), (0, None));
}

#[test]
fn nothing_is_written_before_the_address_and_the_lists_are_known() {
    let (mut queue, now) = (queue(), Instant::now());
    queue.update(inspection(&[given("cart")]), ExternalFacts::default(), now);
    assert_eq!(queue.len(), 0);
    let mut incomplete = inspection(&[given("cart")]);
    Arc::make_mut(&mut incomplete).complete = false;
    queue.update(incomplete, ours(), now);
    assert_eq!(queue.len(), 0);
}

#[test]
fn an_ack_of_another_revision_does_not_count() {
    let (mut queue, now, cart) = (queue(), Instant::now(), given("cart"));
    queue.update(inspection(std::slice::from_ref(&cart)), ours(), now);
    let newer = Given { revision: 2, version: 2, ..cart.clone() };
    queue.update(inspection(std::slice::from_ref(&newer)), ours(), now);
    queue.record_acceptance(&cart.key(), &cart.published(), 1, now);
    assert_eq!(queue.start(now), None);
    accepted_and_started(&mut queue, &newer, now);
}

#[test]
fn a_change_after_the_ack_waits_for_the_next() {
    let (mut queue, now, cart) = (queue(), Instant::now(), given("cart"));
    queue.update(inspection(std::slice::from_ref(&cart)), ours(), now);
    queue.record_acceptance(&cart.key(), &cart.published(), 1, now);
    let newer = Given { revision: 2, version: 2, ..cart };
    queue.update(inspection(std::slice::from_ref(&newer)), ours(), now);
    accepted_and_started(&mut queue, &newer, now);
}

#[test]
fn only_our_address_is_withdrawn_from_a_foreign_object() {
    let (mut queue, now) = (queue(), Instant::now());
    let both = vec![ip("203.0.113.1"), ip("192.0.2.1")];
    let left = Given { ours: false, addresses: both, writers: vec![US], ..given("left") };
    queue.update(inspection(std::slice::from_ref(&left)), ours(), now);
    let write = queue.start(now).expect("a write, without an ACK");
    assert_eq!((&*write.status, &write.programmed), (&[ip("203.0.113.1")][..], &None));
    queue.record_result(&write, WriteOutcome::Done, now);
    queue.update(inspection(&[left.written(&write)]), ours(), now);
    assert_eq!(queue.len(), 0);
}

#[test]
fn an_ingress_without_routes_gets_no_address_until_it_is_served() {
    let (mut queue, now) = (queue(), Instant::now());
    let lost = Given { served: false, ..given("cart") };
    queue.update(inspection(std::slice::from_ref(&lost)), ours(), now);
    assert_eq!((queue.len(), waiting(&queue)), (0, vec![]));
    let served = Given { served: true, ..lost };
    queue.update(inspection(std::slice::from_ref(&served)), ours(), now);
    accepted_and_started(&mut queue, &served, now);
}

#[test]
fn an_ingress_that_loses_all_routes_loses_its_address_at_once() {
    let (mut queue, now) = (queue(), Instant::now());
    let cart = Given { addresses: ours().to_vec(), writers: vec![US], ..given("cart") };
    queue.update(inspection(std::slice::from_ref(&cart)), ours(), now);
    let lost = Given { served: false, version: 2, ..cart };
    queue.update(inspection(std::slice::from_ref(&lost)), ours(), now);
    let write = queue.start(now).expect("a write, without an ACK");
    assert_eq!((&*write.status, &write.programmed), (&[][..], &None));
    queue.record_result(&write, WriteOutcome::Done, now);
    // Another writer adds the address repeatedly. The withdrawals are delayed.
    let again = Given { version: 4, writers: vec!["other"], ..lost };
    queue.update(inspection(std::slice::from_ref(&again)), ours(), now);
    assert_eq!(
        (queue.start(now), queue.start(now + FAILURE_BACKOFF.0).map(|write| write.status)),
        (None, Some(vec![]))
    );
}

#[test]
fn addresses_of_other_writers_stay_on_an_ingress_without_routes() {
    let (mut queue, now) = (queue(), Instant::now());
    let lost = |addresses| Given { served: false, addresses, writers: vec!["other"], ..given("cart") };
    queue.update(inspection(&[lost(vec![ip("203.0.113.1")])]), ours(), now);
    assert_eq!(queue.len(), 0);
    queue.update(inspection(&[lost(vec![ip("203.0.113.1"), ip("192.0.2.1")])]), ours(), now);
    assert_eq!(queue.start(now).expect("a write").status, [ip("203.0.113.1")]);
}

#[test]
fn an_equal_address_of_another_writer_is_not_ours() {
    let (mut queue, now) = (queue(), Instant::now());
    let other = Given { ours: false, addresses: ours().to_vec(), writers: vec!["other"], ..given("other") };
    queue.update(inspection(&[other]), ours(), now);
    assert_eq!(queue.len(), 0);
}

#[test]
fn an_address_among_addresses_of_other_writers_is_withdrawn_once() {
    let (mut queue, now) = (queue(), Instant::now());
    let cart = Given { addresses: ours().to_vec(), writers: vec![US], ..given("cart") };
    queue.update(inspection(std::slice::from_ref(&cart)), ours(), now);
    let both = vec![ip("192.0.2.1"), ip("203.0.113.1")];
    let left = Given { ours: false, version: 2, addresses: both.clone(), writers: vec!["other"], ..cart };
    queue.update(inspection(std::slice::from_ref(&left)), ours(), now);
    let write = queue.start(now).expect("a write");
    assert_eq!(write.status, [ip("203.0.113.1")]);
    queue.record_result(&write, WriteOutcome::Done, now);
    // The new owner writes the address again.
    queue.update(inspection(&[Given { version: 4, addresses: both, ..left }]), ours(), now);
    assert_eq!((queue.len(), queue.start(now + WATCH_TIMEOUT)), (0, None));
}

#[test]
fn a_conflict_is_retried_on_the_new_version() {
    let (mut queue, now, cart) = (queue(), Instant::now(), given("cart"));
    queue.update(inspection(std::slice::from_ref(&cart)), ours(), now);
    let write = accepted_and_started(&mut queue, &cart, now);
    queue.record_result(&write, WriteOutcome::Conflict, now);
    assert_eq!(queue.start(now), None);
    queue.update(inspection(&[Given { version: 5, ..cart }]), ours(), now);
    let again = queue.start(now + CONFLICT_BACKOFF.0).expect("a write, for the spec is the same");
    assert_eq!(&*again.version, "5");
}

#[test]
fn failures_are_retried_with_backoff() {
    let (mut queue, mut now, cart) = (queue(), Instant::now(), given("cart"));
    queue.update(inspection(std::slice::from_ref(&cart)), ours(), now);
    let mut write = accepted_and_started(&mut queue, &cart, now);
    let mut waits = Vec::new();
    for _ in 0..10 {
        queue.record_result(&write, WriteOutcome::Failed, now);
        let at = queue.next().unwrap();
        waits.push((at - now).as_millis());
        assert_eq!(queue.start(at - Duration::from_millis(1)), None);
        now = at;
        write = queue.start(now).unwrap();
    }
    assert_eq!(waits, [500, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000, 60_000]);
    queue.record_result(&write, WriteOutcome::Failed, now);
    queue.update(inspection(&[]), ours(), now);
    assert_eq!((queue.len(), queue.start(now + FAILURE_BACKOFF.1)), (0, None), "the object is deleted");
}

#[test]
fn a_conflict_with_another_writer_slows_down() {
    let (mut queue, start, mut cart) = (queue(), Instant::now(), given("cart"));
    let mut now = start;
    let mut writes = 0;
    while now < start + Duration::from_secs(60) {
        queue.update(inspection(std::slice::from_ref(&cart)), ours(), now);
        queue.record_acceptance(&cart.key(), &cart.published(), 1, now);
        let write = loop {
            now = queue.next().expect("a write to come").max(now);
            if let Some(write) = queue.start(now) {
                break write;
            }
        };
        writes += 1;
        queue.record_result(&write, WriteOutcome::Done, now);
        let theirs = vec![ip("203.0.113.1")];
        cart = Given { version: cart.version + 2, addresses: theirs, writers: vec!["other"], ..cart };
    }
    assert!(writes < 10, "{writes}");
}

#[test]
fn a_write_that_the_watch_does_not_deliver_is_checked_again() {
    let (mut queue, now, cart) = (queue(), Instant::now(), given("cart"));
    queue.update(inspection(std::slice::from_ref(&cart)), ours(), now);
    let write = accepted_and_started(&mut queue, &cart, now);
    queue.record_result(&write, WriteOutcome::Done, now);
    assert_eq!(queue.start(now + WATCH_TIMEOUT), None);
    assert_eq!(queue.waiting().len(), 1);
}

/// Removes the address of an Ingress that is no longer served. Returns it with the write, which the watch has not delivered.
fn withdrawn(queue: &mut StatusQueue<Ingress>, now: Instant) -> (Given, Started) {
    let unserved = Given { served: false, addresses: ours().to_vec(), writers: vec![US], ..given("cart") };
    queue.update(inspection(std::slice::from_ref(&unserved)), ours(), now);
    let write = queue.start(now).expect("a write");
    queue.record_result(&write, WriteOutcome::Done, now);
    (unserved, write)
}

#[test]
fn a_write_without_envoys_that_the_watch_does_not_deliver_is_repeated() {
    let (mut queue, now) = (queue(), Instant::now());
    let (_, write) = withdrawn(&mut queue, now);
    assert_eq!(queue.start(now), None);
    let again = queue.start(now + WATCH_TIMEOUT).expect("the same write");
    assert_eq!((again.status, again.version), (write.status, write.version));
}

#[test]
fn changes_of_the_goal_do_not_postpone_a_write_after_failures() {
    let (mut queue, mut now, cart) = (queue(), Instant::now(), given("cart"));
    queue.update(inspection(std::slice::from_ref(&cart)), ours(), now);
    let mut write = accepted_and_started(&mut queue, &cart, now);
    for _ in 0..8 {
        queue.record_result(&write, WriteOutcome::Failed, now);
        now = queue.next().unwrap();
        write = queue.start(now).unwrap();
    }
    queue.record_result(&write, WriteOutcome::Failed, now);
    for seconds in [20, 40, 59] {
        let (now, address) = (now + Duration::from_secs(seconds), ip(&format!("192.0.2.{seconds}")));
        queue.update(inspection(std::slice::from_ref(&cart)), Arc::from([address]), now);
        queue.record_acceptance(&cart.key(), &cart.published(), 1, now);
        assert_eq!(queue.start(now), None);
    }
    let write = queue.start(now + FAILURE_BACKOFF.1).expect("a write");
    assert_eq!(write.status, [ip("192.0.2.59")]);
}

#[test]
fn changes_of_the_goal_do_not_postpone_a_write_after_writes() {
    let (mut queue, mut now, mut cart) = (queue(), Instant::now(), given("cart"));
    let mut address = 0;
    let mut next = |queue: &mut StatusQueue<Ingress>, cart: &Given, now| {
        address += 1;
        queue.update(inspection(std::slice::from_ref(cart)), Arc::from([ip(&format!("192.0.2.{address}"))]), now);
        queue.record_acceptance(&cart.key(), &cart.published(), 1, now);
    };
    for _ in 0..2 {
        next(&mut queue, &cart, now);
        now = now.max(queue.next().unwrap());
        let write = queue.start(now).expect("a write");
        queue.record_result(&write, WriteOutcome::Done, now);
        cart = cart.written(&write);
    }
    for milliseconds in [300, 600, 900] {
        next(&mut queue, &cart, now + Duration::from_millis(milliseconds));
    }
    let pause = wait(2, FAILURE_BACKOFF);
    assert_eq!(queue.start(now + pause / 2), None);
    assert!(queue.start(now + pause).is_some());
}

#[test]
fn the_time_limit_of_a_report_counts_from_the_last_write() {
    let (mut queue, now) = (queue(), Instant::now());
    let (unserved, _) = withdrawn(&mut queue, now);
    // Another writer restores the address. The second write ends shortly before the limit of the first one.
    let restored = Given { version: 3, ..unserved };
    queue.update(inspection(std::slice::from_ref(&restored)), ours(), now);
    let late = now + WATCH_TIMEOUT - DEBOUNCE;
    let second = queue.start(late).expect("a write");
    queue.record_result(&second, WriteOutcome::Done, late);
    assert_eq!(queue.start(now + WATCH_TIMEOUT), None);
    assert!(queue.start(late + WATCH_TIMEOUT).is_some());
}

#[test]
fn a_change_during_a_write_is_processed_after_it() {
    let (mut queue, now, cart) = (queue(), Instant::now(), given("cart"));
    queue.update(inspection(std::slice::from_ref(&cart)), ours(), now);
    let write = accepted_and_started(&mut queue, &cart, now);
    // The watch brings back the write before the response arrives, and Lockgate no longer serves the Ingress.
    let left = Given { ours: false, version: 3, ..cart.written(&write) };
    queue.update(inspection(std::slice::from_ref(&left)), ours(), now);
    queue.record_result(&write, WriteOutcome::Done, now);
    let withdrawal = queue.start(now).expect("a withdrawal");
    assert_eq!((withdrawal.status.len(), &*withdrawal.version), (0, "3"));

    // The Ingress is deleted during the write.
    queue.update(inspection(&[]), ours(), now);
    queue.record_result(&withdrawal, WriteOutcome::Failed, now);
    assert_eq!((queue.len(), queue.start(now + WATCH_TIMEOUT)), (0, None));
}

#[test]
fn a_new_address_is_written_to_all_objects() {
    let (mut queue, now) = (queue(), Instant::now());
    let cart = Given { addresses: ours().to_vec(), writers: vec![US], ..given("cart") };
    let inspection = inspection(std::slice::from_ref(&cart));
    queue.update(inspection.clone(), ours(), now);
    assert_eq!(queue.len(), 0);
    queue.update(inspection, Arc::from([ip("192.0.2.2")]), now);
    assert_eq!(accepted_and_started(&mut queue, &cart, now).status, [ip("192.0.2.2")]);
}

#[test]
fn no_namespace_delays_the_writes_of_another() {
    let (mut queue, now) = (queue(), Instant::now());
    let crowd = ["a", "b", "c", "d"].map(|name| Given { namespace: "crowd", ..given(name) });
    let all: Vec<Given> = crowd.into_iter().chain([given("cart"), given("blog")]).collect();
    queue.update(inspection(&all), ours(), now);
    for (given, ms) in all.iter().zip([0, 0, 0, 0, 1, 2]) {
        queue.record_acceptance(&given.key(), &given.published(), 1, now + Duration::from_millis(ms));
    }
    let later = now + DEBOUNCE;
    let order: Vec<String> = std::iter::from_fn(|| Some(queue.start(later)?.key.to_string())).collect();
    assert_eq!(order, ["crowd/a", "shop/cart", "crowd/b", "shop/blog", "crowd/c", "crowd/d"]);
    assert_eq!(queue.len(), 6, "all are under way");
}

mod incremental;
