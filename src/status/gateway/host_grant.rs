//! The status of a HostGrant: whether all of its hosts and its selector are valid.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use lockgate_route::objects::HostGrant;
use serde_json::{Value, json};

use super::conditions::{self, DesiredCondition, are_current, goal, merge};
use crate::status::kind::{Facts, Goal, HasStatus};

impl HasStatus for HostGrant {
    type Status = Vec<DesiredCondition>;

    fn version(&self) -> &Arc<str> {
        &self.version
    }

    fn goal(&self, facts: &Facts<'_>) -> Option<Goal<Self::Status>> {
        facts.published?;
        let generation = self.meta.generation;
        let desired: Vec<_> =
            facts.verdicts.iter().map(|verdict| DesiredCondition::from_verdict(verdict, generation)).collect();
        let is_current = are_current(&self.status.conditions, &desired);
        (!is_current).then(|| goal(desired))
    }

    fn patch(&self, status: &Self::Status, envoys: usize, now: Timestamp) -> Value {
        json!({ "conditions": merge(&self.status.conditions, status, envoys, now) })
    }

    fn summary(status: &Self::Status) -> String {
        conditions::summary(status)
    }
}
