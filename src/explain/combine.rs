//! Combines the answers of several replicas.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::report::{Accepted, Note, Report};
use super::state::{EnvoyState, State, Waiting};

/// The state of all replicas.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Combined {
    /// The number of Envoys of all replicas.
    pub envoys: usize,
    /// The number of Envoys that have the newest publication of their replica and have rejected nothing.
    pub up_to_date: usize,
    /// The number of objects that are served, by kind.
    pub served: BTreeMap<String, usize>,
    /// The objects that not all Envoys have accepted.
    pub waiting: Vec<Waiting>,
    /// The objects that lost all their routes.
    pub lost: Vec<String>,
    /// The Ingresses without a class in a cluster without a default class.
    pub classless: Vec<String>,
    /// The problems.
    pub problems: Vec<Note>,
    /// The number of objects and problems that are not listed.
    pub unlisted: usize,
    /// The replicas, with their Envoys.
    pub replicas: Vec<State>,
}

impl Combined {
    /// Combines the states of replicas. Replicas that did not answer have an error.
    pub fn new(replicas: Vec<State>) -> Self {
        let mut combined = Self::default();
        let mut waiting = BTreeMap::<&str, Waiting>::new();
        let envoys_of = |state: &State| state.envoys.len();
        combined.envoys = replicas.iter().map(envoys_of).sum();
        for state in &replicas {
            let is_current = |envoy: &&EnvoyState| {
                envoy.rejected.is_empty() && envoy.answered.is_some_and(|answered| answered >= state.publication)
            };
            combined.up_to_date += state.envoys.iter().filter(is_current).count();
            for (kind, count) in &state.served {
                let most = combined.served.entry(kind.clone()).or_default();
                *most = (*most).max(*count);
            }
            combined.unlisted = combined.unlisted.max(state.unlisted);
            for one in &state.waiting {
                let entry = waiting.entry(&one.object).or_insert_with(|| Waiting {
                    object: one.object.clone(),
                    envoys: combined.envoys,
                    accepted: combined.envoys,
                    is_rejected: false,
                });
                entry.accepted = entry.accepted.saturating_sub(one.envoys - one.accepted.min(one.envoys));
                entry.is_rejected |= one.is_rejected;
            }
        }
        combined.waiting = waiting.into_values().collect();
        let lost: BTreeSet<&String> = replicas.iter().flat_map(|state| &state.lost).collect();
        combined.lost = lost.into_iter().cloned().collect();
        let classless: BTreeSet<&String> = replicas.iter().flat_map(|state| &state.classless).collect();
        combined.classless = classless.into_iter().cloned().collect();
        let problems: BTreeSet<&Note> = replicas.iter().flat_map(|state| &state.problems).collect();
        combined.problems = problems.into_iter().cloned().collect();
        combined.replicas = replicas;
        combined
    }

    /// Returns whether something needs attention: a replica that did not answer or is not ready, an object that waits or is
    /// rejected, or a problem. An Ingress without a class may belong to another controller.
    pub fn needs_attention(&self) -> bool {
        let is_bad = |state: &State| !state.error.is_empty() || !state.missing.is_empty();
        self.replicas.iter().any(is_bad)
            || self.up_to_date < self.envoys
            || !(self.waiting.is_empty() && self.lost.is_empty() && self.problems.is_empty())
    }
}

/// Combines the reports of replicas, each with the name of its replica. Returns `None` without reports.
///
/// The acceptance counts the Envoys of all replicas. A note reports each replica with a different answer; it may
/// temporarily have other objects.
pub fn reports(reports: Vec<(String, Result<Report, String>)>) -> Option<Report> {
    let mut notes = Vec::new();
    let mut combined: Option<(String, Report)> = None;
    for (replica, report) in reports {
        let report = match report {
            Ok(report) => report,
            Err(error) => {
                notes.push(format!("replica {replica} did not answer, so its Envoys are not counted: {error}"));
                continue;
            }
        };
        let Some((first, merged)) = &mut combined else {
            combined = Some((replica, report));
            continue;
        };
        let differs = |merged: &Report| {
            let results = |report: &Report| report.answers.iter().map(|entry| entry.result.clone()).collect::<Vec<_>>();
            results(merged) != results(&report)
        };
        if differs(merged) {
            let result = report.answers.first().map(|entry| entry.result.as_str()).unwrap_or("no listener");
            notes.push(format!("replica {replica} answers differently from {first}: {result}"));
        }
        for entry in &mut merged.answers {
            let same = report.answers.iter().find(|other| other.listener.name == entry.listener.name);
            let Some(other) = same.and_then(|other| other.envoys.as_ref()) else { continue };
            entry.envoys.get_or_insert_with(Accepted::default).add(other);
            for problem in same.iter().flat_map(|other| &other.problems) {
                if !entry.problems.contains(problem) {
                    entry.problems.push(problem.clone());
                }
            }
        }
    }
    combined.map(|(_, mut report)| {
        report.notes.extend(notes);
        report
    })
}

impl Accepted {
    /// Adds the Envoys of another replica.
    fn add(&mut self, other: &Self) {
        self.total += other.total;
        self.accepted += other.accepted;
        self.waiting.extend(other.waiting.iter().cloned());
        self.rejected.extend(other.rejected.iter().cloned());
    }
}
