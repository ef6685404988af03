//! The incremental budget of memory for policies, filters, and copies of routes. A changed route or policy changes the memory of
//! routes. These changes affect the hosts of all routes that come within or beyond the limit of their namespace.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Translator;
use super::http_policies::ChangedPolicies;
use super::routes::places;
use crate::model::{Host, ListenerId, Route};
use crate::objects::{Kind, ObjectId, ObjectKey};
use crate::settings::Settings;
use crate::translate::gateway::ROUTES;
use crate::translate::gateway::client_certificates::ClientCertificate;
use crate::translate::gateway::filter_memory::FilterMemory;
use crate::translate::gateway::http_policies::Scope;
use crate::translate::gateway::match_memory;
use crate::translate::gateway::parser::Attached;
use crate::translate::gateway::policy_memory::RouteMemory;
use crate::translate::graph::Input;
use crate::translate::problem::{Problem, Reason};

impl Translator {
    /// Updates the memory of the `replaced` routes, and of the routes with changed policies. Adds the replaced routes, and the
    /// routes that come within the limit of their namespace, to their hosts, and removes routes that are left out. Adds the
    /// affected hosts to `hosts`, and the Gateways whose number of routes changes to `reported`.
    pub(super) fn update_budget(
        &mut self,
        changed: &ChangedPolicies,
        replaced: &BTreeSet<ObjectId>,
        settings: &Settings,
        hosts: &mut BTreeSet<(ListenerId, Host)>,
        reported: &mut BTreeSet<ObjectKey>,
    ) {
        let mut routes: BTreeSet<ObjectId> = BTreeSet::new();
        for object in replaced.iter().chain(&changed.targets) {
            if ROUTES.contains(&object.kind) {
                routes.insert(object.clone());
            }
        }
        for object in changed.targets.iter().filter(|object| object.kind == Kind::GATEWAY) {
            routes.extend(self.routes_of_gateway(&object.key));
        }
        let memory = |id: &ObjectId| {
            let route = self.gateways.routes.get(id);
            let memory = route.map(|route| self.memory_of(route)).unwrap_or_default();
            let rank = route.map(|route| route.precedence.clone());
            (id.clone(), rank, memory)
        };
        let memory = routes.iter().map(memory).collect();
        let limit = settings.gateway.policies.max_memory_per_namespace;
        let moved = self.gateways.budget.update(memory, limit);
        let unmoved = replaced.iter().filter(|id| ROUTES.contains(&id.kind) && !moved.contains(*id));
        unmoved.chain(&moved).for_each(|id| self.place_route(id, hosts, reported));
        // The policies and filters of these routes can have come within or beyond the limit while the routes stay on their hosts.
        let served = moved.iter().filter_map(|id| self.gateways.routes.get(id));
        let served = served.filter(|route| self.gateways.budget.left_out(&route.precedence).is_none());
        hosts.extend(served.flat_map(|route| places(route)));
    }

    /// Returns the routes that name a Gateway or one of its ListenerSets, attached or not.
    fn routes_of_gateway(&self, key: &ObjectKey) -> impl Iterator<Item = ObjectId> {
        let sets = self.gateways.gateways.get(key).into_iter().flat_map(|gateway| &gateway.sets);
        let sets = sets.map(|set| Input::new(Kind::LISTENER_SET, set.key().clone()));
        let parents = [Input::new(Kind::GATEWAY, key.clone())].into_iter().chain(sets);
        let readers = parents.flat_map(move |parent| self.graph.readers(&parent).cloned().collect::<Vec<_>>());
        readers.filter(|id| ROUTES.contains(&id.kind))
    }

    /// Adds a route to its hosts, or removes it from them if it is left out. Adds the hosts to `hosts`, and the Gateways whose
    /// number of routes changes to `reported`.
    fn place_route(
        &mut self,
        id: &ObjectId,
        hosts: &mut BTreeSet<(ListenerId, Host)>,
        reported: &mut BTreeSet<ObjectKey>,
    ) {
        let route = self.gateways.routes.get(id).cloned();
        let left_out = route.as_ref().and_then(|route| self.gateways.budget.left_out(&route.precedence));
        match (&route, left_out) {
            (Some(route), None) => self.serve_route(route, hosts, reported),
            (Some(route), Some(_)) => self.withdraw_route(route, hosts, reported),
            (None, _) => {}
        }
        let now = route.zip(left_out).map(|(route, memory)| Arc::new(left_out_problem(&route, memory)));
        let before = match &now {
            Some(problem) => self.gateways.left_out.insert(id.clone(), problem.clone()),
            None => self.gateways.left_out.remove(id),
        };
        self.replace_conflicts(None, before.as_slice(), now.as_slice());
    }

    /// Returns the memory that a route can take in an Envoy, which has a copy of each match and its policies for each host. What is
    /// proportional to the size of the route does not count.
    fn memory_of(&self, route: &Attached) -> RouteMemory {
        let mut memory = RouteMemory::default();
        let mut first = None;
        for attachment in route.attachments.iter().filter(|attachment| attachment.bound.is_some()) {
            let Some(gateway) = self.gateways.gateways.get(&attachment.listener.gateway) else { continue };
            let hosts = attachment.hosts.len() as u64;
            let content = route.content(&gateway.certificate);
            let matches = content.map_or(0, match_memory::of_content);
            let scope = Scope::new(&self.gateways.http_policies, &self.gateways.budget, &attachment.listener);
            let features = features_on_host(route, &gateway.certificate, &scope);
            memory.copies = memory.copies.saturating_add(matches.saturating_mul(hosts));
            memory.features = memory.features.saturating_add(features.saturating_mul(hosts));
            first = first.or_else(|| content.filter(|_| hosts > 0).map(match_memory::proportional_to_size));
        }
        memory.copies = memory.copies.saturating_sub(first.unwrap_or(0));
        memory
    }
}

/// Returns the memory that the policies and filters of a route can take on one host of a listener, which has a copy for each match.
fn features_on_host(route: &Attached, certificate: &ClientCertificate, scope: &Scope<'_>) -> u64 {
    let (mut total, mut last) = (0u64, None);
    for candidate in route.candidates(certificate) {
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
        total = total.saturating_add(memory);
    }
    total
}

/// Returns the problem of a route whose matches take too much memory.
fn left_out_problem(route: &Attached, memory: u64) -> Problem {
    let message = format!(
        "the copies of this route on {} hosts of listeners can take {} MiB of memory in each Envoy, more than older routes of the \
         namespace leave of the limit gateway.policies.maxMemoryPerNamespace",
        route.attachments.iter().map(|attachment| attachment.hosts.len()).sum::<usize>(),
        memory.div_ceil(1 << 20),
    );
    let (object, consequence) = (route.origin.clone(), "route left out".to_owned());
    Problem { object, field: "spec".to_owned(), reason: Reason::RouteTooExpensive, message, consequence }
}
