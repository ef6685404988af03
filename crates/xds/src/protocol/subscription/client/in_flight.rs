//! A response without an answer so far.

use std::sync::Arc;
use std::time::Instant;

use crate::protocol::message::Resources;
use crate::protocol::pace::Paced;
use crate::protocol::subscription::client::ClientState;
use crate::protocol::subscription::isolation::Attempt;
use crate::snapshot::Resource;

/// A list of resources, sorted by name, that streams can share.
pub(in crate::protocol) type Shared = Arc<[Arc<Resource>]>;

/// A response without an answer so far.
#[derive(Debug, Clone)]
pub(in crate::protocol) struct InFlight {
    pub nonce: String,
    /// State of the world: the `version_info` of the response.
    pub version: String,
    pub sent_at: Instant,
    /// The changed state of each name, sorted by name.
    pub content: Vec<(Arc<str>, ClientState)>,
    /// The other resources of a first response.
    pub first: Shared,
    /// All resources of the response, sorted, if it is a full state.
    pub full: Option<Resources>,
    /// The generation that the client has completely answered with an ACK of this response; 0 if resources were left out.
    pub generation: u64,
    /// The paced parts of the response.
    pub paced: Vec<Paced>,
    /// Full state: the names that keep their state although a different state was sent before, or is desired.
    pub instead: Vec<(Arc<str>, ClientState)>,
    /// The trial that the response belongs to, if any.
    pub attempt: Attempt,
}

impl InFlight {
    /// Returns a response that changes `content`.
    pub fn new(
        nonce: String,
        sent_at: Instant,
        mut content: Vec<(Arc<str>, ClientState)>,
        full: Option<Resources>,
    ) -> Self {
        content.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        Self {
            nonce,
            version: String::new(),
            sent_at,
            content,
            first: Arc::new([]),
            full,
            generation: 0,
            paced: Vec::new(),
            instead: Vec::new(),
            attempt: Attempt::default(),
        }
    }

    /// Returns whether the response sets a resource (instead of only removing).
    pub fn sets_something(&self) -> bool {
        !self.first.is_empty() || self.content.iter().any(|(_, state)| state.exists())
    }

    /// Returns whether the response affects no resource.
    pub fn is_empty(&self) -> bool {
        self.first.is_empty() && self.content.is_empty()
    }

    /// Returns all resources of a full state, or the resources that the response sets.
    pub fn held(&self) -> Vec<Arc<Resource>> {
        match &self.full {
            Some(all) => all.to_vec(),
            None => self.resources().cloned().collect(),
        }
    }

    /// Returns the resources that the response sets.
    pub fn resources(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.first.iter().chain(self.content.iter().filter_map(|(_, state)| state.resource()))
    }

    /// Returns the names of the resources that the response sets.
    pub fn names_set(&self) -> impl Iterator<Item = &Arc<str>> {
        let changed = self.content.iter().filter(|(_, state)| state.exists()).map(|(name, _)| name);
        self.first.iter().map(|resource| resource.name()).chain(changed)
    }

    /// Returns whether the response affects `name`.
    pub fn is_about(&self, name: &str) -> bool {
        find(&self.first, name).is_some() || self.content.binary_search_by(|(sent, _)| (**sent).cmp(name)).is_ok()
    }
}

/// Returns the resource `name` of a list that is sorted by name.
pub(super) fn find<'a>(sorted: &'a [Arc<Resource>], name: &str) -> Option<&'a Arc<Resource>> {
    sorted.binary_search_by(|resource| (**resource.name()).cmp(name)).ok().map(|at| &sorted[at])
}
