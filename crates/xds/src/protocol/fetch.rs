//! Responses to clients that poll instead of using a stream: unary methods and REST.
//!
//! Each request is independent: no nonce, no order between types, no state.

use std::sync::Arc;

use super::message::{Node, Request, Response, Variant};
use super::stream::{Refusal, type_url};
use super::subscription::Subscription;
use crate::snapshot::{ResourceType, Snapshot, Version};

/// A request of a polling client.
#[derive(Debug)]
pub(crate) struct Fetch {
    subscription: Subscription,
    /// The part of the version that depends only on the names.
    asked: Version,
    /// The client's node, which is optional.
    pub node: Node,
    /// The client's version.
    has: String,
}

impl Fetch {
    /// Interprets `request` for resources of type `kind`.
    ///
    /// # Errors
    /// [`Refusal::OtherType`].
    pub fn new(kind: ResourceType, mut request: Request) -> Result<Self, Refusal> {
        request.canonicalize();
        let url = type_url(std::mem::take(&mut request.type_url), Some(kind))?;
        let mut subscription = Subscription::new(kind, &url, Arc::default());
        // Only the names matter, so versions are not compared.
        subscription.request(Variant::Sotw, &request, true);
        let mut names = request.subscribe;
        names.sort_unstable();
        names.dedup();
        let asked = names.iter().fold(Version::default(), |version, name| version.marked(name));
        Ok(Self { subscription, asked, node: request.node.unwrap_or_default(), has: request.version })
    }

    /// Returns whether the client has the current version of `snapshot`.
    pub fn is_current(&self, snapshot: &Snapshot) -> bool {
        !self.has.is_empty() && Version::parse(&self.has) == Some(self.version(snapshot))
    }

    /// Returns the version of the requested resources, which changes only with the resources or the names. For all resources,
    /// it is the version of streams.
    fn version(&self, snapshot: &Snapshot) -> Version {
        if self.subscription.is_wildcard() {
            return snapshot.version(self.subscription.kind);
        }
        let wanted = self.subscription.wanted(snapshot);
        wanted
            .iter()
            .fold(self.asked, |version, resource| Version(version.0 ^ resource.version().0).marked(resource.name()))
    }

    /// Returns a response with all requested resources that exist.
    pub fn response(&self, snapshot: &Snapshot) -> Response {
        let resources: Vec<Arc<_>> = self.subscription.wanted(snapshot).into_iter().cloned().collect();
        Response {
            type_url: self.subscription.type_url.clone(),
            nonce: "1".to_owned(),
            version: self.version(snapshot).to_string(),
            resources: resources.into(),
            heartbeats: Vec::new(),
            leases: self.node.takes_leases(Variant::Sotw, self.subscription.kind),
            removed: Vec::new(),
            missing: Vec::new(),
        }
    }
}
