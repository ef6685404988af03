//! What is wrong with which object, and what to tell when that changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::notice::{HEALED, Notice, healed, note};
use crate::inspection::Inspection;
use crate::provenance::ObjectRef;
use crate::source::objects::{Kind, ObjectKey, Objects};
use crate::translate::problem::Reason;

/// What is wrong, by object and reason.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    open: BTreeMap<(ObjectRef, Reason), Open>,
    /// Whether anything was ever looked at.
    begun: bool,
}

#[derive(Debug, Clone, PartialEq)]
struct Open {
    uid: Arc<str>,
    note: String,
}

impl Ledger {
    /// Takes in what is wrong now; what is to be told of the difference.
    pub fn look(&mut self, inspection: &Inspection) -> Vec<Notice> {
        if !inspection.complete {
            return Vec::new();
        }
        let is_new = std::mem::replace(&mut self.begun, true);
        let mut groups = BTreeMap::<(ObjectRef, Reason), Vec<_>>::new();
        for problem in &inspection.problems {
            let group = groups.entry((problem.object.clone().at(0), problem.reason)).or_default();
            group.push((&*problem.field, &*problem.message, &*problem.consequence));
        }
        let open = groups.into_iter().map(|((object, reason), problems)| {
            let uid = uid(&inspection.objects, &object).unwrap_or_default();
            ((object, reason), Open { uid, note: note(problems.into_iter()) })
        });
        let before = std::mem::replace(&mut self.open, open.collect());
        let mut notices = Vec::new();
        for ((object, reason), was) in before.iter().filter(|(key, _)| !self.open.contains_key(*key)) {
            // Gone with its object, or no longer ours to judge.
            let still_there = uid(&inspection.objects, object).is_some_and(|uid| uid == was.uid);
            if still_there && is_served(inspection, object) {
                let note = healed(reason.as_str(), &was.note);
                notices.push(Notice {
                    note,
                    reason: HEALED,
                    is_warning: false,
                    ..warning(object, *reason, was, is_new)
                });
            }
        }
        let changed = self.open.iter().filter(|(key, now)| before.get(*key) != Some(*now));
        notices.extend(changed.map(|((object, reason), now)| warning(object, *reason, now, is_new)));
        notices
    }

    /// All that is wrong, for who cannot know what was told.
    pub fn all(&self) -> Vec<Notice> {
        self.open.iter().map(|((object, reason), now)| warning(object, *reason, now, false)).collect()
    }
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
    object.kind != Kind::Ingress.as_str() || inspection.ingresses.contains_key(&key)
}
