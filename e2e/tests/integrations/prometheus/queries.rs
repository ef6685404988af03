//! The PromQL queries of the alerts and dashboards, and the metrics and labels that they use.

use std::collections::BTreeSet;

use e2e::process::repository;
use serde_json::Value;

/// The queries of the alerts and dashboards.
pub(super) struct Queries {
    /// All queries.
    pub(super) all: BTreeSet<String>,
    /// The queries of panels, which have a result in a sound installation.
    pub(super) panels: BTreeSet<String>,
}

/// Returns the queries of the chart. The variables of the dashboards select a release in `lockgate`, and `namespace` as the tenant.
pub(super) fn of_chart(namespace: &str) -> Queries {
    let read = |file: &str| std::fs::read_to_string(repository().join("charts/lockgate").join(file)).expect("a file");
    let mut panels = BTreeSet::new();
    for (file, variable) in [("lockgate.json", "lockgate"), ("lockgate-objects.json", namespace)] {
        let dashboard: Value = serde_json::from_str(&read(&format!("dashboards/{file}"))).expect("JSON");
        let mut queries = Vec::new();
        expressions(&dashboard["panels"], &mut queries);
        assert!(queries.len() > 10, "{file}");
        let replaced = |query: String| {
            let query = query.replace("$namespace", variable).replace("$tenant", namespace).replace("$object", ".*");
            query.replace("$__rate_interval", "1m")
        };
        panels.extend(queries.into_iter().map(replaced));
    }
    let alerts = read("alerts.yaml");
    let of_alerts = alerts.lines().filter_map(|line| line.trim().strip_prefix("expr: '")?.strip_suffix('\''));
    let all = panels.iter().cloned().chain(of_alerts.map(str::to_owned)).collect();
    // Nothing is stale in a sound installation.
    panels.retain(|query| !query.ends_with(" > 600)"));
    Queries { all, panels }
}

/// Collects the fields `expr` of all levels.
fn expressions(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get("expr").and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|field| expressions(field, found));
        }
        Value::Array(items) => items.iter().for_each(|item| expressions(item, found)),
        _ => {}
    }
}

/// A selector of series.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Selector {
    /// The name of the metric.
    pub(super) metric: String,
    /// The selector in PromQL.
    pub(super) text: String,
}

/// The selectors of a query, and the labels that it needs of their metrics.
#[derive(Default)]
pub(super) struct Asked {
    /// The selectors.
    pub(super) selectors: BTreeSet<Selector>,
    /// Metrics and their labels: those of selectors, and those by which the query groups or joins.
    pub(super) labels: BTreeSet<(String, String)>,
}

impl Asked {
    /// Reads a query as the API of Prometheus describes it.
    pub(super) fn of(node: &Value) -> Self {
        let mut asked = Self::default();
        asked.visit(node, &BTreeSet::new());
        asked
    }

    /// Visits a node whose series need these labels.
    fn visit(&mut self, node: &Value, labels: &BTreeSet<String>) {
        let texts = |value: &Value| -> Vec<String> {
            value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let mut labels = labels.clone();
        match node["type"].as_str() {
            Some("aggregation") if node["without"] == false => {
                // The outer labels have to survive this aggregation.
                assert!(labels.iter().all(|label| texts(&node["grouping"]).contains(label)), "{labels:?} of {node}");
                labels = texts(&node["grouping"]).into_iter().collect();
            }
            Some("binaryExpr") if node["matching"]["on"] == true => labels.extend(texts(&node["matching"]["labels"])),
            Some("matrixSelector" | "vectorSelector") => return self.select(node, labels),
            _ => {}
        }
        match node {
            Value::Object(fields) => fields.values().for_each(|field| self.visit(field, &labels)),
            Value::Array(items) => items.iter().for_each(|item| self.visit(item, &labels)),
            _ => {}
        }
    }

    fn select(&mut self, node: &Value, labels: BTreeSet<String>) {
        let metric = node["name"].as_str().expect("a metric").to_owned();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let matchers = node["matchers"].as_array().expect("matchers").iter();
        let matchers = matchers.filter(|one| one["name"] != "__name__");
        let matchers: Vec<(String, String)> = matchers
            .map(|one| (text(&one["name"]), format!("{}{}{}", text(&one["name"]), text(&one["type"]), one["value"])))
            .collect();
        let conditions: Vec<&str> = matchers.iter().map(|(_, matcher)| &**matcher).collect();
        self.selectors
            .insert(Selector { metric: metric.clone(), text: format!("{metric}{{{}}}", conditions.join(",")) });
        let names = matchers.iter().map(|(name, _)| name.clone());
        self.labels.extend(names.chain(labels).map(|label| (metric.clone(), label)));
    }
}
