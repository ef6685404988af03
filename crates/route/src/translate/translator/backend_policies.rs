//! The incremental translation of BackendPolicies. A changed policy affects its Services like a change of the Service
//! itself: their routes are parsed again, and lead to other clusters. A changed Service affects the policies that name it.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Due, Translator, Update};
use crate::objects::{BackendPolicy, Kind, ObjectKey, Objects};
use crate::settings::Settings;
use crate::translate::ChangedInputs;
use crate::translate::backend_policy::{self, Policy, Target};
use crate::translate::policy_targets::{self, Fault};
use crate::translate::problem::Problem;
use crate::translate::verdict::{self, Verdict};

impl Translator {
    /// Parses the policies that have changed, or whose Services or namespaces have. Extends `due` with the Services for which
    /// the policy that applies has changed.
    pub(super) fn update_backend_policies(
        &mut self,
        objects: &Objects,
        settings: &Settings,
        changed: &ChangedInputs,
        due: &mut Due,
        update: &mut Update,
    ) {
        let mut policies = self.due_backend_policies(objects, changed);
        let mut services = BTreeSet::new();
        for key in std::mem::take(&mut policies) {
            let now = objects.get::<BackendPolicy>(&key);
            let now = now.map(|policy| Arc::new(backend_policy::parse(policy, objects, settings)));
            if self.backend_policies.get(&key) == now.as_ref() {
                continue;
            }
            let of_policy = self.backend_policies.replace(&key, now);
            due.services.extend(of_policy.in_effect);
            services.extend(of_policy.all);
            policies.insert(key);
        }
        // The other policies of the same Services may win or lose a target.
        policies.extend(services.iter().flat_map(|service| self.backend_policies.of_service(service)).cloned());
        policies.iter().for_each(|key| self.update_backend_policy_verdict(key, update));
    }

    /// Returns the policies to parse again.
    fn due_backend_policies(&self, objects: &Objects, changed: &ChangedInputs) -> BTreeSet<ObjectKey> {
        if changed.is_everything() {
            return objects.of_kind(Kind::BACKEND_POLICY).keys().cloned().collect();
        }
        let of_services = changed.of_kind(Kind::SERVICE).flat_map(|service| self.backend_policies.of_service(service));
        // A namespace that is being deleted changes the precedence of its policies.
        let namespaces = changed.of_kind(Kind::NAMESPACE);
        let of_namespaces = namespaces.flat_map(|namespace| self.backend_policies.in_namespace(&namespace.name));
        changed.of_kind(Kind::BACKEND_POLICY).chain(of_services).chain(of_namespaces).cloned().collect()
    }

    /// Updates the conditions and the problems of a policy.
    fn update_backend_policy_verdict(&mut self, key: &ObjectKey, update: &mut Update) {
        let id = Kind::BACKEND_POLICY.id(key.clone());
        let policy = self.backend_policies.get(key).cloned();
        let faults: Vec<Option<Fault>> = policy
            .iter()
            .flat_map(|policy| policy.targets.iter().map(|target| self.fault_at(policy, target)))
            .collect();
        let problems = policy.as_ref().map(|policy| problems(policy, &faults)).unwrap_or_default();
        let before = self.backend_policy_problems.remove(key).unwrap_or_default();
        self.ledger.replace(&before, &problems);
        if !problems.is_empty() {
            self.backend_policy_problems.insert(key.clone(), problems);
        }
        match policy {
            None => drop(self.verdicts.remove(&id)),
            Some(policy) => {
                let verdicts: Vec<Verdict> = (0..)
                    .zip(&faults)
                    .map(|(i, fault)| policy_targets::verdict(&policy.origin, i, fault.as_ref()))
                    .collect();
                self.verdicts.insert(id.clone(), verdict::bounded(&verdicts));
            }
        }
        update.sources.insert(id);
    }

    /// Returns the fault of the condition `Accepted` at a target of `policy`.
    fn fault_at(&self, policy: &Arc<Policy>, target: &Result<Target, Fault>) -> Option<Fault> {
        let target = match target {
            Ok(target) => target,
            Err(fault) => return Some(fault.clone()),
        };
        let winner = self.backend_policies.at(target).filter(|winner| winner.precedence != policy.precedence);
        let conflict = winner.map(|winner| {
            let port = target.port.map(|port| format!(" port {port} of")).unwrap_or_default();
            let (winner, service) = (&winner.precedence.key, &target.service);
            ("Conflicted", format!("policy \"{winner}\" takes precedence for{port} Service \"{service}\"").into())
        });
        conflict.or_else(|| policy_targets::invalid(&policy.problems))
    }
}

/// Returns the problems of the features and of the targets of a policy.
fn problems(policy: &Policy, faults: &[Option<Fault>]) -> Vec<Arc<Problem>> {
    let targets = (0..).zip(policy.targets.iter().zip(faults));
    let of_targets = targets
        .filter_map(|(i, (target, fault))| policy_targets::problem(&policy.origin, i, fault.as_ref(), target.is_ok()));
    policy.problems.iter().cloned().chain(of_targets).collect()
}
