//! Two builds of Lockgate, compared figure by figure.

use super::{Page, Row};
use crate::report::{Unit, Value, markdown, wrapped};
use crate::system::cases::{AGAINST, Case, LOCKGATE};

/// Figures whose difference says nothing about a build.
const NEUTRAL: [&str; 4] = ["changes", "requests", "yardstick", "new hosts"];
/// Medians within this factor of each other are equal.
const NOISE: f64 = 1.1;

const ABOUT: &str = "Medians of the rounds, with the lowest and the highest figure in brackets. \"worse\" and \"better\" are figures whose \
    medians differ by more than a tenth and whose ranges do not overlap; medians that differ by more than a tenth while the ranges \
    overlap are noise. The yardstick is the CPU time of a fixed piece of work: where it differs, the machine did.";

/// The figures of one build in all rounds, ascending.
struct Figures(Vec<f64>, Unit);

impl Figures {
    fn of(rows: &[&Row], party: &str, key: (Case, &str, &str)) -> Option<Self> {
        let own = rows.iter().filter(|row| row.party == party && (row.case, row.setting.as_str(), row.metric) == key);
        let mut numbers: Vec<(f64, Unit)> = own
            .filter_map(|row| match row.value {
                Value::Number(value, unit) => Some((value, unit)),
                Value::Note(_) => None,
            })
            .collect();
        numbers.sort_by(|one, other| one.0.total_cmp(&other.0));
        let unit = numbers.first()?.1;
        Some(Self(numbers.into_iter().map(|(value, _)| value).collect(), unit))
    }

    fn median(&self) -> f64 {
        self.0[self.0.len() / 2]
    }

    fn lowest(&self) -> f64 {
        self.0[0]
    }

    fn highest(&self) -> f64 {
        self.0[self.0.len() - 1]
    }

    fn text(&self) -> String {
        let shown = |value| Value::Number(value, self.1).to_string();
        format!("{} ({} – {})", shown(self.median()), shown(self.lowest()), shown(self.highest()))
    }
}

fn verdict(metric: &str, own: &Figures, other: &Figures) -> &'static str {
    let ratio = own.median() / other.median();
    match ratio {
        _ if NEUTRAL.contains(&metric) || !ratio.is_finite() => "",
        ratio if ratio > NOISE && own.lowest() > other.highest() => "worse",
        ratio if ratio > NOISE || (ratio < 1.0 / NOISE && own.highest() >= other.lowest()) => "noise",
        ratio if ratio < 1.0 / NOISE => "better",
        _ => "equal",
    }
}

impl Page {
    /// The comparison of this build with the other one; empty if there is no other one.
    pub fn comparison(&self) -> String {
        let rows: Vec<&Row> = self.rows.iter().collect();
        let mut keys: Vec<(Case, &str, &str)> = Vec::new();
        for row in &rows {
            let key = (row.case, row.setting.as_str(), row.metric);
            if row.party == AGAINST.name && !keys.contains(&key) {
                keys.push(key);
            }
        }
        keys.sort_by_key(|(case, ..)| *case);
        let head = ["case", "", "", "this build", "other build", "this ÷ other", ""];
        let mut table = vec![head.map(str::to_owned)];
        let mut worse = 0;
        for key in keys {
            let (Some(own), Some(other)) =
                (Figures::of(&rows, LOCKGATE.name, key), Figures::of(&rows, AGAINST.name, key))
            else {
                continue;
            };
            let verdict = verdict(key.2, &own, &other);
            worse += usize::from(verdict == "worse");
            let ratio = own.median() / other.median();
            let ratio = if ratio.is_finite() { format!("{ratio:.2}") } else { "–".into() };
            let (case, setting, metric) = (key.0.as_str().to_owned(), key.1.to_owned(), key.2.to_owned());
            table.push([case, setting, metric, own.text(), other.text(), ratio, verdict.into()]);
        }
        if table.len() == 1 {
            return String::new();
        }
        format!("{}\n{}\n{worse} figures are worse.\n", wrapped(ABOUT), markdown(&table, 3))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(own: &[f64], other: &[f64]) -> Page {
        let row = |party: &'static str| {
            move |value: &f64| Row {
                case: Case::Cold,
                size: 1000,
                setting: "1k".into(),
                party,
                metric: "CPU",
                value: Value::Number(*value, Unit::Ms),
            }
        };
        let rows = own.iter().map(row(LOCKGATE.name)).chain(other.iter().map(row(AGAINST.name))).collect();
        Page { rows, ..Page::default() }
    }

    #[test]
    fn a_figure_is_worse_if_no_round_was_as_good() {
        for (own, other, expected) in [
            ([120.0, 130.0, 125.0], [100.0, 101.0, 119.0], "1.24 | worse"),
            ([120.0, 130.0, 125.0], [100.0, 101.0, 121.0], "1.24 | noise"),
            ([100.0, 105.0, 101.0], [100.0, 101.0, 99.0], "1.01 | equal"),
            ([50.0, 51.0, 99.0], [100.0, 101.0, 130.0], "0.50 | better"),
            ([50.0, 51.0, 103.0], [100.0, 101.0, 130.0], "0.50 | noise"),
        ] {
            let text = page(&own, &other).comparison();
            assert!(text.split_whitespace().collect::<Vec<_>>().join(" ").contains(expected), "{text}");
        }
        assert_eq!(page(&[1.0], &[]).comparison(), "");
    }
}
