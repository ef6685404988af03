//! The batches of changes and trials that may be sent next, and the versions that a rejection holds back.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use crate::protocol::subscription::{Need, Subscription};
use crate::snapshot::{Resource, ResourceType};

/// The purpose of a response.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::protocol) struct Attempt {
    /// Whether the response is a trial.
    pub is_trial: bool,
    pub(super) hinted: bool,
    pub(super) torn: bool,
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

impl Subscription {
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
}
