//! The goals of the statuses of one kind: which statuses to write, as a function of the state of the controller. No I/O.

use std::collections::BTreeSet;
use std::sync::Arc;

use lockgate_route::objects::{Object, ObjectKey};
use tokio::time::Instant;

use super::kind::{ExternalFacts, Facts, HasStatus, Inputs};
use super::queue::{Base, DueWrite, Queue, QueueItem, WriteOutcome};
use crate::inspection::{Inspection, changed};

/// The goals of the objects of kind `T`.
#[derive(Debug)]
pub(super) struct Goals<T: HasStatus> {
    /// The field manager of this installation.
    manager: String,
    inputs: Inputs,
    /// The objects that Lockgate no longer serves, until their status is withdrawn.
    withdrawing: BTreeSet<ObjectKey>,
    kind: std::marker::PhantomData<fn() -> T>,
}

impl<T: HasStatus> Goals<T> {
    /// Creates the goals of an installation with this field manager.
    pub fn new(manager: String) -> Self {
        Self { manager, inputs: Inputs::default(), withdrawing: BTreeSet::new(), kind: std::marker::PhantomData }
    }

    /// Updates the queue after a change of the inputs. While the addresses of the Envoys are unknown, no new address is
    /// written, and existing addresses stay.
    pub fn update(
        &mut self,
        queue: &mut Queue<T::Status>,
        inspection: Arc<Inspection>,
        external: impl Into<ExternalFacts>,
        now: Instant,
    ) {
        if inspection.complete {
            let (external, before): (ExternalFacts, _) = (external.into(), &self.inputs.external);
            let all = *external.addresses != *before.addresses || external.controller != before.controller;
            self.update_objects(queue, Inputs { inspection, external }, all, now);
        }
    }

    /// Returns whether a change of the state concerns objects of this kind. If not, there is nothing to update.
    pub fn concerns(&mut self, inspection: Arc<Inspection>) -> bool {
        let now = Inputs { inspection, external: self.inputs.external.clone() };
        let concerns = !self.inputs.inspection.complete || !keys_of_changes::<T>(&self.inputs, &now).is_empty();
        if !concerns {
            self.inputs = now;
        }
        concerns
    }

    /// Updates the items of changed objects, or of all objects.
    fn update_objects(&mut self, queue: &mut Queue<T::Status>, inputs: Inputs, all: bool, now: Instant) {
        let before = std::mem::replace(&mut self.inputs, inputs);
        let inspection = self.inputs.inspection.clone();
        let objects = inspection.objects.of_kind(T::KIND);
        let mut keys = keys_of_changes::<T>(&before, &self.inputs);
        if all {
            keys.extend(objects.keys().cloned());
        }
        for key in &keys {
            match objects.get(key) {
                Some(object) => {
                    if inspection.published(T::KIND, key).is_some() {
                        self.withdrawing.remove(key);
                    } else if before.inspection.published(T::KIND, key).is_some() {
                        self.withdrawing.insert(key.clone());
                    }
                    self.update_object(queue, object, now);
                }
                None => {
                    self.withdrawing.remove(key);
                    queue.remove(&T::KIND.id(key.clone()));
                }
            }
        }
    }

    fn update_object(&mut self, queue: &mut Queue<T::Status>, object: &Object, now: Instant) {
        let Some(content) = object.get::<T>() else { return };
        let (key, inspection) = (&object.meta().key, &self.inputs.inspection);
        let id = T::KIND.id(key.clone());
        let published = inspection.published(T::KIND, key);
        let facts = Facts {
            manager: &self.manager,
            addresses: &self.inputs.external.addresses,
            published,
            withdrawing: self.withdrawing.contains(key),
            verdicts: inspection.verdicts.get(&id).map_or(&[], |verdicts| verdicts),
            inspection,
            controller: &self.inputs.external.controller,
            faults: &self.inputs.external.faults,
        };
        match content.goal(&facts) {
            Some(goal) => {
                let item = QueueItem {
                    is_urgent: facts.withdrawing && goal.needs.is_none(),
                    needs: goal.needs,
                    interim: goal.interim,
                    cause: goal.cause,
                    series: published.map(|published| published.revision.0),
                    ..QueueItem::new(goal.status, Base::Version(Some(content.version().clone())))
                };
                queue.set(&id, item, now);
            }
            None => {
                queue.remove(&id);
                if published.is_none() {
                    self.withdrawing.remove(key);
                }
            }
        }
    }

    /// Processes the result of a write.
    pub fn finished(
        &mut self,
        queue: &mut Queue<T::Status>,
        write: &DueWrite<T::Status>,
        outcome: WriteOutcome,
        now: Instant,
    ) {
        let key = &write.id.key;
        // A status is withdrawn only once. If it reappears, its new owner has written it.
        if outcome == WriteOutcome::Done && write.item.is_urgent {
            self.withdrawing.remove(key);
        }
        // The watch may have been faster than the response.
        if let Some(object) = self.object(key).cloned() {
            self.update_object(queue, &object, now);
        }
    }

    /// Returns an object.
    pub fn object(&self, key: &ObjectKey) -> Option<&Object> {
        self.inputs.inspection.objects.of_kind(T::KIND).get(key)
    }
}

/// Returns the objects that differ, or whose facts differ.
fn keys_of_changes<T: HasStatus>(before: &Inputs, now: &Inputs) -> BTreeSet<ObjectKey> {
    let [old, new] = [before, now].map(|inputs| inputs.inspection.objects.of_kind(T::KIND));
    let mut keys = T::changed(before, now);
    keys.extend(changed(old, new).cloned());
    keys
}

#[cfg(test)]
mod tests;
