//! All HTTPPolicies, by target.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::attach::{ListenerName, ListenerOwner};
use super::budget::Budget;
use super::http_policy::{Features, Policy, Target};
use crate::model::Host;
use crate::objects::{Kind, ObjectId, ObjectKey, Precedence};
use crate::translate::few::Few;

/// All HTTPPolicies.
#[derive(Debug, Default)]
pub struct HttpPolicies {
    by_key: BTreeMap<ObjectKey, Arc<Policy>>,
    /// The policies for each target. The first one applies.
    by_target: BTreeMap<Target, Few<Precedence>>,
}

impl HttpPolicies {
    /// Returns a policy.
    pub fn get(&self, key: &ObjectKey) -> Option<&Arc<Policy>> {
        self.by_key.get(key)
    }

    /// Returns whether no policy has a target.
    pub fn is_empty(&self) -> bool {
        self.by_target.is_empty()
    }

    /// Returns all policies.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Policy>> {
        self.by_key.values()
    }

    /// Returns the policy that applies to exactly this target.
    pub fn at(&self, target: &Target) -> Option<&Policy> {
        let rank = self.by_target.get(target)?.iter().next()?;
        self.by_key.get(&rank.key).map(|policy| &**policy)
    }

    /// Returns the keys of the policies that target an object or one of its parts.
    pub fn targeting<'a>(&'a self, object: &'a ObjectId) -> impl Iterator<Item = &'a ObjectKey> {
        let first = Target { object: object.clone(), section: None };
        let targets = self.by_target.range(first..).take_while(move |(target, _)| target.object == *object);
        targets.flat_map(|(_, ranks)| ranks.iter().map(|rank| &rank.key))
    }

    fn of(&self, object: &ObjectId, section: Option<&Arc<str>>) -> Option<Features> {
        let at = |section: Option<&Arc<str>>| {
            self.at(&Target { object: object.clone(), section: section.cloned() }).map(|policy| &policy.features)
        };
        over(section.and_then(|name| at(Some(name))), at(None))
    }

    /// Replaces a policy. Returns the objects that it targeted or targets.
    pub fn replace(&mut self, key: &ObjectKey, now: Option<Arc<Policy>>) -> BTreeSet<ObjectId> {
        let before = match &now {
            Some(policy) => self.by_key.insert(key.clone(), policy.clone()),
            None => self.by_key.remove(key),
        };
        let targets = |policy: &'_ Arc<Policy>| policy.targets.iter().flatten().cloned().collect::<Vec<Target>>();
        let (old, new) = (before.as_ref().map(targets), now.as_ref().map(targets));
        for (policy, target) in
            before.iter().flat_map(|policy| old.iter().flatten().map(move |target| (policy, target)))
        {
            if let Some(ranks) = self.by_target.get_mut(target) {
                ranks.remove(&policy.precedence);
                if ranks.is_empty() {
                    self.by_target.remove(target);
                }
            }
        }
        for (policy, target) in now.iter().flat_map(|policy| new.iter().flatten().map(move |target| (policy, target))) {
            self.by_target.entry(target.clone()).or_default().insert(policy.precedence.clone());
        }
        old.into_iter().chain(new).flatten().map(|target| target.object).collect()
    }
}

/// The policies of the routes of one listener.
#[derive(Debug)]
pub struct Scope<'a> {
    policies: &'a HttpPolicies,
    /// The routes beyond the limit of their namespace.
    budget: &'a Budget,
    owner: ListenerOwner,
    /// The features of the listener. Features that the listener does not set come from its Gateway.
    of_listener: Option<Features>,
}

impl<'a> Scope<'a> {
    /// Returns the policies of the routes of `listener`. A listener of a ListenerSet inherits the policies of its
    /// Gateway.
    pub fn new(policies: &'a HttpPolicies, budget: &'a Budget, listener: &ListenerName) -> Self {
        let section = listener.set.is_none().then_some(&listener.name);
        let of_listener = match policies.by_target.is_empty() {
            true => None,
            false => policies.of(&Kind::GATEWAY.id(listener.gateway.clone()), section),
        };
        Self { policies, budget, owner: listener.owner(), of_listener }
    }

    /// Returns whether a route is closed on a host, because of the limit of its namespace.
    pub fn is_closed(&self, route: &Precedence, host: &Host) -> bool {
        self.budget.is_closed(route, &self.owner, host)
    }

    /// Returns whether a route is closed on a host, because another route of its namespace is left out there.
    pub fn is_closed_beside(&self, route: &Precedence, host: &Host) -> bool {
        self.budget.is_closed_beside(route, &self.owner, host)
    }

    /// Returns the features of a rule of a route.
    pub fn features(&self, route: &Precedence, rule: Option<&Arc<str>>) -> Option<Features> {
        if self.policies.by_target.is_empty() {
            return None;
        }
        over(self.policies.of(&route.id(), rule).as_ref(), self.of_listener.as_ref())
    }
}

/// Returns the features of the more specific policy. Features that it does not set come from the more general one.
fn over(specific: Option<&Features>, general: Option<&Features>) -> Option<Features> {
    match (specific, general) {
        (Some(specific), Some(general)) => Some(specific.or(general)),
        (one, other) => one.or(other).cloned(),
    }
}
