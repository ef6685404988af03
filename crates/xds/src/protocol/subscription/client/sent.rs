//! The responses that are sent, and the changes of the client's state by them.

use std::sync::Arc;

use super::{ClientState, InFlight, Known, Level};
use crate::protocol::subscription::{Need, Subscription};

impl Subscription {
    /// Marks each subscribed name as dirty, because the first request cannot be answered with a shared response.
    pub fn mark_all_dirty(&mut self) {
        self.fresh = false;
        self.level = Level::Accepted;
        let names: Vec<Arc<str>> = self.settled().map(|resource| resource.name().clone()).collect();
        for name in names.iter().chain(&self.names.clone()) {
            self.apart.entry(name.clone()).or_default();
            self.touch(name, Need::Asked);
        }
    }

    /// Records that the first request was answered with the shared responses `sent`.
    pub fn record_shared_answer(&mut self, version: &str, sent: Vec<InFlight>) {
        self.fresh = false;
        self.named_resources = None;
        self.dirty.clear();
        self.answer_owed = false;
        let asks = self.subscribes_to_collections() || !self.names.is_empty();
        self.level = match sent.is_empty() {
            true if asks => Level::Accepted,
            true => Level::Nothing,
            false => Level::Sent(Vec::new()),
        };
        version.clone_into(&mut self.sent_version);
        for mut response in sent {
            version.clone_into(&mut response.version);
            for (name, state) in &response.content {
                self.apart.insert(name.clone(), Known { sent: state.clone(), accepted: ClientState::Unknown });
            }
            self.last_nonce.clone_from(&response.nonce);
            self.in_flight.push(response);
        }
    }

    /// Records that `response` was sent.
    pub fn sent(&mut self, version: &str, mut response: InFlight) {
        for (name, state) in &response.content {
            self.apart(name).sent = state.clone();
        }
        self.answer_owed = false;
        self.last_nonce.clone_from(&response.nonce);
        version.clone_into(&mut self.sent_version);
        version.clone_into(&mut response.version);
        self.in_flight.push(response);
    }

    /// Records that the client already has `content`. Returns whether there is now more to send.
    pub fn record_known(&mut self, content: Vec<(Arc<str>, ClientState)>) -> bool {
        let dirty = self.dirty.len();
        for (name, state) in &content {
            self.apart(name).sent = state.clone();
        }
        self.accept_content(content);
        self.dirty.len() > dirty
    }

    /// Returns the names that the client will have when it has accepted all in-flight responses.
    pub(in crate::protocol::subscription) fn under_way(&self) -> impl Iterator<Item = &Arc<str>> {
        self.in_flight.iter().flat_map(InFlight::names_set)
    }

    /// Removes the response `nonce` from the responses in flight, and returns it.
    pub fn remove_response(&mut self, nonce: &str) -> Option<InFlight> {
        let at = self.in_flight.iter().position(|response| response.nonce == nonce)?;
        Some(self.in_flight.remove(at))
    }

    /// Returns the nonces that an ACK of `nonce` answers: that response, and the outdated responses before it, which the
    /// client will not answer.
    pub fn answered(&self, nonce: &str) -> Vec<String> {
        let at = self.in_flight.iter().position(|response| response.nonce == nonce);
        let answered = at.and_then(|at| self.in_flight.get(..=at)).unwrap_or_default();
        answered.iter().map(|response| response.nonce.clone()).collect()
    }
}
