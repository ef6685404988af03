//! The progress of clients with publications, which decides whether an object counts as served.
//!
//! It costs one number for each type and stream. The progress is computed on request.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use super::observer::Registry;
use crate::protocol::Node;
use crate::snapshot::{Resource, Store};

/// The progress of the clients of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Acceptance {
    /// For each client, by node ID, the generation up to which it has answered all publications on all its streams. `None` if
    /// it does not have a complete first configuration.
    pub clients: BTreeMap<String, Option<u64>>,
    /// For each client, the resources that it has not accepted, in their current version in the store.
    pub rejected: BTreeMap<String, Vec<Arc<Resource>>>,
}

impl Acceptance {
    /// Returns whether `client` has answered the publication `generation`.
    pub fn has_answered(&self, client: &str, generation: u64) -> bool {
        self.clients.get(client).is_some_and(|level| level.is_some_and(|level| level >= generation))
    }

    /// Returns the number of clients that have answered the publication `generation`.
    pub fn answered(&self, generation: u64) -> usize {
        self.clients.values().flatten().filter(|level| **level >= generation).count()
    }
}

impl Registry {
    /// Returns the progress of the clients that satisfy `counts`, each in its own store, which `counts` receives too. Several
    /// stores must be [published together](crate::snapshot::Store::publish). A response that was not answered in time counts as answered.
    ///
    /// Polling clients have no stream, so they are not included.
    pub fn acceptance(&self, counts: impl Fn(&Node, Option<&Arc<Store>>) -> bool) -> Acceptance {
        let mut acceptance = Acceptance::default();
        for open in self.streams() {
            let stream = open.stream.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(node) = stream.node().filter(|node| counts(node, open.store.as_ref())) else { continue };
            let newest = open.store.as_ref().and_then(|store| store.newest());
            let newest = newest.as_deref().unwrap_or(stream.newest());
            let level = stream.level(newest);
            match acceptance.clients.get_mut(&node.id) {
                // `None` is less than any number.
                Some(lowest) => *lowest = level.min(*lowest),
                None => drop(acceptance.clients.insert(node.id.clone(), level)),
            }
            stream.each_rejected(|kind, name| {
                let rejected = acceptance.rejected.entry(node.id.clone()).or_default();
                rejected.extend(newest.get(kind, name).cloned());
            });
        }
        acceptance
    }
}
