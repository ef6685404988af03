//! Responses that were not answered in time. They are taken for accepted, or they would hold everything up; but a client
//! that is only slow may still reject them, and then nothing was accepted.

use std::sync::Arc;

use super::{ClientState, InFlight, Subscription};

/// The most of a type that are remembered. What is forgotten is accepted for good.
const MOST: usize = 8;

/// A response that was not answered in time.
#[derive(Debug)]
pub(super) struct Late {
    pub response: InFlight,
    /// What the client had accepted before of the names that it concerned.
    before: Vec<(Arc<str>, ClientState)>,
}

impl Subscription {
    /// Takes the response `nonce` for accepted, for the client does not answer.
    pub fn give_up(&mut self, nonce: &str) {
        let Some(response) = self.remove_response(nonce) else { return };
        self.presume(response);
        if self.late.len() > MOST {
            self.late.remove(0);
        }
    }

    fn presume(&mut self, response: InFlight) {
        let first = response.first.iter().map(|resource| resource.name());
        let first = first.map(|name| (name.clone(), self.known(name).accepted));
        let unsettled = self.apart.iter().filter(|(_, known)| known.sent != known.accepted);
        let unsettled = unsettled.map(|(name, known)| (name.clone(), known.accepted.clone()));
        let before = first.chain(unsettled).collect();
        self.apply(response.clone());
        self.late.push(Late { response, before });
    }

    /// The client has accepted the late response `nonce`, if it is one, and those before it.
    pub fn accept_late(&mut self, nonce: &str) {
        if let Some(at) = self.late.iter().position(|late| late.response.nonce == nonce)
            && let Some(newest) = self.late.drain(..=at).next_back()
        {
            self.accepted_version = newest.response.version;
        }
    }

    /// Takes out the response `nonce`, which the client rejects. A full state held what was taken for accepted before it,
    /// and that may be why.
    pub fn take_rejected(&mut self, nonce: &str) -> Option<InFlight> {
        let (in_time, is_it) = (self.remove_response(nonce), |late: &InFlight| late.nonce == nonce);
        let full = match &in_time {
            Some(response) => response.full.is_some(),
            None => self.late.iter().find(|late| is_it(&late.response))?.response.full.is_some(),
        };
        if in_time.is_some() && !full {
            return in_time;
        }
        let mut late = Vec::new();
        while let Some(Late { response, before }) = self.late.pop() {
            if !response.first.is_empty() {
                self.take_first_apart();
            }
            for (name, state) in before {
                if self.covers(&name) || self.apart.contains_key(&name) {
                    self.apart(&name).accepted = state;
                }
            }
            late.push(response);
        }
        let (mut rejected, mut is_later) = (in_time, false);
        for response in late.into_iter().rev() {
            if is_it(&response) {
                (rejected, is_later) = (Some(response), true);
            } else if is_later || !full {
                self.presume(response);
            }
        }
        rejected
    }
}
