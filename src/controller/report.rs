//! What the loop tells the log: which objects changed, what is wrong with them, what was published.

use std::collections::BTreeMap;
use std::time::Duration;

use imbl::ordset::DiffItem;

use super::View;
use crate::metrics::Metrics;
use crate::provenance::ObjectRef;
use crate::snapshot::{Changes, Resource};
use crate::translate::problem::{Problem, Problems};

/// More objects or resources than this in one pass are counted, not named.
const NAMED: usize = 10;

/// The objects that changed, one line each.
pub(super) fn changed(objects: &[ObjectRef]) {
    for object in objects.iter().take(NAMED) {
        let ObjectRef { kind, namespace, name, generation } = object;
        tracing::info!(kind, %namespace, %name, generation, "object changed");
    }
    if let Some(more) = objects.len().checked_sub(NAMED).filter(|more| *more > 0) {
        tracing::info!(more, "more objects changed");
    }
}

/// The problems that are new, and those that are healed.
pub(super) fn problems(before: &Problems, now: &Problems, metrics: &Metrics) {
    let (mut new, mut healed) = (Vec::new(), Vec::new());
    for item in before.diff(now) {
        match item {
            DiffItem::Add(problem) => new.push(problem),
            DiffItem::Remove(problem) => healed.push(problem),
        }
    }
    for problem in new {
        let ObjectRef { kind, namespace, name, .. } = &problem.object;
        let Problem { field, message, consequence, .. } = &**problem;
        let reason = problem.reason.as_str();
        let separator = if field.is_empty() { "" } else { ": " };
        tracing::warn!(kind, %namespace, %name, reason, "{field}{separator}{message}; {consequence}");
        metrics.problem_found(reason);
    }
    for problem in healed {
        let ObjectRef { kind, namespace, name, .. } = &problem.object;
        tracing::info!(kind, %namespace, %name, reason = problem.reason.as_str(), "healed: {}", problem.message);
        metrics.problem_healed(problem.reason.as_str());
    }
}

/// What was published: the resources by name if they are few.
pub(super) fn published(view: View, changes: &Changes, took: Duration) {
    let message = match view {
        View::Envoy => "published",
        View::Whole => "published with whole route configurations",
        View::Grpc => "published to gRPC clients",
    };
    if changes.is_empty() {
        return;
    }
    let (generation, ms) = (changes.generation, took.as_secs_f64() * 1e3);
    let ms = (ms * 100.0).round() / 100.0;
    let all = changes.added.len() + changes.changed.len() + changes.removed.len();
    if all > NAMED {
        let count = |resources: &[std::sync::Arc<Resource>]| {
            let mut kinds = BTreeMap::<_, usize>::new();
            resources.iter().for_each(|resource| *kinds.entry(resource.kind().short_name()).or_default() += 1);
            kinds.iter().map(|(kind, count)| format!("{kind} {count}")).collect::<Vec<_>>().join(", ")
        };
        let (added, changed, removed) = (count(&changes.added), count(&changes.changed), count(&changes.removed));
        tracing::info!(generation, ms, added, changed, removed, "{message}");
        return;
    }
    for (what, resources) in [("added", &changes.added), ("changed", &changes.changed), ("removed", &changes.removed)] {
        for resource in resources {
            let (type_url, name, version) = (resource.kind().short_name(), resource.name(), resource.version());
            tracing::info!(generation, ms, type_url, %name, %version, "{message}: {what}");
        }
    }
}
