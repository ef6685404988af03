//! The log lines of the loop: changed objects, problems, and publications.

mod quota;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use imbl::ordset::DiffItem;

pub(super) use quota::Quota;

use lockgate_route::objects::Objects;
use lockgate_route::objects::gateway::{Installed, SUPPORTED};
use lockgate_route::translate::problem::{Problem, Problems};
use lockgate_xds::provenance::ObjectRef;
use lockgate_xds::snapshot::{Changes, Resource};

use super::{Changed, View};
use crate::metrics::Metrics;

/// The number of objects or resources in one pass that are listed. If there are more, they are counted instead.
const MAX_NAMED: usize = 10;

/// Logs the changed objects, one line each. Objects that a served object reads are logged at INFO, the others at DEBUG.
/// In a large cluster, most objects do not concern Lockgate.
pub(super) fn changed(objects: &[Changed], quota: &mut Quota) {
    let now = Instant::now();
    let (read, others): (Vec<&Changed>, Vec<&Changed>) = objects.iter().partition(|object| object.is_used);
    for Changed { object: ObjectRef { kind, namespace, name, generation }, .. } in read.iter().take(MAX_NAMED) {
        if quota.take(namespace, now) {
            tracing::info!(kind, %namespace, %name, generation, "object changed");
        }
    }
    if let Some(more) = read.len().checked_sub(MAX_NAMED).filter(|more| *more > 0) {
        tracing::info!(more, "more objects changed");
    }
    for Changed { object: ObjectRef { kind, namespace, name, generation }, .. } in others {
        tracing::debug!(kind, %namespace, %name, generation, "object changed");
    }
}

/// Logs the installed version of Gateway API if it differs from `before`, which it replaces.
pub(super) fn gateway_api(objects: &Objects, before: &mut Option<String>) {
    let found = Installed::of(objects);
    let now = found.as_ref().map(ToString::to_string);
    if now == *before {
        return;
    }
    match found.map(|found| found.is_supported()) {
        Some(true) => tracing::info!(version = now, "found Gateway API"),
        Some(false) => tracing::warn!(
            version = now,
            "found Gateway API in a version other than {SUPPORTED}; unknown fields have no effect, and some kinds may be absent"
        ),
        None => tracing::info!("the CustomResourceDefinitions of Gateway API are gone"),
    }
    *before = now;
}

/// Logs that the limit of objects with statistics is exceeded, or no longer is.
pub(super) fn statistics(before: usize, omitted: usize, counted: usize) {
    match (before, omitted) {
        (0, 1..) => tracing::warn!(
            counted,
            omitted,
            "some objects have no statistics in Envoy: there are more than statistics.maxObjects; their requests are \
             served; to count them too, increase the limit"
        ),
        (1.., 0) => tracing::info!(counted, "all objects within statistics.maxObjects have statistics again"),
        _ => {}
    }
}

/// Logs and counts new and resolved problems.
pub(super) fn problems(before: &Problems, now: &Problems, metrics: &Metrics, quota: &mut Quota) {
    let Difference { new, healed } = Difference::between(before, now);
    let now = Instant::now();
    for problem in new {
        let ObjectRef { kind, namespace, name, .. } = &problem.object;
        let Problem { field, message, consequence, .. } = problem;
        let reason = problem.reason.as_str();
        let separator = if field.is_empty() { "" } else { ": " };
        if quota.take(namespace, now) {
            tracing::warn!(kind, %namespace, %name, reason, "{field}{separator}{message}; {consequence}");
        }
        metrics.problems_found(reason, problem.others().unwrap_or(1));
    }
    for problem in healed {
        let ObjectRef { kind, namespace, name, .. } = &problem.object;
        let reason = problem.reason.as_str();
        if quota.take(namespace, now) {
            tracing::info!(kind, %namespace, %name, reason, "healed: {}", problem.message);
        }
        metrics.problems_healed(reason, problem.others().unwrap_or(1));
    }
}

/// The difference of two sets of problems.
#[derive(Debug, Default)]
struct Difference<'a> {
    new: Vec<&'a Problem>,
    healed: Vec<&'a Problem>,
}

impl<'a> Difference<'a> {
    /// Compares problems without the generation of their object. An edit that does not affect a problem neither
    /// resolves it nor creates a new one.
    fn between(before: &'a Problems, now: &'a Problems) -> Self {
        let (mut new, mut healed) = (Vec::new(), BTreeMap::<Problem, &Problem>::new());
        for item in before.diff(now) {
            match item {
                DiffItem::Add(problem) => new.push(&**problem),
                DiffItem::Remove(problem) => drop(healed.insert(without_generation(problem), &**problem)),
            }
        }
        new.retain(|problem| healed.remove(&without_generation(problem)).is_none());
        Self { new, healed: healed.into_values().collect() }
    }
}

fn without_generation(problem: &Problem) -> Problem {
    Problem { object: problem.object.clone().at(0), ..problem.clone() }
}

/// Logs the namespaces whose lines were suppressed in a window that has ended.
pub(super) fn suppressed(quota: &mut Quota) {
    for (namespace, lines) in quota.end_window(Instant::now()) {
        tracing::warn!(
            %namespace,
            lines,
            "log lines about objects of this namespace suppressed in the last minute; /debug/problems lists its problems"
        );
    }
}

/// Logs a publication. The resources are listed by name if there are few. A line counts for the namespace of the first
/// object behind its resource.
pub(super) fn published(view: View, changes: &Changes, took: Duration, quota: &mut Quota) {
    let message = match view {
        View::Envoy => "published",
        View::Whole => "published with whole route configurations",
        View::Grpc => "published to gRPC clients",
    };
    if changes.is_empty() {
        return;
    }
    let now = Instant::now();
    let (generation, ms) = (changes.generation, took.as_secs_f64() * 1e3);
    let ms = (ms * 100.0).round() / 100.0;
    let all = changes.added.len() + changes.changed.len() + changes.removed.len();
    if all > MAX_NAMED {
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
            let namespace = resource.origins().first().map(|origin| &origin.namespace);
            if namespace.is_some_and(|namespace| !namespace.is_empty() && !quota.take(namespace, now)) {
                continue;
            }
            let (type_url, name, version) = (resource.kind().short_name(), resource.name(), resource.version());
            tracing::info!(generation, ms, type_url, %name, %version, "{message}: {what}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use lockgate_route::translate::problem::Reason;

    fn problem(generation: i64, message: &str) -> Arc<Problem> {
        Arc::new(Problem {
            object: ObjectRef::new("Ingress", "shop", "cart").at(generation),
            field: "spec.rules[0]".into(),
            reason: Reason::HostNotValid,
            message: message.into(),
            consequence: "rule left out".into(),
        })
    }

    #[test]
    fn an_edit_that_leaves_a_problem_does_not_heal_it() {
        let before: Problems = [problem(1, "a"), problem(1, "b")].into_iter().collect();
        let now: Problems = [problem(2, "b"), problem(2, "c")].into_iter().collect();
        let Difference { new, healed } = Difference::between(&before, &now);
        assert_eq!(new, [&*problem(2, "c")]);
        assert_eq!(healed, [&*problem(1, "a")]);
    }
}
