#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;

use k8s_openapi::api::networking::v1::IngressSpec;
use lockgate_route::objects::{Ingress, IngressStatus, Kind, Meta, Object, Revision};
use lockgate_route::translate::problem::{Problem, Reason};

use super::outbox::tests::Boxed;
use super::*;
use crate::inspection::Published;

fn problem(name: &str, field: &str, reason: Reason) -> Problem {
    Problem {
        object: ObjectRef::new("Ingress", "shop", name).at(3),
        field: field.into(),
        reason,
        message: "Service \"shop/cart\" does not exist".into(),
        consequence: "path answers 503".into(),
    }
}

/// Served Ingresses with these names, uids, and problems.
fn inspection(ingresses: &[(&str, &str)], problems: &[Problem]) -> Arc<Inspection> {
    let mut inspection = Inspection {
        complete: true,
        problems: problems.iter().cloned().map(Arc::new).collect(),
        ..Inspection::default()
    };
    for (name, uid) in ingresses {
        let key = ObjectKey::new("shop", name);
        let published =
            Published { uid: (*uid).into(), revision: Revision(3), since: 1, served: true, fleets: Arc::default() };
        inspection.sources.insert(Kind::INGRESS.id(key.clone()), published);
        let meta = Meta {
            key,
            uid: (*uid).into(),
            generation: 3,
            created: 0,
            terminating: false,
            annotations: BTreeMap::new(),
            labels: BTreeMap::new(),
        };
        let (spec, status) = (IngressSpec::default(), IngressStatus::default());
        inspection.objects.apply(Object::new(Ingress { meta, spec, status }));
    }
    Arc::new(inspection)
}

fn told(notices: &[Notice]) -> Vec<String> {
    let text = |notice: &Notice| format!("{} {}: {}", notice.reason, notice.object.name, notice.note);
    notices.iter().map(text).collect()
}

const UNRESOLVED: Reason = Reason::ServiceUnresolvedReference;
const CART: &[(&str, &str)] = &[("cart", "u")];

#[test]
fn a_problem_and_its_recovery_are_reported_once() {
    let mut tracker = ProblemTracker::default();
    assert_eq!(told(&tracker.update(&inspection(CART, &[]), &Problems::new())), [""; 0]);
    let one = problem("cart", "a", UNRESOLVED);
    let first = tracker.update(&inspection(CART, std::slice::from_ref(&one)), &Problems::new());
    let text = "Service \"shop/cart\" does not exist; path answers 503";
    assert_eq!(told(&first), [format!("ServiceUnresolvedReference cart: a: {text}")]);
    assert!(first[0].is_new && first[0].is_warning && *first[0].uid == *"u");
    assert_eq!(told(&tracker.update(&inspection(CART, std::slice::from_ref(&one)), &Problems::new())), [""; 0]);
    let two = [one, problem("cart", "b", UNRESOLVED)];
    let both = format!("a: {text}; also b: {text}");
    assert_eq!(
        told(&tracker.update(&inspection(CART, &two), &Problems::new())),
        [format!("ServiceUnresolvedReference cart: {both}")]
    );
    let healed = tracker.update(&inspection(CART, &[]), &Problems::new());
    assert_eq!(told(&healed), [format!("Healed cart: no longer ServiceUnresolvedReference: {both}")]);
    assert!(!healed[0].is_warning);
    assert_eq!(told(&tracker.update(&inspection(CART, &[]), &Problems::new())), [""; 0]);
}

#[test]
fn deleted_and_foreign_objects_do_not_recover() {
    let faulty = inspection(CART, &[problem("cart", "a", UNRESOLVED)]);
    let mut other_class = inspection(CART, &[]);
    Arc::make_mut(&mut other_class).sources.clear();
    for now in [inspection(&[], &[]), inspection(&[("cart", "another")], &[]), other_class] {
        let mut tracker = ProblemTracker::default();
        tracker.update(&faulty, &Problems::new());
        assert_eq!(told(&tracker.update(&now, &Problems::new())), [""; 0]);
    }
}

#[test]
fn before_the_initial_lists_nothing_is_reported() {
    let mut tracker = ProblemTracker::default();
    tracker.update(&inspection(CART, &[problem("cart", "a", UNRESOLVED)]), &Problems::new());
    assert_eq!(told(&tracker.update(&Arc::default(), &Problems::new())), [""; 0]);
    assert_eq!(tracker.all().len(), 1);
}

fn notice(note: &str) -> Notice {
    let object = ObjectRef::new("Ingress", "shop", "cart");
    let (subject, reason) = ("Conflicted", "Conflicted");
    Notice { object, uid: "u".into(), subject, is_warning: true, reason, note: note.into(), is_new: true }
}

fn recovery(note: &str) -> Notice {
    Notice { is_warning: false, reason: HEALED, ..notice(note) }
}

const MIN_DURATION: Duration = Duration::from_secs(1);

#[test]
fn a_short_problem_is_not_reported() {
    let (mut outbox, now) = (Boxed::default(), Instant::now());
    outbox.push(notice("a"), now);
    assert_eq!(outbox.pop(now), None);
    outbox.push(recovery("a"), now);
    assert_eq!((outbox.len(), outbox.pop(now + MIN_DURATION)), (0, None));
}

#[test]
fn the_latest_notice_on_a_subject_is_reported() {
    let (mut outbox, now) = (Boxed::default(), Instant::now());
    outbox.push(notice("a"), now);
    outbox.push(notice("b"), now);
    let write = outbox.start(now + MIN_DURATION).expect("a write");
    assert_eq!(write.item.goal, notice("b"));
    // The write fails, and a later notice is there.
    outbox.push(notice("c"), now);
    outbox.finish(&write, None, now + MIN_DURATION);
    let later = now + 2 * MIN_DURATION;
    assert_eq!(outbox.pop(later), Some((notice("c"), Delivery::Create)));
    assert_eq!(outbox.len(), 0);
}

#[test]
fn a_repeated_notice_increases_the_count_of_its_event() {
    let (mut outbox, mut now) = (Boxed::default(), Instant::now());
    outbox.outbox.delivered(&notice("a"), 1);
    outbox.push(Notice { is_new: false, ..notice("a") }, now);
    assert_eq!(outbox.len(), 0);
    for times in [2, 3] {
        outbox.push(notice("a"), now);
        now += MIN_DURATION;
        let write = outbox.start(now).expect("a write");
        assert_eq!(outbox.outbox.delivery(&write.item.goal), Delivery::Update(times));
        outbox.finish(&write, Some(times), now);
    }
    outbox.outbox.forget(&notice("a"));
    outbox.push(Notice { is_new: false, ..notice("a") }, now);
    assert_eq!(outbox.pop(now), Some((Notice { is_new: false, ..notice("a") }, Delivery::Create)));
}

#[test]
fn beyond_the_limit_recoveries_and_then_the_oldest_notices_are_dropped() {
    let (mut outbox, now) = (Boxed::default(), Instant::now());
    let of = |i: usize, notice: Notice| Notice { object: ObjectRef::new("Ingress", "shop", &i.to_string()), ..notice };
    (0..10).for_each(|i| outbox.push(of(i, recovery("a")), now));
    (10..1015).for_each(|i| outbox.push(of(i, notice("a")), now));
    assert_eq!((outbox.len(), outbox.outbox.take_dropped(), outbox.outbox.take_dropped()), (1000, 15, 0));
    assert_eq!(outbox.oldest().unwrap().object.name, "15".into());
}

#[test]
fn the_event_of_a_programmed_ingress_has_envoys_and_addresses() {
    let key = ObjectKey::new("shop", "cart");
    let programmed =
        Programmed { kind: Kind::INGRESS, key, uid: "u".into(), envoys: 2, summary: "reachable at 192.0.2.1".into() };
    let notice = Notice::from(programmed);
    assert_eq!(notice.note, "accepted by 2/2 Envoys; reachable at 192.0.2.1");
    let event = notice.event("us", "me", Timestamp::UNIX_EPOCH);
    assert_eq!((event.type_.as_deref(), event.reason.as_deref()), (Some("Normal"), Some("Programmed")));
    assert_eq!(event.action.as_deref(), Some("Program"));
}

mod incremental;
