//! The status of BackendPolicies: for each target, whether the policy is accepted there, and whether all Envoys have
//! accepted it.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use lockgate_route::objects::gateway::ParentRef;
use lockgate_route::objects::{BackendPolicy, BackendPolicyTarget};
use serde_json::Value;

use super::entries::DesiredEntries;
use super::targets::{self, TargetsOfPolicy};
use crate::status::kind::{Facts, Goal, HasStatus};

impl HasStatus for BackendPolicy {
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

fn targets_of(policy: &BackendPolicy) -> TargetsOfPolicy<'_> {
    let reference = |target: &BackendPolicyTarget| {
        let BackendPolicyTarget { group, kind, name, section_name } = target;
        ParentRef {
            group: Some(group.clone()),
            kind: Some(kind.clone()),
            namespace: Some(policy.meta.key.namespace.to_string()),
            name: name.clone(),
            section_name: section_name.as_deref().map(ToOwned::to_owned),
            port: None,
        }
    };
    let references = policy.spec.target_refs.iter().map(reference).collect();
    TargetsOfPolicy { meta: &policy.meta, status: &policy.status, references }
}
