//! The culprits: their proof without another trial, and their end.

use std::sync::Arc;

use super::{Culprit, Hints, IsolationEvent, RejectedState, Trial};
use crate::protocol::rejection::{Rejection, RejectionScope};
use crate::protocol::subscription::{ClientState, Need, Subscription};
use crate::snapshot::Resource;

impl Subscription {
    /// Schedules new trials for the culprits that reference this cluster, because its absence may have been the cause.
    pub fn retry_references_to(&mut self, cluster: &str) -> bool {
        let culprits = self.isolation.iter().flat_map(|isolation| isolation.culprits.values());
        let need = culprits.filter(|culprit| culprit.resource.references().names_cluster(cluster));
        let names: Vec<Arc<str>> = need.map(|culprit| culprit.resource.name().clone()).collect();
        names.iter().for_each(|name| self.touch(name, Need::Asked));
        !names.is_empty()
    }

    /// Removes the rejection of `name`, because the newest snapshot has another version.
    pub(in crate::protocol::subscription) fn reopen(&mut self, name: &str) {
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
    pub(in crate::protocol::subscription) fn forget_isolated(&mut self) {
        let Some(isolation) = &self.isolation else { return };
        let names = isolation.trials.iter().flat_map(|trial| &trial.names).chain(isolation.culprits.keys());
        let gone: Vec<Arc<str>> = names.filter(|name| !self.covers(name)).cloned().collect();
        let Some(isolation) = &mut self.isolation else { return };
        for name in gone {
            isolation.clear(&name);
            isolation.recover(&name);
        }
    }

    /// Finds culprits of a full state that follow from the accepted resources, without another trial.
    pub(in crate::protocol::subscription) fn find_culprits(&mut self) {
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

    /// Returns whether this version is a culprit without another trial.
    pub(super) fn is_culprit(&self, resource: &Resource) -> bool {
        let culprit = self.isolation.as_ref().and_then(|isolation| isolation.culprits.get(resource.name()));
        culprit.is_some_and(|own| own.resource.version() == resource.version() && !own.retried)
    }

    /// Adds a culprit, and reports it to the other streams as a suspect.
    pub(super) fn add_culprit(&mut self, resource: &Arc<Resource>, message: &str) {
        let accepted = self.known(resource.name()).accepted;
        let last_good = accepted.resource().filter(|good| good.version() != resource.version());
        self.base.add_suspect(resource, last_good);
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
