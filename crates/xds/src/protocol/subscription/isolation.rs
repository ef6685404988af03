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

mod answers;
mod culprits;
mod division;
mod sending;
mod suspicion;
mod unknown;
mod wording;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use super::Subscription;
use crate::protocol::rejection::Rejection;
use crate::snapshot::{Resource, Version};
pub(in crate::protocol) use sending::{Attempt, Batch, Verdict};

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
}
