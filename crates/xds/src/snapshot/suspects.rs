//! Resources that a client has rejected individually. Other clients receive them last and separately.
//!
//! A suspect is not excluded. Clients of another version may accept it, and then need only one more message. The list is
//! short, so that a client that rejects everything does not slow down all others.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::{Resource, ResourceType, Version};

/// The maximum number of suspects of one store. Further suspects replace the oldest.
const MOST: usize = 32;

/// A resource that a client has rejected.
#[derive(Debug, Clone)]
pub struct Suspect {
    /// The resource, in the version that was rejected.
    pub resource: Arc<Resource>,
    /// The version that this client had accepted before, if any.
    pub last_good: Option<Arc<Resource>>,
}

/// The suspects of a store, which all its snapshots share.
#[derive(Debug, Default)]
pub struct Suspects {
    /// The number of suspects, which each first response reads without a lock.
    count: AtomicUsize,
    known: Mutex<VecDeque<Suspect>>,
}

impl Suspects {
    /// Returns whether there are no suspects.
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Records that a client has rejected `resource`, and removes suspects that are not current.
    pub(super) fn remember(
        &self,
        resource: &Arc<Resource>,
        last_good: Option<&Arc<Resource>>,
        is_current: impl Fn(&Resource) -> bool,
    ) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |suspect: &Suspect| {
            let own = &suspect.resource;
            (own.kind(), own.name(), own.version()) == (resource.kind(), resource.name(), resource.version())
        };
        // Retains the last good version if another client had none.
        let before = known.iter().find(|suspect| same(suspect)).and_then(|suspect| suspect.last_good.clone());
        known.retain(|suspect| is_current(&suspect.resource) && !same(suspect));
        known.push_back(Suspect { resource: resource.clone(), last_good: last_good.cloned().or(before) });
        if known.len() > MOST {
            known.pop_front();
        }
        self.count.store(known.len(), Ordering::Relaxed);
    }

    /// Removes the suspects among `removed`. A recreated resource has no last good version.
    pub fn forget(&self, removed: &[Arc<Resource>]) {
        if self.is_empty() {
            return;
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let is_gone =
            |own: &Resource| removed.iter().any(|gone| gone.kind() == own.kind() && gone.name() == own.name());
        known.retain(|suspect| !is_gone(&suspect.resource));
        self.count.store(known.len(), Ordering::Relaxed);
    }

    /// Returns the suspect with this type, name, and version.
    pub fn find(&self, kind: ResourceType, name: &str, version: Version) -> Option<Suspect> {
        if self.is_empty() {
            return None;
        }
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |own: &Resource| own.kind() == kind && **own.name() == *name && own.version() == version;
        known.iter().find(|suspect| is_it(&suspect.resource)).cloned()
    }

    /// Returns the suspects of one type.
    pub fn of_kind(&self, kind: ResourceType) -> Vec<Suspect> {
        if self.is_empty() {
            return Vec::new();
        }
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().filter(|suspect| suspect.resource.kind() == kind).cloned().collect()
    }
}
