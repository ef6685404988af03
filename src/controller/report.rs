//! The log lines of the loop: changed objects, problems, and publications.

mod counts;
mod quota;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use imbl::ordset::DiffItem;

pub(super) use counts::ProblemCounts;
pub(super) use quota::Quota;

use lockgate_route::objects::gateway::{Installed, SUPPORTED};
use lockgate_route::objects::{ObjectId, Objects};
use lockgate_route::translate::problem::{Problem, Problems};
use lockgate_xds::provenance::ObjectRef;
use lockgate_xds::snapshot::Changes;

use super::{Changed, View};
use crate::metrics::Metrics;

/// The maximum number of objects in the line of a pass.
const MAX_NAMED: usize = 5;

/// The maximum number of resources of a publication that are logged one by one, at DEBUG.
const MAX_LISTED: usize = 10;

/// Logs the change of a pass in one line at INFO: the changed objects that a served object reads, and the numbers of published
/// resources. Other objects are logged at DEBUG, because most objects of a large cluster do not concern Lockgate.
pub(super) fn changed(objects: &[Changed], publication: &Publication, quota: &mut Quota) {
    let now = Instant::now();
    let (read, others): (Vec<&Changed>, Vec<&Changed>) = objects.iter().partition(|object| object.is_used);
    for Changed { object: ObjectRef { kind, namespace, name, generation }, .. } in others {
        tracing::debug!(kind, %namespace, %name, generation, "object changed");
    }
    let (published, ms) = (publication.tally.to_string(), publication.ms);
    if let [Changed { object: ObjectRef { kind, namespace, name, generation }, .. }] = read[..] {
        if quota.take(namespace, now) {
            tracing::info!(kind, %namespace, %name, generation, published, ms, "object changed");
        }
        return;
    }
    let named: Vec<String> = (read.iter().take(MAX_NAMED))
        .filter(|changed| quota.take(&changed.object.namespace, now))
        .map(|changed| changed.object.to_string())
        .collect();
    match (named.is_empty(), read.is_empty()) {
        (false, _) => tracing::info!(count = read.len(), objects = named.join(", "), published, ms, "objects changed"),
        (true, true) if publication.is_primary => tracing::info!(published, ms, "resources changed"),
        (true, true) if published.is_empty() => {}
        (true, _) => tracing::debug!(count = read.len(), published, ms, "objects changed"),
    }
}

/// The publication of a pass.
#[derive(Debug, Default)]
pub(super) struct Publication {
    /// The published resources.
    pub tally: Tally,
    /// The time that the pass took, in milliseconds.
    pub ms: f64,
    /// Whether the primary view of the shared fleet has changed.
    pub is_primary: bool,
}

/// The numbers of published resources, by kind of change and type.
#[derive(Debug, Default)]
pub(super) struct Tally(BTreeMap<(&'static str, &'static str), usize>);

impl Tally {
    fn count(&mut self, changes: &Changes) {
        let all = [("added", &changes.added), ("changed", &changes.changed), ("removed", &changes.removed)];
        for (what, resource) in
            all.into_iter().flat_map(|(what, resources)| resources.iter().map(move |one| (what, one)))
        {
            *self.0.entry((what, resource.kind().short_name())).or_default() += 1;
        }
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, ((what, kind), count)) in self.0.iter().enumerate() {
            let separator = if at == 0 { "" } else { ", " };
            write!(f, "{separator}{what} {kind} {count}")?;
        }
        Ok(())
    }
}

/// Returns a time in milliseconds with two decimals.
pub(super) fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e5).round() / 100.0
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

/// Logs the objects that Lockgate does not serve because they name no class: one line for all of them.
pub(super) fn classless(objects: &[ObjectId], quota: &mut Quota) {
    let Some(ObjectId { kind, key }) = objects.first() else { return };
    if !quota.take(&key.namespace, Instant::now()) {
        return;
    }
    let others = objects.len() - 1;
    tracing::warn!(
        kind = kind.as_str(), namespace = %key.namespace, name = %key.name, others,
        "not served: the object names no class, and no IngressClass is the default; set spec.ingressClassName, or ingress.withoutClass \
         in the settings; `lockgate status` lists all such objects"
    );
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
pub(super) fn problems(
    before: &Problems,
    now: &Problems,
    counts: &mut ProblemCounts,
    metrics: &Metrics,
    quota: &mut Quota,
) {
    let Difference { new, healed } = Difference::between(before, now);
    if new.is_empty() && healed.is_empty() {
        return;
    }
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
        counts.add(problem);
    }
    for problem in healed {
        let ObjectRef { kind, namespace, name, .. } = &problem.object;
        let reason = problem.reason.as_str();
        if quota.take(namespace, now) {
            tracing::info!(kind, %namespace, %name, reason, "healed: {}", problem.message);
        }
        metrics.problems_healed(reason, problem.others().unwrap_or(1));
        counts.remove(problem);
    }
    counts.write(metrics);
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

/// Counts a publication, and logs it at DEBUG. The resources are listed by name if there are few.
pub(super) fn published(view: View, changes: &Changes, took: Duration, tally: &mut Tally) {
    let message = match view {
        View::Envoy => "published",
        View::Whole => "published with whole route configurations",
        View::Grpc => "published to gRPC clients",
    };
    if changes.is_empty() {
        return;
    }
    tally.count(changes);
    let (generation, ms) = (changes.generation, milliseconds(took));
    if changes.added.len() + changes.changed.len() + changes.removed.len() > MAX_LISTED {
        let mut own = Tally::default();
        own.count(changes);
        tracing::debug!(generation, ms, resources = %own, "{message}");
        return;
    }
    for (what, resources) in [("added", &changes.added), ("changed", &changes.changed), ("removed", &changes.removed)] {
        for resource in resources {
            let (type_url, name, version) = (resource.kind().short_name(), resource.name(), resource.version());
            tracing::debug!(generation, ms, type_url, %name, %version, "{message}: {what}");
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
