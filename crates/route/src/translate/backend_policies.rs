//! All BackendPolicies and XBackendTrafficPolicies, by target.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use crate::model::{BackendFeatures, Session};
use crate::objects::{Kind, ObjectId, ObjectKey, Precedence};

use super::backend_policy::{ParsedBackendPolicy, PortNumberTarget};
use super::policy_targets::AffectedServices;
use crate::few::Few;

/// The kinds of policies of Services. The first one decides a feature that both set.
pub const KINDS: [Kind; 2] = [Kind::X_BACKEND_TRAFFIC_POLICY, Kind::BACKEND_POLICY];

/// All policies of these kinds.
#[derive(Debug, Default)]
pub struct BackendPolicies {
    by_id: BTreeMap<ObjectId, Arc<ParsedBackendPolicy>>,
    /// The policies of each kind for each target. The first one applies.
    by_target: BTreeMap<(Kind, PortNumberTarget), Few<Precedence>>,
    /// The policies that name each Service, whether it exists or not.
    by_service: BTreeMap<ObjectKey, BTreeSet<ObjectId>>,
}

impl BackendPolicies {
    /// Returns a policy.
    pub fn get(&self, id: &ObjectId) -> Option<&Arc<ParsedBackendPolicy>> {
        self.by_id.get(id)
    }

    /// Returns the identities of all policies.
    pub fn ids(&self) -> impl Iterator<Item = &ObjectId> {
        self.by_id.keys()
    }

    /// Returns the policies in a namespace.
    pub fn in_namespace<'a>(&'a self, namespace: &'a Arc<str>) -> impl Iterator<Item = &'a ObjectId> {
        let first = |kind: Kind| kind.id(ObjectKey { namespace: namespace.clone(), name: "".into() });
        let of_kind = move |kind: Kind| {
            let ids = self.by_id.range(first(kind)..).map(|(id, _)| id);
            ids.take_while(move |id| id.kind == kind && id.key.namespace == *namespace)
        };
        KINDS.into_iter().flat_map(of_kind)
    }

    /// Returns the policies that name a Service.
    pub fn of_service(&self, service: &ObjectKey) -> impl Iterator<Item = &ObjectId> {
        self.by_service.get(service).into_iter().flatten()
    }

    /// Returns whether a policy names a Service.
    pub fn name(&self, service: &ObjectKey) -> bool {
        self.by_service.contains_key(service)
    }

    /// Returns the policy of this kind that applies to exactly this target.
    pub fn at(&self, kind: Kind, target: &PortNumberTarget) -> Option<&Arc<ParsedBackendPolicy>> {
        let rank = self.by_target.get(&(kind, target.clone()))?.iter().next()?;
        self.by_id.get(&rank.id())
    }

    /// Returns the policy of Gateway API that applies to a Service.
    pub fn standard(&self, service: &ObjectKey) -> Option<&Arc<ParsedBackendPolicy>> {
        if self.by_target.is_empty() {
            return None;
        }
        self.at(Kind::X_BACKEND_TRAFFIC_POLICY, &PortNumberTarget { service: service.clone(), port: None })
    }

    /// Returns the session persistence of a Service.
    pub fn session(&self, service: &ObjectKey) -> Option<&Session> {
        self.standard(service)?.sessions.get(service)
    }

    /// Returns the features of a port of a Service, if a policy applies to it. For each feature, the policy of Gateway API takes
    /// precedence, then the policy of the port.
    pub fn features(&self, service: &ObjectKey, port: u16) -> Option<BackendFeatures> {
        if self.by_target.is_empty() {
            return None;
        }
        let at =
            |port: Option<u16>| self.at(Kind::BACKEND_POLICY, &PortNumberTarget { service: service.clone(), port });
        let policies = self.standard(service).into_iter().chain(at(Some(port))).chain(at(None));
        policies.map(|policy| policy.features.clone()).reduce(|specific, general| specific.or(&general))
    }

    /// Returns the policy that sets a feature of a port.
    pub fn setting(
        &self,
        service: &ObjectKey,
        port: u16,
        is_set: impl Fn(&BackendFeatures) -> bool,
    ) -> Option<&ObjectRef> {
        let at = |port| self.at(Kind::BACKEND_POLICY, &PortNumberTarget { service: service.clone(), port });
        let sets = |policy: &&Arc<ParsedBackendPolicy>| is_set(&policy.features);
        at(Some(port)).filter(sets).or_else(|| at(None).filter(sets)).map(|policy| &policy.origin)
    }

    /// Returns the port of the endpoints that receives the health checks of a port, if it has one of its own.
    pub fn health_check_port(&self, service: &ObjectKey, port: u16) -> Option<u16> {
        self.features(service, port)?.health_check?.port
    }

    /// Replaces a policy. Returns the Services that it named or names.
    pub fn replace(&mut self, id: &ObjectId, now: Option<Arc<ParsedBackendPolicy>>) -> AffectedServices {
        let before = match &now {
            Some(policy) => self.by_id.insert(id.clone(), policy.clone()),
            None => self.by_id.remove(id),
        };
        let targets = |policy: &Option<Arc<ParsedBackendPolicy>>| -> BTreeSet<(Kind, PortNumberTarget)> {
            let targets = policy.iter().flat_map(|policy| policy.targets.iter().flatten());
            targets.map(|target| (id.kind, target.clone())).collect()
        };
        let named = |policy: &Option<Arc<ParsedBackendPolicy>>| -> BTreeSet<ObjectKey> {
            policy.iter().flat_map(|policy| &policy.services).cloned().collect()
        };
        let (old, new) = (targets(&before), targets(&now));
        let mut services = AffectedServices { all: &named(&before) | &named(&now), ..AffectedServices::default() };
        let first = |all: &Self, target: &(Kind, PortNumberTarget)| {
            all.by_target.get(target).and_then(|all| all.iter().next().cloned())
        };
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
            if is != *was || is.is_some_and(|first| first.key == id.key) {
                services.in_effect.insert(target.1.service.clone());
            }
        }
        for service in &services.all {
            let of_service = self.by_service.entry(service.clone()).or_default();
            match now.as_ref().is_some_and(|policy| policy.services.contains(service)) {
                true => drop(of_service.insert(id.clone())),
                false => drop(of_service.remove(id)),
            }
            if of_service.is_empty() {
                self.by_service.remove(service);
            }
        }
        services
    }
}
