//! Trials without a rejection by this client: culprits with new content, and resources that other clients of the store have
//! rejected.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::protocol::subscription::{Need, Subscription};
use crate::snapshot::Resource;

impl Subscription {
    /// Schedules trials for resources that are likely to be rejected. These are culprits with new content, culprits
    /// that the client requests again, and resources that other clients of this store have rejected.
    pub fn schedule_trials(&mut self) {
        if self.isolation.is_none() && self.base.suspects().is_empty() {
            return;
        }
        if let Some(isolation) = &mut self.isolation {
            let names = isolation.trials.iter().flat_map(|trial| &trial.names);
            let gone: Vec<Arc<str>> = names.filter(|name| !self.dirty.contains_key(*name)).cloned().collect();
            for name in gone {
                isolation.clear(&name);
            }
        }
        let suspects = self.suspects();
        let mut admitted = BTreeSet::new();
        for (name, need) in &self.dirty {
            let Some(resource) = self.base.get(self.kind, name) else { continue };
            if self.is_pending(name) || !self.covers(name) {
                continue;
            }
            let admit = match self.isolation.as_ref().and_then(|isolation| isolation.culprits.get(name)) {
                Some(culprit) if culprit.resource.version() == resource.version() => {
                    *need == Need::Asked || (*need == Need::Again && self.known(name).accepted.resource().is_none())
                }
                Some(_) => self.known(name).accepted != *resource,
                None => {
                    let is_it = |own: &Arc<Resource>| own.name() == name && own.version() == resource.version();
                    self.known(name).accepted != *resource && suspects.iter().any(is_it)
                }
            };
            if admit && !self.in_flight.iter().any(|response| response.is_about(name)) {
                admitted.insert(name.clone());
            }
        }
        if admitted.is_empty() {
            return;
        }
        let isolation = self.isolation.get_or_insert_default();
        for name in &admitted {
            if let Some(culprit) = isolation.culprits.get_mut(name) {
                let newest = self.base.get(self.kind, name);
                culprit.retried = newest.is_some_and(|newest| newest.version() == culprit.resource.version());
            }
        }
        if isolation.trials.is_empty() {
            isolation.begin_search(admitted.len());
        }
        isolation.add(admitted, false, false, None);
    }

    /// Returns whether the first request may get a shared response, because no other client has rejected its resources.
    pub fn is_above_suspicion(&self) -> bool {
        self.base.suspects().is_empty()
            || !self.suspects().iter().any(|suspect| {
                let current = self.base.get(self.kind, suspect.name());
                self.covers(suspect.name()) && current.is_some_and(|own| own.version() == suspect.version())
            })
    }

    /// Returns the resources that clients of this store have rejected and that can be delayed. A client with unknown
    /// resources would treat a delay as a removal, unless a valid version is sent meanwhile.
    fn suspects(&self) -> Vec<Arc<Resource>> {
        let suspects = self.base.suspects().of_kind(self.kind).into_iter();
        let suspects = suspects.filter(|suspect| !self.came_back || suspect.last_good.is_some());
        suspects.map(|suspect| suspect.resource).collect()
    }
}
