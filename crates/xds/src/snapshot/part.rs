//! Parts of a resource: which object, at which revision, produced which of its bytes.

use std::sync::Arc;

use crate::provenance::ObjectRef;

/// A part of a resource that one object produced, e.g. a virtual host, a route, a filter chain, or a group of endpoints.
///
/// The [origins](super::Resource::origins) of a resource are one flat set. Parts state which object is behind which element,
/// so that a [rejection](crate::server::Rejection) can be traced to a single object. They are never sent to a client, and
/// do not count for the version of the resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Part {
    /// The name of the element within the resource, for example of a virtual host. The builder of the resource defines it.
    pub name: Arc<str>,
    /// The object that produced the part.
    pub origin: ObjectRef,
    /// A hash of the part's content: equal revision, equal bytes.
    pub revision: u64,
}
