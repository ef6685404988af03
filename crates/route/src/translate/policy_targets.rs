//! The Services that a changed policy affects, and the verdicts and problems of policies at their targets. They are the same for all
//! kinds of policies.

use std::collections::BTreeSet;
use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use super::problem::{Problem, Reason};
use super::verdict::{ConditionFault, Status, Verdict};
use crate::objects::ObjectKey;

/// The Services that a changed policy names or named.
#[derive(Debug, Default)]
pub struct AffectedServices {
    /// All these Services.
    pub all: BTreeSet<ObjectKey>,
    /// The Services for which the policy that applies has changed. The routes to other Services are not affected, so
    /// thousands of policies behind the oldest policy cost nothing.
    pub in_effect: BTreeSet<ObjectKey>,
}

/// Returns the fault of a policy with an invalid feature.
pub fn invalid(problems: &[Arc<Problem>]) -> Option<ConditionFault> {
    let Problem { field, message, consequence, .. } = &**problems.first()?;
    Some(ConditionFault::new("Invalid", format!("{field}: {message}; {consequence}")))
}

/// Returns the condition `Accepted` at the target with this index.
pub fn verdict(origin: &ObjectRef, target: u16, fault: Option<&ConditionFault>) -> Verdict {
    let verdict = match fault {
        None => Verdict::new(origin.clone(), "Accepted", Status::True, "Accepted"),
        Some(ConditionFault { reason, message }) => {
            Verdict { message: message.clone(), ..Verdict::new(origin.clone(), "Accepted", Status::False, reason) }
        }
    };
    Verdict { parent: Some(target), ..verdict }
}

/// Returns the problem of a target with this index. `exists`: whether the target exists. The problems of the features then contain
/// the fault of an invalid policy.
pub fn problem(origin: &ObjectRef, target: u16, fault: Option<&ConditionFault>, exists: bool) -> Option<Arc<Problem>> {
    let ConditionFault { reason, message } = fault?;
    let (reason, consequence) = match *reason {
        "Conflicted" => (Reason::Conflicted, "not in effect for this target"),
        _ if exists => return None,
        _ => (Reason::PolicyNotValid, "no effect on this target"),
    };
    let (object, field) = (origin.clone(), format!("spec.targetRefs[{target}]"));
    Some(Arc::new(Problem { object, field, reason, message: message.clone(), consequence: consequence.to_owned() }))
}
