//! The status of BackendTLSPolicies: for each Gateway whose routes use a target of the policy, whether the policy is
//! accepted, and whether its references are resolved.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use lockgate_route::objects::gateway::{AncestorStatus, BackendTlsPolicy, GROUP, ParentRef};
use lockgate_route::objects::{Kind, ObjectKey};
use serde_json::{Value, json};

use super::conditions::{DesiredCondition, summary};
use super::entries::{DesiredEntries, DesiredEntry, Existing};
use crate::inspection::{changed, changed_sources};
use crate::status::kind::{Facts, Goal, HasStatus, Inputs};

/// The maximum number of entries of all controllers. Source: CustomResourceDefinition of BackendTLSPolicy v1.
const MAX_ENTRIES: usize = 16;

impl HasStatus for BackendTlsPolicy {
    type Status = DesiredEntries;

    fn version(&self) -> &Arc<str> {
        &self.version
    }

    fn goal(&self, facts: &Facts<'_>) -> Option<Goal<DesiredEntries>> {
        // A policy that no Gateway of Lockgate uses has no entry.
        let gateways = facts.published.and_then(|_| facts.inspection.policies.get(&self.meta.key));
        let condition = |verdict| DesiredCondition::from_verdict(verdict, self.meta.generation);
        let conditions: Vec<_> = facts.verdicts.iter().map(condition).collect();
        let entry = |gateway| DesiredEntry { reference: reference(gateway), conditions: conditions.clone() };
        let existing = existing(self);
        let capacity = existing.capacity(facts.controller, MAX_ENTRIES);
        let entries = gateways.into_iter().flat_map(|gateways| gateways.iter()).take(capacity).map(entry).collect();
        existing.goal(DesiredEntries { controller: facts.controller.into(), entries })
    }

    fn patch(&self, desired: &DesiredEntries, envoys: usize, now: Timestamp) -> Value {
        json!({ "ancestors": existing(self).merge(desired, envoys, now) })
    }

    fn summary(desired: &DesiredEntries) -> String {
        match desired.entries.as_slice() {
            [] => "in use by no Gateway".to_owned(),
            [first, ..] => format!("{} at {} Gateways", summary(&first.conditions), desired.entries.len()),
        }
    }

    fn changed(before: &Inputs, now: &Inputs) -> BTreeSet<ObjectKey> {
        let (old, new) = (&*before.inspection, &*now.inspection);
        let mut keys: BTreeSet<ObjectKey> = changed_sources(Kind::BACKEND_TLS_POLICY, old, new).cloned().collect();
        keys.extend(changed(&old.policies, &new.policies).cloned());
        keys
    }
}

/// Returns the reference to a Gateway.
fn reference(gateway: &ObjectKey) -> ParentRef {
    ParentRef {
        group: Some(GROUP.to_owned()),
        kind: Some(Kind::GATEWAY.as_str().to_owned()),
        namespace: Some(gateway.namespace.to_string()),
        name: gateway.name.to_string(),
        ..ParentRef::default()
    }
}

/// Returns the entries in the status of a policy.
fn existing(policy: &BackendTlsPolicy) -> Existing<'_, AncestorStatus> {
    Existing { entries: &policy.status.ancestors, namespace: &policy.meta.key.namespace }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use lockgate_route::objects::Object;
    use lockgate_route::objects::gateway::{Condition, PolicyStatus};
    use lockgate_route::testing::gateway::backend_tls_policy;
    use lockgate_route::translate::Verdict;
    use lockgate_route::translate::verdict::Status;
    use lockgate_xds::provenance::ObjectRef;

    use super::*;
    use crate::inspection::{Inspection, Published};

    /// The policy `shop/tls` behind some Gateways of ours.
    struct World {
        policy: BackendTlsPolicy,
        inspection: Inspection,
        published: Option<Published>,
        verdicts: Vec<Verdict>,
    }

    impl World {
        fn new(gateways: &[&str]) -> Self {
            let policy = Object::from(backend_tls_policy("tls")).get::<BackendTlsPolicy>().expect("a policy").clone();
            let published = Published::example(1, 1);
            let verdict =
                Verdict::new(ObjectRef::new("BackendTLSPolicy", "shop", "tls"), "Accepted", Status::True, "Accepted");
            let mut world =
                Self { policy, inspection: Inspection::default(), published: Some(published), verdicts: vec![verdict] };
            world.behind(gateways);
            world
        }

        fn behind(&mut self, gateways: &[&str]) {
            let gateways = gateways.iter().map(|name| ObjectKey::new("infra", name)).collect();
            self.inspection.policies.insert(self.policy.meta.key.clone(), gateways);
        }

        /// Writes the status until it is right. Returns the number of writes.
        fn settle(&mut self) -> usize {
            let facts = Facts::example(&self.inspection, self.published.as_ref(), &self.verdicts);
            let mut writes = 0;
            while let Some(goal) = self.policy.goal(&facts) {
                let patch = self.policy.patch(&goal.status, 0, Timestamp::UNIX_EPOCH);
                self.policy.status = serde_json::from_value::<PolicyStatus>(patch).expect("a status");
                writes += 1;
                assert!(writes < 5, "{goal:?}");
            }
            writes
        }

        /// Returns the name of each ancestor, with the status of its conditions.
        fn entries(&self) -> Vec<String> {
            let entry = |one: &AncestorStatus| {
                let conditions = one.conditions.iter().map(|one| format!("{}={}", one.r#type, one.status));
                format!("{} {}", one.ancestor_ref.name, conditions.collect::<Vec<_>>().join(" "))
            };
            self.policy.status.ancestors.iter().map(entry).collect()
        }
    }

    fn theirs() -> AncestorStatus {
        AncestorStatus {
            ancestor_ref: ParentRef { name: "other".into(), ..ParentRef::default() },
            controller_name: "example.com/other".into(),
            conditions: vec![Condition { r#type: "Accepted".into(), ..Condition::default() }],
        }
    }

    #[test]
    fn a_policy_has_an_entry_for_each_gateway_of_ours() {
        let mut world = World::new(&["a", "b"]);
        world.policy.status.ancestors.push(theirs());
        assert_eq!(world.settle(), 1);
        assert_eq!(world.entries(), ["other Accepted=", "a Accepted=True", "b Accepted=True"]);
        assert_eq!(world.policy.status.ancestors[1].ancestor_ref.namespace.as_deref(), Some("infra"));
        assert_eq!(world.settle(), 0);
        world.policy.meta.generation = 2;
        assert_eq!(world.settle(), 1);
        let generations = world.policy.status.ancestors.iter().map(|one| one.conditions[0].observed_generation);
        assert_eq!(generations.collect::<Vec<_>>(), [0, 2, 2]);
        world.behind(&["b"]);
        assert_eq!((world.settle(), world.entries().len()), (1, 2));
        // No Gateway of Lockgate uses the Services any more.
        world.published = None;
        assert_eq!(world.settle(), 1);
        assert_eq!(world.policy.status.ancestors, [theirs()]);
    }

    #[test]
    fn entries_of_all_controllers_are_no_more_than_the_api_allows() {
        let names: Vec<String> = (0..20).map(|i| format!("g{i}")).collect();
        let mut world = World::new(&names.iter().map(String::as_str).collect::<Vec<_>>());
        world.policy.status.ancestors = vec![theirs(); 3];
        assert_eq!(world.settle(), 1);
        assert_eq!(world.policy.status.ancestors.len(), MAX_ENTRIES);
        assert_eq!(world.settle(), 0);
    }
}
