//! The problems of each namespace, for the metrics.

use std::collections::BTreeMap;
use std::sync::Arc;

use lockgate_route::translate::problem::Problem;

use crate::metrics::Metrics;

/// The maximum number of namespaces with a metric of their problems.
const NAMESPACES: usize = 100;

/// The numbers of problems, by namespace and reason.
#[derive(Debug, Default)]
pub struct ProblemCounts(BTreeMap<Arc<str>, BTreeMap<&'static str, usize>>);

impl ProblemCounts {
    /// Adds a new problem.
    pub fn add(&mut self, problem: &Problem) {
        let reasons = self.0.entry(problem.object.namespace.clone()).or_default();
        *reasons.entry(problem.reason.as_str()).or_default() += problem.others().unwrap_or(1);
    }

    /// Removes a resolved problem.
    pub fn remove(&mut self, problem: &Problem) {
        let namespace = &problem.object.namespace;
        let Some(reasons) = self.0.get_mut(namespace) else { return };
        if let Some(count) = reasons.get_mut(problem.reason.as_str()) {
            *count = count.saturating_sub(problem.others().unwrap_or(1));
        }
        reasons.retain(|_, count| *count > 0);
        if reasons.is_empty() {
            self.0.remove(namespace);
        }
    }

    /// Writes the namespaces with the most problems to the metrics.
    pub fn write(&self, metrics: &Metrics) {
        let mut largest: Vec<(usize, &Arc<str>)> =
            self.0.iter().map(|(namespace, reasons)| (reasons.values().sum(), namespace)).collect();
        largest.sort_by(|(a, first), (b, second)| b.cmp(a).then_with(|| first.cmp(second)));
        largest.truncate(NAMESPACES);
        let reasons = |namespace: &Arc<str>| self.0.get(namespace).into_iter().flatten();
        metrics.set_namespace_problems(largest.into_iter().flat_map(|(_, namespace)| {
            reasons(namespace).map(|(reason, count)| (namespace.clone(), *reason, *count)).collect::<Vec<_>>()
        }));
    }
}

#[cfg(test)]
mod tests {
    use lockgate_route::translate::problem::Reason;
    use lockgate_xds::provenance::ObjectRef;

    use super::*;

    fn problem(namespace: &str, reason: Reason) -> Problem {
        Problem {
            object: ObjectRef::new("Ingress", namespace, "cart"),
            field: "spec".into(),
            reason,
            message: "a".into(),
            consequence: "b".into(),
        }
    }

    fn series(counts: &ProblemCounts) -> Vec<String> {
        let metrics = Metrics::default();
        counts.write(&metrics);
        let text = metrics.encode();
        text.lines().filter(|line| line.starts_with("lockgate_namespace_problems{")).map(str::to_owned).collect()
    }

    #[test]
    fn the_namespaces_with_the_most_problems_have_series() {
        let mut counts = ProblemCounts::default();
        for at in 0..NAMESPACES + 20 {
            counts.add(&problem(&format!("n{at}"), Reason::HostNotValid));
        }
        counts.add(&problem("worst", Reason::HostNotValid));
        counts.add(&problem("worst", Reason::Conflicted));
        let found = series(&counts);
        assert_eq!(found.len(), NAMESPACES + 1, "one namespace has two reasons");
        assert!(found.contains(&"lockgate_namespace_problems{namespace=\"worst\",reason=\"Conflicted\"} 1".to_owned()));
        for at in 0..NAMESPACES + 20 {
            counts.remove(&problem(&format!("n{at}"), Reason::HostNotValid));
        }
        counts.remove(&problem("worst", Reason::Conflicted));
        assert_eq!(series(&counts), ["lockgate_namespace_problems{namespace=\"worst\",reason=\"HostNotValid\"} 1"]);
        counts.remove(&problem("worst", Reason::HostNotValid));
        assert!(counts.0.is_empty() && series(&counts).is_empty());
    }
}
