//! The incremental translation of HTTPPolicies. A changed policy affects the hosts of its targets: the hosts of a
//! route, of all routes of a namespace, or of a Gateway. No route is parsed again.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Translator, Update};
use crate::model::{Host, ListenerId};
use crate::objects::gateway::HttpPolicy;
use crate::objects::{Kind, ObjectId, ObjectKey, Objects};
use crate::settings::Settings;
use crate::translate::dialect::Dialect;
use crate::translate::gateway::http_policy::{self, Policy, Target};
use crate::translate::policy_targets::{self, Fault};
use crate::translate::problem::Problem;
use crate::translate::verdict::{self, Verdict};

/// The changes of policies in one update.
#[derive(Debug, Default)]
pub struct ChangedPolicies {
    /// The policies whose conditions may have changed.
    policies: BTreeSet<ObjectKey>,
    /// The objects whose policies may have changed.
    pub(in super::super) targets: BTreeSet<ObjectId>,
}

impl Translator {
    /// Parses policies.
    pub(super) fn update_http_policies(
        &mut self,
        due: Vec<ObjectId>,
        objects: &Objects,
        settings: &Settings,
    ) -> ChangedPolicies {
        let mut changed = ChangedPolicies::default();
        for id in due {
            let policy = objects.get::<HttpPolicy>(&id.key);
            let (now, made) = policy
                .map(|policy| self.read(objects, settings, |resolver| http_policy::parse(policy, resolver)))
                .map_or_else(Default::default, |(now, made)| (Some(now), made));
            self.clusters.add(made, &mut self.ledger);
            self.replace_inputs(&id, now.as_ref().map_or(&[], |policy| &policy.dependencies.inputs));
            let now = now.map(Arc::new);
            let before = self.gateways.http_policies.get(&id.key).cloned();
            if before == now {
                continue;
            }
            let clusters = |policy: &Option<Arc<Policy>>| {
                policy.as_ref().map(|policy| policy.dependencies.clusters.clone()).unwrap_or_default()
            };
            self.clusters.read(&clusters(&before), &clusters(&now));
            changed.targets.extend(self.gateways.http_policies.replace(&id.key, now));
            changed.policies.insert(id.key);
        }
        changed
    }

    /// Adds the hosts that changed policies affect to `hosts`. Call it after Gateways and routes are up to date.
    pub(super) fn add_hosts_of_policies(&self, changed: &ChangedPolicies, hosts: &mut BTreeSet<(ListenerId, Host)>) {
        for object in &changed.targets {
            if object.kind != Kind::GATEWAY {
                let routes = self.targeted(object).into_iter().filter_map(|id| self.sources.get(&id));
                hosts.extend(routes.flat_map(|route| self.served_places(route)));
                continue;
            }
            let listeners = self.gateways.owners.iter().filter(|(_, gateway)| **gateway == object.key);
            for (id, _) in listeners {
                hosts.extend(self.gateways.hosts_on(id).map(|(place, _)| place.clone()));
            }
        }
    }

    /// Returns the sources that a target stands for: the object itself, or all sources of a namespace. The routes of a Gateway are found
    /// by its listeners.
    pub(in super::super) fn targeted(&self, target: &ObjectId) -> Vec<ObjectId> {
        if target.kind != Kind::NAMESPACE {
            return vec![target.clone()];
        }
        let of_dialect =
            |dialect: &Dialect| self.sources.in_namespace(dialect, &target.key.name).map(|(id, _)| id.clone());
        self.dialects.iter().flat_map(|dialect| of_dialect(dialect).collect::<Vec<_>>()).collect()
    }

    /// Updates the conditions of changed policies, of the policies that compete with them, and of the policies of `objects`.
    pub(super) fn update_http_policy_verdicts(
        &mut self,
        changed: ChangedPolicies,
        objects: impl Iterator<Item = ObjectId>,
        update: &mut Update,
    ) {
        let ChangedPolicies { mut policies, targets } = changed;
        for object in targets.into_iter().chain(objects) {
            policies.extend(self.gateways.http_policies.targeting(&object).cloned());
        }
        policies.iter().for_each(|key| self.update_http_policy_verdict(key, update));
    }

    /// Updates the conditions and the problems of a policy. The controller reports on a policy if it serves a target of
    /// the policy, or if a target does not exist.
    fn update_http_policy_verdict(&mut self, key: &ObjectKey, update: &mut Update) {
        let id = Kind::HTTP_POLICY.id(key.clone());
        let policy = self.gateways.http_policies.get(key).cloned();
        let targets: Vec<(u16, Option<Fault>)> =
            policy.iter().flat_map(|policy| self.target_verdicts(policy).collect::<Vec<_>>()).collect();
        let problems = match &policy {
            Some(policy) if !targets.is_empty() => problems(policy, &targets),
            _ => Vec::new(),
        };
        let before = self.gateways.http_policy_problems.remove(key).unwrap_or_default();
        self.ledger.replace(&before, &problems);
        if !problems.is_empty() {
            self.gateways.http_policy_problems.insert(key.clone(), problems);
        }
        let at = |policy: &Arc<Policy>, (i, fault): &(u16, Option<Fault>)| {
            policy_targets::verdict(&policy.origin, *i, fault.as_ref())
        };
        let verdicts: Vec<Verdict> =
            policy.iter().flat_map(|policy| targets.iter().map(|target| at(policy, target))).collect();
        match verdicts.is_empty() {
            true => drop(self.verdicts.remove(&id)),
            false => drop(self.verdicts.insert(id.clone(), verdict::bounded(&verdicts))),
        }
        match policy.filter(|_| !targets.is_empty()) {
            Some(policy) => drop(self.gateways.http_policies_of_ours.insert(key.clone(), policy.revision)),
            None => drop(self.gateways.http_policies_of_ours.remove(key)),
        }
        update.sources.insert(id);
    }

    /// Returns the targets of a policy that this controller serves or that do not exist, each with the fault of the
    /// condition `Accepted`.
    fn target_verdicts(&self, policy: &Policy) -> impl Iterator<Item = (u16, Option<Fault>)> {
        let verdict = move |(i, target): (usize, &Result<Target, Fault>)| {
            let index = u16::try_from(i).unwrap_or(u16::MAX);
            match target {
                Err(fault) => Some((index, Some(fault.clone()))),
                Ok(target) if self.is_ours(&target.object) => {
                    let winner = self.gateways.http_policies.at(target).filter(|winner| !std::ptr::eq(*winner, policy));
                    let winner = winner.filter(|winner| winner.precedence != policy.precedence);
                    let conflict = winner.map(|winner| conflict(target, winner));
                    Some((index, conflict.or_else(|| policy_targets::invalid(&policy.problems))))
                }
                Ok(_) => None,
            }
        };
        policy.targets.iter().enumerate().filter_map(verdict)
    }

    /// Returns whether an object is a namespace, a served Gateway, or a served object that declares routes.
    fn is_ours(&self, object: &ObjectId) -> bool {
        if object.kind == Kind::GATEWAY {
            return self.gateways.gateways.contains_key(&object.key);
        }
        if object.kind == Kind::NAMESPACE {
            return true;
        }
        self.sources.get(object).is_some()
    }
}

/// Returns the fault of a policy that loses a target to `winner`.
fn conflict(target: &Target, winner: &Policy) -> Fault {
    let section = target.section.as_ref().map(|name| format!(" section {name:?} of")).unwrap_or_default();
    let Target { object: ObjectId { kind, key }, .. } = target;
    let winner = &winner.precedence.key;
    ("Conflicted", format!("policy \"{winner}\" takes precedence for{section} {} \"{key}\"", kind.as_str()).into())
}

/// Returns the problems of the features and of the targets of a policy.
fn problems(policy: &Policy, targets: &[(u16, Option<Fault>)]) -> Vec<Arc<Problem>> {
    let of_target = |(i, fault): &(u16, Option<Fault>)| {
        let exists = policy.targets.get(usize::from(*i)).is_some_and(Result::is_ok);
        policy_targets::problem(&policy.origin, *i, fault.as_ref(), exists)
    };
    policy.problems.iter().cloned().chain(targets.iter().filter_map(of_target)).collect()
}
