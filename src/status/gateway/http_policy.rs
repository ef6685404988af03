//! The status of HTTPPolicies: for each target, whether the policy is accepted there, and whether all Envoys enforce
//! it.
//!
//! The ancestor is the target itself, because the result differs between targets.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use lockgate_route::objects::Kind;
use lockgate_route::objects::gateway::{HttpPolicy, HttpPolicyTarget, ParentRef};
use serde_json::Value;

use super::entries::DesiredEntries;
use super::targets::{self, TargetsOfPolicy};
use crate::status::kind::{Facts, Goal, HasStatus};

impl HasStatus for HttpPolicy {
    type Status = DesiredEntries;

    fn version(&self) -> &Arc<str> {
        &self.version
    }

    fn goal(&self, facts: &Facts<'_>) -> Option<Goal<DesiredEntries>> {
        targets_of(self).goal(facts)
    }

    fn patch(&self, desired: &DesiredEntries, envoys: usize, now: Timestamp) -> Value {
        targets_of(self).patch(desired, envoys, now)
    }

    fn summary(desired: &DesiredEntries) -> String {
        targets::summary(desired)
    }
}

fn targets_of(policy: &HttpPolicy) -> TargetsOfPolicy<'_> {
    let namespace = &policy.meta.key.namespace;
    let references = policy.spec.target_refs.iter().map(|target| reference(target, namespace)).collect();
    TargetsOfPolicy { meta: &policy.meta, status: &policy.status, references }
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
    use lockgate_route::objects::gateway::{AncestorStatus, Condition, PolicyStatus};
    use lockgate_route::testing::gateway::http_policy;
    use lockgate_route::translate::Verdict;
    use lockgate_route::translate::verdict::Status;
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
        let interim = first.interim.expect("a status while Envoys have not accepted");
        write(&mut policy, Goal::at_once(interim, 0));
        let gone = "gone: Accepted=False TargetNotFound, Programmed=False TargetNotFound";
        assert_eq!(entries(&policy)[1..], ["cart: Accepted=True Accepted, Programmed=False Pending", gone]);
        let second = policy.goal(&facts(Some(&published))).expect("a goal");
        assert_eq!((second.needs.as_ref(), second.interim.as_ref()), (Some(&published), None), "all Envoys");
        write(&mut policy, second);
        assert_eq!(entries(&policy)[1..], ["cart: Accepted=True Accepted, Programmed=True Programmed", gone]);
        assert!(policy.status.ancestors[1].conditions[1].message.starts_with("accepted by 2 Envoys"));
        assert!(policy.goal(&facts(Some(&published))).is_none());
        let withdrawn = policy.goal(&facts(None)).expect("a goal");
        write(&mut policy, withdrawn);
        assert_eq!(policy.status.ancestors, [other]);
    }
}
