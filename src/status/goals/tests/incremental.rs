//! Compares a queue that processes changed objects with one that processes all objects.

use std::collections::VecDeque;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// A change of one Ingress, or of both queues.
#[derive(Debug, Clone)]
enum Step {
    /// Creates or changes the Ingress. Its address is ours, another one, or missing.
    Applied {
        at: usize,
        ours: bool,
        served: bool,
        revision: u64,
        addresses: u8,
    },
    Deleted(usize),
    /// All Envoys accept the Ingress.
    Accepted(usize),
    /// Starts the next write.
    Start,
    Finish(WriteOutcome),
    /// The addresses of the Envoys change.
    Ours(u8),
    /// Milliseconds pass.
    Time(u64),
    /// Processes the changes.
    Update,
}

fn step() -> impl Strategy<Value = Step> {
    let at = 0..NAMES.len();
    let outcome = prop_oneof![Just(WriteOutcome::Done), Just(WriteOutcome::Conflict), Just(WriteOutcome::Failed)];
    prop_oneof![
        4 => (at.clone(), any::<bool>(), prop::bool::weighted(0.7), 1..4_u64, 0..3_u8)
            .prop_map(|(at, ours, served, revision, addresses)| Step::Applied { at, ours, served, revision, addresses }),
        1 => at.clone().prop_map(Step::Deleted),
        3 => at.prop_map(Step::Accepted),
        3 => Just(Step::Start),
        3 => outcome.prop_map(Step::Finish),
        1 => (0..3_u8).prop_map(Step::Ours),
        2 => (0..200_000_u64).prop_map(Step::Time),
        5 => Just(Step::Update),
    ]
}

fn addresses(number: u8) -> Vec<LoadBalancerAddress> {
    match number {
        0 => vec![],
        1 => vec![ip("192.0.2.1")],
        _ => vec![ip("192.0.2.2")],
    }
}

/// Returns the part of the state that decides the next steps. It does not depend on the processed objects.
fn state(queue: &StatusQueue<Ingress>) -> String {
    format!("{:?}\n{:?}", queue.goals.withdrawing, queue.queue)
}

proptest! {
    #[test]
    fn looking_at_changes_is_as_good_as_looking_at_everything(steps in vec(step(), 1..80)) {
        let (mut incremental, mut full) = (queue(), queue());
        let mut now = Instant::now();
        let mut inspection = Inspection { complete: true, ..Inspection::default() };
        let mut our_addresses: Arc<[LoadBalancerAddress]> = ours();
        let mut busy = VecDeque::<Started>::new();
        let mut version = 0;
        for step in steps {
            match step {
                Step::Applied { at, ours, served, revision, addresses: number } => {
                    version += 1;
                    let given = Given {
                        ours,
                        served,
                        revision,
                        version,
                        addresses: addresses(number),
                        writers: if number == 1 { vec![US] } else { vec![] },
                        ..given(NAMES[at])
                    };
                    let other = super::inspection(std::slice::from_ref(&given));
                    for ingress in other.objects.all::<Ingress>() {
                        inspection.objects.apply(Object::new(ingress.clone()));
                    }
                    match ours {
                        true => drop(inspection.sources.insert(Kind::INGRESS.id(given.key()), given.published())),
                        false => drop(inspection.sources.remove(&Kind::INGRESS.id(given.key()))),
                    }
                }
                Step::Deleted(at) => {
                    let key = given(NAMES[at]).key();
                    inspection.objects.delete(Kind::INGRESS, &key);
                    inspection.sources.remove(&Kind::INGRESS.id(key));
                }
                Step::Accepted(at) => {
                    let key = given(NAMES[at]).key();
                    let waits = waiting(&incremental).into_iter().find(|(waits, _)| *waits == key);
                    if let Some((key, what)) = waits {
                        incremental.record_acceptance(&key, &what, 1, now);
                        full.record_acceptance(&key, &what, 1, now);
                    }
                }
                Step::Start => {
                    let write = incremental.start(now);
                    prop_assert_eq!(&write, &full.start(now));
                    busy.extend(write);
                }
                Step::Finish(outcome) => {
                    if let Some(write) = busy.pop_front() {
                        incremental.record_result(&write, outcome, now);
                        full.record_result(&write, outcome, now);
                    }
                }
                Step::Ours(number) => our_addresses = addresses(number).into(),
                Step::Time(ms) => now += Duration::from_millis(ms),
                Step::Update => {
                    let inspection = Arc::new(inspection.clone());
                    incremental.update(inspection.clone(), our_addresses.clone(), now);
                    let inputs = Inputs { inspection, external: our_addresses.clone().into() };
                    full.goals.update_objects(&mut full.queue, inputs, true, now);
                    prop_assert_eq!(state(&incremental), state(&full));
                }
            }
        }
    }
}
