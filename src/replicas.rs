//! How far the Envoys are with an object, at this replica and at the others.
//!
//! Every replica serves, and each knows what its own Envoys have accepted; the one that writes status has to know it of
//! all. It asks the others on their xDS port, where both sides show a certificate, and they answer when they have news.
//! On the same way replicas tell each other the last good content of Secrets ([`kept`]).

mod answer;
mod here;
pub mod kept;
mod others;

use serde::{Deserialize, Serialize};

pub use answer::routes;
pub use here::Here;
pub use others::{Client, Connector, Others};

/// An object that somebody waits for: of a generation, or a later one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Wanted {
    /// The namespace of the Ingress.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Its generation.
    pub generation: i64,
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
