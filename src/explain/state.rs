//! The state of one replica: its Envoys, the objects that they have not accepted, and the problems.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockgate_route::translate::problem::Problem;
use serde::{Deserialize, Serialize};

use super::envoys::rejected;
use super::report::{Note, Rejected};
use crate::inspection::{Inspection, classless};
use crate::replicas::EnvoyProgress;

/// The maximum number of listed objects of each kind of fault, and of problems.
const MAX_LISTED: usize = 1000;

/// The state of a replica.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct State {
    /// The replica: its pod or its address.
    pub replica: String,
    /// The version of the program.
    pub version: String,
    /// The reason why the replica is not ready. Empty: it is ready.
    pub missing: String,
    /// The number of the newest publication.
    pub publication: u64,
    /// The Envoys of this replica.
    pub envoys: Vec<EnvoyState>,
    /// The number of objects that are served, by kind.
    pub served: BTreeMap<String, usize>,
    /// The objects that not all Envoys of this replica have accepted.
    pub waiting: Vec<Waiting>,
    /// The objects that lost all their routes.
    pub lost: Vec<String>,
    /// The Ingresses without a class in a cluster without a default class.
    pub classless: Vec<String>,
    /// The problems.
    pub problems: Vec<Note>,
    /// The number of objects and problems beyond the limit of the lists.
    pub unlisted: usize,
    /// The reason why the replica did not answer. Empty: it answered.
    pub error: String,
}

/// An Envoy.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EnvoyState {
    /// The node ID.
    pub name: String,
    /// The last publication to which it has answered completely. `None`: it does not have its first configuration.
    pub answered: Option<u64>,
    /// The resources that it has rejected.
    pub rejected: Vec<Rejected>,
}

/// An object that not all Envoys have accepted.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct Waiting {
    /// The object.
    pub object: String,
    /// The number of Envoys that have accepted it.
    pub accepted: usize,
    /// The number of Envoys.
    pub envoys: usize,
    /// Whether an Envoy has rejected a resource of the object.
    pub is_rejected: bool,
}

impl State {
    /// Creates the state of a replica. `further` contains the problems from outside of the translation.
    pub fn new(inspection: &Inspection, envoys: &[EnvoyProgress], further: &[Arc<Problem>], publication: u64) -> Self {
        let mut state = Self { publication, ..Self::default() };
        state.envoys = envoys
            .iter()
            .map(|envoy| EnvoyState {
                name: envoy.id.clone(),
                answered: envoy.answered,
                rejected: rejected(envoy).collect(),
            })
            .collect();
        let rejections = state.envoys.iter().map(|envoy| {
            let objects = envoy.rejected.iter().flat_map(|one| one.objects.iter().map(String::as_str));
            (envoy.answered, objects.collect::<BTreeSet<&str>>())
        });
        let rejections: Vec<_> = rejections.collect();
        let mut waiting = Vec::new();
        for (id, published) in &inspection.sources {
            let object = id.to_string();
            if !published.served {
                state.lost.push(object);
                continue;
            }
            *state.served.entry(id.kind.as_str().to_owned()).or_default() += 1;
            let has_accepted = |(answered, rejected): &&(Option<u64>, BTreeSet<&str>)| {
                answered.is_some_and(|level| level >= published.since) && !rejected.contains(object.as_str())
            };
            let accepted = rejections.iter().filter(has_accepted).count();
            if accepted < rejections.len() {
                let is_rejected = rejections.iter().any(|(_, rejected)| rejected.contains(object.as_str()));
                waiting.push(Waiting { object, accepted, envoys: rejections.len(), is_rejected });
            }
        }
        drop(rejections);
        state.waiting = waiting;
        state.classless = classless(inspection).map(|id| id.to_string()).collect();
        let all = inspection.problems.iter().chain(further);
        state.problems = all.map(|problem| Note::from(&**problem)).collect();
        state.problems.sort();
        state.problems.dedup();
        state.bound();
        state
    }

    /// Truncates the lists.
    fn bound(&mut self) {
        let lengths = [self.waiting.len(), self.lost.len(), self.classless.len(), self.problems.len()];
        self.unlisted = lengths.iter().map(|length| length.saturating_sub(MAX_LISTED)).sum();
        self.waiting.truncate(MAX_LISTED);
        self.lost.truncate(MAX_LISTED);
        self.classless.truncate(MAX_LISTED);
        self.problems.truncate(MAX_LISTED);
    }
}
