//! The status of HTTPPolicies: for each target, whether the policy is accepted there, and whether all Envoys enforce it.
//!
//! An ancestor is the target itself, because a policy has a different result at each of them. The list of ancestors is atomic
//! for the API server, and several controllers write into it. Their entries stay.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use lockgate_route::objects::gateway::{AncestorStatus, HttpPolicy, HttpPolicyTarget, ParentRef};
use lockgate_route::translate::Verdict;
use lockgate_route::translate::verdict::Status;
use serde_json::{Value, json};

use super::conditions::{Message, Wanted as Wish, are, merge};
use super::listeners::{self, PROGRAMMED, Progress};
use super::route::is_same;
use super::{cause, summary};
use crate::status::kind::{Facts, Goal, HasStatus};

/// The maximum number of entries of all controllers. Source: CustomResourceDefinition of HTTPPolicy.
const MOST: usize = 16;

/// The entries that the status of a policy should have.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    /// The name of this controller.
    controller: Arc<str>,
    /// The targets of ours, and those that do not exist, in the order of the spec.
    ancestors: Vec<(ParentRef, Vec<Wish>)>,
}

impl HasStatus for HttpPolicy {
    type Status = Wanted;

    fn version(&self) -> &Arc<str> {
        &self.version
    }

    fn goal(&self, facts: &Facts<'_>) -> Option<Goal<Wanted>> {
        // A policy that is not ours, or no longer, has no entry of ours.
        let Some(published) = facts.published else {
            let nothing = Wanted { controller: facts.controller.into(), ancestors: Vec::new() };
            return (!is_right(self, &nothing)).then(|| Goal { cause: cause(&nothing), status: nothing, needs: None });
        };
        let status = |progress: Progress| wanted(self, facts, &progress);
        listeners::next(published, None, status, |wanted| is_right(self, wanted))
    }

    fn patch(&self, wanted: &Wanted, envoys: usize, now: Timestamp) -> Value {
        let is_ours = |entry: &AncestorStatus| *entry.controller_name == *wanted.controller;
        let others = self.status.ancestors.iter().filter(|entry| !is_ours(entry)).cloned();
        let ours = wanted.ancestors.iter().map(|(ancestor, conditions)| {
            let is = entry(self, &wanted.controller, ancestor).map_or(&[][..], |is| &is.conditions);
            AncestorStatus {
                ancestor_ref: ancestor.clone(),
                controller_name: wanted.controller.to_string(),
                conditions: merge(is, conditions, envoys, now),
            }
        });
        json!({ "ancestors": others.chain(ours).collect::<Vec<_>>() })
    }

    fn summary(wanted: &Wanted) -> String {
        match wanted.ancestors.as_slice() {
            [] => "in effect nowhere".to_owned(),
            [(_, conditions)] => summary(conditions),
            several => {
                let is = |one: &Wish| (one.r#type, one.status) == ("Accepted", Status::True);
                let accepted = several.iter().filter(|(_, conditions)| conditions.iter().any(is)).count();
                format!("accepted at {accepted} of {} targets", several.len())
            }
        }
    }
}

/// Returns the entries at a progress of the Envoys.
fn wanted(policy: &HttpPolicy, facts: &Facts<'_>, progress: &Progress) -> Wanted {
    let generation = policy.meta.generation;
    let ancestor = |(i, target): (usize, &HttpPolicyTarget)| {
        let verdict = facts.verdicts.iter().find(|verdict| verdict.parent.map(usize::from) == Some(i))?;
        let reference = reference(target, &policy.meta.key.namespace);
        let is = entry(policy, facts.controller, &reference);
        let programmed = programmed(verdict, is, generation, progress);
        Some((reference, vec![Wish::of_verdict(verdict, generation), programmed]))
    };
    let others = policy.status.ancestors.iter().filter(|entry| entry.controller_name != facts.controller).count();
    // The API server requires each reference once.
    let mut ancestors = Vec::<(ParentRef, Vec<Wish>)>::new();
    for new in policy.spec.target_refs.iter().enumerate().filter_map(ancestor).take(MOST.saturating_sub(others)) {
        if !ancestors.iter().any(|(reference, _)| *reference == new.0) {
            ancestors.push(new);
        }
    }
    Wanted { controller: facts.controller.into(), ancestors }
}

/// Returns the condition `Programmed` of a target.
fn programmed(verdict: &Verdict, is: Option<&AncestorStatus>, generation: i64, progress: &Progress) -> Wish {
    let condition = |status, reason, message| Wish { r#type: PROGRAMMED, status, reason, message, generation };
    let held = |reason, text: &str| condition(Status::False, reason, Message::Text(text.to_owned()));
    let was = is.is_some_and(|is| {
        is.conditions.iter().any(|one| {
            one.r#type == PROGRAMMED && one.status == Status::True.as_str() && one.observed_generation == generation
        })
    });
    match (verdict.status, progress) {
        (Status::True, Progress::Done(revision)) => condition(Status::True, PROGRAMMED, Message::Accepted(*revision)),
        (Status::True, Progress::Waits) if was => condition(Status::True, PROGRAMMED, Message::Kept),
        (Status::True, Progress::Waits) => held("Pending", "not all Envoys have accepted the policy yet"),
        (Status::True, Progress::Held(fault)) => held(fault.reason, &fault.message),
        _ => held(verdict.reason, "the policy is not accepted"),
    }
}

/// Returns the reference to a target.
fn reference(target: &HttpPolicyTarget, namespace: &str) -> ParentRef {
    let HttpPolicyTarget { group, kind, name, section_name } = target;
    ParentRef {
        group: Some(group.clone()),
        kind: Some(kind.clone()),
        namespace: Some(namespace.to_owned()),
        name: name.clone(),
        section_name: section_name.as_deref().map(ToOwned::to_owned),
        port: None,
    }
}

/// Returns whether the entries of this controller are the wanted ones.
fn is_right(policy: &HttpPolicy, wanted: &Wanted) -> bool {
    let ours = policy.status.ancestors.iter().filter(|entry| *entry.controller_name == *wanted.controller).count();
    let is_right = |(ancestor, conditions): &(ParentRef, Vec<Wish>)| {
        entry(policy, &wanted.controller, ancestor).is_some_and(|is| are(&is.conditions, conditions))
    };
    ours == wanted.ancestors.len() && wanted.ancestors.iter().all(is_right)
}

/// Returns the existing entry of this controller for an ancestor.
fn entry<'a>(policy: &'a HttpPolicy, controller: &str, ancestor: &ParentRef) -> Option<&'a AncestorStatus> {
    let mut ours = policy.status.ancestors.iter().filter(|is| *is.controller_name == *controller);
    ours.find(|is| is_same(&is.ancestor_ref, ancestor, &policy.meta.key.namespace))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use lockgate_route::objects::gateway::{Condition, PolicyStatus};
    use lockgate_route::objects::{Object, Revision};
    use lockgate_route::testing::gateway::http_policy;
    use lockgate_xds::provenance::ObjectRef;

    use super::*;
    use crate::inspection::{Inspection, Published};
    use crate::status::infrastructure::Faults;

    const US: &str = "lockgate.dev/gateway-controller";

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
    fn programmed_waits_for_the_envoys_and_targets_are_told_apart() {
        let builder = http_policy("limits").target("HTTPRoute", "cart").target("HTTPRoute", "gone");
        let mut policy = Object::from(builder).get::<HttpPolicy>().expect("a policy").clone();
        let other = AncestorStatus {
            controller_name: "example.com/other".to_owned(),
            conditions: vec![Condition::default()],
            ..AncestorStatus::default()
        };
        policy.status = PolicyStatus { ancestors: vec![other.clone()] };
        let (inspection, faults, verdicts) = (Inspection::default(), Faults::default(), verdicts());
        let published =
            Published { uid: "u".into(), revision: Revision(1), since: 1, served: true, fleets: Arc::default() };
        let facts = |published| Facts {
            manager: "us",
            addresses: &[],
            published,
            left: false,
            verdicts: &verdicts,
            inspection: &inspection,
            controller: US,
            faults: &faults,
        };
        let write = |policy: &mut HttpPolicy, goal: Goal<Wanted>| {
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
