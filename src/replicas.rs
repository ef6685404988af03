//! The acceptance of objects by the Envoys of all replicas.
//!
//! Every replica serves Envoys, and knows only the answers of its own Envoys. The status writer needs the acceptance of all
//! Envoys. It asks the other replicas on their xDS port, where both sides present a certificate. They respond when the acceptance
//! changes. Replicas share the last good content of Secrets in the same way ([`kept`]).

mod answer;
mod here;
pub mod kept;
mod others;

use lockgate_route::objects::{Kind, ObjectKey, Revision};
use serde::{Deserialize, Serialize};

pub use answer::routes;
pub use here::{EnvoyProgress, Here};
pub use others::{Client, Connector, OtherReplicas};

use crate::inspection::Published;

/// An object in the revision that the Envoys must accept.
///
/// During a rolling update, replicas of two versions communicate. A missing field in a question has its default value, which no
/// object has. The answer then states that no Envoy has accepted the object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct WantedObject {
    /// The kind, as [`Kind::resource`]: `ingresses.networking.k8s.io`.
    #[serde(default)]
    pub resource: String,
    /// The namespace of the object.
    pub namespace: String,
    /// The name of the object.
    pub name: String,
    /// The uid of the object.
    pub uid: String,
    /// The revision of the object. Acceptance of an older or newer revision does not count.
    #[serde(default)]
    pub revision: Revision,
    /// The fleets whose Envoys must accept the object. Empty: the shared fleet alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fleets: Vec<String>,
}

impl WantedObject {
    /// Creates the question for the object of `kind` with this key in its published revision.
    pub fn new(kind: Kind, key: &ObjectKey, published: &Published) -> Self {
        Self {
            resource: kind.resource(),
            namespace: key.namespace.to_string(),
            name: key.name.to_string(),
            uid: published.uid.to_string(),
            revision: published.revision,
            fleets: published.fleets.iter().map(ToString::to_string).collect(),
        }
    }
}

/// The progress of the Envoys of one or several replicas with each object of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reached {
    /// The number of Envoys of the shared fleet.
    pub envoys: usize,
    /// For each object of the list, the number of Envoys that have accepted all its resources.
    pub accepted: Vec<usize>,
    /// For each object of the list, the number of Envoys of its fleets. Empty in the answer of an earlier version, which knows only
    /// the shared fleet.
    #[serde(default)]
    pub expected: Vec<usize>,
}

impl Reached {
    /// Creates the progress of no Envoys for a list of `length` objects.
    pub fn nobody(length: usize) -> Self {
        Self { envoys: 0, accepted: vec![0; length], expected: vec![0; length] }
    }

    /// Adds the progress of other Envoys for the same list.
    pub fn and(mut self, other: &Self) -> Self {
        self.expected = (0..self.accepted.len()).map(|at| self.expected(at) + other.expected(at)).collect();
        self.envoys += other.envoys;
        self.accepted.iter_mut().zip(&other.accepted).for_each(|(own, other)| *own += other);
        self
    }

    /// Returns the number of Envoys that must accept the object at index `at`.
    pub fn expected(&self, at: usize) -> usize {
        self.expected.get(at).copied().unwrap_or(self.envoys)
    }

    /// Returns whether all Envoys of its fleets have accepted the object at index `at`. Also true without Envoys.
    pub fn is_level(&self, at: usize) -> bool {
        self.accepted.get(at) == Some(&self.expected(at))
    }

    /// Returns whether its fleets have Envoys and all of them have accepted the object at index `at`.
    pub fn by_all(&self, at: usize) -> bool {
        self.expected(at) > 0 && self.is_level(at)
    }

    /// Returns the progress with the objects at these indices.
    pub fn at(&self, indices: &[usize]) -> Self {
        let accepted = indices.iter().map(|at| self.accepted.get(*at).copied().unwrap_or_default());
        let expected = indices.iter().map(|at| self.expected(*at)).collect();
        Self { envoys: self.envoys, accepted: accepted.collect(), expected }
    }
}

#[cfg(test)]
mod tests;
