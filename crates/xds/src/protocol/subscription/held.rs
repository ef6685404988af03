//! The state of each resource at a client, for status reports.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use super::{ClientState, Known, Subscription};
use crate::snapshot::{Resource, Snapshot, Version};

/// The state of one name of one type on one stream.
#[derive(Debug)]
pub(crate) struct Held<'a> {
    /// The type URL of the client's requests.
    pub type_url: &'a str,
    pub name: &'a str,
    /// The resource that was sent last, if its content is known.
    pub resource: Option<Arc<Resource>>,
    /// The version that was sent last.
    pub version: Option<Version>,
    pub standing: Standing<'a>,
}

/// The synchronization state of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing<'a> {
    /// The resource is subscribed and exists, but was not sent yet.
    Waits,
    /// The resource is subscribed and does not exist.
    Absent,
    /// The resource was sent and is not answered yet. With `before`, the client has an earlier version.
    Sent { before: bool },
    /// The client has accepted the resource.
    Accepted,
    /// The client has rejected the resource, for this reason.
    Rejected(&'a str),
}

impl Subscription {
    /// Returns the number of names that are stored because the client requested or has not answered them.
    pub fn stored_names(&self) -> usize {
        let late = self.late.iter().map(|late| &late.response);
        let unanswered: usize = self.in_flight.iter().chain(late).map(|response| response.content.len()).sum();
        self.names.len() + self.collections.stored_names() + unanswered
    }

    /// Returns the generation of the last publication that the client has answered. `newest` is the snapshot of the
    /// stream. Removals need no answer.
    pub fn reached(&self, newest: &Snapshot) -> u64 {
        let is_there = |name: &Arc<str>| newest.get(self.kind, name).is_some();
        let level = self.in_flight.is_empty() && !self.fresh && !self.answer_owed && !self.dirty.keys().any(is_there);
        if level { newest.generation() } else { self.reached }
    }

    /// Returns the sent names that the client has not accepted.
    pub fn rejected_names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.culprits().map(|(resource, _)| resource.name())
    }

    /// Visits every requested or sent name, in order.
    pub fn each<'a>(&'a self, newest: &Snapshot, visit: &mut dyn FnMut(Held<'a>)) {
        let under_way = || self.in_flight.iter();
        let first = under_way().flat_map(|response| response.first.iter()).map(|resource| &**resource.name());
        let changed = under_way().flat_map(|response| &response.content).map(|(name, _)| &**name);
        let on_its_way: HashSet<&str> = first.chain(changed).collect();
        let asked = self.names.iter().chain(self.dirty.keys().filter(|name| self.covers(name)));
        let settled = self.settled().map(|resource| resource.name());
        let names: BTreeSet<&'a str> = self.apart.keys().chain(asked).chain(settled).map(|name| &**name).collect();
        for name in names {
            let Known { sent, accepted } = self.known(name);
            let standing = match self.reason(name).or(self.rejection.as_ref()) {
                Some(reason) if self.reason(name).is_some() => Standing::Rejected(reason),
                _ if sent.exists() && accepted == sent => Standing::Accepted,
                Some(reason) if sent.exists() && !on_its_way.contains(name) => Standing::Rejected(reason),
                _ if sent.exists() => Standing::Sent { before: accepted.exists() },
                _ if newest.get(self.kind, name).is_some() => Standing::Waits,
                _ => Standing::Absent,
            };
            let version = match &sent {
                ClientState::Resource(resource) => Some(resource.version()),
                ClientState::Version(version) => Some(*version),
                ClientState::Unknown | ClientState::Absent => None,
            };
            let resource = sent.resource().cloned();
            visit(Held { type_url: &self.type_url, name, resource, version, standing });
        }
    }
}
