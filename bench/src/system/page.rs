//! The page with the measured figures.

mod comparison;
mod targets;

use std::fmt::Write;

use super::cases::{CONTOUR, Case, ENVOY_GATEWAY, LOCKGATE, short};
use super::plot::{Line, plot};
use crate::report::{Unit, Value, markdown, ratio, wrapped};

/// One figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The case.
    pub case: Case,
    /// The number of Ingresses.
    pub size: usize,
    /// The size and other conditions.
    pub setting: String,
    /// The name of the controller.
    pub party: &'static str,
    /// The name of the metric.
    pub metric: &'static str,
    /// The figure.
    pub value: Value,
}

/// All figures.
#[derive(Debug, Default)]
pub struct Page {
    /// The figures.
    pub rows: Vec<Row>,
    /// Machine, versions and command.
    pub facts: String,
    /// The size of the cases that are measured at one size only.
    pub main: usize,
}

impl Page {
    fn value(&self, case: Case, setting: &str, party: &str, metric: &str) -> Option<&Value> {
        let of = |row: &&Row| row.case == case && row.setting == setting && row.party == party && row.metric == metric;
        self.rows.iter().find(of).map(|row| &row.value)
    }

    /// Returns a figure if it is a number.
    pub fn number(&self, case: Case, setting: &str, party: &str, metric: &str) -> Option<f64> {
        match self.value(case, setting, party, metric)? {
            Value::Number(value, _) => Some(*value),
            Value::Note(_) => None,
        }
    }

    /// Returns the table of a case in Markdown, or an empty string if the case did not run. [`Page::failures`] lists
    /// the reasons of missing figures.
    pub fn table(&self, case: Case) -> String {
        let rows: Vec<&Row> = self.rows.iter().filter(|row| row.case == case).collect();
        // In this order; others follow as they come.
        let mut parties = vec![LOCKGATE.name, CONTOUR.name, ENVOY_GATEWAY.name];
        parties.retain(|party| rows.iter().any(|row| row.party == *party));
        let mut lines = Vec::new();
        for row in rows {
            let line = (row.setting.as_str(), row.metric);
            if !lines.contains(&line) {
                lines.push(line);
            }
            if !parties.contains(&row.party) {
                parties.push(row.party);
            }
        }
        if lines.is_empty() {
            return String::new();
        }
        let settings: Vec<&str> = lines.iter().map(|(setting, _)| *setting).collect();
        lines.sort_by_key(|(setting, _)| settings.iter().position(|own| own == setting));
        let mut head = vec![String::new(), String::new()];
        head.extend(parties.iter().map(|party| (*party).to_owned()));
        let others = [CONTOUR.name, ENVOY_GATEWAY.name].into_iter().filter(|other| parties.contains(other));
        let others: Vec<&str> = others.filter(|_| parties.contains(&LOCKGATE.name)).collect();
        head.extend(others.iter().map(|other| format!("{other} ÷ ours")));
        let mut table = vec![head];
        let mut last = "";
        for (setting, metric) in lines {
            let mut line = vec![if setting == last { String::new() } else { setting.to_owned() }, metric.to_owned()];
            line.extend(parties.iter().map(|party| match self.value(case, setting, party, metric) {
                Some(Value::Note(_)) => "not measured".to_owned(),
                value => value.map_or("–".into(), Value::to_string),
            }));
            let of = |party: &str| self.number(case, setting, party, metric);
            line.extend(others.iter().map(|other| ratio(of(LOCKGATE.name), of(other))));
            table.push(line);
            last = setting;
        }
        markdown(&table, 2)
    }

    /// Returns the table of targets.
    pub fn targets(&self) -> String {
        let mut table = vec![["measure", "target", "Lockgate", "Contour", "Contour ÷ ours", "met"].map(str::to_owned)];
        table.extend(targets::rows(self));
        markdown(&table, 2)
    }

    /// Returns plots of cost against the size of the cluster: file, title, and SVG.
    pub fn plots(&self) -> Vec<(&'static str, &'static str, String)> {
        const PLOTS: [(&str, &str, Case, &str, &str); 6] = [
            ("new-ingress-latency.svg", "One new Ingress: until the client has it, p50", Case::Ingress, "p50", "ms"),
            ("new-ingress-cpu.svg", "One new Ingress: CPU of the controller", Case::Ingress, "CPU", "ms"),
            ("endpoint-latency.svg", "One endpoint change: until the client has it, p50", Case::Endpoint, "p50", "ms"),
            ("endpoint-cpu.svg", "One endpoint change: CPU of the controller", Case::Endpoint, "CPU", "ms"),
            ("cold-start.svg", "Cold start until the client has everything", Case::Cold, "complete client", "ms"),
            ("memory.svg", "Peak resident memory", Case::Memory, "peak RSS", "MiB"),
        ];
        let mut sizes: Vec<usize> = self.rows.iter().map(|row| row.size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let picture = |(file, title, case, metric, unit)| {
            let line = |party: &'static str| {
                let point = |size: &usize| Some((*size as f64, self.number(case, &short(*size), party, metric)?));
                Line { name: party.to_owned(), points: sizes.iter().filter_map(point).collect() }
            };
            (file, title, plot(title, unit, &[line(LOCKGATE.name), line(CONTOUR.name)]))
        };
        let pictures = PLOTS.into_iter().map(picture);
        pictures.filter(|(.., svg)| sizes.len() > 1 && !svg.is_empty()).collect()
    }

    /// Returns the list of failures.
    pub fn failures(&self) -> String {
        let mut list = String::new();
        for row in &self.rows {
            if let Value::Note(note) = &row.value {
                let _ = writeln!(list, "- {}, {}, {}: {note}", row.case.title(), row.setting, row.party);
            }
        }
        list
    }

    /// Returns the whole page with links to `plots`.
    pub fn text(&self, plots: &[(String, &str)]) -> String {
        let mut page = String::from(include_str!("page/head.md"));
        let _ = write!(page, "\n## The machine\n\n{}", self.facts);
        let _ = write!(
            page,
            "\n## Targets\n\nAt {} Ingresses, unless stated otherwise.\n\n{}\n{}",
            short(self.main),
            self.targets(),
            include_str!("page/limits.md")
        );
        let failures = self.failures();
        if !failures.is_empty() {
            let _ = write!(page, "\n## Not measured\n\n{failures}");
        }
        if !plots.is_empty() {
            page.push_str("\n## Cost against the size of the cluster\n\n");
            for (path, title) in plots {
                let _ = writeln!(page, "![{title}]({path})");
            }
        }
        for case in Case::ALL {
            let table = self.table(case);
            if !table.is_empty() {
                let _ = write!(page, "\n## {}\n\n{}\n\n{table}", case.title(), wrapped(case.about()));
            }
        }
        page
    }
}

/// Formats a number with its unit.
fn shown(value: Option<f64>, unit: Unit) -> String {
    value.map_or("not measured".into(), |value| Value::Number(value, unit).to_string())
}
