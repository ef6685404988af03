//! The incremental translation of BackendPolicies and XBackendTrafficPolicies.
//!
//! A changed policy affects its Services like a change of the Service itself: their routes are parsed again, and lead to other clusters. A
//! changed Service affects the policies that name it.

use std::collections::BTreeSet;
use std::slice;
use std::sync::Arc;

use super::state::{Due, Translator, Update};
use crate::objects::{Kind, ObjectId, ObjectKey, Objects};
use crate::settings::Settings;
use crate::translate::backend_policies::KINDS;
use crate::translate::backend_policy::{self, ParsedBackendPolicy, PortNumberTarget};
use crate::translate::problem::{Problem, Reason};
use crate::translate::verdict::{self, ConditionFault, Verdict};
use crate::translate::{ChangedInputs, policy_targets};

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
        for id in std::mem::take(&mut policies) {
            let now = backend_policy::parse(&id, objects, settings).map(Arc::new);
            if self.backend_policies.get(&id) == now.as_ref() {
                continue;
            }
            let of_policy = self.backend_policies.replace(&id, now);
            due.services.extend(of_policy.in_effect);
            services.extend(of_policy.all);
            policies.insert(id);
        }
        // The other policies of the same Services may win or lose a target.
        policies.extend(services.iter().flat_map(|service| self.backend_policies.of_service(service)).cloned());
        policies.iter().for_each(|id| self.update_backend_policy_verdict(id, update));
    }

    /// Updates the conditions of the policies whose features more or fewer clusters have.
    pub(super) fn update_policies_of_clusters(&mut self, update: &mut Update) {
        for policy in self.clusters.take_changed_policies() {
            let id = Kind::BACKEND_POLICY.id(ObjectKey::new(&policy.namespace, &policy.name));
            self.update_backend_policy_verdict(&id, update);
        }
    }

    /// Returns the policies to parse again.
    fn due_backend_policies(&self, objects: &Objects, changed: &ChangedInputs) -> BTreeSet<ObjectId> {
        if changed.is_everything() {
            let of_kind = |kind: Kind| objects.of_kind(kind).keys().map(move |key| kind.id(key.clone()));
            return KINDS.into_iter().flat_map(of_kind).collect();
        }
        let of_services = changed.of_kind(Kind::SERVICE).flat_map(|service| self.backend_policies.of_service(service));
        // A namespace that is being deleted changes the precedence of its policies.
        let namespaces = changed.of_kind(Kind::NAMESPACE);
        let of_namespaces = namespaces.flat_map(|namespace| self.backend_policies.in_namespace(&namespace.name));
        let of_kind = |kind: Kind| changed.of_kind(kind).map(move |key| kind.id(key.clone()));
        let policies = KINDS.into_iter().flat_map(of_kind);
        policies.chain(of_services.chain(of_namespaces).cloned()).collect()
    }

    /// Updates the conditions and the problems of a policy.
    fn update_backend_policy_verdict(&mut self, id: &ObjectId, update: &mut Update) {
        let policy = self.backend_policies.get(id).cloned();
        let mut problems = policy.iter().flat_map(|policy| policy.problems.iter().cloned()).collect::<Vec<_>>();
        let mut verdicts = Vec::new();
        for (i, (policy, target)) in
            (0..).zip(policy.iter().flat_map(|policy| policy.targets.iter().map(move |target| (policy, target))))
        {
            let (fault, problem) = self.at_target(policy, i, target);
            problems.extend(problem);
            let verdict = policy_targets::verdict(&policy.origin, i, fault.as_ref());
            verdicts.push(match fault {
                None => Verdict { message: policy.note.clone(), ..verdict },
                Some(_) => verdict,
            });
        }
        let before = self.backend_policy_problems.remove(id).unwrap_or_default();
        self.ledger.replace(&before, &problems);
        if !problems.is_empty() {
            self.backend_policy_problems.insert(id.clone(), problems);
        }
        match policy {
            None => drop(self.verdicts.remove(id)),
            Some(_) => drop(self.verdicts.insert(id.clone(), verdict::bounded(&verdicts))),
        }
        update.sources.insert(id.clone());
    }

    /// Returns the fault of the condition `Accepted` at a target, and the problem of the target.
    fn at_target(
        &self,
        policy: &Arc<ParsedBackendPolicy>,
        index: u16,
        target: &Result<PortNumberTarget, ConditionFault>,
    ) -> (Option<ConditionFault>, Option<Arc<Problem>>) {
        let conflict = target.as_ref().ok().and_then(|target| self.conflict(policy, target));
        let is_in_effect = target.is_ok() && conflict.is_none();
        let fault = target.as_ref().err().cloned().or(conflict);
        let fault = fault.or_else(|| policy_targets::invalid(&policy.problems));
        // The clusters report this problem.
        let unmet = target.as_ref().ok().and_then(|target| self.clusters.unmet(&policy.origin, &target.service));
        let fault = fault.or_else(|| policy_targets::invalid(unmet.map(slice::from_ref).unwrap_or_default()));
        match target.as_ref().ok().filter(|_| is_in_effect).and_then(|target| self.decided(policy, target)) {
            Some(problem) => {
                let decided = || policy_targets::invalid(slice::from_ref(&problem));
                (
                    fault.or_else(|| decided().map(|fault| ConditionFault { reason: "Conflicted", ..fault })),
                    Some(problem),
                )
            }
            None => {
                let problem = policy_targets::problem(&policy.origin, index, fault.as_ref(), target.is_ok());
                (fault, problem)
            }
        }
    }

    /// Returns the conflict with an older policy of the same kind.
    fn conflict(&self, policy: &ParsedBackendPolicy, target: &PortNumberTarget) -> Option<ConditionFault> {
        let winner = self.backend_policies.at(policy.precedence.kind, target);
        let winner = winner.filter(|winner| winner.precedence != policy.precedence)?;
        let port = target.port.map(|port| format!(" port {port} of")).unwrap_or_default();
        let (winner, service) = (&winner.precedence.key, &target.service);
        let message = format!("policy \"{winner}\" takes precedence for{port} Service \"{service}\"");
        Some(ConditionFault::new("Conflicted", message))
    }

    /// Returns the problem of a BackendPolicy whose retry budget the policy of Gateway API decides.
    fn decided(&self, policy: &ParsedBackendPolicy, target: &PortNumberTarget) -> Option<Arc<Problem>> {
        policy.features.retry_budget.filter(|_| policy.precedence.kind == Kind::BACKEND_POLICY)?;
        let standard = self.backend_policies.standard(&target.service)?;
        standard.features.retry_budget?;
        let (winner, service) = (&standard.origin, &target.service);
        Some(Arc::new(Problem {
            object: policy.origin.clone(),
            field: "spec.retryBudget".to_owned(),
            reason: Reason::Conflicted,
            message: format!("{winner} takes precedence for Service \"{service}\"").into(),
            consequence: "feature left out for this Service".to_owned(),
        }))
    }
}
