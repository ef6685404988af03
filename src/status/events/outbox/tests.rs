//! Fairness, with a simulated clock.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use lockgate_xds::provenance::ObjectRef;

use super::*;

fn notice(namespace: &str, name: usize, reason: &'static str) -> Notice {
    let object = ObjectRef::new("Ingress", namespace, &name.to_string());
    let note = format!("{reason} {namespace}/{name}");
    Notice { object, uid: "u".into(), subject: "s", is_warning: reason != HEALED, reason, note, is_new: true }
}

/// Delivers the due notices like the writer: a burst of 50 Events, then ten per second. Each write takes `write`.
fn run_writer(outbox: &mut Outbox, from: Instant, until: Instant, write: Duration) -> Vec<(Instant, Notice)> {
    let (mut bucket, mut now, mut told) = (TokenBucket::new(10, 50), from, Vec::new());
    while now < until {
        let allowed = bucket.next(now);
        if allowed <= now
            && let Some((notice, _)) = outbox.pop(now)
        {
            bucket.take(now);
            now += write;
            outbox.delivered(&notice, 1);
            told.push((now, notice));
            continue;
        }
        let wake = outbox.next(now).map_or(until, |at| at.max(allowed));
        assert!(wake > now, "the writer would spin");
        now = wake;
    }
    told
}

#[test]
fn a_flood_of_one_namespace_does_not_delay_the_first_event_of_another() {
    let (mut outbox, start) = (Outbox::default(), Instant::now());
    (0..10_000).for_each(|at| outbox.push(notice("attacker", at, "Wrong"), start));
    assert_eq!((outbox.len(), outbox.take_dropped()), (CAPACITY, 10_000 - CAPACITY as u64));
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
    let (mut outbox, start) = (Outbox::default(), Instant::now());
    for namespace in 0..20 {
        (0..2000).for_each(|at| outbox.push(notice(&format!("attacker-{namespace}"), at, "Wrong"), start));
    }
    assert_eq!(outbox.len(), TOTAL_CAPACITY);
    outbox.push(notice("victim", 1, "Wrong"), start);
    assert_eq!(outbox.len(), TOTAL_CAPACITY, "room is made in the longest queue");
    let told = run_writer(&mut outbox, start, start + Duration::from_secs(30), Duration::ZERO);
    let at = told.iter().position(|(_, notice)| *notice.object.namespace == *"victim").expect("the victim's Event");
    assert!(at <= 20, "one turn of each namespace, not {at}");
    assert!(outbox.queues.len() <= 20 && outbox.rates.len() <= 21);
}

#[test]
fn recorded_names_are_dropped_by_namespace() {
    let mut outbox = Outbox::default();
    let victim = notice("victim", 1, "Wrong");
    outbox.delivered(&victim, 3);
    (0..2 * MAX_REMEMBERED).for_each(|at| outbox.delivered(&notice("attacker", at, "Wrong"), 1));
    assert!(outbox.remembered <= MAX_REMEMBERED);
    assert_eq!(outbox.remembered, outbox.counts.values().map(BTreeMap::len).sum::<usize>());
    let now = Instant::now();
    outbox.push(victim.clone(), now);
    assert_eq!(outbox.pop(now + MIN_DURATION), Some((victim, Delivery::Update(4))));
}

#[test]
fn the_number_of_waiting_notices_is_always_correct() {
    fuzzing::run("outbox", 300, |random| {
        let (mut outbox, mut now) = (Outbox::default(), Instant::now());
        for _ in 0..random.below(200) {
            let namespace = ["a", "b", "c"][random.below(3)];
            let one = notice(namespace, random.below(6), if random.one_in(3) { HEALED } else { "Wrong" });
            match random.below(6) {
                0..=2 => outbox.push(Notice { is_new: !random.one_in(4), ..one }, now),
                3 => {
                    if let Some((notice, _)) = outbox.pop(now) {
                        match random.one_in(2) {
                            true => outbox.delivered(&notice, 1),
                            false => outbox.put_back(notice, now),
                        }
                    }
                }
                4 => outbox.forget(&one),
                _ => now += Duration::from_millis(random.below(900) as u64),
            }
            assert_eq!(outbox.len(), outbox.queues.values().map(VecDeque::len).sum::<usize>());
            assert!(outbox.queues.values().all(|queue| !queue.is_empty()));
        }
        // All notices are delivered in the end.
        let left = run_writer(&mut outbox, now, now + Duration::from_secs(60), Duration::ZERO);
        assert_eq!(outbox.len(), 0);
        if left.is_empty() { "told before" } else { "told" }
    });
}
