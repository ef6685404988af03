//! The Gateways with dedicated fleets, and the limits of their number.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::objects::{Kind, ObjectId, ObjectKey};
use crate::settings::Settings;
use crate::translate::translator::state::Translator;
use crate::translate::translator::state::dedicated::Dedicated;

impl Translator {
    /// Returns the Gateways that the shared Envoys do not serve.
    pub fn dedicated(&self) -> &Arc<Dedicated> {
        &self.gateways.dedicated
    }

    /// Assigns fleets again if one of the `replaced` units is a Gateway with a fleet. Returns the Gateways that gained or lost
    /// their fleet.
    pub(super) fn update_fleets(&mut self, replaced: &BTreeSet<ObjectId>, settings: &Settings) -> BTreeSet<ObjectKey> {
        let gateways = &self.gateways.gateways;
        let asks = |key: &ObjectKey| gateways.get(key).is_some_and(|gateway| gateway.fleet.is_some());
        let mut changed = replaced.iter().filter(|id| id.kind == Kind::GATEWAY).map(|id| &id.key);
        if !changed.any(|key| asks(key) || self.gateways.dedicated.knows(key)) {
            return BTreeSet::new();
        }
        let now = Dedicated::new(gateways.values(), &settings.gateway.fleets);
        let before = std::mem::replace(&mut self.gateways.dedicated, Arc::new(now));
        let now = &self.gateways.dedicated;
        let moved = before.refused.keys().chain(now.refused.keys());
        moved.filter(|key| before.refused.get(*key) != now.refused.get(*key)).cloned().collect()
    }

    /// Returns the Gateways whose fleets serve an object. `None`: the shared Envoys serve it.
    pub fn fleets_of(&self, id: &ObjectId) -> BTreeSet<Option<ObjectKey>> {
        let gateways = &self.gateways;
        let own = |key: &ObjectKey| {
            let has_fleet = gateways.gateways.get(key).is_some_and(|gateway| gateway.fleet.is_some());
            has_fleet.then(|| key.clone())
        };
        // Without dedicated fleets, nothing is looked up.
        if gateways.dedicated.fleets.is_empty() && gateways.dedicated.refused.is_empty() {
            return [None].into();
        }
        let of_route = |id: &ObjectId| -> BTreeSet<Option<ObjectKey>> {
            let attachments = self.sources.get(id).into_iter().flat_map(|source| source.attached.attachments.iter());
            attachments.map(|attachment| own(&attachment.listener.gateway)).collect()
        };
        let of_target = |id: &ObjectId| -> BTreeSet<Option<ObjectKey>> {
            if id.kind == Kind::GATEWAY { [own(&id.key)].into() } else { of_route(id) }
        };
        let fleets = if id.kind == Kind::LISTENER_SET {
            gateways.sets.get(&id.key).map(|(gateway, _)| own(gateway)).into_iter().collect()
        } else if id.kind == Kind::BACKEND_TLS_POLICY {
            gateways.policy_reports.get(&id.key).into_iter().flat_map(|keys| keys.iter().map(own)).collect()
        } else if id.kind == Kind::HTTP_POLICY {
            let policy = gateways.http_policies.get(&id.key);
            policy.into_iter().flat_map(|policy| policy.objects()).flat_map(of_target).collect()
        } else if let Some(policy) = self.backend_policies.get(id) {
            let services = policy.inputs.iter();
            services.flat_map(|service| self.graph.readers(service)).flat_map(of_target).collect()
        } else {
            of_target(id)
        };
        // The status of an object that no Envoy serves waits for the shared Envoys.
        if fleets.is_empty() { [None].into() } else { fleets }
    }
}
