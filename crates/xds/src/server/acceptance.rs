//! How far clients have come with what is published: the ground on which others say that something is served.
//!
//! Nothing is kept for it but one number a type: it is looked up when somebody asks.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use super::message::Node;
use super::observer::Registry;
use super::stream::Stream;
use crate::snapshot::{Key, Resource, Snapshot};

/// How far the clients of a server have come.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Acceptance {
    /// The clients, by node id: the number of the publication that each has answered, and all before it, on each of its
    /// streams. `None`: it does not have all that it needs to begin with.
    pub clients: BTreeMap<String, Option<u64>>,
    /// What was sent and not taken, as it is in the store now, by who did not take it.
    pub rejected: BTreeMap<String, Vec<Arc<Resource>>>,
}

impl Acceptance {
    /// Whether `client` has answered publication number `generation`.
    pub fn has_answered(&self, client: &str, generation: u64) -> bool {
        self.clients.get(client).is_some_and(|level| level.is_some_and(|level| level >= generation))
    }

    /// How many clients have.
    pub fn answered(&self, generation: u64) -> usize {
        self.clients.values().flatten().filter(|level| **level >= generation).count()
    }
}

impl Registry {
    /// How far those clients that `counts` have come, each in the store that it is served from; what these stores have
    /// must be [published together](crate::snapshot::Store::publish), if there are several. A response that was not
    /// answered in time counts as answered.
    ///
    /// Who polls has no stream, and is not known here.
    pub fn acceptance(&self, counts: impl Fn(&Node) -> bool) -> Acceptance {
        let mut acceptance = Acceptance::default();
        for open in self.streams() {
            let stream = open.stream.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(node) = stream.node().filter(|node| counts(node)) else { continue };
            let newest = open.newest.as_deref().unwrap_or(stream.newest());
            let level = stream.level(newest);
            match acceptance.clients.get_mut(&node.id) {
                // None is the lowest.
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

impl Stream {
    /// The number of the publication of which, and of those before it, the client has answered all that changed of what it
    /// asked for. `newest`: of the store.
    pub(super) fn level(&self, newest: &Snapshot) -> Option<u64> {
        let reached = self.subscriptions().map(|subscription| subscription.reached(self.newest()));
        // One that has asked for nothing yet has nothing.
        let reached = reached.min()?;
        if !self.has_routes_of_its_listeners() || !self.has_asked_for_listeners(newest) {
            return None;
        }
        let is_level = reached >= self.newest().generation() && self.sleeps_through(newest);
        Some(if is_level { reached.max(newest.generation()) } else { reached })
    }

    /// Whether nothing that was published since it woke last is for this client.
    fn sleeps_through(&self, newest: &Snapshot) -> bool {
        let covers = |key: &Key| self.subscriptions().any(|types| types.kind == key.0 && types.covers(&key.1));
        newest.changes_since(self.newest().serial()).is_some_and(|mut changes| !changes.any(covers))
    }
}
