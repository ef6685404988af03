//! All BackendPolicies, by target.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use crate::model::BackendFeatures;
use crate::objects::{ObjectKey, Precedence};

use super::backend_policy::{Policy, Target};
use super::few::Few;

/// All BackendPolicies.
#[derive(Debug, Default)]
pub struct BackendPolicies {
    by_key: BTreeMap<ObjectKey, Arc<Policy>>,
    /// The policies for each target. The first one applies.
    by_target: BTreeMap<Target, Few<Precedence>>,
    /// The policies that name each Service, whether it exists or not.
    by_service: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
}

/// The Services that a changed policy names or named.
#[derive(Debug, Default)]
pub struct Services {
    /// All these Services.
    pub all: BTreeSet<ObjectKey>,
    /// The Services for which the policy that applies has changed. The others are not affected, so thousands of policies
    /// behind the oldest policy cost nothing.
    pub in_effect: BTreeSet<ObjectKey>,
}

impl BackendPolicies {
    /// Returns a policy.
    pub fn get(&self, key: &ObjectKey) -> Option<&Arc<Policy>> {
        self.by_key.get(key)
    }

    /// Returns the keys of all policies.
    pub fn keys(&self) -> impl Iterator<Item = &ObjectKey> {
        self.by_key.keys()
    }

    /// Returns the keys of the policies in a namespace.
    pub fn in_namespace<'a>(&'a self, namespace: &'a Arc<str>) -> impl Iterator<Item = &'a ObjectKey> {
        let first = ObjectKey { namespace: namespace.clone(), name: "".into() };
        self.by_key.range(first..).map(|(key, _)| key).take_while(move |key| key.namespace == *namespace)
    }

    /// Returns the keys of the policies that name a Service.
    pub fn of_service(&self, service: &ObjectKey) -> impl Iterator<Item = &ObjectKey> {
        self.by_service.get(service).into_iter().flatten()
    }

    /// Returns whether a policy names a Service.
    pub fn name(&self, service: &ObjectKey) -> bool {
        self.by_service.contains_key(service)
    }

    /// Returns the policy that applies to exactly this target.
    pub fn at(&self, target: &Target) -> Option<&Arc<Policy>> {
        let rank = self.by_target.get(target)?.iter().next()?;
        self.by_key.get(&rank.key)
    }

    /// Returns the features of a port of a Service, if a policy applies to it. The policy of the port takes precedence for each
    /// feature.
    pub fn features(&self, service: &ObjectKey, port: u16) -> Option<BackendFeatures> {
        if self.by_target.is_empty() {
            return None;
        }
        let at = |port: Option<u16>| self.at(&Target { service: service.clone(), port }).map(|policy| &policy.features);
        match (at(Some(port)), at(None)) {
            (Some(specific), Some(general)) => Some(specific.or(general)),
            (one, other) => one.or(other).cloned(),
        }
    }

    /// Returns the policy that sets the health check of a port.
    pub fn with_health_check(&self, service: &ObjectKey, port: u16) -> Option<&ObjectRef> {
        let at = |port| self.at(&Target { service: service.clone(), port });
        let checks = |policy: &&Arc<Policy>| policy.features.health_check.is_some();
        at(Some(port)).filter(checks).or_else(|| at(None).filter(checks)).map(|policy| &policy.origin)
    }

    /// Returns the port of the endpoints that receives the health checks of a port, if it has one of its own.
    pub fn health_check_port(&self, service: &ObjectKey, port: u16) -> Option<u16> {
        self.features(service, port)?.health_check?.port
    }

    /// Replaces a policy. Returns the Services that it named or names.
    pub fn replace(&mut self, key: &ObjectKey, now: Option<Arc<Policy>>) -> Services {
        let before = match &now {
            Some(policy) => self.by_key.insert(key.clone(), policy.clone()),
            None => self.by_key.remove(key),
        };
        let targets = |policy: &Option<Arc<Policy>>| -> BTreeSet<Target> {
            policy.iter().flat_map(|policy| policy.targets.iter().flatten()).cloned().collect()
        };
        let named = |policy: &Option<Arc<Policy>>| -> BTreeSet<ObjectKey> {
            policy.iter().flat_map(|policy| &policy.services).cloned().collect()
        };
        let (old, new) = (targets(&before), targets(&now));
        let mut services = Services { all: &named(&before) | &named(&now), ..Services::default() };
        let first = |all: &Self, target: &Target| all.by_target.get(target).and_then(|all| all.iter().next().cloned());
        let both = &old | &new;
        let was: Vec<Option<Precedence>> = both.iter().map(|target| first(self, target)).collect();
        for (policy, target) in before.iter().flat_map(|policy| old.iter().map(move |target| (policy, target))) {
            if let Some(ranks) = self.by_target.get_mut(target) {
                ranks.remove(&policy.precedence);
                if ranks.is_empty() {
                    self.by_target.remove(target);
                }
            }
        }
        for (policy, target) in now.iter().flat_map(|policy| new.iter().map(move |target| (policy, target))) {
            self.by_target.entry(target.clone()).or_default().insert(policy.precedence.clone());
        }
        for (target, was) in both.iter().zip(&was) {
            let is = first(self, target);
            if is != *was || is.is_some_and(|first| first.key == *key) {
                services.in_effect.insert(target.service.clone());
            }
        }
        for service in &services.all {
            let of_service = self.by_service.entry(service.clone()).or_default();
            match now.as_ref().is_some_and(|policy| policy.services.contains(service)) {
                true => drop(of_service.insert(key.clone())),
                false => drop(of_service.remove(key)),
            }
            if of_service.is_empty() {
                self.by_service.remove(service);
            }
        }
        services
    }
}
