//! Rejections as events: the resources, their versions, and the reason of the client.

use std::sync::Arc;

use crate::snapshot::{Resource, ResourceType, Version};

/// A response, or a single resource, that a client rejected.
///
/// A client that rejects a response causes one rejection of scope [`Response`](RejectionScope::Response). The stream then
/// isolates the fault: it sends the suspects again in smaller groups. Each resource that the client rejects by itself
/// causes one rejection of scope [`Resource`](RejectionScope::Resource). Both variants of the protocol report the same.
///
/// A stream reports rejections as [`Notice::Rejected`](super::Notice::Rejected). The resources state their
/// [origins](Resource::origins).
#[derive(Debug, Clone, PartialEq)]
pub struct Rejection {
    /// The type of the resources.
    pub kind: ResourceType,
    /// Whether the client rejected a response or a single resource.
    pub scope: RejectionScope,
    /// The resources that may be at fault, sorted by name. The client had not accepted these versions before. If the client
    /// had accepted every resource of the response, and the response is not a full state, they are all suspects.
    pub suspects: Vec<Arc<Resource>>,
    /// The client's reason, unchanged.
    pub message: Arc<str>,
}

/// The scope of a rejection.
#[derive(Debug, Clone, PartialEq)]
pub enum RejectionScope {
    /// A response (NACK). At least one of the suspects is at fault, unless the response only removed resources.
    Response {
        /// The nonce of the response.
        nonce: String,
        /// The other resources of the response, sorted by name. The client had accepted these versions before. A full
        /// state repeats them in each response.
        repeated: Vec<Arc<Resource>>,
        /// The names that the response removed or reported as absent, sorted.
        removed: Vec<Arc<str>>,
    },
    /// The only suspect. It is at fault, and the stream does not send this version again.
    Resource {
        /// The version that the client keeps, if any.
        last_good: Option<Version>,
        /// An earlier version that this client, or another client of the store, accepted, if its content is known. Its
        /// difference from the rejected version contains the fault.
        accepted: Option<Arc<Resource>>,
    },
}

impl Rejection {
    /// Returns the resources of the rejected response, or the single resource: the suspects first.
    pub fn resources(&self) -> impl Iterator<Item = &Arc<Resource>> {
        let repeated = match &self.scope {
            RejectionScope::Response { repeated, .. } => repeated.as_slice(),
            RejectionScope::Resource { .. } => &[],
        };
        self.suspects.iter().chain(repeated)
    }

    /// Returns the name and the version of each of the [resources](Self::resources).
    pub fn versions(&self) -> impl Iterator<Item = (&Arc<str>, Version)> {
        self.resources().map(|resource| (resource.name(), resource.version()))
    }
}
