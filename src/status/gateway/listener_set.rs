//! The status of a ListenerSet: its conditions and its listeners.
//!
//! `Programmed` follows the rules of Gateways, and needs a Gateway that can be programmed.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use lockgate_route::objects::gateway::{Gateway, GatewayClass, ListenerSet};
use lockgate_route::objects::{Kind, ObjectKey};
use lockgate_route::translate::Verdict;
use lockgate_route::translate::gateway::SetReport;
use lockgate_route::translate::verdict::Status;
use serde_json::{Value, json};

use super::conditions::{self, DesiredCondition, are_current, goal, merge};
use super::facts::GatewayFacts;
use super::listeners::{self, Listener, ListenerFacts, ObjectProgress};
use crate::inspection::changed_sources;
use crate::status::fault::Fault;
use crate::status::kind::{Facts, Goal, HasStatus, Inputs};

/// The maximum number of listeners. Source: CustomResourceDefinition of ListenerSet v1.
const MAX_LISTENERS: usize = 64;

/// The status that a ListenerSet should have.
#[derive(Debug, Clone, PartialEq)]
pub struct DesiredListenerSetStatus {
    conditions: Vec<DesiredCondition>,
    listeners: Vec<Listener>,
}

impl HasStatus for ListenerSet {
    type Status = DesiredListenerSetStatus;

    fn version(&self) -> &Arc<str> {
        &self.version
    }

    fn goal(&self, facts: &Facts<'_>) -> Option<Goal<DesiredListenerSetStatus>> {
        let Some(published) = facts.published else {
            return withdrawn(self, facts).map(goal);
        };
        let report = report(self, facts);
        let status = |progress| desired(self, facts.verdicts, report, &progress);
        listeners::next(published, fault(self, facts, report), status, |desired| is_current(self, desired))
    }

    fn patch(&self, desired: &DesiredListenerSetStatus, envoys: usize, now: Timestamp) -> Value {
        json!({
            "conditions": merge(&self.status.conditions, &desired.conditions, envoys, now),
            "listeners": listeners::patch(&self.status.listeners, &desired.listeners, envoys, now),
        })
    }

    fn summary(desired: &DesiredListenerSetStatus) -> String {
        conditions::summary(&desired.conditions)
    }

    fn changed(before: &Inputs, now: &Inputs) -> BTreeSet<ObjectKey> {
        let (old, new) = (&*before.inspection, &*now.inspection);
        let mut keys: BTreeSet<ObjectKey> = changed_sources(Kind::LISTENER_SET, old, new).cloned().collect();
        for gateway in <Gateway as HasStatus>::changed(before, now) {
            let reports = [old, new].into_iter().filter_map(|inspection| inspection.gateways.get(&gateway));
            keys.extend(reports.flat_map(|report| report.sets.keys().cloned()));
        }
        keys
    }
}

/// Returns the report on a ListenerSet.
fn report<'a>(set: &ListenerSet, facts: &Facts<'a>) -> Option<&'a SetReport> {
    facts.inspection.gateways.get(&set.gateway()?)?.sets.get(&set.meta.key)
}

/// Returns the reason why a ListenerSet cannot be programmed now, if there is one.
fn fault(set: &ListenerSet, facts: &Facts<'_>, report: Option<&SetReport>) -> Option<Fault> {
    let verdict = facts.verdicts.iter().find(|one| one.listener.is_none() && one.condition == "Accepted");
    if let Some(verdict) = verdict.filter(|verdict| verdict.status == Status::False) {
        let reason = if verdict.reason == "ParentNotAccepted" { "ParentNotProgrammed" } else { verdict.reason };
        return Some(Fault::new(reason, format!("the ListenerSet is not accepted: {}", verdict.message)));
    }
    let pending = || Fault::new("ParentNotProgrammed", "the Gateway is not programmed yet".to_owned());
    let Some((gateway, report)) = GatewayFacts::for_set(set, facts).zip(report) else { return Some(pending()) };
    let Some(service) =
        gateway.service.filter(|_| gateway.fault(facts.faults.get(&gateway.gateway.meta.key)).is_none())
    else {
        return Some(pending());
    };
    if report.listeners.iter().any(|listener| listener.serves) {
        return None;
    }
    let lacking =
        report.listeners.iter().filter_map(|one| one.port).find_map(|port| gateway.missing_port(service, port));
    lacking.or_else(|| Some(Fault::new("PortUnavailable", "no listener has a port of the Envoys".to_owned())))
}

fn desired(
    set: &ListenerSet,
    verdicts: &[Verdict],
    report: Option<&SetReport>,
    progress: &ObjectProgress,
) -> DesiredListenerSetStatus {
    let view = ListenerFacts { generation: set.meta.generation, verdicts, current: &set.status.listeners };
    let mut conditions = view.of_object();
    conditions.push(view.programmed(progress, &set.status.conditions));
    let reports = report.map(|report| report.listeners.as_slice()).unwrap_or_default();
    // In contrast to Gateways, the API repeats the reason of a conflict.
    let reason = |verdict: &Verdict| if verdict.condition == "ResolvedRefs" { "Invalid" } else { verdict.reason };
    let listeners = reports.iter().take(MAX_LISTENERS).map(|report| view.listener(report, progress, reason));
    DesiredListenerSetStatus { conditions, listeners: listeners.collect() }
}

/// Returns whether the status of `set` is up to date.
fn is_current(set: &ListenerSet, desired: &DesiredListenerSetStatus) -> bool {
    are_current(&set.status.conditions, &desired.conditions)
        && listeners::are_current(&set.status.listeners, &desired.listeners)
}

/// Returns the initial status of a ListenerSet, if Lockgate served it and its GatewayClass no longer exists. If there
/// is another class, its controller writes the status.
fn withdrawn(set: &ListenerSet, facts: &Facts<'_>) -> Option<DesiredListenerSetStatus> {
    let objects = &facts.inspection.objects;
    let gateway = set.gateway().and_then(|key| objects.get::<Gateway>(&key));
    let class = gateway.map(|gateway| ObjectKey::new("", &gateway.spec.gateway_class_name));
    if !facts.withdrawing || class.is_some_and(|class| objects.get::<GatewayClass>(&class).is_some()) {
        return None;
    }
    let desired =
        DesiredListenerSetStatus { conditions: listeners::pending(set.meta.generation), listeners: Vec::new() };
    (!is_current(set, &desired)).then_some(desired)
}

#[cfg(test)]
mod tests;
