//! The condition `Valid` of the kinds of Contour, with lists of errors and warnings.

use lockgate_route::objects::gateway::Condition;
use lockgate_route::objects::http_proxy::{DetailedCondition, SubCondition};
use lockgate_route::translate::Verdict;
use lockgate_route::translate::verdict::Severity;

/// The type of the condition with errors and warnings.
const VALID: &str = "Valid";

/// The maximum number of errors, and of warnings.
const MOST: usize = 100;

/// Returns the verdict of the condition itself.
pub fn valid(verdicts: &[Verdict]) -> Option<&Verdict> {
    verdicts.iter().find(|verdict| verdict.condition == VALID && verdict.detail.is_none())
}

/// Returns the errors or the warnings.
pub fn entries(verdicts: &[Verdict], severity: Severity) -> Vec<SubCondition> {
    let of_list = verdicts.iter().filter_map(|verdict| {
        let detail = verdict.detail.filter(|detail| detail.severity == severity)?;
        Some(SubCondition {
            r#type: detail.r#type.to_owned(),
            status: verdict.status.as_str().to_owned(),
            reason: verdict.reason.to_owned(),
            message: verdict.message.to_string(),
        })
    });
    of_list.take(MOST).collect()
}

/// Returns conditions without errors and warnings.
pub fn conditions(existing: &[DetailedCondition]) -> Vec<Condition> {
    existing.iter().map(|one| one.condition.clone()).collect()
}

/// Returns conditions with their errors and warnings. `Valid` has these `entries`, and the others keep those that exist. `None`: `Valid`
/// keeps them as well.
pub fn with_entries(
    conditions: Vec<Condition>,
    existing: &[DetailedCondition],
    entries: Option<(&[SubCondition], &[SubCondition])>,
) -> Vec<DetailedCondition> {
    let detailed = |condition: Condition| match entries.filter(|_| condition.r#type == VALID) {
        Some((errors, warnings)) => {
            DetailedCondition { condition, errors: errors.to_vec(), warnings: warnings.to_vec() }
        }
        None => {
            let before = existing.iter().find(|one| one.condition.r#type == condition.r#type);
            let DetailedCondition { errors, warnings, .. } = before.cloned().unwrap_or_default();
            DetailedCondition { condition, errors, warnings }
        }
    };
    conditions.into_iter().map(detailed).collect()
}

/// Returns whether the condition `Valid` exists with these errors and warnings.
pub fn has_entries(existing: &[DetailedCondition], errors: &[SubCondition], warnings: &[SubCondition]) -> bool {
    let valid = existing.iter().find(|one| one.condition.r#type == VALID);
    valid.is_some_and(|valid| valid.errors == errors && valid.warnings == warnings)
}
