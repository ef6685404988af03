//! All BackendTLSPolicies by target, and the Gateways whose routes use each target.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use imbl::OrdMap;

use super::policy::{ParsedBackendTlsPolicy, PortNameTarget};
use crate::few::Few;
use crate::objects::{ObjectKey, Precedence};
use crate::translate::policy_targets::AffectedServices;

/// For each policy, the served Gateways whose routes use a target of the policy, sorted. Policies without such Gateways
/// are left out. A clone shares everything.
pub type PolicyReports = OrdMap<ObjectKey, Arc<[ObjectKey]>>;

/// All BackendTLSPolicies.
#[derive(Debug, Default)]
pub struct BackendTlsPolicies {
    by_key: BTreeMap<ObjectKey, Arc<ParsedBackendTlsPolicy>>,
    /// The policies for each target. The first one applies.
    by_target: BTreeMap<PortNameTarget, Few<Precedence>>,
    /// For each Service that a policy targets, the number of attached routes to the Service by Gateway.
    reached: BTreeMap<ObjectKey, BTreeMap<ObjectKey, usize>>,
}

impl BackendTlsPolicies {
    /// Returns a policy.
    pub fn get(&self, key: &ObjectKey) -> Option<&Arc<ParsedBackendTlsPolicy>> {
        self.by_key.get(key)
    }

    /// Returns all policies.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<ParsedBackendTlsPolicy>> {
        self.by_key.values()
    }

    /// Returns the policy that applies to a port of a Service. A policy for the port takes precedence over a policy for
    /// the whole Service.
    pub fn in_effect(&self, service: &ObjectKey, port: Option<&Arc<str>>) -> Option<&ParsedBackendTlsPolicy> {
        if self.by_target.is_empty() {
            return None;
        }
        let first =
            |port: Option<&Arc<str>>| self.first(&PortNameTarget { service: service.clone(), port: port.cloned() });
        let rank = port.and_then(|port| first(Some(port))).or_else(|| first(None))?;
        self.by_key.get(&rank.key).map(|policy| &**policy)
    }

    /// Returns the policy that applies to a target of `policy` instead of it.
    pub fn winner<'a>(&'a self, policy: &'a ParsedBackendTlsPolicy) -> Option<(&'a PortNameTarget, &'a ObjectKey)> {
        policy.targets.iter().find_map(|target| {
            let first = self.first(target)?;
            (*first != policy.precedence).then_some((target, &first.key))
        })
    }

    /// Returns the keys of the policies that target a Service or one of its ports.
    pub fn of_service(&self, service: &ObjectKey) -> impl Iterator<Item = &ObjectKey> {
        let first = PortNameTarget { service: service.clone(), port: None };
        let targets = self.by_target.range(first..).take_while(move |(target, _)| target.service == *service);
        targets.flat_map(|(_, ranks)| ranks.iter().map(|rank| &rank.key))
    }

    /// Replaces a policy. Returns the Services that it targeted or targets.
    pub fn replace(&mut self, key: &ObjectKey, now: Option<Arc<ParsedBackendTlsPolicy>>) -> AffectedServices {
        let before = self.by_key.get(key).cloned();
        let targets: BTreeSet<PortNameTarget> =
            before.iter().chain(&now).flat_map(|policy| policy.targets.iter()).cloned().collect();
        let was_in_effect: Vec<Option<Precedence>> = targets.iter().map(|target| self.first(target).cloned()).collect();
        match &now {
            Some(policy) => self.by_key.insert(key.clone(), policy.clone()),
            None => self.by_key.remove(key),
        };
        for (policy, target) in before.iter().flat_map(|policy| policy.targets.iter().map(move |one| (policy, one))) {
            if let Some(ranks) = self.by_target.get_mut(target) {
                ranks.remove(&policy.precedence);
                if ranks.is_empty() {
                    self.by_target.remove(target);
                }
            }
        }
        for (policy, target) in now.iter().flat_map(|policy| policy.targets.iter().map(move |one| (policy, one))) {
            self.by_target.entry(target.clone()).or_default().insert(policy.precedence.clone());
        }
        let mut services = AffectedServices::default();
        for (target, was) in targets.iter().zip(&was_in_effect) {
            let is = self.first(target);
            if is != was.as_ref() || is.is_some_and(|first| first.key == *key) {
                services.in_effect.insert(target.service.clone());
            }
            services.all.insert(target.service.clone());
        }
        services
    }

    /// Returns the rank of the first policy for a target.
    fn first(&self, target: &PortNameTarget) -> Option<&Precedence> {
        self.by_target.get(target)?.iter().next()
    }

    /// Returns whether the routes to a Service are counted.
    pub fn is_counted(&self, service: &ObjectKey) -> bool {
        self.reached.contains_key(service)
    }

    /// Starts to count the routes to a Service. `gateways` contains the Gateways of each existing route.
    pub fn start_count(&mut self, service: &ObjectKey, gateways: impl Iterator<Item = ObjectKey>) {
        let counts = self.reached.entry(service.clone()).or_default();
        gateways.for_each(|gateway| *counts.entry(gateway).or_default() += 1);
    }

    /// Stops counting the routes to a Service.
    pub fn stop_count(&mut self, service: &ObjectKey) {
        self.reached.remove(service);
    }

    /// Replaces the Gateways `before` of a route to a Service by `now`. Returns whether the set of Gateways whose routes
    /// lead to the Service has changed.
    pub fn recount(&mut self, service: &ObjectKey, before: &BTreeSet<&ObjectKey>, now: &BTreeSet<&ObjectKey>) -> bool {
        let Some(counts) = self.reached.get_mut(service) else { return false };
        let mut changed = false;
        for gateway in now.difference(before) {
            let count = counts.entry((*gateway).clone()).or_default();
            *count += 1;
            changed |= *count == 1;
        }
        for gateway in before.difference(now) {
            if let Some(count) = counts.get_mut(*gateway) {
                *count = count.saturating_sub(1);
                if *count == 0 {
                    counts.remove(*gateway);
                    changed = true;
                }
            }
        }
        changed
    }

    /// Returns the Gateways whose routes use a target of a policy.
    pub fn gateways(&self, policy: &ParsedBackendTlsPolicy) -> Arc<[ObjectKey]> {
        let reached = policy.targets.iter().filter_map(|target| self.reached.get(&target.service));
        let gateways: BTreeSet<&ObjectKey> = reached.flat_map(BTreeMap::keys).collect();
        gateways.into_iter().cloned().collect()
    }
}
