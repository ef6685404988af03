//! Fairness, with a simulated clock.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use lockgate_xds::provenance::ObjectRef;

use super::*;
use crate::status::plan::EVENTS;
use crate::status::queue::{DueWrite, WriteOutcome};
use crate::status::token_bucket::TokenBucket;

fn notice(namespace: &str, name: usize, reason: &'static str) -> Notice {
    let object = ObjectRef::new("Ingress", namespace, &name.to_string());
    let note = format!("{reason} {namespace}/{name}");
    Notice { object, uid: "u".into(), subject: "s", is_warning: reason != HEALED, reason, note, is_new: true }
}

/// The outbox with its queue.
pub struct Boxed {
    pub outbox: Outbox,
    pub queue: Queue<Notice>,
}

impl Default for Boxed {
    fn default() -> Self {
        Self { outbox: Outbox::default(), queue: Queue::new(EVENTS.rate_of_namespace) }
    }
}

impl Boxed {
    pub fn push(&mut self, notice: Notice, now: Instant) {
        self.outbox.push(notice, now);
    }

    /// Starts the next write.
    pub fn start(&mut self, now: Instant) -> Option<DueWrite<Notice>> {
        self.outbox.update(&mut self.queue, now);
        let write = self.queue.start(now)?;
        self.outbox.start(&write.id, &write.item.goal);
        Some(write)
    }

    /// Ends a write. `times` is the count of the written Event.
    pub fn finish(&mut self, write: &DueWrite<Notice>, times: Option<i32>, now: Instant) {
        self.queue.finish(write, if times.is_some() { WriteOutcome::Done } else { WriteOutcome::Failed }, now);
        match times {
            Some(times) => self.outbox.delivered(&write.item.goal, times),
            None => self.outbox.put_back(write.item.goal.clone(), now),
        }
        if !self.outbox.contains(&write.id) {
            self.queue.remove(&write.id);
        }
    }

    /// Starts the next write, and returns its notice with the form of its delivery.
    pub fn pop(&mut self, now: Instant) -> Option<(Notice, Delivery)> {
        let write = self.start(now)?;
        let delivery = self.outbox.delivery(&write.item.goal);
        Some((write.item.goal, delivery))
    }

    /// Returns the oldest notice of all.
    pub fn oldest(&self) -> Option<&Notice> {
        let oldest = self.outbox.notices.values().min_by_key(|waiting| waiting.number);
        oldest.map(|waiting| &waiting.notice)
    }

    pub fn len(&self) -> usize {
        self.outbox.notices.len()
    }
}

/// Delivers the due notices like the writer: a burst of 50 Events, then ten per second. Each write takes `write`.
fn run_writer(outbox: &mut Boxed, from: Instant, until: Instant, write: Duration) -> Vec<(Instant, Notice)> {
    let (mut bucket, mut now, mut told) = (TokenBucket::new(10, 50), from, Vec::new());
    while now < until {
        let allowed = bucket.next(now);
        if allowed <= now
            && let Some(started) = outbox.start(now)
        {
            bucket.take(now);
            now += write;
            outbox.finish(&started, Some(1), now);
            told.push((now, started.item.goal));
            continue;
        }
        let wake = outbox.queue.next(now).map_or(until, |at| at.max(allowed));
        assert!(wake > now, "the writer would spin");
        now = wake;
    }
    told
}

#[test]
fn a_flood_of_one_namespace_does_not_delay_the_first_event_of_another() {
    let (mut outbox, start) = (Boxed::default(), Instant::now());
    (0..10_000).for_each(|at| outbox.push(notice("attacker", at, "Wrong"), start));
    assert_eq!((outbox.len(), outbox.outbox.take_dropped()), (CAPACITY, 10_000 - CAPACITY as u64));
    let now = start + Duration::from_secs(20);
    let write = Duration::from_millis(20);
    run_writer(&mut outbox, start, now, write);
    assert!(outbox.len() > CAPACITY / 2, "the flood goes on");
    outbox.push(notice("victim", 1, "Wrong"), now);
    let told = run_writer(&mut outbox, now, now + Duration::from_secs(10), write);
    let (at, _) = told.iter().find(|(_, notice)| *notice.object.namespace == *"victim").expect("the victim's Event");
    let delay = *at - now;
    println!("a flood of 10,000: the victim's first Event after {delay:?}, {MIN_DURATION:?} of which it is held");
    assert!(delay <= MIN_DURATION + Duration::from_millis(250), "{delay:?}");
    // The flood is limited to its own rate.
    let flood = told.len() - 1;
    assert!((40..=50 + 25).contains(&flood), "{flood} Events of the attacker in 10 s");
}

#[test]
fn many_namespaces_that_flood_take_turns() {
    let (mut outbox, start) = (Boxed::default(), Instant::now());
    for namespace in 0..20 {
        (0..2000).for_each(|at| outbox.push(notice(&format!("attacker-{namespace}"), at, "Wrong"), start));
    }
    assert_eq!(outbox.len(), TOTAL_CAPACITY);
    outbox.push(notice("victim", 1, "Wrong"), start);
    assert_eq!(outbox.len(), TOTAL_CAPACITY, "room is made in the longest queue");
    let told = run_writer(&mut outbox, start, start + Duration::from_secs(30), Duration::ZERO);
    let at = told.iter().position(|(_, notice)| *notice.object.namespace == *"victim").expect("the victim's Event");
    assert!(at <= 20, "one turn of each namespace, not {at}");
    assert!(outbox.outbox.order.len() <= 20);
}

#[test]
fn recorded_names_are_dropped_by_namespace() {
    let mut outbox = Outbox::default();
    let victim = notice("victim", 1, "Wrong");
    outbox.delivered(&victim, 3);
    (0..2 * MAX_REMEMBERED).for_each(|at| outbox.delivered(&notice("attacker", at, "Wrong"), 1));
    assert!(outbox.remembered <= MAX_REMEMBERED);
    assert_eq!(outbox.remembered, outbox.counts.values().map(BTreeMap::len).sum::<usize>());
    assert_eq!(outbox.delivery(&victim), Delivery::Update(4));
}

#[test]
fn the_queue_has_each_waiting_notice() {
    fuzzing::run("outbox", 300, |random| {
        let (mut outbox, mut now) = (Boxed::default(), Instant::now());
        let mut busy = None::<DueWrite<Notice>>;
        for _ in 0..random.below(200) {
            let namespace = ["a", "b", "c"][random.below(3)];
            let one = notice(namespace, random.below(6), if random.one_in(3) { HEALED } else { "Wrong" });
            match random.below(6) {
                0..=2 => outbox.push(Notice { is_new: !random.one_in(4), ..one }, now),
                3 => match busy.take() {
                    Some(write) => outbox.finish(&write, random.one_in(2).then_some(1), now),
                    None => busy = outbox.start(now),
                },
                4 => outbox.outbox.forget(&one),
                _ => now += Duration::from_millis(random.below(900) as u64),
            }
            let ordered = outbox.outbox.order.values().flat_map(BTreeMap::values);
            assert_eq!(ordered.map(|(id, _)| id).collect::<BTreeSet<_>>(), outbox.outbox.notices.keys().collect());
            assert!(outbox.outbox.order.values().all(|order| !order.is_empty()));
            outbox.outbox.update(&mut outbox.queue, now);
            let busy = busy.iter().filter(|write| !outbox.outbox.contains(&write.id)).count();
            assert_eq!(outbox.queue.count(EVENT), outbox.len() + busy);
        }
        busy.iter().for_each(|write| outbox.finish(write, Some(1), now));
        // All notices are delivered in the end.
        let left = run_writer(&mut outbox, now, now + Duration::from_secs(120), Duration::ZERO);
        assert_eq!((outbox.len(), outbox.queue.count(EVENT)), (0, 0));
        if left.is_empty() { "told before" } else { "told" }
    });
}
