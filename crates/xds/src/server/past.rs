//! What state-of-the-world clients were sent lately, by version.
//!
//! A client that comes back says the version of what it has, and no names. When clusters have gone meanwhile, its routes
//! may still lead there, so what the version stood for must be known: the clusters stay until it has the new routes. As
//! versions come from content, what one stream was sent tells of every other. A replica that never sent the version
//! does not know; there is no harm unless a cluster goes just then.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use super::message::{Resources, Response};
use crate::snapshot::Resource;

/// Versions that are remembered; of each only that the resources are shared costs memory, 8 bytes a resource.
const VERSIONS: usize = 32;

/// All resources of one version.
pub(super) type Held = Arc<[Arc<Resource>]>;

/// The versions that were sent last.
#[derive(Debug, Default)]
pub(super) struct Past {
    versions: Mutex<VecDeque<(String, Held)>>,
}

impl Past {
    /// Remembers a response that holds all that its client is to have.
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
