//! The incremental budget of the configuration of routes. A changed route or policy changes the size of routes. These changes affect
//! the hosts of all routes that come within or beyond the limit of their namespace.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::envoy::route::Sizes;
use crate::envoy::stream;
use crate::objects::{Kind, ObjectId, ObjectKey};
use crate::parallel;
use crate::settings::Settings;
use crate::translate::charges::{Beyond, Charge, Size, State};
use crate::translate::conflicts::ConflictPlace;
use crate::translate::dialect;
use crate::translate::gateway::attach::ListenerOwner;
use crate::translate::gateway::attached::RouteContent;
use crate::translate::gateway::size::{self, RuleSize};
use crate::translate::graph::Input;
use crate::translate::problem::{Problem, Reason};
use crate::translate::scope::Scope;
use crate::translate::source::Source;
use crate::translate::translator::state::Translator;
use crate::translate::translator::state::changed_policies::ChangedPolicies;
use crate::translate::translator::state::sources::Affected;

impl Translator {
    /// Updates the sizes of the replaced sources, and of the routes with changed policies. Adds the replaced sources, and those that come
    /// within the limit of their namespace, to their hosts on listeners of Gateways, and removes those that are left out.
    pub(super) fn update_budget(&mut self, changed: &ChangedPolicies, settings: &Settings, affected: &mut Affected) {
        let is_attached = |id: &&ObjectId| {
            let source = self.sources.get(id);
            source.is_some_and(|source| !source.attached.accepted.is_empty()) || self.gateways.budget.charges.knows(id)
        };
        let replaced: BTreeSet<ObjectId> = affected.replaced.iter().filter(is_attached).cloned().collect();
        let targeted: Vec<ObjectId> = changed.targets.iter().flat_map(|target| self.targeted(target)).collect();
        let mut due: BTreeSet<ObjectId> = targeted.iter().filter(is_attached).cloned().collect();
        due.extend(replaced.iter().cloned());
        for object in changed.targets.iter().filter(|object| object.kind == Kind::GATEWAY) {
            due.extend(self.routes_of_gateway(&object.key));
        }
        // Most changes concern no listener of a Gateway.
        if due.is_empty() {
            return;
        }
        let measure = Sizes::new(settings);
        let size = |id: &ObjectId| {
            let route = self.sources.get(id);
            route.map(|route| self.charges_of(route, &measure)).unwrap_or_default()
        };
        let due: Vec<ObjectId> = due.into_iter().collect();
        let charges = parallel::map(&due, size);
        due.iter().zip(charges).for_each(|(id, charges)| self.gateways.budget.charges.replace(id, charges));
        let moved = self.gateways.budget.charges.apply(settings.tenants.max_configuration_per_namespace);
        replaced.union(&moved).for_each(|id| self.place_route(id, affected));
    }

    /// Returns the routes that name a Gateway or one of its ListenerSets, attached or not.
    fn routes_of_gateway(&self, key: &ObjectKey) -> impl Iterator<Item = ObjectId> {
        let sets = self.gateways.gateways.get(key).into_iter().flat_map(|gateway| &gateway.sets);
        let sets = sets.map(|set| Input::new(Kind::LISTENER_SET, set.key().clone()));
        let parents = [Input::new(Kind::GATEWAY, key.clone())].into_iter().chain(sets);
        let readers = parents.flat_map(move |parent| self.graph.readers(&parent).cloned().collect::<Vec<_>>());
        readers.filter(|id| dialect::of(self.dialects, id.kind).is_some())
    }

    /// Adds a route to its hosts, open or closed, or closes the other routes of its namespace where it is left out.
    fn place_route(&mut self, id: &ObjectId, affected: &mut Affected) {
        let route = self.sources.get(id).cloned();
        let mut refused = BTreeMap::new();
        if let Some(route) = &route {
            for owner in route.attached.owners() {
                let state = self.gateways.budget.charges.state(id, &owner);
                self.set_state(route, &owner, Some(state), affected);
                if let Some(why) = self.gateways.budget.charges.beyond(id, &owner) {
                    let problem = Arc::new(problem(route, &owner, why));
                    refused.insert((id.clone(), owner), problem);
                }
            }
        }
        let first = (id.clone(), ListenerOwner { gateway: "".into(), set: None });
        let known = self.gateways.refused.range(first..).take_while(|((other, _), _)| other == id);
        let known: BTreeMap<_, _> = known.map(|(key, problem)| (key.clone(), problem.clone())).collect();
        for key in known.keys().chain(refused.keys().filter(|key| !known.contains_key(*key))) {
            let (before, now) = (known.get(key), refused.get(key));
            match now {
                Some(problem) => drop(self.gateways.refused.insert(key.clone(), problem.clone())),
                None => drop(self.gateways.refused.remove(key)),
            }
            let [before, now] = [before, now].map(|problem| problem.cloned());
            self.replace_conflicts(ConflictPlace::Listeners(key.1.clone()), before.as_slice(), now.as_slice());
        }
    }

    /// Returns the size of the configuration of a route on the listeners of each owner: the sum over all hosts and listeners.
    fn charges_of(&self, route: &Source, measure: &Sizes) -> BTreeMap<ListenerOwner, Charge> {
        let mut by_owner = BTreeMap::new();
        // A route can be attached to thousands of listeners, so its rules are measured once for each content, and policies that
        // several rules and listeners have in turn once.
        let mut rules = BTreeMap::<*const RouteContent, Vec<RuleSize>>::new();
        let mut last = None;
        for attachment in &route.attached.attachments {
            let (Some(id), false) = (&attachment.bound, attachment.hosts.is_empty()) else { continue };
            let Some(gateway) = self.gateways.gateways.get(&attachment.listener.gateway) else { continue };
            let Some(content) = route.attached.content(&gateway.certificate) else { continue };
            let size = match content {
                RouteContent::Http(units) => {
                    let scope =
                        Scope::attached(&self.gateways.http_policies, &self.gateways.budget, &attachment.listener);
                    let rules = rules.entry(content).or_insert_with(|| size::of_rules(units, measure));
                    let rule = |rule: &RuleSize| {
                        let features = scope.features(&route.precedence, rule.name);
                        let policies =
                            features.map_or(0, |features| size::of_same_features(features, &mut last, measure));
                        rule.open.saturating_add(policies.saturating_mul(rule.routes))
                    };
                    let open = rules.iter().map(rule).fold(0, u64::saturating_add);
                    Size { open, closed: rules.iter().map(|rule| rule.closed).fold(0, u64::saturating_add) }
                }
                RouteContent::Stream { to, .. } => {
                    Size { open: attachment.pair_size.saturating_add(stream::size_of_chain(id, to)), closed: 0 }
                }
            };
            let charge = || Charge { rank: route.precedence.clone(), size: Size::default() };
            let Charge { size: sum, .. } = by_owner.entry(attachment.listener.owner()).or_insert_with(charge);
            for host in attachment.hosts.iter().map(|host| size::HOST + Sizes::of_host(host)) {
                sum.open = sum.open.saturating_add(size.open).saturating_add(host);
                sum.closed = sum.closed.saturating_add(size.closed).saturating_add(host);
            }
        }
        by_owner
    }
}

/// Returns the problem of a route that is not served on the listeners of `owner`.
fn problem(route: &Source, owner: &ListenerOwner, why: &Beyond) -> Problem {
    let Beyond { state, size, older, limit } = *why;
    let kib = |bytes: u64| bytes.div_ceil(1 << 10);
    let message = format!(
        "the configuration of this route takes {} KiB on {} hosts of {owner}, and older routes of the namespace take {} KiB of the {} KiB \
         that tenants.maxConfigurationPerNamespace leaves for these listeners",
        kib(size),
        route.attached.on(owner).map(|attachment| attachment.hosts.len()).sum::<usize>(),
        kib(older),
        kib(limit),
    );
    let is_http = route.attached.contents.iter().any(|(_, content)| matches!(content, RouteContent::Http(_)));
    let consequence = match state {
        State::LeftOut => "route left out, and the other routes of the namespace for its hosts are closed",
        _ if is_http => "its requests are answered 503",
        _ => "its connections are closed",
    };
    let (object, consequence) = (route.origin.clone(), consequence.to_owned());
    Problem {
        object,
        field: "spec".to_owned(),
        reason: Reason::RouteTooExpensive,
        message: message.into(),
        consequence,
    }
}
