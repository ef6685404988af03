//! The status of a policy of Lockgate at its targets: for each target, whether the policy is accepted there, and whether all
//! Envoys have accepted it.
//!
//! The ancestor is the target itself, because the result differs between targets.

use k8s_openapi::jiff::Timestamp;
use lockgate_route::objects::Meta;
use lockgate_route::objects::gateway::{AncestorStatus, ParentRef, PolicyStatus};
use lockgate_route::translate::Verdict;
use lockgate_route::translate::verdict::Status;
use serde_json::{Value, json};

use super::conditions::{self, DesiredCondition, Message};
use super::entries::{DesiredEntries, DesiredEntry, Existing};
use super::listeners::{self, ObjectProgress, PROGRAMMED};
use crate::status::kind::{Facts, Goal};

/// The maximum number of entries of all controllers. Source: CustomResourceDefinitions of Lockgate.
const MAX_ENTRIES: usize = 16;

/// The type of the condition that every target has.
const ACCEPTED: &str = "Accepted";

/// A policy with the references to its targets.
pub struct TargetsOfPolicy<'a> {
    /// The metadata.
    pub meta: &'a Meta,
    /// The current status.
    pub status: &'a PolicyStatus,
    /// The targets in the order of the spec.
    pub references: Vec<ParentRef>,
}

impl TargetsOfPolicy<'_> {
    /// Returns the next status to write. A policy that Lockgate does not serve has no entry.
    pub fn goal(&self, facts: &Facts<'_>) -> Option<Goal<DesiredEntries>> {
        let existing = self.existing();
        let Some(published) = facts.published else {
            return existing.goal(DesiredEntries { controller: facts.controller.into(), entries: Vec::new() });
        };
        let status = |progress: ObjectProgress| self.desired(facts, &progress);
        listeners::next(published, None, status, |desired| existing.is_current(desired))
    }

    /// Returns the content of the status.
    pub fn patch(&self, desired: &DesiredEntries, envoys: usize, now: Timestamp) -> Value {
        json!({ "ancestors": self.existing().merge(desired, envoys, now) })
    }

    fn existing(&self) -> Existing<'_, AncestorStatus> {
        Existing { entries: &self.status.ancestors, namespace: &self.meta.key.namespace }
    }

    /// Returns the desired entries at this progress of the Envoys: an entry for each target with a verdict, in the order of the
    /// spec.
    fn desired(&self, facts: &Facts<'_>, progress: &ObjectProgress) -> DesiredEntries {
        let (generation, existing) = (self.meta.generation, self.existing());
        let entry = |(i, reference): (usize, &ParentRef)| {
            let verdicts = || facts.verdicts.iter().filter(move |verdict| verdict.parent.map(usize::from) == Some(i));
            let verdict = verdicts().find(|verdict| verdict.condition == ACCEPTED)?;
            let current = existing.find(facts.controller, reference);
            let programmed = programmed(verdict, current, generation, progress);
            let others = verdicts().filter(|verdict| verdict.condition != ACCEPTED);
            let others = others.map(|verdict| DesiredCondition::from_verdict(verdict, generation));
            let accepted = DesiredCondition::from_verdict(verdict, generation);
            let conditions = [accepted, programmed].into_iter().chain(others).collect();
            Some(DesiredEntry { reference: reference.clone(), conditions })
        };
        let capacity = existing.capacity(facts.controller, MAX_ENTRIES);
        // The API server requires unique references.
        let mut entries = Vec::<DesiredEntry>::new();
        for new in self.references.iter().enumerate().filter_map(entry).take(capacity) {
            if !entries.iter().any(|entry| entry.reference == new.reference) {
                entries.push(new);
            }
        }
        DesiredEntries { controller: facts.controller.into(), entries }
    }
}

/// Describes a status.
pub fn summary(desired: &DesiredEntries) -> String {
    match desired.entries.as_slice() {
        [] => "effective nowhere".to_owned(),
        [entry] => conditions::summary(&entry.conditions),
        entries => {
            let is_accepted = |one: &DesiredCondition| (one.r#type, one.status) == (ACCEPTED, Status::True);
            let accepted = entries.iter().filter(|entry| entry.conditions.iter().any(is_accepted)).count();
            format!("accepted at {accepted} of {} targets", entries.len())
        }
    }
}

/// Returns the condition `Programmed` of a target.
fn programmed(
    verdict: &Verdict,
    current: Option<&AncestorStatus>,
    generation: i64,
    progress: &ObjectProgress,
) -> DesiredCondition {
    let condition =
        |status, reason, message| DesiredCondition { r#type: PROGRAMMED, status, reason, message, generation };
    let blocked = |reason, text: &str| condition(Status::False, reason, Message::Text(text.to_owned()));
    let was = current.is_some_and(|current| {
        current.conditions.iter().any(|one| {
            one.r#type == PROGRAMMED && one.status == Status::True.as_str() && one.observed_generation == generation
        })
    });
    match (verdict.status, progress) {
        (Status::True, ObjectProgress::Accepted(revision)) => {
            condition(Status::True, PROGRAMMED, Message::Accepted(*revision))
        }
        (Status::True, ObjectProgress::Waiting) if was => condition(Status::True, PROGRAMMED, Message::Kept),
        (Status::True, ObjectProgress::Waiting) => blocked("Pending", "not all Envoys have accepted the policy yet"),
        (Status::True, ObjectProgress::Blocked(fault)) => blocked(fault.reason, &fault.message),
        _ => blocked(verdict.reason, "the policy is not accepted"),
    }
}
