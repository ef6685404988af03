//! Heartbeats for resources with a TTL, which a client drops unless the TTL is renewed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use super::State;
use crate::protocol::message::{Output, Resources, Response};
use crate::protocol::subscription::InFlight;
use crate::snapshot::{Resource, ResourceType};

/// The time at which the TTL of each sent resource must be renewed. Empty if no sent resource has a TTL.
#[derive(Debug, Default)]
pub(super) struct Renewals(BTreeMap<(ResourceType, Arc<str>), Instant>);

impl Renewals {
    /// Schedules the renewals of the resources in `response`.
    pub fn schedule(&mut self, kind: ResourceType, response: &InFlight) {
        for (name, state) in &response.content {
            let ttl = state.resource().is_some_and(|resource| self.schedule_one(kind, resource, response.sent_at));
            if !ttl && !self.0.is_empty() {
                self.0.remove(&(kind, name.clone()));
            }
        }
    }

    /// Schedules the renewal of `resource`, sent at `now`. Returns whether it has a TTL.
    fn schedule_one(&mut self, kind: ResourceType, resource: &Resource, now: Instant) -> bool {
        let Some(ttl) = resource.lease().ttl else { return false };
        // Renewed after half of the TTL, so that a delay does no harm.
        self.0.insert((kind, resource.name().clone()), now + ttl / 2);
        true
    }

    /// Returns the time of the next renewal.
    pub fn next(&self) -> Option<Instant> {
        self.0.values().min().copied()
    }

    /// Removes and returns the names that are due, by type.
    fn remove_due(&mut self, now: Instant) -> BTreeMap<ResourceType, Vec<Arc<str>>> {
        let mut due: BTreeMap<ResourceType, Vec<Arc<str>>> = BTreeMap::new();
        self.0.retain(|(kind, name), time| {
            let is_due = *time <= now;
            if is_due {
                due.entry(*kind).or_default().push(name.clone());
            }
            !is_due
        });
        due
    }
}

impl State {
    /// Returns heartbeats for the resources whose TTL must be renewed now. Names that the client no longer subscribes to or
    /// no longer has get none.
    pub(super) fn renew(&mut self, now: Instant) -> Vec<Output> {
        let mut outputs = Vec::new();
        for (kind, names) in self.renewals.remove_due(now) {
            let Some(subscription) = self.types.get_mut(&kind) else { continue };
            let held = names.iter().filter_map(|name| subscription.state_at_client(name).resource().cloned());
            let heartbeats: Vec<Arc<Resource>> =
                held.filter(|resource| self.renewals.schedule_one(kind, resource, now)).collect();
            if heartbeats.is_empty() {
                continue;
            }
            self.nonces += 1;
            let (nonce, version) = (self.nonces.to_string(), subscription.sent_version.clone());
            let in_flight = InFlight::new(nonce.clone(), now, Vec::new(), None);
            let owed = subscription.answer_owed;
            subscription.sent(&version, in_flight);
            subscription.answer_owed = owed;
            outputs.push(Output::Send(Response {
                type_url: subscription.type_url.clone(),
                nonce,
                version,
                resources: Resources::default(),
                heartbeats,
                leases: true,
                removed: Vec::new(),
                missing: Vec::new(),
            }));
        }
        outputs
    }
}
