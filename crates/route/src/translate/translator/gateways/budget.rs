//! The incremental budget of memory for policies, filters, and copies of routes. A changed route or policy changes the memory of
//! routes. These changes affect the hosts of all routes that come within or beyond the limit of their namespace.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Translator;
use super::http_policies::ChangedPolicies;
use crate::model::{Host, ListenerId};
use crate::objects::{Kind, ObjectId, ObjectKey};
use crate::settings::Settings;
use crate::translate::gateway::ROUTES;
use crate::translate::gateway::attach::ListenerOwner;
use crate::translate::gateway::filter_memory::FilterMemory;
use crate::translate::gateway::http_policies::Scope;
use crate::translate::gateway::http_route::Candidate;
use crate::translate::gateway::match_memory;
use crate::translate::gateway::parser::{Attached, Content};
use crate::translate::gateway::policy_memory::{MemoryByOwner, RouteMemory};
use crate::translate::graph::Input;
use crate::translate::problem::{Problem, Reason};
use crate::translate::translator::conflicts::Place;

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
        let routes = moved.iter().filter_map(|id| self.gateways.routes.get(id));
        hosts.extend(routes.flat_map(|route| self.served_places(route)));
    }

    /// Returns the routes that name a Gateway or one of its ListenerSets, attached or not.
    fn routes_of_gateway(&self, key: &ObjectKey) -> impl Iterator<Item = ObjectId> {
        let sets = self.gateways.gateways.get(key).into_iter().flat_map(|gateway| &gateway.sets);
        let sets = sets.map(|set| Input::new(Kind::LISTENER_SET, set.key().clone()));
        let parents = [Input::new(Kind::GATEWAY, key.clone())].into_iter().chain(sets);
        let readers = parents.flat_map(move |parent| self.graph.readers(&parent).cloned().collect::<Vec<_>>());
        readers.filter(|id| ROUTES.contains(&id.kind))
    }

    /// Adds a route to its hosts, or removes it from those where it is left out. Adds the hosts to `hosts`, and the Gateways whose
    /// number of routes changes to `reported`.
    fn place_route(
        &mut self,
        id: &ObjectId,
        hosts: &mut BTreeSet<(ListenerId, Host)>,
        reported: &mut BTreeSet<ObjectKey>,
    ) {
        let route = self.gateways.routes.get(id).cloned();
        let mut left_out = BTreeMap::new();
        if let Some(route) = &route {
            for owner in route.owners() {
                let Some(memory) = self.gateways.budget.left_out(&route.precedence, &owner) else {
                    self.serve_route(route, &owner, hosts, reported);
                    continue;
                };
                self.withdraw_route(route, &owner, hosts, reported);
                let problem = Arc::new(left_out_problem(route, &owner, memory));
                left_out.insert((id.clone(), owner), problem);
            }
        }
        let first = (id.clone(), ListenerOwner { gateway: "".into(), set: None });
        let known = self.gateways.left_out.range(first..).take_while(|((other, _), _)| other == id);
        let known: BTreeMap<_, _> = known.map(|(key, problem)| (key.clone(), problem.clone())).collect();
        for key in known.keys().chain(left_out.keys().filter(|key| !known.contains_key(*key))) {
            let (before, now) = (known.get(key), left_out.get(key));
            match now {
                Some(problem) => drop(self.gateways.left_out.insert(key.clone(), problem.clone())),
                None => drop(self.gateways.left_out.remove(key)),
            }
            let [before, now] = [before, now].map(|problem| problem.cloned());
            self.replace_conflicts(Place::Listeners(key.1.clone()), before.as_slice(), now.as_slice());
        }
    }

    /// Returns the memory that a route can take in an Envoy, which has a copy of each match and its policies for each host. On the
    /// listeners of each owner, the part that is proportional to the size of the route does not count.
    fn memory_of(&self, route: &Attached) -> MemoryByOwner {
        let mut by_owner = BTreeMap::<ListenerOwner, (RouteMemory, Option<u64>)>::new();
        // A route can be attached to thousands of listeners, so its content is measured once for each form.
        let mut measured = BTreeMap::<(*const Content, u64), Measured>::new();
        for attachment in route.attachments.iter().filter(|attachment| attachment.bound.is_some()) {
            let Some(gateway) = self.gateways.gateways.get(&attachment.listener.gateway) else { continue };
            let hosts = attachment.hosts.len() as u64;
            let content = route.content(&gateway.certificate);
            let (memory, first) = by_owner.entry(attachment.listener.owner()).or_default();
            let Some(content) = content.filter(|_| hosts > 0) else { continue };
            let pairs = attachment.pair_memory;
            let form = measured.entry((std::ptr::from_ref(content), pairs));
            let Measured { matches, proportional, rules } = &*form.or_insert_with(|| Measured::new(content, pairs));
            let scope = Scope::new(&self.gateways.http_policies, &self.gateways.budget, &attachment.listener);
            let features = features_on_host(route, rules, &scope);
            memory.copies = memory.copies.saturating_add(matches.saturating_mul(hosts));
            memory.features = memory.features.saturating_add(features.saturating_mul(hosts));
            first.get_or_insert(*proportional);
        }
        let counted = |(owner, (memory, first)): (_, (RouteMemory, Option<u64>))| {
            (owner, RouteMemory { copies: memory.copies.saturating_sub(first.unwrap_or(0)), ..memory })
        };
        by_owner.into_iter().map(counted).collect()
    }
}

/// The matches of a rule, which have the same policies and filters.
struct Rule<'a> {
    name: Option<&'a Arc<str>>,
    /// The number of Envoy's routes, each with the policies of the rule.
    routes: u64,
    /// The memory of the filters of all matches.
    filters: u64,
}

impl<'a> Rule<'a> {
    /// Returns the rule with these matches.
    fn new(matches: &'a [Candidate]) -> Option<Self> {
        let (first, number) = (matches.first()?, matches.len() as u64);
        let routes: u64 = first.routes().map(|route| u64::from(route.copies())).sum();
        let filters = first.routes().map(|route| FilterMemory::of(route).counted()).fold(0, u64::saturating_add);
        let [routes, filters] = [routes, filters].map(|one| one.saturating_mul(number));
        Some(Self { name: first.name.as_ref(), routes, filters })
    }
}

/// The memory of the content of a route on one host.
struct Measured<'a> {
    matches: u64,
    /// The part of `matches` that is proportional to the size of the route.
    proportional: u64,
    rules: Vec<Rule<'a>>,
}

impl<'a> Measured<'a> {
    fn new(content: &'a Content, pair_memory: u64) -> Self {
        let rules = match content {
            // The matches of a rule are adjacent.
            Content::Http(candidates) => candidates.chunk_by(|a, b| a.rule == b.rule).filter_map(Rule::new).collect(),
            Content::Stream { .. } => Vec::new(),
        };
        let matches = match_memory::of_content(content, pair_memory);
        Self { matches, proportional: match_memory::proportional_to_size(content, pair_memory), rules }
    }
}

/// Returns the memory that the policies and filters of a route can take on one host of a listener, which has a copy for each match.
fn features_on_host(route: &Attached, rules: &[Rule], scope: &Scope<'_>) -> u64 {
    let memory = rules.iter().map(|rule| {
        let policies = scope.features(&route.precedence, rule.name).map_or(0, |features| features.memory());
        policies.saturating_mul(rule.routes).saturating_add(rule.filters)
    });
    memory.fold(0, u64::saturating_add)
}

/// Returns the problem of a route whose matches take too much memory on the listeners of `owner`.
fn left_out_problem(route: &Attached, owner: &ListenerOwner, memory: u64) -> Problem {
    let attachments = route.attachments.iter().filter(|attachment| attachment.listener.is_of(owner));
    let message = format!(
        "the copies of this route on {} hosts of {owner} can take {} MiB of memory in each Envoy, more than older routes of the \
         namespace leave there of the limit gateway.policies.maxMemoryPerNamespace",
        attachments.map(|attachment| attachment.hosts.len()).sum::<usize>(),
        memory.div_ceil(1 << 20),
    );
    let (object, consequence) = (route.origin.clone(), "route left out".to_owned());
    Problem { object, field: "spec".to_owned(), reason: Reason::RouteTooExpensive, message, consequence }
}
