//! The status of an HTTPProxy: the condition `Valid` with errors and warnings, as Contour writes it, the addresses of the Envoys, and
//! whether the Envoys have accepted the object.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use lockgate_route::objects::gateway::Condition;
use lockgate_route::objects::http_proxy::{DetailedCondition, HttpProxy, SubCondition};
use lockgate_route::translate::ORPHANED;
use lockgate_route::translate::verdict::{Severity, Status};
use serde_json::{Value, json};

use super::conditions::{self, DesiredCondition, Message, are_current, merge};
use super::detailed::{self, entries};
use super::listeners::{ObjectProgress, next};
use crate::status::fault::Fault;
use crate::status::kind::{Facts, Goal, HasStatus, LoadBalancerAddress};

/// The type of the condition that reports whether the Envoys serve the object.
pub const PROGRAMMED: &str = "lockgate.dev/Programmed";

/// The status that an HTTPProxy should have.
#[derive(Debug, Clone, PartialEq)]
pub struct DesiredHttpProxyStatus {
    /// `currentStatus` and `description`. `None`: they belong to another controller.
    current: Option<(&'static str, String)>,
    conditions: Vec<DesiredCondition>,
    errors: Vec<SubCondition>,
    warnings: Vec<SubCondition>,
    addresses: Vec<LoadBalancerAddress>,
}

impl HasStatus for HttpProxy {
    type Status = DesiredHttpProxyStatus;

    fn version(&self) -> &Arc<str> {
        &self.version
    }

    fn goal(&self, facts: &Facts<'_>) -> Option<Goal<DesiredHttpProxyStatus>> {
        let Some(published) = facts.published else { return withdrawn(self, facts) };
        let is_orphaned = facts.verdicts.iter().any(|verdict| verdict.detail.is_some_and(|one| one.r#type == ORPHANED));
        let fault = match (is_orphaned, published.served) {
            (true, _) => Some(Fault::new("Invalid", "no root includes the object".to_owned())),
            (false, false) => Some(Fault::new("Invalid", "no route of the object is served".to_owned())),
            (false, true) => None,
        };
        next(published, fault, |progress| status(self, facts, &progress), |desired| is_current(self, desired))
    }

    fn patch(&self, desired: &DesiredHttpProxyStatus, envoys: usize, now: Timestamp) -> Value {
        let DesiredHttpProxyStatus { current, conditions, errors, warnings, addresses } = desired;
        let merged = merge(&existing(self), conditions, envoys, now);
        let entries = current.is_some().then_some((&**errors, &**warnings));
        let detailed = detailed::with_entries(merged, &self.status.conditions, entries);
        let addresses = (!addresses.is_empty()).then_some(addresses);
        let mut status = json!({
            "conditions": detailed,
            "loadBalancer": { "ingress": addresses },
        });
        if let Some((current, description)) = current {
            status["currentStatus"] = json!(current);
            status["description"] = json!(description);
        }
        status
    }

    fn summary(desired: &DesiredHttpProxyStatus) -> String {
        let programmed = desired.conditions.iter().find(|one| one.r#type == PROGRAMMED);
        match (&desired.current, programmed) {
            (Some((current, _)), Some(DesiredCondition { status: Status::True, .. })) => {
                format!("{current}, reachable at {}", crate::status::ingress::list(&desired.addresses))
            }
            (Some((current, description)), _) => format!("{current}: {description}"),
            (None, _) => conditions::summary(&desired.conditions),
        }
    }
}

/// Returns the status at this stage of the progress.
fn status(proxy: &HttpProxy, facts: &Facts<'_>, progress: &ObjectProgress) -> DesiredHttpProxyStatus {
    let generation = proxy.meta.generation;
    let (errors, warnings) = (entries(facts.verdicts, Severity::Error), entries(facts.verdicts, Severity::Warning));
    let valid = detailed::valid(facts.verdicts);
    let current = match (&*errors, valid) {
        ([], _) => "valid",
        ([error, ..], _) if error.r#type == ORPHANED => "orphaned",
        _ => "invalid",
    };
    let description = valid.map(|verdict| verdict.message.to_string()).unwrap_or_default();
    let valid = valid.map(|verdict| DesiredCondition::from_verdict(verdict, generation));
    DesiredHttpProxyStatus {
        current: Some((current, description)),
        conditions: valid.into_iter().chain([programmed(proxy, progress)]).collect(),
        errors,
        warnings,
        addresses: addresses(proxy, facts, progress),
    }
}

/// Returns whether the Envoys serve the object.
fn programmed(proxy: &HttpProxy, progress: &ObjectProgress) -> DesiredCondition {
    let generation = proxy.meta.generation;
    let condition =
        |status, reason, message| DesiredCondition { r#type: PROGRAMMED, status, reason, message, generation };
    let was = |one: &DetailedCondition| {
        let Condition { r#type, status, observed_generation, .. } = &one.condition;
        r#type == PROGRAMMED && status == Status::True.as_str() && *observed_generation == generation
    };
    match progress {
        ObjectProgress::Blocked(fault) => condition(Status::False, fault.reason, Message::Text(fault.message.clone())),
        ObjectProgress::Accepted(revision) => condition(Status::True, "Programmed", Message::Accepted(*revision)),
        ObjectProgress::Waiting if proxy.status.conditions.iter().any(was) => {
            condition(Status::True, "Programmed", Message::Kept)
        }
        ObjectProgress::Waiting => {
            let message = "not all Envoys have accepted the HTTPProxy yet".to_owned();
            condition(Status::False, "Pending", Message::Text(message))
        }
    }
}

/// Returns the addresses at this stage. Our addresses appear when all Envoys serve the object, and disappear when none does.
fn addresses(proxy: &HttpProxy, facts: &Facts<'_>, progress: &ObjectProgress) -> Vec<LoadBalancerAddress> {
    let current = &proxy.status.load_balancer.ingress;
    match progress {
        ObjectProgress::Accepted(_) if !facts.addresses.is_empty() => facts.addresses.to_vec(),
        ObjectProgress::Accepted(_) | ObjectProgress::Waiting => current.clone(),
        ObjectProgress::Blocked(_) => without_ours(proxy, facts),
    }
}

fn without_ours(proxy: &HttpProxy, facts: &Facts<'_>) -> Vec<LoadBalancerAddress> {
    let others = proxy.status.load_balancer.ingress.iter().filter(|address| !facts.addresses.contains(address));
    others.cloned().collect()
}

/// Returns the status of an object that Lockgate no longer serves. The condition `Valid` belongs to the next controller.
fn withdrawn(proxy: &HttpProxy, facts: &Facts<'_>) -> Option<Goal<DesiredHttpProxyStatus>> {
    let addresses = without_ours(proxy, facts);
    let (conditions, errors, warnings) = (Vec::new(), Vec::new(), Vec::new());
    let status = DesiredHttpProxyStatus { current: None, conditions, errors, warnings, addresses };
    (facts.withdrawing && !is_current(proxy, &status)).then(|| Goal::at_once(status, 0))
}

/// Returns whether the object has the desired status.
fn is_current(proxy: &HttpProxy, desired: &DesiredHttpProxyStatus) -> bool {
    let current = &proxy.status;
    let has_details = match &desired.current {
        None => true,
        Some((status, description)) => {
            current.current_status == *status
                && current.description == *description
                && detailed::has_entries(&current.conditions, &desired.errors, &desired.warnings)
        }
    };
    has_details
        && current.load_balancer.ingress == desired.addresses
        && are_current(&existing(proxy), &desired.conditions)
}

/// Returns the existing conditions without errors and warnings.
fn existing(proxy: &HttpProxy) -> Vec<Condition> {
    detailed::conditions(&proxy.status.conditions)
}

#[cfg(test)]
mod tests;
