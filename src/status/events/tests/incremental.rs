//! Compares an incremental tracker with one that starts with the final state.

use std::collections::BTreeSet;

use lockgate_route::objects::ObjectId;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const REASONS: [Reason; 3] = [Reason::ServiceUnresolvedReference, Reason::Conflicted, Reason::Ambiguous];

/// A change of the Ingress with this index.
#[derive(Debug, Clone)]
enum Step {
    /// Creates or replaces the Ingress with this uid, served or not.
    Applied(usize, &'static str, bool),
    Deleted(usize),
    /// Adds or removes a problem.
    Wrong {
        at: usize,
        field: &'static str,
        reason: usize,
        generation: i64,
        is: bool,
    },
    /// Adds or removes a problem from outside of the translation.
    Expiring(usize, bool),
    /// Processes the changes.
    Update,
}

fn step() -> impl Strategy<Value = Step> {
    let (at, uid) = (0..NAMES.len(), prop_oneof![Just("u"), Just("v")]);
    let field = prop_oneof![Just(""), Just("spec.a"), Just("spec.b")];
    prop_oneof![
        2 => (at.clone(), uid, any::<bool>()).prop_map(|(at, uid, ours)| Step::Applied(at, uid, ours)),
        1 => at.clone().prop_map(Step::Deleted),
        5 => (at, field, 0..REASONS.len(), 0..3_i64, any::<bool>())
            .prop_map(|(at, field, reason, generation, is)| Step::Wrong { at, field, reason, generation, is }),
        1 => (0..NAMES.len(), any::<bool>()).prop_map(|(at, is)| Step::Expiring(at, is)),
        3 => Just(Step::Update),
    ]
}

/// Returns the notices of all problems, by object and reason.
fn open(tracker: &ProblemTracker) -> BTreeMap<(String, &'static str), Notice> {
    let key = |notice: &Notice| (notice.object.to_string(), notice.reason);
    tracker.all().into_iter().map(|notice| (key(&notice), notice)).collect()
}

proptest! {
    #[test]
    fn incremental_updates_equal_a_new_start(steps in vec(step(), 1..60)) {
        let mut tracker = ProblemTracker::default();
        let mut expiring = Problems::new();
        let mut seen = Inspection { complete: true, ..Inspection::default() };
        tracker.update(&Arc::new(seen.clone()), &expiring);
        for step in steps {
            match step {
                Step::Applied(at, uid, ours) => {
                    let other = inspection(&[(NAMES[at], uid)], &[]);
                    other.objects.all::<Ingress>().for_each(|ingress| {
                        seen.objects.apply(Object::new(ingress.clone()));
                    });
                    match ours {
                        true => seen.sources.extend(other.sources.clone()),
                        false => drop(seen.sources.remove(&ObjectId::new(Kind::INGRESS, "shop", NAMES[at]))),
                    }
                }
                Step::Deleted(at) => {
                    seen.objects.delete(Kind::INGRESS, &ObjectKey::new("shop", NAMES[at]));
                    seen.sources.remove(&ObjectId::new(Kind::INGRESS, "shop", NAMES[at]));
                }
                Step::Wrong { at, field, reason, generation, is } => {
                    let mut problem = problem(NAMES[at], field, REASONS[reason]);
                    problem.object = problem.object.at(generation);
                    match is {
                        true => drop(seen.problems.insert(Arc::new(problem))),
                        false => drop(seen.problems.remove(&problem)),
                    }
                }
                Step::Expiring(at, is) => {
                    let problem = problem(NAMES[at], "", Reason::CertificateExpiring);
                    match is {
                        true => drop(expiring.insert(Arc::new(problem))),
                        false => drop(expiring.remove(&problem)),
                    }
                }
                Step::Update => {
                    let now = Arc::new(seen.clone());
                    let before = open(&tracker);
                    let notices = tracker.update(&now, &expiring);
                    let mut full = ProblemTracker::default();
                    full.update(&now, &expiring);
                    let after = open(&full);
                    prop_assert_eq!(&open(&tracker), &after);
                    // Each changed problem has a warning. Each solved problem of an existing object has a recovery.
                    let key = |notice: &Notice| (notice.object.to_string(), notice.subject);
                    let mut warnings: Vec<Notice> = notices.iter().filter(|told| told.is_warning).cloned().collect();
                    warnings.sort_by_key(key);
                    let others = after.iter().filter(|(key, now)| before.get(*key) != Some(*now));
                    let others = others.map(|(_, now)| Notice { is_new: true, ..now.clone() });
                    prop_assert_eq!(warnings, others.collect::<Vec<_>>());
                    let gone = before.iter().filter(|(key, _)| !after.contains_key(*key)).map(|(_, was)| was);
                    let there = |was: &&Notice| {
                        let key = ObjectKey { namespace: was.object.namespace.clone(), name: was.object.name.clone() };
                        let uid = now.objects.meta(Kind::INGRESS, &key).map(|meta| meta.uid.clone());
                        uid.as_ref() == Some(&was.uid) && now.published(Kind::INGRESS, &key).is_some()
                    };
                    let healed: Vec<&Notice> = notices.iter().filter(|told| told.reason == HEALED).collect();
                    let healed: BTreeSet<_> = healed.into_iter().map(key).collect();
                    prop_assert_eq!(healed, gone.filter(there).map(key).collect::<BTreeSet<_>>());
                }
            }
        }
    }
}
