//! The status of HTTPPolicies: for each target, whether the policy is accepted there, and whether all Envoys enforce
//! it.
//!
//! The ancestor is the target itself, because the result differs between targets.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use lockgate_route::objects::Kind;
use lockgate_route::objects::gateway::{AncestorStatus, HttpPolicy, HttpPolicyTarget, ParentRef};
use lockgate_route::translate::Verdict;
use lockgate_route::translate::verdict::Status;
use serde_json::{Value, json};

use super::conditions::{DesiredCondition, Message, summary};
use super::entries::{DesiredEntries, DesiredEntry, Existing};
use super::listeners::{self, PROGRAMMED, Progress};
use crate::status::kind::{Facts, Goal, HasStatus};

/// The maximum number of entries of all controllers. Source: CustomResourceDefinition of HTTPPolicy.
const MAX_ENTRIES: usize = 16;

impl HasStatus for HttpPolicy {
    type Status = DesiredEntries;

    fn version(&self) -> &Arc<str> {
        &self.version
    }

    fn goal(&self, facts: &Facts<'_>) -> Option<Goal<DesiredEntries>> {
        let existing = existing(self);
        // A policy that Lockgate does not serve has no entry.
        let Some(published) = facts.published else {
            return existing.goal(DesiredEntries { controller: facts.controller.into(), entries: Vec::new() });
        };
        let status = |progress: Progress| desired(self, facts, &progress);
        listeners::next(published, None, status, |desired| existing.is_current(desired))
    }

    fn patch(&self, desired: &DesiredEntries, envoys: usize, now: Timestamp) -> Value {
        json!({ "ancestors": existing(self).merge(desired, envoys, now) })
    }

    fn summary(desired: &DesiredEntries) -> String {
        match desired.entries.as_slice() {
            [] => "effective nowhere".to_owned(),
            [entry] => summary(&entry.conditions),
            entries => {
                let is_accepted = |one: &DesiredCondition| (one.r#type, one.status) == ("Accepted", Status::True);
                let accepted = entries.iter().filter(|entry| entry.conditions.iter().any(is_accepted)).count();
                format!("accepted at {accepted} of {} targets", entries.len())
            }
        }
    }
}

/// Returns the entries in the status of a policy.
fn existing(policy: &HttpPolicy) -> Existing<'_, AncestorStatus> {
    Existing { entries: &policy.status.ancestors, namespace: &policy.meta.key.namespace }
}

/// Returns the desired entries at this progress of the Envoys: an entry for each target that Lockgate serves or that does not
/// exist, in the order of the spec.
fn desired(policy: &HttpPolicy, facts: &Facts<'_>, progress: &Progress) -> DesiredEntries {
    let (generation, existing) = (policy.meta.generation, existing(policy));
    let entry = |(i, target): (usize, &HttpPolicyTarget)| {
        let verdict = facts.verdicts.iter().find(|verdict| verdict.parent.map(usize::from) == Some(i))?;
        let reference = reference(target, &policy.meta.key.namespace);
        let current = existing.find(facts.controller, &reference);
        let programmed = programmed(verdict, current, generation, progress);
        let conditions = vec![DesiredCondition::from_verdict(verdict, generation), programmed];
        Some(DesiredEntry { reference, conditions })
    };
    let capacity = existing.capacity(facts.controller, MAX_ENTRIES);
    // The API server requires unique references.
    let mut entries = Vec::<DesiredEntry>::new();
    for new in policy.spec.target_refs.iter().enumerate().filter_map(entry).take(capacity) {
        if !entries.iter().any(|entry| entry.reference == new.reference) {
            entries.push(new);
        }
    }
    DesiredEntries { controller: facts.controller.into(), entries }
}

/// Returns the condition `Programmed` of a target.
fn programmed(
    verdict: &Verdict,
    current: Option<&AncestorStatus>,
    generation: i64,
    progress: &Progress,
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
        (Status::True, Progress::Accepted(revision)) => {
            condition(Status::True, PROGRAMMED, Message::Accepted(*revision))
        }
        (Status::True, Progress::Waiting) if was => condition(Status::True, PROGRAMMED, Message::Kept),
        (Status::True, Progress::Waiting) => blocked("Pending", "not all Envoys have accepted the policy yet"),
        (Status::True, Progress::Blocked(fault)) => blocked(fault.reason, &fault.message),
        _ => blocked(verdict.reason, "the policy is not accepted"),
    }
}

/// Returns the reference to a target.
fn reference(target: &HttpPolicyTarget, namespace: &str) -> ParentRef {
    let HttpPolicyTarget { group, kind, name, section_name } = target;
    ParentRef {
        group: Some(group.clone()),
        kind: Some(kind.clone()),
        // A Namespace has no namespace.
        namespace: Some(namespace.to_owned()).filter(|_| kind != Kind::NAMESPACE.as_str()),
        name: name.clone(),
        section_name: section_name.as_deref().map(ToOwned::to_owned),
        port: None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use lockgate_route::objects::Object;
    use lockgate_route::objects::gateway::{Condition, PolicyStatus};
    use lockgate_route::testing::gateway::http_policy;
    use lockgate_xds::provenance::ObjectRef;

    use super::*;
    use crate::inspection::{Inspection, Published};

    /// The verdicts on the targets `cart` and `gone` of the policy `shop/limits`.
    fn verdicts() -> Vec<Verdict> {
        let of = |i, status, reason| Verdict {
            parent: Some(i),
            ..Verdict::new(ObjectRef::new("HTTPPolicy", "shop", "limits"), "Accepted", status, reason)
        };
        vec![of(0, Status::True, "Accepted"), of(1, Status::False, "TargetNotFound")]
    }

    /// Returns the entries of a policy: the target with its conditions.
    fn entries(policy: &HttpPolicy) -> Vec<String> {
        let entry = |one: &AncestorStatus| {
            let conditions = one.conditions.iter().map(|one| format!("{}={} {}", one.r#type, one.status, one.reason));
            format!("{}: {}", one.ancestor_ref.name, conditions.collect::<Vec<_>>().join(", "))
        };
        policy.status.ancestors.iter().map(entry).collect()
    }

    #[test]
    fn each_target_has_its_own_conditions_and_programmed_waits_for_envoys() {
        let builder = http_policy("limits").target("HTTPRoute", "cart").target("HTTPRoute", "gone");
        let mut policy = Object::from(builder).get::<HttpPolicy>().expect("a policy").clone();
        let other = AncestorStatus {
            controller_name: "example.com/other".to_owned(),
            conditions: vec![Condition::default()],
            ..AncestorStatus::default()
        };
        policy.status = PolicyStatus { ancestors: vec![other.clone()] };
        let (inspection, verdicts) = (Inspection::default(), verdicts());
        let published = Published::example(1, 1);
        let facts = |published| Facts::example(&inspection, published, &verdicts);
        let write = |policy: &mut HttpPolicy, goal: Goal<DesiredEntries>| {
            let patch = policy.patch(&goal.status, 2, Timestamp::UNIX_EPOCH);
            policy.status = serde_json::from_value::<PolicyStatus>(patch).expect("a status");
        };
        let first = policy.goal(&facts(Some(&published))).expect("a goal");
        assert_eq!(first.needs, None);
        write(&mut policy, first);
        let gone = "gone: Accepted=False TargetNotFound, Programmed=False TargetNotFound";
        assert_eq!(entries(&policy)[1..], ["cart: Accepted=True Accepted, Programmed=False Pending", gone]);
        let second = policy.goal(&facts(Some(&published))).expect("a goal");
        assert_eq!(second.needs.as_ref(), Some(&published), "all Envoys");
        write(&mut policy, second);
        assert_eq!(entries(&policy)[1..], ["cart: Accepted=True Accepted, Programmed=True Programmed", gone]);
        assert!(policy.status.ancestors[1].conditions[1].message.starts_with("accepted by 2 Envoys"));
        assert!(policy.goal(&facts(Some(&published))).is_none());
        let withdrawn = policy.goal(&facts(None)).expect("a goal");
        write(&mut policy, withdrawn);
        assert_eq!(policy.status.ancestors, [other]);
    }
}
