//! What is wrong with which object, and what to tell when that changes. It follows by what differs, so that a change
//! costs what it changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use imbl::ordset::DiffItem;
use lockgate_route::objects::{Kind, ObjectKey, Objects};
use lockgate_route::translate::problem::{Problem, Problems, Reason};
use lockgate_xds::provenance::ObjectRef;

use super::notice::{HEALED, Notice, healed, note};
use crate::inspection::{Inspection, changed_objects};

/// What is wrong, by object and reason.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    open: BTreeMap<ObjectRef, ByReason>,
    /// What was looked at last; incomplete if nothing was.
    seen: Arc<Inspection>,
    /// And what was wrong beside it.
    beside: Problems,
}

/// What is wrong with one object.
type ByReason = BTreeMap<Reason, Open>;

#[derive(Debug, Clone, PartialEq)]
struct Open {
    uid: Arc<str>,
    note: String,
}

impl Ledger {
    /// Takes in what is wrong now, for translation and `beside` it; what is to be told of the difference.
    pub fn look(&mut self, inspection: &Arc<Inspection>, beside: &Problems) -> Vec<Notice> {
        if !inspection.complete {
            return Vec::new();
        }
        let seen = std::mem::replace(&mut self.seen, inspection.clone());
        let was_beside = std::mem::replace(&mut self.beside, beside.clone());
        let is_new = seen.complete;
        let (mut healings, mut warnings) = (Vec::new(), Vec::new());
        for object in self.touched((&seen, &was_beside), (inspection, beside)) {
            let uid = uid(&inspection.objects, &object);
            let now = by_reason([&inspection.problems, beside], &object, uid.clone().unwrap_or_default());
            let before = match now.is_empty() {
                true => self.open.remove(&object),
                false => self.open.insert(object.clone(), now.clone()),
            };
            let before = before.unwrap_or_default();
            for (reason, was) in before.iter().filter(|(reason, _)| !now.contains_key(reason)) {
                // Gone with its object, or no longer ours to judge.
                if uid.as_ref() == Some(&was.uid) && is_served(inspection, &object) {
                    let note = healed(reason.as_str(), &was.note);
                    let healing = warning(&object, *reason, was, is_new);
                    healings.push(Notice { note, reason: HEALED, is_warning: false, ..healing });
                }
            }
            let changed = now.iter().filter(|(reason, now)| before.get(reason) != Some(*now));
            warnings.extend(changed.map(|(reason, now)| warning(&object, *reason, now, is_new)));
        }
        healings.extend(warnings);
        healings
    }

    /// The objects of which something else may have to be told: those with other problems, and those at fault that
    /// may be others of the same name. Of no particular generation.
    fn touched(&self, seen: (&Inspection, &Problems), now: (&Inspection, &Problems)) -> BTreeSet<ObjectRef> {
        let ((seen, was_beside), (now, beside)) = (seen, now);
        let problems = seen.problems.diff(&now.problems).chain(was_beside.diff(beside)).map(|item| match item {
            DiffItem::Add(problem) | DiffItem::Remove(problem) => problem.object.clone().at(0),
        });
        let mut touched: BTreeSet<ObjectRef> = problems.collect();
        for kind in Kind::ALL {
            let first = ObjectRef::new(kind.as_str(), "", "");
            if self.open.range(first..).next().is_some_and(|(object, _)| object.kind == kind.as_str()) {
                let changed = changed_objects(kind, &seen.objects, &now.objects).into_iter();
                let changed = changed.map(|ObjectKey { namespace, name }| ObjectRef {
                    kind: kind.as_str(),
                    namespace,
                    name,
                    generation: 0,
                });
                touched.extend(changed.filter(|object| self.open.contains_key(object)));
            }
        }
        touched
    }

    /// All that is wrong, for who cannot know what was told.
    pub fn all(&self) -> Vec<Notice> {
        let all = self.open.iter().flat_map(|(object, open)| open.iter().map(move |open| (object, open)));
        all.map(|(object, (reason, now))| warning(object, *reason, now, false)).collect()
    }
}

/// What is wrong with this object, whose uid this is.
fn by_reason(problems: [&Problems; 2], object: &ObjectRef, uid: Arc<str>) -> ByReason {
    // Nothing is before it that is of this object.
    let first = Problem {
        object: object.clone().at(i64::MIN),
        field: String::new(),
        reason: Reason::PathMatchConditionsNotValid,
        message: String::new(),
        consequence: String::new(),
    };
    let is_of_it = |problem: &&Arc<Problem>| {
        let of = &problem.object;
        (of.kind, &of.namespace, &of.name) == (object.kind, &object.namespace, &object.name)
    };
    let mut groups = BTreeMap::<Reason, (Vec<_>, usize)>::new();
    for problem in problems.iter().flat_map(|problems| problems.range::<_, Problem>(&first..).take_while(is_of_it)) {
        let (group, others) = groups.entry(problem.reason).or_default();
        match problem.others() {
            Some(count) => *others += count,
            None => group.push((&*problem.field, &*problem.message, &*problem.consequence)),
        }
    }
    let open = |(group, others): (Vec<_>, usize)| Open { uid: uid.clone(), note: note(group.into_iter(), others) };
    groups.into_iter().map(|(reason, group)| (reason, open(group))).collect()
}

fn warning(object: &ObjectRef, reason: Reason, open: &Open, is_new: bool) -> Notice {
    Notice {
        object: object.clone(),
        uid: open.uid.clone(),
        subject: reason.as_str(),
        is_warning: true,
        reason: reason.as_str(),
        note: open.note.clone(),
        is_new,
    }
}

/// The uid of an object; `None` if it does not exist.
fn uid(objects: &Objects, object: &ObjectRef) -> Option<Arc<str>> {
    let kind = Kind::ALL.into_iter().find(|kind| kind.as_str() == object.kind)?;
    let key = ObjectKey { namespace: object.namespace.clone(), name: object.name.clone() };
    objects.meta(kind, &key).map(|meta| meta.uid.clone())
}

/// Whether what is said of an object is said because it is served: an Ingress may also have left our class.
fn is_served(inspection: &Inspection, object: &ObjectRef) -> bool {
    let key = ObjectKey { namespace: object.namespace.clone(), name: object.name.clone() };
    object.kind != Kind::INGRESS.as_str() || inspection.published(Kind::INGRESS, &key).is_some()
}
