//! Isolation of the invalid resources of a rejected response, and delivery of all others.
//!
//! A client that rejects a response names at best the first invalid resource. The resources of the response therefore
//! become suspects, which the stream sends again in smaller groups (trials), one by one. The resources that the
//! client's message names form a separate group. Without such names, the suspects are halved. An accepted trial clears
//! its names. A resource that is rejected individually is a culprit. Each message differs from the rejected one, so
//! there is no loop. Every rejection divides a group in two, so n suspects take fewer than 2n messages, and one culprit
//! takes at most 2·log2(n)+2.
//!
//! A trial of a full state contains everything that was accepted, and each response stores all its resources. Only the
//! resources of a rejected response that the client has not accepted can be at fault, regardless of later responses. If
//! all resources except one are accepted, the remaining resource is a culprit: its trial would be the rejected response
//! again.
//!
//! The stream does not send a culprit again in this version. The client keeps the version that it accepted last. In a full
//! state, where absence would delete the resource, the stream sends that version instead. If its content is unknown, the
//! full state contains the culprit, and there are no trials (`isolation::unknown`).

mod division;
mod suspicion;
mod unknown;
mod wording;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{ClientState, InFlight, Need, Subscription};
use crate::protocol::rejection::{Rejection, RejectionScope};
use crate::snapshot::{Resource, ResourceType, Version};

/// The first pause after more rejections than expected. It doubles with each further rejection.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The rejections of one type on one stream. Most streams have none.
#[derive(Debug, Default)]
pub(in crate::protocol) struct Isolation {
    culprits: BTreeMap<Arc<str>, Culprit>,
    trials: VecDeque<Trial>,
    /// Full state: the names of culprits of which the client may have an unknown version from an earlier stream.
    unknown: BTreeSet<Arc<str>>,
    /// The resources that are sent in an alternative encoding.
    reworded: BTreeMap<Arc<str>, Version>,
    /// Whether a trial is next even if changes wait. Trials and changes take turns.
    trial_is_next: bool,
    hints: Hints,
    /// The number of rejections since the last accepted trial, and the expected number.
    rejections: u32,
    expected: u32,
    /// The end of the current pause.
    not_before: Option<Instant>,
    /// The events that are not reported yet.
    events: Vec<IsolationEvent>,
}

/// A resource that the client has rejected individually.
#[derive(Debug)]
struct Culprit {
    resource: Arc<Resource>,
    message: Arc<str>,
    /// Whether the client has requested the resource again, so that it gets another trial.
    retried: bool,
}

/// Suspects that are sent together.
#[derive(Debug)]
struct Trial {
    names: BTreeSet<Arc<str>>,
    /// Whether the client's message has named all of these.
    hinted: bool,
    /// Whether virtual hosts that exchange domains were separated.
    torn: bool,
    /// Full state: the rejected state that contained these names.
    rejection: Option<RejectedState>,
}

/// A rejected full state.
#[derive(Debug)]
struct RejectedState {
    /// The resources of the full state that the client had not accepted. At least one of them is at fault.
    suspects: Vec<Arc<Resource>>,
    message: Arc<str>,
}

/// The trust in resource names of the client's messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Hints {
    /// No message was used yet.
    #[default]
    Untried,
    /// A message was used, and the trial of its names has no result yet.
    OnTrial,
    /// The named resource was at fault.
    Trusted,
    /// The named resource was not at fault.
    Distrusted,
}

/// The result of isolating a suspect.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::protocol) enum IsolationEvent {
    /// The client has rejected the resource individually.
    Rejected(Rejection),
    /// The client has accepted another version, or the resource no longer exists.
    Recovered { name: Arc<str> },
}

/// The dirty names that a response covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::protocol) enum Batch {
    /// All names except suspects.
    Changes,
    /// The suspects of one trial.
    Trial(usize),
}

/// The effect of earlier rejections on a name to send.
#[derive(Debug)]
pub(in crate::protocol) enum Verdict {
    /// The name has no rejections.
    Clear,
    /// The name waits for its trial.
    Wait,
    /// The name waits for its trial. This version is sent until then.
    Meanwhile(Arc<Resource>),
    /// The version is not sent again.
    Never,
    /// The version is not sent again. The client's version is sent instead.
    Instead(Arc<Resource>),
}

impl Isolation {
    fn is_pending(&self, name: &str) -> bool {
        self.trials.iter().any(|trial| trial.names.contains(name))
    }

    fn clear(&mut self, name: &str) {
        for trial in &mut self.trials {
            trial.names.remove(name);
        }
        self.trials.retain(|trial| !trial.names.is_empty());
        if self.trials.is_empty() {
            self.not_before = None;
        }
    }

    fn recover(&mut self, name: &str) {
        if let Some((name, _)) = self.culprits.remove_entry(name) {
            self.events.push(IsolationEvent::Recovered { name });
        }
    }

    fn is_over(&self) -> bool {
        self.culprits.is_empty() && self.trials.is_empty() && self.events.is_empty() && self.unknown.is_empty()
    }
}

impl Subscription {
    /// Returns the events since the last call.
    pub fn isolation_events(&mut self) -> Vec<IsolationEvent> {
        self.forget_unknown();
        let Some(isolation) = &mut self.isolation else { return Vec::new() };
        let events = std::mem::take(&mut isolation.events);
        if isolation.is_over() && !self.in_flight.iter().any(|response| response.attempt.is_trial) {
            self.isolation = None;
        }
        events
    }

    /// Returns whether there are culprits or trials.
    pub fn isolates(&self) -> bool {
        self.isolation.is_some()
    }

    /// Returns the culprits and the client's reasons.
    pub fn culprits(&self) -> impl Iterator<Item = (&Arc<Resource>, &Arc<str>)> {
        let culprits = self.isolation.iter().flat_map(|isolation| isolation.culprits.values());
        culprits.map(|culprit| (&culprit.resource, &culprit.message))
    }

    /// Schedules new trials for the culprits that reference this cluster, because its absence may have been the cause.
    pub fn retry_references_to(&mut self, cluster: &str) -> bool {
        let culprits = self.isolation.iter().flat_map(|isolation| isolation.culprits.values());
        let need = culprits.filter(|culprit| culprit.resource.references().names_cluster(cluster));
        let names: Vec<Arc<str>> = need.map(|culprit| culprit.resource.name().clone()).collect();
        names.iter().for_each(|name| self.touch(name, Need::Asked));
        !names.is_empty()
    }

    /// Returns the reason of the rejection of `name`, if it is a culprit.
    pub(super) fn reason(&self, name: &str) -> Option<&Arc<str>> {
        Some(&self.isolation.as_ref()?.culprits.get(name)?.message)
    }

    /// Returns whether `name` waits for its trial.
    pub fn is_pending(&self, name: &str) -> bool {
        self.isolation.as_ref().is_some_and(|isolation| isolation.is_pending(name))
    }

    /// Returns the names of trials and culprits without any accepted version.
    pub fn never_accepted(&self) -> impl Iterator<Item = &Arc<str>> {
        let isolated = self.isolation.iter().flat_map(|isolation| {
            isolation.trials.iter().flat_map(|trial| &trial.names).chain(isolation.culprits.keys())
        });
        isolated.filter(|name| !self.known(name).accepted.exists())
    }

    /// Returns whether any name waits for a trial.
    pub fn has_trials(&self) -> bool {
        self.isolation.as_ref().is_some_and(|isolation| !isolation.trials.is_empty())
    }

    /// Returns the end of the pause before the next trial, if there is one.
    pub fn trial_due(&self) -> Option<Instant> {
        self.isolation.as_ref().and_then(|isolation| isolation.not_before)
    }

    /// Ends the pause if it is over.
    pub fn end_pause(&mut self, now: Instant) {
        if let Some(isolation) = &mut self.isolation {
            isolation.not_before = isolation.not_before.filter(|time| *time > now);
        }
    }

    /// Returns the batches that may be sent next, in order of preference. With `alone`, no response is in flight.
    pub fn batches(&self, alone: bool) -> Vec<Batch> {
        let Some(isolation) = &self.isolation else { return Vec::new() };
        if !alone || isolation.not_before.is_some() {
            return vec![Batch::Changes];
        }
        let mut batches: Vec<Batch> = (0..isolation.trials.len()).map(Batch::Trial).collect();
        let at = if isolation.trial_is_next { batches.len() } else { 0 };
        batches.insert(at, Batch::Changes);
        batches
    }

    /// Returns the effect of earlier rejections on `resource`, which would be sent in `batch`.
    pub fn verdict(&self, resource: &Arc<Resource>, need: Need, batch: Batch) -> Verdict {
        let Some(isolation) = &self.isolation else { return Verdict::Clear };
        let name = resource.name();
        let culprit = isolation.culprits.get(name).filter(|own| own.resource.version() == resource.version());
        match batch {
            Batch::Trial(_) if culprit.is_some_and(|culprit| !culprit.retried) => Verdict::Wait,
            Batch::Trial(_) => Verdict::Clear,
            Batch::Changes if isolation.is_pending(name) => {
                let known = self.known(name);
                let lacks = need == Need::Asked || !known.sent.exists();
                let good = || match known.accepted.resource() {
                    Some(accepted) => Some(accepted.clone()),
                    None => self.base.suspects().find(self.kind, name, resource.version())?.last_good,
                };
                let good = if lacks { good().filter(|good| good.version() != resource.version()) } else { None };
                good.map_or(Verdict::Wait, Verdict::Meanwhile)
            }
            Batch::Changes if culprit.is_none() => Verdict::Clear,
            Batch::Changes => {
                let again = need > Need::Changed;
                match self.known(name).accepted.resource().filter(|_| again) {
                    Some(accepted) => Verdict::Instead(accepted.clone()),
                    None => Verdict::Never,
                }
            }
        }
    }

    /// Returns the names of `batch`, or `None` for all names without a trial.
    pub fn names_in(&self, batch: Batch) -> Option<BTreeSet<Arc<str>>> {
        let Batch::Trial(at) = batch else { return None };
        let trial = self.isolation.as_ref()?.trials.get(at)?;
        let mut names = trial.names.clone();
        if self.kind == ResourceType::VIRTUAL_HOST && !trial.torn {
            // If virtual hosts exchange domains, Envoy accepts all of them or none.
            let dirty: BTreeSet<Arc<str>> = self.dirty.keys().cloned().collect();
            let units = self.units(&dirty);
            names.extend(units.into_iter().filter(|unit| unit.iter().any(|name| trial.names.contains(name))).flatten());
        }
        Some(names)
    }

    /// Returns the names that keep their state although the newest snapshot differs: the culprits of a full state.
    pub fn left_out(&self, names: Option<&BTreeSet<Arc<str>>>) -> BTreeSet<Arc<str>> {
        let Some(isolation) = &self.isolation else { return BTreeSet::new() };
        let is_tried = |name: &Arc<str>| names.is_some_and(|names| names.contains(name));
        let culprits = isolation.culprits.iter().filter(|(name, culprit)| {
            let current = self.base.get(self.kind, name);
            current.is_some_and(|current| current.version() == culprit.resource.version())
        });
        culprits.map(|(name, _)| name).filter(|name| !is_tried(name)).cloned().collect()
    }

    /// Records the result of sending `batch`: whether a response was `sent`, and the names that are `done`. Returns the
    /// attempt that the response belongs to.
    pub fn record_attempt(&mut self, batch: Batch, done: &[Arc<str>], sent: bool) -> Attempt {
        let Some(isolation) = &mut self.isolation else { return Attempt::default() };
        let trial = match batch {
            Batch::Changes => None,
            Batch::Trial(at) => isolation.trials.get(at),
        };
        let (is_trial, hinted, torn) = match trial {
            Some(trial) => (true, trial.hinted, trial.torn),
            None => (false, false, false),
        };
        if sent {
            isolation.trial_is_next = !is_trial;
        }
        if is_trial {
            done.iter().for_each(|name| isolation.clear(name));
        }
        Attempt { is_trial, hinted, torn }
    }

    /// Removes the rejection of `name`, because the newest snapshot has another version.
    pub(super) fn reopen(&mut self, name: &str) {
        if self.isolation.is_none() {
            return;
        }
        let known = self.known(name);
        let has_it = |newest: &Arc<Resource>| known.accepted == *newest;
        let newest = self.base.get(self.kind, name);
        let (gone, recovered) = (newest.is_none(), newest.is_none_or(has_it));
        let Some(isolation) = &mut self.isolation else { return };
        if gone && isolation.is_pending(name) {
            isolation.clear(name);
            // The removal of a resource that the client has never accepted does not have to be sent again.
            if let Some(need) = self.dirty.get_mut(name) {
                *need = Need::Changed;
            }
        }
        if recovered {
            isolation.recover(name);
        }
    }

    /// Removes the names that are no longer subscribed.
    pub(super) fn forget_isolated(&mut self) {
        let Some(isolation) = &self.isolation else { return };
        let names = isolation.trials.iter().flat_map(|trial| &trial.names).chain(isolation.culprits.keys());
        let gone: Vec<Arc<str>> = names.filter(|name| !self.covers(name)).cloned().collect();
        let Some(isolation) = &mut self.isolation else { return };
        for name in gone {
            isolation.clear(&name);
            isolation.recover(&name);
        }
    }

    /// Records that the client has accepted `state` of `name`.
    pub(super) fn record_accepted(&mut self, name: &Arc<str>, state: &ClientState) {
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
    pub(super) fn record_accepted_attempt(&mut self, attempt: Attempt) {
        let Some(isolation) = &mut self.isolation else { return };
        if !attempt.is_trial {
            return;
        }
        isolation.rejections = 0;
        if attempt.hinted {
            isolation.hints = Hints::Distrusted;
        }
    }

    /// Finds culprits of a full state that follow from the accepted resources, without another trial.
    pub(super) fn find_culprits(&mut self) {
        while let Some((trial, rejection)) = self.remove_proven() {
            let Some(isolation) = &mut self.isolation else { return };
            if trial.hinted {
                isolation.hints = Hints::Trusted;
            }
            let is_of_trial = |resource: &Arc<Resource>| trial.names.contains(resource.name());
            let suspects: Vec<Arc<Resource>> = rejection.suspects.into_iter().filter(is_of_trial).collect();
            match &suspects[..] {
                [culprit] => {
                    self.dirty.remove(culprit.name());
                    self.add_culprit(culprit, &rejection.message);
                }
                _ => self.split(trial.names, &rejection.message, trial.torn, Some(suspects)),
            }
        }
    }

    /// Removes and returns a trial whose other suspects the client has all accepted. The trial would be the rejected response
    /// again.
    fn remove_proven(&mut self) -> Option<(Trial, RejectedState)> {
        let accepted = |resource: &Arc<Resource>| self.known(resource.name()).accepted == *resource;
        let current = |resource: &Arc<Resource>| {
            self.base.get(self.kind, resource.name()).is_some_and(|own| own.version() == resource.version())
        };
        let is_proven = |trial: &Trial| {
            let suspects = trial.rejection.iter().flat_map(|rejection| &rejection.suspects);
            let (left, others): (Vec<_>, Vec<_>) = suspects.partition(|resource| trial.names.contains(resource.name()));
            trial.rejection.is_some()
                && left.len() == trial.names.len()
                && left.iter().all(|resource| current(resource) && !accepted(resource))
                && others.iter().all(|resource| accepted(resource))
        };
        let at = self.isolation.as_ref()?.trials.iter().position(is_proven)?;
        let mut trial = self.isolation.as_mut()?.trials.remove(at)?;
        let rejection = trial.rejection.take()?;
        Some((trial, rejection))
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

    /// Returns whether this version is a culprit without another trial.
    fn is_culprit(&self, resource: &Resource) -> bool {
        let culprit = self.isolation.as_ref().and_then(|isolation| isolation.culprits.get(resource.name()));
        culprit.is_some_and(|own| own.resource.version() == resource.version() && !own.retried)
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

    /// Adds a culprit, and reports it to the other streams as a suspect.
    fn add_culprit(&mut self, resource: &Arc<Resource>, message: &str) {
        let accepted = self.known(resource.name()).accepted;
        let last_good = accepted.resource().filter(|good| good.version() != resource.version());
        self.base.suspects().remember(resource, last_good, &self.base);
        let last_good = match accepted {
            ClientState::Resource(good) => Some(good.version()),
            ClientState::Version(version) => Some(version),
            ClientState::Unknown | ClientState::Absent => None,
        };
        let message: Arc<str> = message.into();
        let culprit = Culprit { resource: resource.clone(), message: message.clone(), retried: false };
        let isolation = self.isolation.get_or_insert_default();
        let before = isolation.culprits.insert(resource.name().clone(), culprit);
        if before.is_none_or(|before| before.resource.version() != resource.version()) {
            let (kind, suspects) = (resource.kind(), vec![resource.clone()]);
            let known = self.base.suspects().find(kind, resource.name(), resource.version());
            let accepted = known.and_then(|suspect| suspect.last_good);
            let scope = RejectionScope::Resource { last_good, accepted };
            isolation.events.push(IsolationEvent::Rejected(Rejection { kind, scope, suspects, message }));
        }
    }
}

impl Isolation {
    /// Adds a trial.
    fn add(&mut self, names: BTreeSet<Arc<str>>, hinted: bool, torn: bool, rejection: Option<RejectedState>) {
        self.trials.push_back(Trial { names, hinted, torn, rejection });
    }

    /// Starts a search among `suspects` resources.
    fn begin_search(&mut self, suspects: usize) {
        let halvings = suspects.max(1).next_power_of_two().trailing_zeros();
        (self.rejections, self.expected, self.hints) = (0, 2 * halvings + 2, Hints::Untried);
    }
}

/// The purpose of a response.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::protocol) struct Attempt {
    /// Whether the response is a trial.
    pub is_trial: bool,
    hinted: bool,
    torn: bool,
}
