//! The parts of a report that need a running controller: its Envoys, and the loop with the current model.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use lockgate_route::explain::Request;
use lockgate_route::objects::{Kind, ObjectKey};
use lockgate_route::translate::explained::{Answer, RequestDestination};
use lockgate_route::translate::problem::Problem;
use lockgate_xds::provenance::ObjectRef;

use super::report::{Accepted, Note, Rejected, Report};
use crate::inspection::Inspection;
use crate::replicas::EnvoyProgress;

/// Requests the answers from the loop. `None`: the loop does not respond.
pub type Ask = dyn Fn(RequestDestination, Request) -> BoxFuture<'static, Option<Vec<Answer>>> + Send + Sync;

/// A running controller.
pub struct Live {
    /// The progress of each Envoy of this replica.
    pub envoys: Box<dyn Fn() -> Vec<EnvoyProgress> + Send + Sync>,
    /// The problems from outside of the translation: rejected resources, and certificates that expire soon.
    pub problems: Box<dyn Fn() -> Vec<Arc<Problem>> + Send + Sync>,
    /// Requests the answers of the current model.
    pub ask: Box<Ask>,
}

/// A controller without Envoys.
impl Default for Live {
    fn default() -> Self {
        Self {
            envoys: Box::new(Vec::new),
            problems: Box::new(Vec::new),
            ask: Box::new(|_, _| Box::pin(std::future::ready(None))),
        }
    }
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live").finish_non_exhaustive()
    }
}

impl Report {
    /// Adds the acceptance by the Envoys of one replica, and the `further` problems from outside of the translation.
    pub fn add_live(&mut self, inspection: &Inspection, envoys: &[EnvoyProgress], further: &[Arc<Problem>]) {
        for entry in &mut self.answers {
            let since = published(inspection, &entry.objects);
            entry.envoys = Some(accepted(envoys, &entry.objects, since));
            let about = further.iter().filter(|problem| entry.objects.contains(&problem.object.to_string()));
            entry.problems.extend(about.map(|problem| Note::from(&**problem)));
        }
    }
}

/// Returns the first publication that serves all these objects in their current revision. Returns 0 if none of them is
/// a source.
fn published(inspection: &Inspection, objects: &[String]) -> u64 {
    let named: BTreeSet<&str> = objects.iter().map(String::as_str).collect();
    let of = |text: &str| {
        let (kind, key) = text.split_once(' ')?;
        let kind = Kind::ALL.into_iter().find(|known| known.as_str() == kind)?;
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        inspection.published(kind, &ObjectKey::new(namespace, name))
    };
    named.into_iter().filter_map(of).map(|published| published.since).max().unwrap_or(0)
}

/// Returns the acceptance of objects by Envoys. `since` is the first publication with their current revision.
fn accepted(envoys: &[EnvoyProgress], objects: &[String], since: u64) -> Accepted {
    let mut accepted = Accepted { total: envoys.len(), ..Accepted::default() };
    for envoy in envoys {
        let rejected: Vec<Rejected> =
            rejected(envoy).filter(|one| one.objects.iter().any(|o| objects.contains(o))).collect();
        let has_answered = envoy.answered.is_some_and(|answered| answered >= since);
        match (rejected.is_empty(), has_answered) {
            (false, _) => accepted.rejected.extend(rejected),
            (true, true) => accepted.accepted += 1,
            (true, false) => accepted.waiting.push(envoy.id.clone()),
        }
    }
    accepted
}

/// Returns the resources that an Envoy has rejected.
pub fn rejected(envoy: &EnvoyProgress) -> impl Iterator<Item = Rejected> {
    envoy.rejected.iter().map(|resource| {
        let objects: BTreeSet<String> = resource.origins().iter().map(ObjectRef::to_string).collect();
        Rejected {
            envoy: envoy.id.clone(),
            resource: format!("{} {}", resource.kind().short_name(), resource.name()),
            objects: objects.into_iter().collect(),
        }
    })
}
