//! The answers of the client, and the changes of its state by them.

use std::collections::HashMap;
use std::sync::Arc;

use super::in_flight::{Shared, find};
use super::{ClientState, InFlight, Known, Level};
use crate::protocol::message::Request;
use crate::protocol::subscription::Subscription;
use crate::snapshot::Resource;

impl Subscription {
    /// Returns whether a reply with an error is an ACK: it contains the version of the response that it answers, and
    /// the version is new to the client. Envoy replies like this to a wildcard subscription. It delays its reply while
    /// a cluster warms, and sends one reply for all responses of that time. The reply has the newest version and the
    /// newest error. After [`crate::protocol::Timing::gate_timeout`], such an error belongs to an earlier response. The
    /// response itself may be late too. A gRPC client, which subscribes by name, adopts the new version when it uses a
    /// part of a response. Its error is therefore a NACK of the rest.
    pub fn accepts_despite_error(&self, request: &Request) -> bool {
        if request.error.is_none() || request.version.is_empty() || !self.is_wildcard() {
            return false;
        }
        let responses: Vec<&InFlight> = self.late.iter().map(|late| &late.response).chain(&self.in_flight).collect();
        let Some(at) = responses.iter().position(|response| response.nonce == request.nonce) else { return false };
        let (before, answered) = responses.split_at(at);
        let mut versions = before.iter().map(|response| &response.version).chain([&self.accepted_version]);
        answered.first().is_some_and(|answered| answered.version == request.version)
            && versions.all(|before| *before != request.version)
    }

    /// Records that the client has accepted `response`. Returns the previous resources that the client has replaced.
    pub fn accept(&mut self, response: InFlight) -> Vec<Arc<Resource>> {
        // Clients answer responses in order, so the client has also accepted all late responses before this one.
        self.late.clear();
        self.accepted_version.clone_from(&response.version);
        self.record_accepted_attempt(response.attempt);
        let replaced = self.apply(response);
        self.find_culprits();
        replaced
    }

    /// Records that the client has the resources of `response`. Returns the previous resources that it has replaced.
    pub(in crate::protocol::subscription) fn apply(&mut self, response: InFlight) -> Vec<Arc<Resource>> {
        self.reached = self.reached.max(response.generation);
        if let Some(all) = &response.full {
            self.came_back = false;
            let absent: HashMap<&str, &ClientState> = response
                .instead
                .iter()
                .chain(&response.content)
                .filter(|(_, state)| state.resource().is_none())
                .map(|(name, state)| (&**name, state))
                .collect();
            let state = |name: &Arc<str>, sent: &ClientState| match (find(all, name), absent.get(&**name)) {
                (Some(resource), _) => ClientState::Resource(resource.clone()),
                (None, Some(state)) => (*state).clone(),
                (None, None) if !sent.exists() => sent.clone(),
                (None, None) => ClientState::Unknown,
            };
            let unsettled = self.apart.iter().filter(|(_, known)| known.sent != known.accepted);
            let content = unsettled.map(|(name, known)| (name.clone(), state(name, &known.sent))).collect();
            if !matches!(self.level, Level::Nothing) {
                self.level = Level::Accepted;
            }
            return self.accept_content(content);
        }
        self.accept_first(response.first);
        self.accept_content(response.content)
    }

    /// Records that the client has accepted a part of its first response.
    fn accept_first(&mut self, first: Shared) {
        for known in self.apart.iter_mut().filter_map(|(name, known)| Some((find(&first, name)?, known))) {
            let (resource, known) = known;
            if !known.accepted.exists() {
                known.accepted = ClientState::Resource(resource.clone());
            }
        }
        let Level::Sent(accepted) = &mut self.level else {
            first.iter().for_each(|resource| self.settle(resource.name()));
            return;
        };
        accepted.push(first);
        if !self.in_flight.iter().any(|response| !response.first.is_empty()) {
            self.level = Level::Accepted;
            let names: Vec<Arc<str>> = self.apart.keys().cloned().collect();
            names.iter().for_each(|name| self.settle(name));
        }
    }

    /// Stores the names of a first response individually, because the client has rejected a part of it.
    pub(in crate::protocol::subscription) fn track_first_response(&mut self) {
        let Level::Sent(accepted) = std::mem::replace(&mut self.level, Level::Accepted) else { return };
        let settled: Vec<Arc<Resource>> = self.settled().cloned().collect();
        let mut has: HashMap<Arc<str>, Arc<Resource>> = HashMap::new();
        for resource in accepted.iter().flat_map(|part| part.iter()) {
            has.insert(resource.name().clone(), resource.clone());
        }
        for resource in settled {
            let accepted = has.remove(resource.name()).map_or(ClientState::Unknown, ClientState::Resource);
            let sent = ClientState::Resource(resource.clone());
            self.apart.insert(resource.name().clone(), Known { sent, accepted });
            self.settle(resource.name());
        }
    }

    /// Records that the client has `content`. Returns the replaced resources.
    pub(in crate::protocol::subscription) fn accept_content(
        &mut self,
        content: Vec<(Arc<str>, ClientState)>,
    ) -> Vec<Arc<Resource>> {
        let mut replaced = Vec::new();
        for (name, state) in content {
            self.record_accepted(&name, &state);
            let named = self.named(&name);
            let Some(known) = self.apart.get_mut(&name) else { continue };
            let gone = !state.exists() && !known.sent.exists() && !named;
            if let ClientState::Resource(old) = std::mem::replace(&mut known.accepted, state) {
                replaced.push(old);
            }
            if gone && self.base.get(self.kind, &name).is_none() {
                // Otherwise the state of names that are added and removed would accumulate.
                self.apart.remove(&name);
            } else {
                self.settle(&name);
            }
        }
        replaced
    }

    /// Records that the rejected version of `name` is no longer desired. The client has the previous version.
    pub fn withdraw(&mut self, name: &Arc<str>) {
        if self.state_at_client(name) == self.known(name).sent {
            return; // Something newer is on its way.
        }
        if self.keeps_unknown(name) {
            return; // The client would delete its version, which is unknown.
        }
        let known = self.apart(name);
        known.sent = known.accepted.clone();
        self.settle(name);
    }

    /// Resolves a version from an earlier stream to `resource`.
    pub fn resolve_version(&mut self, resource: &Arc<Resource>) {
        let Some(known) = self.apart.get_mut(resource.name()) else { return };
        for state in [&mut known.sent, &mut known.accepted] {
            if *state == *resource {
                *state = ClientState::Resource(resource.clone());
            }
        }
    }
}
