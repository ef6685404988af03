//! The status of BackendTLSPolicies: for each Gateway whose routes lead to a target of the policy, whether the policy is
//! accepted, and whether its references are resolved.
//!
//! The list of ancestors is atomic for the API server, and several controllers write into it. Their entries stay.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use lockgate_route::objects::gateway::{AncestorStatus, BackendTlsPolicy, GROUP, ParentRef};
use lockgate_route::objects::{Kind, ObjectKey};
use serde_json::{Value, json};

use super::conditions::{self, are, merge};
use super::route::is_same;
use super::{cause, summary};
use crate::inspection::{changed, changed_sources};
use crate::status::kind::{Facts, Goal, HasStatus, Known};

/// The maximum number of entries of all controllers. Source: CustomResourceDefinition of BackendTLSPolicy v1.
const MOST: usize = 16;

/// The entries that the status of a policy should have.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    /// The name of this controller.
    controller: Arc<str>,
    /// The Gateways, sorted.
    ancestors: Vec<ParentRef>,
    /// The conditions of each of them.
    conditions: Vec<conditions::Wanted>,
}

impl HasStatus for BackendTlsPolicy {
    type Status = Wanted;

    fn version(&self) -> &Arc<str> {
        &self.version
    }

    fn goal(&self, facts: &Facts<'_>) -> Option<Goal<Wanted>> {
        // A policy that no Gateway of ours uses, or no longer, has no entry of ours.
        let gateways = facts.published.and_then(|_| facts.inspection.policies.get(&self.meta.key));
        let others = self.status.ancestors.iter().filter(|entry| entry.controller_name != facts.controller).count();
        let ancestors = gateways.into_iter().flat_map(|gateways| gateways.iter()).map(reference);
        let wanted = |verdict| conditions::Wanted::of_verdict(verdict, self.meta.generation);
        let wanted = Wanted {
            controller: facts.controller.into(),
            ancestors: ancestors.take(MOST.saturating_sub(others)).collect(),
            conditions: facts.verdicts.iter().map(wanted).collect(),
        };
        (!is_right(self, &wanted)).then(|| Goal { cause: cause(&wanted), status: wanted, needs: None })
    }

    fn patch(&self, wanted: &Wanted, envoys: usize, now: Timestamp) -> Value {
        let is_ours = |entry: &AncestorStatus| *entry.controller_name == *wanted.controller;
        let others = self.status.ancestors.iter().filter(|entry| !is_ours(entry)).cloned();
        let ours = wanted.ancestors.iter().map(|ancestor| {
            let is = entry(self, wanted, ancestor).map_or(&[][..], |is| &is.conditions);
            AncestorStatus {
                ancestor_ref: ancestor.clone(),
                controller_name: wanted.controller.to_string(),
                conditions: merge(is, &wanted.conditions, envoys, now),
            }
        });
        json!({ "ancestors": others.chain(ours).collect::<Vec<_>>() })
    }

    fn summary(wanted: &Wanted) -> String {
        match wanted.ancestors.len() {
            0 => "in use by no Gateway".to_owned(),
            count => format!("{} at {count} Gateways", summary(&wanted.conditions)),
        }
    }

    fn changed(before: &Known, now: &Known) -> BTreeSet<ObjectKey> {
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

/// Returns whether the entries of this controller are the wanted ones.
fn is_right(policy: &BackendTlsPolicy, wanted: &Wanted) -> bool {
    let ours = policy.status.ancestors.iter().filter(|entry| *entry.controller_name == *wanted.controller).count();
    let is_right = |ancestor: &ParentRef| {
        entry(policy, wanted, ancestor).is_some_and(|is| are(&is.conditions, &wanted.conditions))
    };
    ours == wanted.ancestors.len() && wanted.ancestors.iter().all(is_right)
}

/// Returns the existing entry of this controller for an ancestor.
fn entry<'a>(policy: &'a BackendTlsPolicy, wanted: &Wanted, ancestor: &ParentRef) -> Option<&'a AncestorStatus> {
    let mut ours = policy.status.ancestors.iter().filter(|is| *is.controller_name == *wanted.controller);
    ours.find(|is| is_same(&is.ancestor_ref, ancestor, &policy.meta.key.namespace))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use lockgate_route::objects::gateway::{Condition, PolicyStatus};
    use lockgate_route::objects::{Object, Revision};
    use lockgate_route::testing::gateway::backend_tls_policy;
    use lockgate_route::translate::Verdict;
    use lockgate_route::translate::verdict::Status;
    use lockgate_xds::provenance::ObjectRef;

    use super::*;
    use crate::inspection::{Inspection, Published};
    use crate::status::infrastructure::Faults;

    const US: &str = "lockgate.dev/gateway-controller";

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
            let published =
                Published { uid: "u".into(), revision: Revision(1), since: 1, served: true, fleets: Arc::default() };
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
            let faults = Faults::default();
            let facts = Facts {
                manager: "us",
                addresses: &[],
                published: self.published.as_ref(),
                left: false,
                verdicts: &self.verdicts,
                inspection: &self.inspection,
                controller: US,
                faults: &faults,
            };
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
        // No Gateway of ours leads to its Services any more.
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
        assert_eq!(world.policy.status.ancestors.len(), MOST);
        assert_eq!(world.settle(), 0);
    }
}
