//! A type that a client asks for in both versions of the API on one stream: each has a subscription of its own.
//!
//! A stream keeps one subscription of each type, whatever the version of its type URL, for types of both versions depend on
//! each other. A type that is asked for by a second URL gets a second stream's state beside the first, with gates of its
//! own. No client is known that does this; what is rare is kept out of the way of what is not.

use super::Stream;
use crate::server::message::Output;
use crate::server::subscription::Subscription;
use crate::snapshot::ResourceType;

impl Stream {
    /// Whether `kind` was asked for by another URL than `url` before.
    pub(super) fn is_asked_otherwise(&self, kind: ResourceType, url: &str) -> bool {
        let waits = self.waiting.as_ref().filter(|_| kind == ResourceType::CLUSTER).map(|(url, _)| &**url);
        let asked = self.types.get(&kind).map(|subscription| &*subscription.type_url);
        asked.or(waits).is_some_and(|asked| asked != url)
    }

    /// Lets the second state do something; no nonce of its responses is one of the first state's.
    pub(super) fn with_other<R>(&mut self, act: impl FnOnce(&mut Self) -> R) -> Option<R> {
        let mut other = self.other.take()?;
        other.nonces = self.nonces;
        let result = act(&mut other);
        self.nonces = other.nonces;
        self.other = Some(other);
        Some(result)
    }

    /// The same; returns what is to be sent.
    pub(super) fn outputs_of_other(&mut self, act: impl FnOnce(&mut Self) -> Vec<Output>) -> Vec<Output> {
        self.with_other(act).unwrap_or_default()
    }

    /// Begins a second state, for types that are asked for by a second URL.
    pub(super) fn begin_other(&mut self) {
        if self.other.is_none() {
            let mut other = Self::new(self.variant, self.aggregated, self.timing, self.newest.clone());
            other.node.clone_from(&self.node);
            self.other = Some(Box::new(other));
        }
    }

    /// All subscriptions.
    pub(in crate::server) fn subscriptions(&self) -> impl Iterator<Item = &Subscription> {
        self.types.values().chain(self.other.iter().flat_map(|other| other.types.values()))
    }
}
