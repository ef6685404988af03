//! The status of an ExtensionService: the condition `Valid` with errors and warnings, as Contour writes it.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use lockgate_route::objects::http_proxy::{ExtensionService, SubCondition};
use lockgate_route::translate::verdict::Severity;
use serde_json::{Value, json};

use super::conditions::{self, DesiredCondition, are_current, goal, merge};
use super::detailed::{self, entries};
use crate::status::kind::{Facts, Goal, HasStatus};

/// The status that an ExtensionService should have.
#[derive(Debug, Clone, PartialEq)]
pub struct DesiredExtensionServiceStatus {
    conditions: Vec<DesiredCondition>,
    errors: Vec<SubCondition>,
    warnings: Vec<SubCondition>,
}

impl HasStatus for ExtensionService {
    type Status = DesiredExtensionServiceStatus;

    fn version(&self) -> &Arc<str> {
        &self.version
    }

    /// An object that is no longer served keeps its condition, which belongs to the next controller.
    fn goal(&self, facts: &Facts<'_>) -> Option<Goal<DesiredExtensionServiceStatus>> {
        facts.published?;
        let valid = detailed::valid(facts.verdicts);
        let valid = valid.map(|verdict| DesiredCondition::from_verdict(verdict, self.meta.generation));
        let status = DesiredExtensionServiceStatus {
            conditions: valid.into_iter().collect(),
            errors: entries(facts.verdicts, Severity::Error),
            warnings: entries(facts.verdicts, Severity::Warning),
        };
        let existing = &self.status.conditions;
        let is_current = are_current(&detailed::conditions(existing), &status.conditions)
            && detailed::has_entries(existing, &status.errors, &status.warnings);
        (!is_current).then(|| goal(status))
    }

    fn patch(&self, desired: &DesiredExtensionServiceStatus, envoys: usize, now: Timestamp) -> Value {
        let DesiredExtensionServiceStatus { conditions, errors, warnings } = desired;
        let merged = merge(&detailed::conditions(&self.status.conditions), conditions, envoys, now);
        let entries = Some((&**errors, &**warnings));
        json!({ "conditions": detailed::with_entries(merged, &self.status.conditions, entries) })
    }

    fn summary(desired: &DesiredExtensionServiceStatus) -> String {
        conditions::summary(&desired.conditions)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use lockgate_route::objects::http_proxy::DetailedCondition;
    use lockgate_route::testing::http_proxies::extension_service;
    use lockgate_route::translate::Verdict;
    use lockgate_route::translate::verdict::{Detail, Status};
    use lockgate_xds::provenance::ObjectRef;

    use super::*;
    use crate::inspection::{Inspection, Published};

    fn verdict(status: Status, reason: &'static str) -> Verdict {
        Verdict::new(ObjectRef::new("ExtensionService", "shop", "auth"), "Valid", status, reason)
    }

    #[test]
    fn the_status_is_that_of_contour_and_conditions_of_others_stay() {
        let (published, inspection) = (Published::example(1, 1), Inspection::default());
        let mut service = extension_service("auth", &json!({})).get::<ExtensionService>().expect("one").clone();
        service.meta.generation = 7;
        let mut of_others = DetailedCondition::default();
        of_others.condition.r#type = "example.com/Checked".to_owned();
        service.status.conditions = vec![of_others.clone()];
        let mut write = |verdicts: &[Verdict], published: Option<&Published>| {
            let goal = service.goal(&Facts::example(&inspection, published, verdicts))?;
            let patch = service.patch(&goal.status, 1, Timestamp::UNIX_EPOCH);
            service.status = serde_json::from_value(patch).unwrap();
            Some(service.status.conditions.clone())
        };
        let entry = |severity, r#type, reason| Verdict {
            detail: Some(Detail { severity, r#type }),
            ..verdict(Status::True, reason)
        };
        let verdicts = [
            verdict(Status::False, "ErrorPresent"),
            entry(Severity::Error, "SpecError", "InconsistentProtocol"),
            entry(Severity::Warning, "SpecError", "IgnoredField"),
        ];
        assert_eq!(write(&verdicts, None), None, "it is not served");
        let conditions = write(&verdicts, Some(&published)).expect("a write");
        assert_eq!(conditions[0], of_others);
        let valid = &conditions[1];
        assert_eq!((&*valid.condition.status, &*valid.condition.reason), ("False", "ErrorPresent"));
        assert_eq!(valid.condition.observed_generation, 7);
        assert_eq!((&*valid.errors[0].reason, &*valid.warnings[0].reason), ("InconsistentProtocol", "IgnoredField"));
        assert_eq!(write(&verdicts, Some(&published)), None, "the status is up to date");
        let conditions = write(&[verdict(Status::True, "Valid")], Some(&published)).expect("a write");
        assert!(conditions[1].errors.is_empty() && conditions[1].warnings.is_empty());
    }
}
