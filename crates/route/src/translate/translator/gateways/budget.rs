//! The incremental budget of memory for policies and filters of routes. A changed route or policy changes the memory of routes.
//! These changes affect the hosts of all routes that come within or beyond the limit of their namespace.

use std::collections::BTreeSet;

use super::Translator;
use super::http_policies::ChangedPolicies;
use super::routes::places;
use crate::model::{Host, ListenerId, Route};
use crate::objects::{Kind, ObjectId};
use crate::settings::Settings;
use crate::translate::gateway::ROUTES;
use crate::translate::gateway::filter_memory::FilterMemory;
use crate::translate::gateway::http_policies::Scope;
use crate::translate::gateway::parser::Attached;

impl Translator {
    /// Updates the memory of the `replaced` routes, and of the routes with changed policies. Adds the hosts of routes
    /// that come within or beyond the limit of their namespace to `hosts`.
    pub(super) fn update_budget(
        &mut self,
        changed: &ChangedPolicies,
        replaced: &BTreeSet<ObjectId>,
        settings: &Settings,
        hosts: &mut BTreeSet<(ListenerId, Host)>,
    ) {
        let mut routes: BTreeSet<ObjectId> = BTreeSet::new();
        for object in replaced.iter().chain(&changed.targets) {
            if ROUTES.contains(&object.kind) {
                routes.insert(object.clone());
            }
        }
        for object in changed.targets.iter().filter(|object| object.kind == Kind::GATEWAY) {
            let listeners = self.gateways.owners.iter().filter(|(_, gateway)| **gateway == object.key);
            let hosts = listeners.flat_map(|(id, _)| self.gateways.hosts_on(id));
            routes.extend(hosts.flat_map(|(_, ranks)| ranks.iter().map(|rank| rank.id())));
        }
        let memory = |id: ObjectId| {
            let route = self.gateways.routes.get(&id);
            let memory = route.map_or(0, |route| self.memory_of(route));
            let rank = route.map(|route| route.precedence.clone());
            (id, rank, memory)
        };
        let memory = routes.into_iter().map(memory).collect();
        let moved = self.gateways.budget.update(memory, settings.gateway.policies.max_memory_per_namespace);
        hosts.extend(moved.iter().filter_map(|id| self.gateways.routes.get(id)).flat_map(|route| places(route)));
    }

    /// Returns the memory that the policies and filters of a route can take in an Envoy: each host has a copy for each match.
    fn memory_of(&self, route: &Attached) -> u64 {
        let mut total = 0u64;
        for attachment in route.attachments.iter().filter(|attachment| attachment.bound.is_some()) {
            let Some(gateway) = self.gateways.gateways.get(&attachment.listener.gateway) else { continue };
            let scope = Scope::new(&self.gateways.http_policies, &self.gateways.budget, &attachment.listener);
            let (mut of_host, mut last) = (0u64, None);
            for candidate in route.candidates(&gateway.certificate) {
                // The matches of a rule are adjacent, and have the same policies and filters.
                let memory = match last {
                    Some((rule, memory)) if rule == candidate.rule => memory,
                    _ => {
                        let features = scope.features(&route.precedence, candidate.name.as_ref());
                        let policies = features.map_or(0, |features| features.memory());
                        let of_route = |route: &Route| policies.saturating_add(FilterMemory::of(route).counted());
                        candidate.routes().map(|route| of_route(route)).fold(0, u64::saturating_add)
                    }
                };
                last = Some((candidate.rule, memory));
                of_host = of_host.saturating_add(memory);
            }
            total = total.saturating_add(of_host.saturating_mul(attachment.hosts.len() as u64));
        }
        total
    }
}
