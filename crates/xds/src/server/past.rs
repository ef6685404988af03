//! The resources that were recently sent to state-of-the-world clients, by version.
//!
//! A returning client reports the version of its resources, but no names. If clusters were removed while it was
//! disconnected, its routes may still use them. These clusters must stay until the client has the new routes. This
//! requires the resources of the version. Versions are hashes of the content, so the responses of one stream describe
//! the state of all clients. A replica that has never sent the version does not know its resources, which matters only
//! if a cluster is removed at that time.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use crate::protocol::{Resources, Response};
use crate::snapshot::Resource;

/// The number of stored versions. Each costs 8 bytes for each resource, because the resources are shared.
const VERSIONS: usize = 32;

/// All resources of one version.
pub(super) type Held = Arc<[Arc<Resource>]>;

/// The versions that were sent recently.
#[derive(Debug, Default)]
pub(super) struct Past {
    versions: Mutex<VecDeque<(String, Held)>>,
}

impl Past {
    /// Stores a response that is a full state.
    pub fn remember(&self, response: &Response) {
        let mut versions = self.lock();
        if versions.iter().any(|(version, _)| *version == response.version) {
            return;
        }
        if versions.len() == VERSIONS {
            versions.pop_front();
        }
        let held = match &response.resources {
            Resources::Shared(body) => body.resources().clone(),
            Resources::Own(resources) => resources.as_slice().into(),
        };
        versions.push_back((response.version.clone(), held));
    }

    /// Returns the resources of `version`, if it was sent recently.
    pub fn resources(&self, version: &str) -> Option<Held> {
        self.lock().iter().find(|(own, _)| own == version).map(|(_, held)| held.clone())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<(String, Held)>> {
        self.versions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
