//! The entries of this controller in a status that several controllers write: the parents of a route, or the ancestors of a
//! policy.
//!
//! The list is atomic for the API server, so a patch contains it as a whole. The entries of other controllers stay.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use lockgate_route::objects::gateway::{AncestorStatus, Condition, GROUP, ParentRef, ParentStatus};

use super::conditions::{DesiredCondition, are_current, goal, merge};
use crate::status::kind::Goal;

/// The entry of one controller for one reference.
pub trait StatusEntry: Clone {
    /// Creates an entry.
    fn new(reference: ParentRef, controller: String, conditions: Vec<Condition>) -> Self;

    /// Returns the parent or ancestor.
    fn reference(&self) -> &ParentRef;

    /// Returns the name of the controller.
    fn controller(&self) -> &str;

    /// Returns the conditions.
    fn conditions(&self) -> &[Condition];
}

/// A desired entry of this controller.
#[derive(Debug, Clone, PartialEq)]
pub struct DesiredEntry {
    /// The parent or ancestor.
    pub reference: ParentRef,
    /// The conditions.
    pub conditions: Vec<DesiredCondition>,
}

/// The desired entries of this controller.
#[derive(Debug, Clone, PartialEq)]
pub struct DesiredEntries {
    /// The name of this controller.
    pub controller: Arc<str>,
    /// The entries, in the order of the status.
    pub entries: Vec<DesiredEntry>,
}

/// The existing entries of all controllers in the status of an object.
#[derive(Debug, Clone, Copy)]
pub struct Existing<'a, E> {
    /// The entries.
    pub entries: &'a [E],
    /// The namespace of the object, which is the default of its references.
    pub namespace: &'a str,
}

impl<'a, E: StatusEntry> Existing<'a, E> {
    /// Returns the number of entries that this controller may have. The API permits `max` entries of all controllers.
    pub fn capacity(&self, controller: &str, max: usize) -> usize {
        max.saturating_sub(self.entries.iter().filter(|entry| entry.controller() != controller).count())
    }

    /// Returns the entry of a controller for a reference.
    pub fn find(&self, controller: &str, reference: &ParentRef) -> Option<&'a E> {
        let mut own = self.entries.iter().filter(|entry| entry.controller() == controller);
        own.find(|entry| is_same(entry.reference(), reference, self.namespace))
    }

    /// Returns whether the entries of this controller are the desired ones.
    pub fn is_current(&self, desired: &DesiredEntries) -> bool {
        let own = self.entries.iter().filter(|entry| *entry.controller() == *desired.controller).count();
        let is_current = |one: &DesiredEntry| {
            let entry = self.find(&desired.controller, &one.reference);
            entry.is_some_and(|entry| are_current(entry.conditions(), &one.conditions))
        };
        own == desired.entries.len() && desired.entries.iter().all(is_current)
    }

    /// Returns the goal of a status that does not depend on Envoys, unless it is current.
    pub fn goal(&self, desired: DesiredEntries) -> Option<Goal<DesiredEntries>> {
        (!self.is_current(&desired)).then(|| goal(desired))
    }

    /// Returns the entries of other controllers, followed by the desired ones. `envoys` Envoys have accepted the object.
    pub fn merge(&self, desired: &DesiredEntries, envoys: usize, now: Timestamp) -> Vec<E> {
        let others = self.entries.iter().filter(|entry| *entry.controller() != *desired.controller).cloned();
        let own = desired.entries.iter().map(|DesiredEntry { reference, conditions }| {
            let current = self.find(&desired.controller, reference).map_or(&[][..], StatusEntry::conditions);
            E::new(reference.clone(), desired.controller.to_string(), merge(current, conditions, envoys, now))
        });
        others.chain(own).collect()
    }
}

impl StatusEntry for ParentStatus {
    fn new(parent_ref: ParentRef, controller_name: String, conditions: Vec<Condition>) -> Self {
        Self { parent_ref, controller_name, conditions }
    }

    fn reference(&self) -> &ParentRef {
        &self.parent_ref
    }

    fn controller(&self) -> &str {
        &self.controller_name
    }

    fn conditions(&self) -> &[Condition] {
        &self.conditions
    }
}

impl StatusEntry for AncestorStatus {
    fn new(ancestor_ref: ParentRef, controller_name: String, conditions: Vec<Condition>) -> Self {
        Self { ancestor_ref, controller_name, conditions }
    }

    fn reference(&self) -> &ParentRef {
        &self.ancestor_ref
    }

    fn controller(&self) -> &str {
        &self.controller_name
    }

    fn conditions(&self) -> &[Condition] {
        &self.conditions
    }
}

/// Returns whether two references of an object in `namespace` are equal, independent of explicit defaults.
fn is_same(a: &ParentRef, b: &ParentRef, namespace: &str) -> bool {
    let complete = |reference: &ParentRef| {
        let ParentRef { group, kind, namespace: of, name, section_name, port } = reference.clone();
        (
            group.unwrap_or_else(|| GROUP.to_owned()),
            kind.unwrap_or_else(|| "Gateway".to_owned()),
            of.unwrap_or_else(|| namespace.to_owned()),
            name,
            section_name,
            port,
        )
    };
    a == b || complete(a) == complete(b)
}
