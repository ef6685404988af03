//! Rejections of a full state by a client with unknown resources from an earlier stream.
//!
//! The client deletes the resources that a full state leaves out. The server cannot send the version that the client has,
//! because it does not know the content. Each full state therefore contains the rejected version: the client rejects it
//! again, and keeps its own. A trial would delete resources in use, so there are none.
//!
//! Envoy applies the valid clusters and listeners of a rejected response, and its message lists the invalid ones. The
//! others count as accepted. After any other message, no resource counts as accepted, because the client may have applied
//! none. They wait until the client accepts a full state.

use std::sync::Arc;

use super::Subscription;
use crate::protocol::subscription::{ClientState, InFlight};
use crate::snapshot::Resource;

/// The beginning of a message that lists all invalid resources of a response whose valid resources Envoy has applied. Source:
/// Envoy `CdsApiImpl::onConfigUpdate`, `LdsApiImpl::onConfigUpdate`.
const LISTS: [&str; 2] = ["Error adding/updating cluster(s) ", "Error adding/updating listener(s) "];
/// Envoy truncates longer messages. Source: Envoy `Config::Utility::truncateGrpcStatusMessage`.
const LONGEST_MESSAGE: usize = 4096;

impl Subscription {
    /// Full state: returns whether the client may have a version of `name` with unknown content.
    pub fn may_have_unknown(&self, name: &str) -> bool {
        self.keeps_unknown(name) || (self.came_back && !self.known(name).accepted.exists())
    }

    /// Returns whether `name` is a culprit of which the client may have a version with unknown content.
    pub fn keeps_unknown(&self, name: &str) -> bool {
        self.isolation.as_ref().is_some_and(|isolation| isolation.unknown.contains(name))
            && !self.known(name).accepted.exists()
    }

    /// Records that the client has rejected the full state `response` with the unaccepted resources `news`, without trials.
    pub(super) fn keep_unknown(&mut self, response: &InFlight, news: &[Arc<Resource>], message: &str) {
        let alone = news.len() == 1;
        let (listed, valid): (Vec<_>, Vec<_>) =
            news.iter().partition(|resource| alone || lists(message, resource.name()));
        if listed.is_empty() {
            return;
        }
        let valid =
            valid.into_iter().map(|resource| (resource.name().clone(), ClientState::Resource(resource.clone())));
        let removed = response.content.iter().filter(|(_, state)| !state.exists()).cloned();
        self.accept_content(valid.chain(removed).collect());
        let unknown: Vec<Arc<str>> = listed.iter().map(|resource| resource.name().clone()).collect();
        let unknown = unknown.into_iter().filter(|name| self.may_have_unknown(name)).collect::<Vec<_>>();
        let isolation = self.isolation.get_or_insert_default();
        isolation.unknown.extend(unknown);
        self.came_back = false;
        for culprit in listed {
            let current = self.base.get(self.kind, culprit.name()) == Some(culprit);
            if current && !self.is_culprit(culprit) {
                if let Some(isolation) = &mut self.isolation {
                    isolation.clear(culprit.name());
                }
                self.dirty.remove(culprit.name());
                self.add_culprit(culprit, message);
            }
        }
    }

    /// Removes the names whose version at the client is known.
    pub(super) fn forget_unknown(&mut self) {
        let Some(isolation) = self.isolation.as_ref().filter(|isolation| !isolation.unknown.is_empty()) else { return };
        // An acceptance after a timeout may be reverted.
        if !self.late.is_empty() || !self.in_flight.is_empty() {
            return;
        }
        let is_known = |name: &&Arc<str>| {
            let known = self.known(name);
            known.accepted.exists() || !known.sent.exists() || !self.covers(name)
        };
        let known: Vec<Arc<str>> = isolation.unknown.iter().filter(is_known).cloned().collect();
        if let Some(isolation) = &mut self.isolation {
            isolation.unknown.retain(|name| !known.contains(name));
        }
    }
}

/// Returns whether `message` lists `name` as invalid, in the form `Error adding/updating cluster(s) NAME: reason, NAME: reason`.
/// Listeners are separated by line breaks.
fn lists(message: &str, name: &str) -> bool {
    let list = LISTS.iter().find_map(|beginning| message.strip_prefix(beginning));
    let Some(list) = list.filter(|_| !name.is_empty() && message.len() < LONGEST_MESSAGE) else { return false };
    list.match_indices(name).any(|(at, _)| {
        let (before, after) = (list.get(..at).unwrap_or_default(), list.get(at + name.len()..).unwrap_or_default());
        (before.is_empty() || before.ends_with(", ") || before.ends_with('\n')) && after.starts_with(": ")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_resources_are_listed_by_envoy() {
        for (message, listed) in [
            ("Error adding/updating cluster(s) shop: malformed IP address", true),
            ("Error adding/updating cluster(s) a: no, shop: no", true),
            ("Error adding/updating listener(s) a: no\nshop: no\n", true),
            ("Error adding/updating cluster(s) a: in shop: no", false),
            ("Error adding/updating cluster(s) shop2: no", false),
            ("Proto constraint validation failed: name: \"shop\"", false),
            ("shop: no", false),
        ] {
            assert_eq!(lists(message, "shop"), listed, "{message}");
        }
        assert!(!lists(&format!("Error adding/updating cluster(s) shop: {}", "a".repeat(5000)), "shop"), "truncated");
    }
}
