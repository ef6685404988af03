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

use super::conditions::{Wanted as Wish, are, merge};
use super::listeners::{self, Listener, Listeners, Progress};
use super::{View, cause};
use crate::inspection::changed_sources;
use crate::status::infrastructure::Fault;
use crate::status::kind::{Facts, Goal, HasStatus, Known};

/// The maximum number of listeners. Source: CustomResourceDefinition of ListenerSet v1.
const MOST: usize = 64;

/// The status that a ListenerSet should have.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    conditions: Vec<Wish>,
    listeners: Vec<Listener>,
}

impl HasStatus for ListenerSet {
    type Status = Wanted;

    fn version(&self) -> &Arc<str> {
        &self.version
    }

    fn goal(&self, facts: &Facts<'_>) -> Option<Goal<Wanted>> {
        let Some(published) = facts.published else {
            return withdrawn(self, facts).map(|status| Goal { cause: cause(&status), status, needs: None });
        };
        let report = report(self, facts);
        let status = |progress| wanted(self, facts.verdicts, report, &progress);
        listeners::next(published, fault(self, facts, report), status, |wanted| is_right(self, wanted))
    }

    fn patch(&self, wanted: &Wanted, envoys: usize, now: Timestamp) -> Value {
        json!({
            "conditions": merge(&self.status.conditions, &wanted.conditions, envoys, now),
            "listeners": listeners::patch(&self.status.listeners, &wanted.listeners, envoys, now),
        })
    }

    fn summary(wanted: &Wanted) -> String {
        super::summary(&wanted.conditions)
    }

    fn changed(before: &Known, now: &Known) -> BTreeSet<ObjectKey> {
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
    let Some((gateway, report)) = View::of_set(set, facts).zip(report) else { return Some(pending()) };
    let Some(service) =
        gateway.service.filter(|_| gateway.fault(facts.faults.get(&gateway.gateway.meta.key)).is_none())
    else {
        return Some(pending());
    };
    if report.listeners.iter().any(|listener| listener.serves) {
        return None;
    }
    let lacking = report.listeners.iter().filter_map(|one| one.port).find_map(|port| gateway.lacks(service, port));
    lacking.or_else(|| Some(Fault::new("PortUnavailable", "no listener has a port of the Envoys".to_owned())))
}

fn wanted(set: &ListenerSet, verdicts: &[Verdict], report: Option<&SetReport>, progress: &Progress) -> Wanted {
    let view = Listeners { generation: set.meta.generation, verdicts, is: &set.status.listeners };
    let mut conditions = view.of_object();
    conditions.push(view.programmed(progress, &set.status.conditions));
    let reports = report.map(|report| report.listeners.as_slice()).unwrap_or_default();
    // In contrast to Gateways, the API repeats the reason of a conflict.
    let reason = |verdict: &Verdict| if verdict.condition == "ResolvedRefs" { "Invalid" } else { verdict.reason };
    let listeners = reports.iter().take(MOST).map(|report| view.listener(report, progress, reason));
    Wanted { conditions, listeners: listeners.collect() }
}

/// Returns whether the status of `set` is the wanted one.
fn is_right(set: &ListenerSet, wanted: &Wanted) -> bool {
    are(&set.status.conditions, &wanted.conditions) && listeners::are_right(&set.status.listeners, &wanted.listeners)
}

/// Returns the status that a ListenerSet without a Gateway begins with, if it was ours. The controller of another Gateway
/// writes its own status.
fn withdrawn(set: &ListenerSet, facts: &Facts<'_>) -> Option<Wanted> {
    let objects = &facts.inspection.objects;
    let gateway = set.gateway().and_then(|key| objects.get::<Gateway>(&key));
    let class = gateway.map(|gateway| ObjectKey::new("", &gateway.spec.gateway_class_name));
    if !facts.left || class.is_some_and(|class| objects.get::<GatewayClass>(&class).is_some()) {
        return None;
    }
    let wanted = Wanted { conditions: listeners::pending(set.meta.generation), listeners: Vec::new() };
    (!is_right(set, &wanted)).then_some(wanted)
}

#[cfg(test)]
mod tests;
