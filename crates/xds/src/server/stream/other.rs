//! Types that a client requests in both API versions on one stream: each version has its own subscription.
//!
//! A stream has one subscription for each type, regardless of the API version of the type URL, because types of both
//! versions depend on each other. A type with a second URL gets a second stream state, with its own gates. No known client
//! does this, so the code is separate from the common case.

use super::Stream;
use crate::server::message::Output;
use crate::server::subscription::Subscription;
use crate::snapshot::ResourceType;

impl Stream {
    /// Returns whether an earlier request for `kind` had another URL than `url`.
    pub(super) fn is_asked_otherwise(&self, kind: ResourceType, url: &str) -> bool {
        let waits = self.waiting.as_ref().filter(|_| kind == ResourceType::CLUSTER).map(|(url, _)| &**url);
        let asked = self.types.get(&kind).map(|subscription| &*subscription.type_url);
        asked.or(waits).is_some_and(|asked| asked != url)
    }

    /// Calls `act` with the second state. Both states share a sequence of nonces.
    pub(super) fn with_other<R>(&mut self, act: impl FnOnce(&mut Self) -> R) -> Option<R> {
        let mut other = self.other.take()?;
        other.nonces = self.nonces;
        let result = act(&mut other);
        self.nonces = other.nonces;
        self.other = Some(other);
        Some(result)
    }

    /// Calls `act` with the second state, if any, and returns its outputs.
    pub(super) fn outputs_of_other(&mut self, act: impl FnOnce(&mut Self) -> Vec<Output>) -> Vec<Output> {
        self.with_other(act).unwrap_or_default()
    }

    /// Creates the second state if it does not exist.
    pub(super) fn create_other(&mut self) {
        if self.other.is_none() {
            let mut other = Self::new(self.variant, self.aggregated, self.timing, self.newest.clone());
            other.node.clone_from(&self.node);
            self.other = Some(Box::new(other));
        }
    }

    /// Returns the subscriptions of both states.
    pub(in crate::server) fn subscriptions(&self) -> impl Iterator<Item = &Subscription> {
        self.types.values().chain(self.other.iter().flat_map(|other| other.types.values()))
    }
}
