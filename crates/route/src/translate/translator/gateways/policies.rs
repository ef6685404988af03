//! The incremental translation of BackendTLSPolicies. A changed ConfigMap affects the policies that name it, and a
//! changed policy affects the routes whose backends it targets. A changed route affects the status of the policies of
//! its backends.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::objects::gateway::BackendTlsPolicy;
use crate::objects::{Kind, ObjectId, ObjectKey, Objects};
use crate::settings::Settings;
use crate::translate::charges::{Charge, Size, State};
use crate::translate::gateway::policy::{self, ParsedBackendTlsPolicy};
use crate::translate::graph::Input;
use crate::translate::problem::{Message, Problem, Reason};
use crate::translate::source::Source;
use crate::translate::translator::state::{Translator, Update};
use crate::translate::verdict::{self, ConditionFault, Status, Verdict};

impl Translator {
    /// Parses policies. Returns the changed policies, and the Services for which the policy that applies has changed.
    pub(super) fn update_policies(
        &mut self,
        due: Vec<ObjectId>,
        objects: &Objects,
        settings: &Settings,
        update: &mut Update,
    ) -> (BTreeSet<ObjectKey>, BTreeSet<ObjectKey>) {
        let (mut changed, mut services) = (BTreeSet::new(), BTreeSet::new());
        let mut due: BTreeSet<ObjectKey> = due.into_iter().map(|id| id.key).collect();
        while !due.is_empty() {
            for key in std::mem::take(&mut due) {
                let now = self.parse_policy(&key, objects, settings);
                self.replace_inputs(
                    &Kind::BACKEND_TLS_POLICY.id(key.clone()),
                    now.as_ref().map_or(&[], |policy| &policy.dependencies.inputs),
                );
                // The content of its ConfigMaps may have changed.
                update.touched.secrets.extend(now.as_ref().and_then(ParsedBackendTlsPolicy::secret).cloned());
                let now = now.map(Arc::new);
                if self.gateways.policies.get(&key) != now.as_ref() {
                    let of_policy = self.gateways.policies.replace(&key, now);
                    of_policy.all.iter().for_each(|service| self.count_routes(service));
                    services.extend(of_policy.in_effect);
                    changed.insert(key);
                }
            }
            due = self.gateways.authorities.apply(settings.tenants.max_configuration_per_namespace);
        }
        (changed, services)
    }

    /// Parses a policy, and charges its size to its namespace.
    fn parse_policy(
        &mut self,
        key: &ObjectKey,
        objects: &Objects,
        settings: &Settings,
    ) -> Option<ParsedBackendTlsPolicy> {
        let policy = objects.get::<BackendTlsPolicy>(key);
        let policy = policy.map(|policy| self.read(objects, settings, |resolver| policy::parse(policy, resolver)).0);
        let charged = policy.as_ref().filter(|policy| policy.size > 0);
        let charge = charged.map(|policy| {
            let size = Size { open: policy.size, closed: 0 };
            ((), Charge { rank: policy.precedence.clone(), size })
        });
        self.gateways.authorities.replace(key, charge.into_iter().collect());
        let is_surplus = self.gateways.authorities.state(key, &()) != State::Open;
        policy.map(|policy| if is_surplus { policy.beyond_limit() } else { policy })
    }

    /// Starts or stops counting the routes to a Service, if a policy targets it for the first time, or no longer.
    fn count_routes(&mut self, service: &ObjectKey) {
        let is_targeted = self.gateways.policies.of_service(service).next().is_some();
        if is_targeted == self.gateways.policies.is_counted(service) {
            return;
        }
        if !is_targeted {
            return self.gateways.policies.stop_count(service);
        }
        let input = input(service);
        let routes = self.graph.readers(&input).filter_map(|id| self.sources.get(id));
        let gateways = routes.flat_map(|route| gateways_of(route)).cloned().collect::<Vec<_>>();
        self.gateways.policies.start_count(service, gateways.into_iter());
    }

    /// Replaces the route `before` by `now` in the number of routes to the targets of policies. Extends `services` with
    /// the Services for which the set of Gateways has changed.
    pub(in super::super) fn recount_routes(
        &mut self,
        before: Option<&Source>,
        now: Option<&Source>,
        services: &mut BTreeSet<ObjectKey>,
    ) {
        let none = BTreeSet::new();
        let [old, new] = [before, now].map(|route| route.map(gateways_of).unwrap_or_default());
        let [old_services, new_services] = [before, now].map(|route| route.map(services_of).unwrap_or_default());
        for service in old_services.union(&new_services) {
            let old = if old_services.contains(service) { &old } else { &none };
            let new = if new_services.contains(service) { &new } else { &none };
            if self.gateways.policies.recount(service, old, new) {
                services.insert((*service).clone());
            }
        }
    }

    /// Updates the conditions of these policies, and of all policies for these Services.
    pub(super) fn update_policy_verdicts(
        &mut self,
        mut policies: BTreeSet<ObjectKey>,
        services: &BTreeSet<ObjectKey>,
        update: &mut Update,
    ) {
        policies.extend(services.iter().flat_map(|service| self.gateways.policies.of_service(service)).cloned());
        policies.iter().for_each(|key| self.update_policy_verdict(key, update));
    }

    /// Updates the conditions, the report, and the problems of a policy. A policy without a served route to its targets
    /// has no conditions.
    fn update_policy_verdict(&mut self, key: &ObjectKey, update: &mut Update) {
        let id = Kind::BACKEND_TLS_POLICY.id(key.clone());
        let policies = &self.gateways.policies;
        let policy_and_gateways = policies.get(key).map(|policy| (policy.clone(), policies.gateways(policy)));
        let policy_and_gateways = policy_and_gateways.filter(|(_, gateways)| !gateways.is_empty());
        let before = self.gateways.policy_problems.remove(key).unwrap_or_default();
        let Some((policy, gateways)) = policy_and_gateways else {
            self.ledger.replace(&before, &[]);
            self.verdicts.remove(&id);
            if self.gateways.policy_reports.remove(key).is_some() {
                update.sources.insert(id);
            }
            return;
        };
        let winner = policies.winner(&policy).map(|(target, winner)| {
            let port = target.port.as_ref().map(|port| format!(" port {port:?} of")).unwrap_or_default();
            format!("policy \"{winner}\" takes precedence for{port} Service \"{}\"", target.service)
        });
        let problems = problems(&policy, winner.as_deref());
        self.ledger.replace(&before, &problems);
        if !problems.is_empty() {
            self.gateways.policy_problems.insert(key.clone(), problems);
        }
        self.verdicts.insert(id.clone(), verdict::bounded(&verdicts(&policy, winner)));
        self.gateways.policy_reports.insert(key.clone(), gateways);
        update.sources.insert(id);
    }
}

/// Returns the input of routes that reads the policies of a Service.
pub fn input(service: &ObjectKey) -> Input {
    Input::new(Kind::BACKEND_TLS_POLICY, service.clone())
}

/// Returns the Gateways that a route is attached to.
fn gateways_of(route: &Source) -> BTreeSet<&ObjectKey> {
    route.attached.attachments.iter().map(|attachment| &attachment.listener.gateway).collect()
}

/// Returns the Services whose policies apply to a route.
fn services_of(route: &Source) -> BTreeSet<&ObjectKey> {
    let inputs = route.dependencies.inputs.iter().filter(|input| input.kind() == Kind::BACKEND_TLS_POLICY);
    inputs.map(Input::key).collect()
}

/// Returns the fault of the condition `Accepted` if it does not hold.
fn refusal(policy: &ParsedBackendTlsPolicy, winner: Option<String>) -> Option<ConditionFault> {
    let conflict = winner.map(|message| ConditionFault::new("Conflicted", message));
    let missing = || policy.missing.clone().map(|message| ConditionFault::new("TargetNotFound", message));
    conflict.or_else(|| policy.verification.as_ref().err().cloned()).or_else(missing)
}

fn verdicts(policy: &ParsedBackendTlsPolicy, winner: Option<String>) -> [Verdict; 2] {
    let verdict = |condition, holds, fault: Option<ConditionFault>| match fault {
        None => Verdict::new(policy.origin.clone(), condition, Status::True, holds),
        Some(ConditionFault { reason, message }) => {
            Verdict { message, ..Verdict::new(policy.origin.clone(), condition, Status::False, reason) }
        }
    };
    [
        verdict("Accepted", "Accepted", refusal(policy, winner)),
        verdict("ResolvedRefs", "ResolvedRefs", policy.unresolved.clone()),
    ]
}

/// Returns the problems of a policy.
fn problems(policy: &ParsedBackendTlsPolicy, winner: Option<&str>) -> Vec<Arc<Problem>> {
    let problem = |reason, message: &Message, consequence: &str| {
        let (object, field) = (policy.origin.clone(), String::new());
        Arc::new(Problem { object, field, reason, message: message.clone(), consequence: consequence.to_owned() })
    };
    if let Some(winner) = winner {
        return vec![problem(Reason::Conflicted, &winner.into(), "not in effect for this target")];
    }
    let invalid = policy.verification.as_ref().err();
    let status = if policy.fault_reason() == Reason::PolicyTooExpensive { 503 } else { 500 };
    let instead = format!("requests to its Services are answered {status}");
    let invalid = invalid.map(|fault| problem(policy.fault_reason(), &fault.message, &instead));
    let unresolved = || {
        let text = &policy.unresolved.as_ref()?.message;
        Some(problem(Reason::PolicyNotValid, text, "left out, other certificate authorities are used"))
    };
    let missing = || Some(problem(Reason::PolicyNotValid, policy.missing.as_ref()?, "no effect on this target"));
    invalid.or_else(unresolved).or_else(missing).into_iter().collect()
}
