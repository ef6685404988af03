//! How far the Envoys are with an object, at this replica and at the others.
//!
//! Every replica serves, and each knows what its own Envoys have accepted; the one that writes status has to know it of
//! all. It asks the others on their xDS port, where both sides show a certificate, and they answer when they have news.
//! On the same way replicas tell each other the last good content of Secrets ([`kept`]).

mod answer;
mod here;
pub mod kept;
mod others;

use lockgate_route::objects::{Kind, ObjectKey, Revision};
use serde::{Deserialize, Serialize};

pub use answer::routes;
pub use here::Here;
pub use others::{Client, Connector, Others};

use crate::inspection::Published;

/// An object in the revision that the Envoys have to accept.
///
/// Replicas of two versions talk to each other during a rolling update. A field that is missing in a question has its
/// default value, which no object has: the answer is that no Envoy has accepted the object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Wanted {
    /// The kind, as [`Kind::resource`]: `ingresses.networking.k8s.io`.
    #[serde(default)]
    pub resource: String,
    /// The namespace of the object.
    pub namespace: String,
    /// The name of the object.
    pub name: String,
    /// The uid of the object.
    pub uid: String,
    /// The revision of the object. Another revision does not count, be it older or newer.
    #[serde(default)]
    pub revision: Revision,
}

impl Wanted {
    /// The object of `kind` with this key, as it is published here.
    pub fn new(kind: Kind, key: &ObjectKey, published: &Published) -> Self {
        Self {
            resource: kind.resource(),
            namespace: key.namespace.to_string(),
            name: key.name.to_string(),
            uid: published.uid.to_string(),
            revision: published.revision,
        }
    }
}

/// How far the Envoys of a replica, or of several, are with each object of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reached {
    /// How many Envoys there are.
    pub envoys: usize,
    /// How many of them have accepted all that serves the object, in the order of the list.
    pub accepted: Vec<usize>,
}

impl Reached {
    /// Nobody, for a list of `length` objects.
    pub fn nobody(length: usize) -> Self {
        Self { envoys: 0, accepted: vec![0; length] }
    }

    /// Both together. The lists are the same.
    pub fn and(mut self, other: &Self) -> Self {
        self.envoys += other.envoys;
        self.accepted.iter_mut().zip(&other.accepted).for_each(|(own, other)| *own += other);
        self
    }

    /// Whether there are Envoys and all have accepted what serves object number `at`.
    pub fn by_all(&self, at: usize) -> bool {
        self.envoys > 0 && self.accepted.get(at) == Some(&self.envoys)
    }
}

#[cfg(test)]
mod tests;
