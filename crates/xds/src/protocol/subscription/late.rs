//! Responses that were not answered in time. They count as accepted, because they would otherwise delay all other
//! responses. A slow client can still reject them, which reverts the acceptance.

use std::sync::Arc;

use super::{ClientState, InFlight, Subscription};

/// The maximum number of late responses of one type. Older responses stay accepted.
const MOST: usize = 8;

/// A response that was not answered in time.
#[derive(Debug)]
pub(super) struct Late {
    pub response: InFlight,
    /// The state that the client had accepted before, for each name of the response.
    before: Vec<(Arc<str>, ClientState)>,
    /// Whether the client had unknown resources of an earlier stream.
    came_back: bool,
}

impl Subscription {
    /// Counts the response `nonce` as accepted, because the client has not answered in time.
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
        let came_back = self.came_back;
        self.apply(response.clone());
        self.late.push(Late { response, before, came_back });
    }

    /// Records that the client has accepted the late response `nonce`, if there is one, and all late responses before it.
    pub fn accept_late(&mut self, nonce: &str) {
        if let Some(at) = self.late.iter().position(|late| late.response.nonce == nonce)
            && let Some(newest) = self.late.drain(..=at).next_back()
        {
            self.accepted_version = newest.response.version;
        }
    }

    /// Removes and returns the rejected response `nonce`. If it is a full state, it also contains the late resources before
    /// it, which may be the cause.
    pub fn remove_rejected(&mut self, nonce: &str) -> Option<InFlight> {
        let (in_time, is_it) = (self.remove_response(nonce), |late: &InFlight| late.nonce == nonce);
        let full = match &in_time {
            Some(response) => response.full.is_some(),
            None => self.late.iter().find(|late| is_it(&late.response))?.response.full.is_some(),
        };
        if in_time.is_some() && !full {
            return in_time;
        }
        let mut late = Vec::new();
        while let Some(Late { response, before, came_back }) = self.late.pop() {
            self.came_back |= came_back;
            if !response.first.is_empty() {
                self.track_first_response();
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
