//! The variables of the dashboards, resolved as Grafana resolves them.

use std::collections::BTreeSet;

use e2e::process::repository;
use regex::Regex;
use serde_json::Value;

/// A variable `label_values(SELECTOR, LABEL)`.
#[derive(Debug)]
pub(super) struct Variable {
    /// The name.
    pub(super) name: String,
    /// The selector of series.
    pub(super) selector: String,
    /// The label whose values the variable lists.
    pub(super) label: String,
    /// Selects a part of each value.
    regex: Option<Regex>,
}

/// Returns the variables of a dashboard, with `values` in place of other variables.
pub(super) fn of_dashboard(file: &str, values: &[(&str, &str)]) -> Vec<Variable> {
    let text = std::fs::read_to_string(repository().join("charts/lockgate/dashboards").join(file)).expect("a file");
    let dashboard: Value = serde_json::from_str(&text).expect("JSON");
    let variables = dashboard["templating"]["list"].as_array().expect("variables").iter();
    variables.filter(|one| one["type"] == "query").map(|one| variable(one, values)).collect()
}

fn variable(object: &Value, values: &[(&str, &str)]) -> Variable {
    let name = object["name"].as_str().expect("a name").to_owned();
    assert_eq!(object["datasource"]["uid"], "${datasource}", "{name}");
    // Grafana lists `definition`, and sends `query`.
    let query = object["query"]["query"].as_str().expect("a query");
    assert_eq!(object["definition"], query, "{name}");
    let call = query.strip_prefix("label_values(").and_then(|rest| rest.strip_suffix(')'));
    let (selector, label) = call.and_then(|call| call.rsplit_once(',')).unwrap_or_else(|| panic!("{name}: {query}"));
    let selector = values.iter().fold(selector.to_owned(), |text, (name, value)| text.replace(name, value));
    assert!(!selector.contains('$'), "{name}: {selector}");
    let regex = object["regex"].as_str().map(|regex| {
        let regex = regex.strip_prefix('/').and_then(|regex| regex.strip_suffix('/')).expect("slashes");
        Regex::new(regex).expect("a regular expression")
    });
    Variable { name, selector, label: label.trim().to_owned(), regex }
}

impl Variable {
    /// Returns the options for these values of the label: the first group of the regular expression, if there is one.
    pub(super) fn options(&self, values: &Value) -> BTreeSet<String> {
        let values = values.as_array().into_iter().flatten().filter_map(Value::as_str);
        let option = |value: &str| match &self.regex {
            Some(regex) => {
                regex.captures(value).map(|found| found.get(1).or(found.get(0)).expect("a group").as_str().to_owned())
            }
            None => Some(value.to_owned()),
        };
        values.filter_map(option).collect()
    }
}
