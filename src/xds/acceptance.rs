//! How far clients have come with what is published: the ground on which others say that something is served.
//!
//! Nothing is kept for it but one number a type: it is looked up when somebody asks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;

use super::message::Node;
use super::observer::Registry;
use super::stream::Stream;
use crate::snapshot::{Key, Snapshot};

/// How far the clients of a server have come with a publication.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Acceptance {
    /// How many clients there are, by node id.
    pub clients: usize,
    /// How many of them have answered it, and all before it, on each of their streams.
    pub accepted: usize,
    /// What was sent and not taken, and by how many.
    pub rejected: BTreeMap<Key, usize>,
}

impl Registry {
    /// How far those clients that `counts` have come with the publication of number `generation` of the store whose
    /// newest snapshot is `newest`. Clients of other stores must not count. A response that was not answered in time
    /// counts as answered.
    ///
    /// Who polls has no stream, and is not known here.
    pub fn acceptance(&self, newest: &Snapshot, generation: u64, counts: impl Fn(&Node) -> bool) -> Acceptance {
        let mut clients = BTreeMap::<String, bool>::new();
        let mut rejected = BTreeMap::<Key, BTreeSet<String>>::new();
        for (_, stream) in self.streams() {
            let stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(node) = stream.node().filter(|node| counts(node)) else { continue };
            *clients.entry(node.id.clone()).or_insert(true) &= stream.has_answered(newest, generation);
            stream.each_rejected(|kind, name| {
                rejected.entry((kind, name.clone())).or_default().insert(node.id.clone());
            });
        }
        let accepted = clients.values().filter(|accepted| **accepted).count();
        let rejected = rejected.into_iter().map(|(key, clients)| (key, clients.len())).collect();
        Acceptance { clients: clients.len(), accepted, rejected }
    }
}

impl Stream {
    /// Whether the client has answered all that the publication of number `generation`, and those before it, changed of
    /// what it asked for. `newest`: of the store.
    pub(super) fn has_answered(&self, newest: &Snapshot, generation: u64) -> bool {
        let reached = self.types.values().map(|subscription| subscription.reached(self.newest()));
        // One that has asked for nothing yet has nothing.
        let Some(reached) = reached.min() else { return false };
        (reached >= generation || (reached >= self.generation() && self.sleeps_through(newest)))
            && self.has_routes_of_its_listeners()
            && self.has_asked_for_listeners(newest)
    }

    /// Whether nothing that was published since it woke last is for this client.
    fn sleeps_through(&self, newest: &Snapshot) -> bool {
        let covers = |key: &Key| self.types.get(&key.0).is_some_and(|subscription| subscription.covers(&key.1));
        newest.changes_since(self.generation()).is_some_and(|mut changes| !changes.any(covers))
    }
}
