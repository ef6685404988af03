//! The problems of each object, and the notices of their changes. The cost of an update is proportional to the change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use imbl::ordset::DiffItem;
use lockgate_route::objects::{Kind, ObjectKey, Objects};
use lockgate_route::translate::DIALECTS;
use lockgate_route::translate::problem::{Problem, Problems, Reason};
use lockgate_xds::provenance::ObjectRef;

use super::notice::{HEALED, Notice, healed, note};
use crate::inspection::{Inspection, changed_objects};

/// The known problems, by object and reason.
#[derive(Debug, Default)]
pub(super) struct ProblemTracker {
    open: BTreeMap<ObjectRef, ByReason>,
    /// The last inspection. It is incomplete before the first update.
    seen: Arc<Inspection>,
    /// The last problems from outside of the translation.
    others: Problems,
}

/// The problems of one object.
type ByReason = BTreeMap<Reason, Open>;

#[derive(Debug, Clone, PartialEq)]
struct Open {
    uid: Arc<str>,
    note: String,
}

impl ProblemTracker {
    /// Updates the problems of the translation and the `others`. Returns the notices of the difference.
    pub fn update(&mut self, inspection: &Arc<Inspection>, others: &Problems) -> Vec<Notice> {
        if !inspection.complete {
            return Vec::new();
        }
        let seen = std::mem::replace(&mut self.seen, inspection.clone());
        let previous_others = std::mem::replace(&mut self.others, others.clone());
        let is_new = seen.complete;
        let (mut recoveries, mut warnings) = (Vec::new(), Vec::new());
        for object in self.affected((&seen, &previous_others), (inspection, others)) {
            let uid = uid(&inspection.objects, &object);
            let now = by_reason([&inspection.problems, others], &object, uid.clone().unwrap_or_default());
            let before = match now.is_empty() {
                true => self.open.remove(&object),
                false => self.open.insert(object.clone(), now.clone()),
            };
            let before = before.unwrap_or_default();
            for (reason, was) in before.iter().filter(|(reason, _)| !now.contains_key(reason)) {
                // Without a notice: the object is gone, or Lockgate no longer serves it.
                if uid.as_ref() == Some(&was.uid) && is_served(inspection, &object) {
                    let note = healed(reason.as_str(), &was.note);
                    let recovery = warning(&object, *reason, was, is_new);
                    recoveries.push(Notice { note, reason: HEALED, is_warning: false, ..recovery });
                }
            }
            let changed = now.iter().filter(|(reason, now)| before.get(reason) != Some(*now));
            warnings.extend(changed.map(|(reason, now)| warning(&object, *reason, now, is_new)));
        }
        recoveries.extend(warnings);
        recoveries
    }

    /// Returns the objects whose notices may change, without generation: those with a changed problem, and changed
    /// objects with problems, which may be new objects of the same name.
    fn affected(&self, seen: (&Inspection, &Problems), now: (&Inspection, &Problems)) -> BTreeSet<ObjectRef> {
        let ((seen, previous_others), (now, others)) = (seen, now);
        let problems = seen.problems.diff(&now.problems).chain(previous_others.diff(others)).map(|item| match item {
            DiffItem::Add(problem) | DiffItem::Remove(problem) => problem.object.clone().at(0),
        });
        let mut affected: BTreeSet<ObjectRef> = problems.collect();
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
                affected.extend(changed.filter(|object| self.open.contains_key(object)));
            }
        }
        affected
    }

    /// Returns a notice of each problem. A new leader cannot know which of them the last leader reported.
    pub fn all(&self) -> Vec<Notice> {
        let all = self.open.iter().flat_map(|(object, open)| open.iter().map(move |open| (object, open)));
        all.map(|(object, (reason, now))| warning(object, *reason, now, false)).collect()
    }
}

/// Returns the problems of an object with this uid.
fn by_reason(problems: [&Problems; 2], object: &ObjectRef, uid: Arc<str>) -> ByReason {
    // The smallest problem of the object in the sorted set.
    let first = Problem {
        object: object.clone().at(i64::MIN),
        field: String::new(),
        reason: Reason::PathMatchConditionsNotValid,
        message: String::new().into(),
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

/// Returns the uid of an object. `None`: it does not exist.
fn uid(objects: &Objects, object: &ObjectRef) -> Option<Arc<str>> {
    let kind = Kind::ALL.into_iter().find(|kind| kind.as_str() == object.kind)?;
    let key = ObjectKey { namespace: object.namespace.clone(), name: object.name.clone() };
    objects.meta(kind, &key).map(|meta| meta.uid.clone())
}

/// Returns whether Lockgate serves an object, which can change to another class.
fn is_served(inspection: &Inspection, object: &ObjectRef) -> bool {
    let key = ObjectKey { namespace: object.namespace.clone(), name: object.name.clone() };
    let dialect = DIALECTS.iter().find(|dialect| dialect.kind.as_str() == object.kind);
    dialect.is_none_or(|dialect| inspection.published(dialect.kind, &key).is_some())
}
