//! The status of BackendPolicies and XBackendTrafficPolicies: for each target, whether the policy is accepted there, and whether all
//! Envoys have accepted it.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use lockgate_route::objects::gateway::{ParentRef, PolicyStatus, XBackendTrafficPolicy};
use lockgate_route::objects::{BackendPolicy, BackendPolicyTarget, Meta};
use serde_json::Value;

use super::entries::DesiredEntries;
use super::targets::{self, TargetsOfPolicy};
use crate::status::kind::{Facts, Goal, HasStatus};

/// Implements the status of a kind of policies of Services.
macro_rules! status_at_services {
    ($type:ident) => {
        impl HasStatus for $type {
            type Status = DesiredEntries;

            fn version(&self) -> &Arc<str> {
                &self.version
            }

            fn goal(&self, facts: &Facts<'_>) -> Option<Goal<DesiredEntries>> {
                targets_of(&self.meta, &self.status, &self.spec.target_refs).goal(facts)
            }

            fn patch(&self, desired: &DesiredEntries, envoys: usize, now: Timestamp) -> Value {
                targets_of(&self.meta, &self.status, &self.spec.target_refs).patch(desired, envoys, now)
            }

            fn summary(desired: &DesiredEntries) -> String {
                targets::summary(desired)
            }
        }
    };
}

status_at_services!(BackendPolicy);
// Not an entry for each Gateway: Ingresses and HTTPProxies have none, and the result is the same behind every Gateway.
status_at_services!(XBackendTrafficPolicy);

fn targets_of<'a>(meta: &'a Meta, status: &'a PolicyStatus, references: &[BackendPolicyTarget]) -> TargetsOfPolicy<'a> {
    let reference = |target: &BackendPolicyTarget| {
        let BackendPolicyTarget { group, kind, name, section_name } = target;
        ParentRef {
            group: Some(group.clone()),
            kind: Some(kind.clone()),
            namespace: Some(meta.key.namespace.to_string()),
            name: name.clone(),
            section_name: section_name.as_deref().map(ToOwned::to_owned),
            port: None,
        }
    };
    TargetsOfPolicy { meta, status, references: references.iter().map(reference).collect() }
}
