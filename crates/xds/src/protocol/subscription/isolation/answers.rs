//! The effect of an ACK or a NACK on trials and culprits.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Attempt, Culprit, Hints, Isolation, RejectedState, Trial};
use crate::protocol::rejection::{Rejection, RejectionScope};
use crate::protocol::subscription::{ClientState, InFlight, Need, Subscription};
use crate::snapshot::Resource;

/// The first pause after more rejections than expected. It doubles with each further rejection.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

impl Subscription {
    /// Records that the client has accepted `state` of `name`.
    pub(in crate::protocol::subscription) fn record_accepted(&mut self, name: &Arc<str>, state: &ClientState) {
        let Some(isolation) = &mut self.isolation else { return };
        let ClientState::Resource(resource) = state else { return };
        let is_current = self.base.get(self.kind, name).is_some_and(|own| own.version() == resource.version());
        let is_culprit = |culprit: &Culprit| culprit.resource.version() == resource.version();
        if is_current || isolation.culprits.get(name).is_some_and(is_culprit) {
            isolation.recover(name);
        }
        if is_current && isolation.is_pending(name) {
            isolation.clear(name);
            self.dirty.remove(name);
            if let Some(known) = self.apart.get_mut(name) {
                known.sent = state.clone();
            }
        }
    }

    /// Records that the client has accepted a trial.
    pub(in crate::protocol::subscription) fn record_accepted_attempt(&mut self, attempt: Attempt) {
        let Some(isolation) = &mut self.isolation else { return };
        if !attempt.is_trial {
            return;
        }
        isolation.rejections = 0;
        if attempt.hinted {
            isolation.hints = Hints::Distrusted;
        }
    }

    /// Records that the client rejected `response` for the reason `message`.
    pub fn reject(&mut self, response: InFlight, message: &str, now: Instant) -> Rejection {
        if !response.first.is_empty() {
            self.track_first_response();
        }
        let full = response.full.is_some();
        let is_news = |resource: &Arc<Resource>| self.known(resource.name()).accepted != *resource;
        let (mut news, mut repeated): (Vec<_>, Vec<_>) = response.held().into_iter().partition(is_news);
        if news.is_empty() && !full {
            std::mem::swap(&mut news, &mut repeated);
        }
        self.reword(news.iter());
        if full && news.iter().any(|resource| self.may_have_unknown(resource.name())) {
            self.keep_unknown(&response, &news, message);
        } else {
            match full {
                _ if news.is_empty() => {}
                true => self.remove_again(&response),
                false => self.resend_others(&response, &repeated),
            }
            self.isolate(&response, &news, message, now);
        }
        news.sort_by(|a, b| a.name().cmp(b.name()));
        repeated.sort_by(|a, b| a.name().cmp(b.name()));
        let removed = response.content.iter().filter(|(_, state)| !state.exists()).map(|(name, _)| name.clone());
        let mut removed: Vec<Arc<str>> = removed.collect();
        removed.sort();
        Rejection {
            kind: self.kind,
            scope: RejectionScope::Response { nonce: response.nonce, repeated, removed },
            suspects: news,
            message: message.into(),
        }
    }

    /// Divides the resources `news`, which the client has rejected with `response`, into trials.
    fn isolate(&mut self, response: &InFlight, news: &[Arc<Resource>], message: &str, now: Instant) {
        let alone = news.len() == 1;
        let open = |resource: &&Arc<Resource>| {
            let name = resource.name();
            let answered = !self.in_flight.iter().any(|response| response.is_about(name));
            answered && self.covers(name) && !self.is_pending(name) && !self.is_culprit(resource)
        };
        let suspects: Vec<Arc<Resource>> = news.iter().filter(open).cloned().collect();
        let isolation = self.isolation.get_or_insert_default();
        if response.attempt.hinted {
            isolation.hints = Hints::Trusted;
        }
        if isolation.trials.is_empty() && !response.attempt.is_trial {
            isolation.begin_search(news.len());
        }
        isolation.rejections += 1;
        if let Some(excess) = isolation.rejections.checked_sub(isolation.expected + 1) {
            let pause = FIRST_PAUSE * 2_u32.saturating_pow(excess.min(10));
            isolation.not_before = Some(now + pause.min(LONGEST_PAUSE));
        }
        match &suspects[..] {
            [culprit] if alone => self.add_culprit(culprit, message),
            [] => {}
            suspects => {
                let names: BTreeSet<Arc<str>> = suspects.iter().map(|resource| resource.name().clone()).collect();
                self.split(names, message, response.attempt.torn, response.full.is_some().then(|| news.to_vec()));
            }
        }
    }

    /// Marks the names that the full state removed as dirty, because the client may still have them.
    fn remove_again(&mut self, response: &InFlight) {
        for (name, _) in response.content.iter().filter(|(_, state)| !state.exists()) {
            let known = self.known(name);
            if !known.sent.exists() && known.accepted.exists() {
                self.apart(name).sent = known.accepted;
                self.touch(name, Need::Changed);
            }
        }
    }

    /// Schedules the removals and the repeated resources of a rejected response again, because the client may have applied
    /// neither.
    fn resend_others(&mut self, response: &InFlight, repeated: &[Arc<Resource>]) {
        let removed = response.content.iter().filter(|(_, state)| !state.exists()).map(|(name, _)| name);
        let removed = removed.filter(|name| !self.known(name).sent.exists());
        let others: Vec<Arc<str>> = removed.chain(repeated.iter().map(|resource| resource.name())).cloned().collect();
        for name in others {
            if self.covers(&name) && !self.in_flight.iter().any(|response| response.is_about(&name)) {
                self.touch(&name, Need::Asked);
            }
        }
    }
}

impl Isolation {
    /// Adds a trial.
    pub(super) fn add(
        &mut self,
        names: BTreeSet<Arc<str>>,
        hinted: bool,
        torn: bool,
        rejection: Option<RejectedState>,
    ) {
        self.trials.push_back(Trial { names, hinted, torn, rejection });
    }

    /// Starts a search among `suspects` resources.
    pub(super) fn begin_search(&mut self, suspects: usize) {
        let halvings = suspects.max(1).next_power_of_two().trailing_zeros();
        (self.rejections, self.expected, self.hints) = (0, 2 * halvings + 2, Hints::Untried);
    }
}
