//! Finds the resources of a rejected response that are at fault, and delivers all others.
//!
//! A client that rejects a response says at best which resource it stumbled over first. So the resources of the response
//! become suspects, and are sent again in smaller groups (trials), one after the other: what the client's message names
//! in a group of its own, else halves. A trial that is accepted clears its names; a resource that is rejected by itself
//! is a culprit. Each message has other content than what was rejected, so there is no loop, and as every rejection
//! splits a group in two, n suspects take fewer than 2n messages, and one culprit at most 2·log2(n)+2.
//!
//! Of a full state, a trial holds everything that was accepted, and each response remembers all that it held: of what a
//! rejected one held, only what the client had not accepted by then can be at fault, whatever is sent meanwhile. Once all
//! but one of these are accepted, that one is at fault: to try it would be to send the rejected response once more.
//!
//! A culprit is not sent again in this version. The client keeps the version that it accepted last; where absence would
//! delete it (full state), that version is sent in its place.

mod division;
mod suspicion;
mod wording;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{ClientState, InFlight, Need, Subscription};
use crate::server::rejection::{Rejection, RejectionScope};
use crate::snapshot::{Resource, ResourceType, Version};
pub(in crate::server) use division::domains_of;

/// The first pause of a client that rejects more than is to be expected. It doubles with each further rejection.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// What is known of the rejections of one type on one stream. Most streams have none.
#[derive(Debug, Default)]
pub(in crate::server) struct Isolation {
    culprits: BTreeMap<Arc<str>, Culprit>,
    trials: VecDeque<Trial>,
    /// What is sent in another encoding than the resource has.
    reworded: BTreeMap<Arc<str>, Version>,
    /// Whether a trial is next, even if other changes wait: they take turns.
    trial_is_next: bool,
    hints: Hints,
    /// Rejections since a trial was accepted, and how many are to be expected.
    rejections: u32,
    expected: u32,
    /// No trial is sent before this time.
    not_before: Option<Instant>,
    /// What happened and was not reported yet.
    events: Vec<IsolationEvent>,
}

/// A resource that the client rejected by itself.
#[derive(Debug)]
struct Culprit {
    resource: Arc<Resource>,
    message: Arc<str>,
    /// Whether the client has asked for it anew, so that it is tried once more.
    retried: bool,
}

/// Suspects that are sent together.
#[derive(Debug)]
struct Trial {
    names: BTreeSet<Arc<str>>,
    /// Whether the client's message named all of these.
    hinted: bool,
    /// Whether virtual hosts that exchange domains were separated.
    torn: bool,
    /// Of a full state: the rejection that these were part of.
    rejection: Option<RejectedState>,
}

/// A full state that was rejected.
#[derive(Debug)]
struct RejectedState {
    /// All that it held and the client had not accepted: at least one of these is at fault.
    suspects: Vec<Arc<Resource>>,
    message: Arc<str>,
}

/// How far names in the client's messages are trusted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Hints {
    /// None was followed yet.
    #[default]
    Untried,
    /// One was followed, and what it named was not tried yet.
    OnTrial,
    /// What a message named was at fault.
    Trusted,
    /// It was not.
    Distrusted,
}

/// What became of a suspect.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::server) enum IsolationEvent {
    /// The client rejected it by itself.
    Rejected(Rejection),
    /// The client accepted another version, or it is gone.
    Recovered { name: Arc<str> },
}

/// Which of the dirty names a response is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) enum Batch {
    /// All but suspects.
    Changes,
    /// The suspects of one trial.
    Trial(usize),
}

/// What a rejection means for a name that is to be sent.
#[derive(Debug)]
pub(in crate::server) enum Verdict {
    /// Nothing.
    Clear,
    /// It has to wait for its trial.
    Wait,
    /// It has to wait for its trial; the client is sent this version meanwhile.
    Meanwhile(Arc<Resource>),
    /// It is not sent again.
    Never,
    /// It is not sent again; the client needs the version that it has once more.
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
        self.culprits.is_empty() && self.trials.is_empty() && self.events.is_empty()
    }
}

impl Subscription {
    /// What happened since the last call.
    pub fn isolation_events(&mut self) -> Vec<IsolationEvent> {
        let Some(isolation) = &mut self.isolation else { return Vec::new() };
        let events = std::mem::take(&mut isolation.events);
        if isolation.is_over() && !self.in_flight.iter().any(|response| response.attempt.is_trial) {
            self.isolation = None;
        }
        events
    }

    /// Whether culprits are known or searched for.
    pub fn isolates(&self) -> bool {
        self.isolation.is_some()
    }

    /// The resources that the client rejected by themselves, and its reasons.
    pub fn culprits(&self) -> impl Iterator<Item = (&Arc<Resource>, &Arc<str>)> {
        let culprits = self.isolation.iter().flat_map(|isolation| isolation.culprits.values());
        culprits.map(|culprit| (&culprit.resource, &culprit.message))
    }

    /// Tries those culprits again that need this cluster: without it, a client may have rejected them.
    pub fn retry_those_that_need(&mut self, cluster: &str) -> bool {
        let culprits = self.isolation.iter().flat_map(|isolation| isolation.culprits.values());
        let need = culprits.filter(|culprit| culprit.resource.references().names_cluster(cluster));
        let names: Vec<Arc<str>> = need.map(|culprit| culprit.resource.name().clone()).collect();
        names.iter().for_each(|name| self.touch(name, Need::Asked));
        !names.is_empty()
    }

    /// Why the client rejected `name`, if it is a culprit.
    pub(super) fn reason(&self, name: &str) -> Option<&Arc<str>> {
        Some(&self.isolation.as_ref()?.culprits.get(name)?.message)
    }

    /// Whether `name` waits for its trial.
    pub fn is_pending(&self, name: &str) -> bool {
        self.isolation.as_ref().is_some_and(|isolation| isolation.is_pending(name))
    }

    /// Names that wait for a trial, and culprits, of which the client has not accepted any version.
    pub fn never_accepted(&self) -> impl Iterator<Item = &Arc<str>> {
        let isolated = self.isolation.iter().flat_map(|isolation| {
            isolation.trials.iter().flat_map(|trial| &trial.names).chain(isolation.culprits.keys())
        });
        isolated.filter(|name| !self.known(name).accepted.exists())
    }

    /// Whether anything waits for a trial.
    pub fn has_trials(&self) -> bool {
        self.isolation.as_ref().is_some_and(|isolation| !isolation.trials.is_empty())
    }

    /// When the next trial may be sent, if it has to wait for that.
    pub fn trial_due(&self) -> Option<Instant> {
        self.isolation.as_ref().and_then(|isolation| isolation.not_before)
    }

    /// Ends a pause that is over.
    pub fn end_pause(&mut self, now: Instant) {
        if let Some(isolation) = &mut self.isolation {
            isolation.not_before = isolation.not_before.filter(|time| *time > now);
        }
    }

    /// The batches that may be sent next, the first of which there is anything. `alone`: nothing is under way.
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

    /// What is known of `resource`, which is to be sent in `batch`.
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

    /// The names of `batch`; `None`: all that do not wait for a trial.
    pub fn names_in(&self, batch: Batch) -> Option<BTreeSet<Arc<str>>> {
        let Batch::Trial(at) = batch else { return None };
        let trial = self.isolation.as_ref()?.trials.get(at)?;
        let mut names = trial.names.clone();
        if self.kind == ResourceType::VIRTUAL_HOST && !trial.torn {
            // Of hosts that exchange domains Envoy takes all or none.
            let dirty: BTreeSet<Arc<str>> = self.dirty.keys().cloned().collect();
            let units = self.units(&dirty);
            names.extend(units.into_iter().filter(|unit| unit.iter().any(|name| trial.names.contains(name))).flatten());
        }
        Some(names)
    }

    /// Names that stay as they are although the newest snapshot has something else: of a full state, what a culprit is
    /// to be.
    pub fn left_out(&self, names: Option<&BTreeSet<Arc<str>>>) -> BTreeSet<Arc<str>> {
        let Some(isolation) = &self.isolation else { return BTreeSet::new() };
        let is_tried = |name: &Arc<str>| names.is_some_and(|names| names.contains(name));
        let culprits = isolation.culprits.iter().filter(|(name, culprit)| {
            let current = self.base.get(self.kind, name);
            current.is_some_and(|current| current.version() == culprit.resource.version())
        });
        culprits.map(|(name, _)| name).filter(|name| !is_tried(name)).cloned().collect()
    }

    /// A response went out as `batch`, if anything of it was `sent`, and `done` need not be sent again. Returns what it
    /// was sent for.
    pub fn tried(&mut self, batch: Batch, done: &[Arc<str>], sent: bool) -> Attempt {
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

    /// The newest snapshot has something else of `name`.
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
            // It need not be told once more what the client was never asked to have.
            if let Some(need) = self.dirty.get_mut(name) {
                *need = Need::Changed;
            }
        }
        if recovered {
            isolation.recover(name);
        }
    }

    /// Forgets what is not asked for any more.
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

    /// The client has accepted `state` of `name`.
    pub(super) fn cleared(&mut self, name: &Arc<str>, state: &ClientState) {
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

    /// A trial was accepted.
    pub(super) fn attempt_accepted(&mut self, attempt: Attempt) {
        let Some(isolation) = &mut self.isolation else { return };
        if !attempt.is_trial {
            return;
        }
        isolation.rejections = 0;
        if attempt.hinted {
            isolation.hints = Hints::Distrusted;
        }
    }

    /// Of a full state, concludes from what is accepted by now who is at fault, without another trial.
    pub(super) fn conclude(&mut self) {
        while let Some((trial, rejection)) = self.take_proven() {
            let Some(isolation) = &mut self.isolation else { return };
            if trial.hinted {
                isolation.hints = Hints::Trusted;
            }
            let is_of_trial = |resource: &Arc<Resource>| trial.names.contains(resource.name());
            let suspects: Vec<Arc<Resource>> = rejection.suspects.into_iter().filter(is_of_trial).collect();
            match &suspects[..] {
                [culprit] => {
                    self.dirty.remove(culprit.name());
                    self.convict(culprit, &rejection.message);
                }
                _ => self.split(trial.names, &rejection.message, trial.torn, Some(suspects)),
            }
        }
    }

    /// Takes out a trial of which the client has accepted all that was rejected beside it: to send what is left would be
    /// to send the rejected response once more.
    fn take_proven(&mut self) -> Option<(Trial, RejectedState)> {
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
            self.take_first_apart();
        }
        let full = response.full.is_some();
        let is_news = |resource: &Arc<Resource>| self.known(resource.name()).accepted != *resource;
        let (mut news, mut repeated): (Vec<_>, Vec<_>) = response.held().into_iter().partition(is_news);
        if news.is_empty() && !full {
            std::mem::swap(&mut news, &mut repeated);
        }
        self.reword(news.iter());
        match full {
            _ if news.is_empty() => {}
            true => self.remove_again(&response),
            false => self.resend_others(&response, &repeated),
        }
        let alone = news.len() == 1;
        let open = |resource: &&Arc<Resource>| {
            let name = resource.name();
            let answered = !self.in_flight.iter().any(|response| response.is_about(name));
            answered && self.covers(name) && !self.is_pending(name) && !self.is_convicted(resource)
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
            [culprit] if alone => self.convict(culprit, message),
            [] => {}
            suspects => {
                let names: BTreeSet<Arc<str>> = suspects.iter().map(|resource| resource.name().clone()).collect();
                self.split(names, message, response.attempt.torn, full.then(|| news.clone()));
            }
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

    /// Whether this version is known to be at fault, and not tried again.
    fn is_convicted(&self, resource: &Resource) -> bool {
        let culprit = self.isolation.as_ref().and_then(|isolation| isolation.culprits.get(resource.name()));
        culprit.is_some_and(|own| own.resource.version() == resource.version() && !own.retried)
    }

    /// Who rejects a full state has perhaps still what is not in it.
    fn remove_again(&mut self, response: &InFlight) {
        for (name, _) in response.content.iter().filter(|(_, state)| !state.exists()) {
            let known = self.known(name);
            if !known.sent.exists() && known.accepted.exists() {
                self.apart(name).sent = known.accepted;
                self.touch(name, Need::Changed);
            }
        }
    }

    /// Who rejects a response does perhaps not remove either what it removes, nor take what it had before.
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

    fn convict(&mut self, resource: &Arc<Resource>, message: &str) {
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
            let scope = RejectionScope::Resource { last_good };
            isolation.events.push(IsolationEvent::Rejected(Rejection { kind, scope, suspects, message }));
        }
    }
}

impl Isolation {
    /// Adds a trial.
    fn add(&mut self, names: BTreeSet<Arc<str>>, hinted: bool, torn: bool, rejection: Option<RejectedState>) {
        self.trials.push_back(Trial { names, hinted, torn, rejection });
    }

    /// A search among `suspects` begins.
    fn begin_search(&mut self, suspects: usize) {
        let halvings = suspects.max(1).next_power_of_two().trailing_zeros();
        (self.rejections, self.expected, self.hints) = (0, 2 * halvings + 2, Hints::Untried);
    }
}

/// What a response was sent for.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::server) struct Attempt {
    /// Whether it is a trial.
    pub is_trial: bool,
    hinted: bool,
    torn: bool,
}
