//! The status of a Gateway: its addresses, its conditions, and its listeners. The submodules contain the statuses of
//! the other kinds of Gateway API.
//!
//! `Programmed` is true when the Gateway has an address, and all Envoys have accepted the served revision. It then
//! stays true for this generation while other parts of the status change, unless the Gateway loses its address.

mod backend_policy;
mod class;
mod conditions;
mod detailed;
mod entries;
mod extension_service;
mod facts;
mod host_grant;
mod http_policy;
mod http_proxy;
mod listener_set;
mod listeners;
mod policy;
mod route;
mod targets;

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use lockgate_route::objects::gateway::{Gateway, GatewayAddress, GatewayClass};
use lockgate_route::objects::{Kind, ObjectKey, Service};
use lockgate_route::translate::gateway::GatewayReport;
use lockgate_route::translate::verdict::Status;
use serde_json::{Value, json};

use super::kind::{Facts, Goal, HasStatus, Inputs};
use crate::inspection::{changed, changed_sources};
use conditions::{DesiredCondition, are_current, goal, merge, summary};
use facts::{GatewayFacts, is_same};
use listeners::{Listener, ListenerFacts, ObjectProgress, PROGRAMMED};

/// The maximum number of listeners. Source: CustomResourceDefinition of Gateway v1.
const MAX_LISTENERS: usize = 64;

/// The status that a Gateway should have.
#[derive(Debug, Clone, PartialEq)]
pub struct DesiredGatewayStatus {
    addresses: Vec<GatewayAddress>,
    conditions: Vec<DesiredCondition>,
    listeners: Vec<Listener>,
    /// The number of accepted ListenerSets.
    sets: u32,
}

impl HasStatus for Gateway {
    type Status = DesiredGatewayStatus;

    fn version(&self) -> &Arc<str> {
        &self.version
    }

    fn goal(&self, facts: &Facts<'_>) -> Option<Goal<DesiredGatewayStatus>> {
        let Some(published) = facts.published else {
            return withdrawn(self, facts).map(goal);
        };
        let view = GatewayFacts::new(self, facts);
        let fault = view.fault(facts.faults.get(&self.meta.key));
        listeners::next(published, fault, |progress| status(&view, &progress), |desired| is_current(self, desired))
    }

    fn patch(&self, desired: &DesiredGatewayStatus, envoys: usize, now: Timestamp) -> Value {
        json!({
            "addresses": desired.addresses,
            "conditions": merge(&self.status.conditions, &desired.conditions, envoys, now),
            "listeners": listeners::patch(&self.status.listeners, &desired.listeners, envoys, now),
            "attachedListenerSets": desired.sets,
        })
    }

    fn summary(desired: &DesiredGatewayStatus) -> String {
        let programmed = desired.conditions.iter().find(|one| one.r#type == PROGRAMMED);
        match programmed {
            Some(DesiredCondition { status: Status::True, .. }) => {
                let addresses: Vec<&str> = desired.addresses.iter().map(|address| &*address.value).collect();
                format!("reachable at {}", addresses.join(", "))
            }
            _ => summary(&desired.conditions),
        }
    }

    fn changed(before: &Inputs, now: &Inputs) -> BTreeSet<ObjectKey> {
        let (old, new) = (&*before.inspection, &*now.inspection);
        let mut keys: BTreeSet<ObjectKey> = changed_sources(Kind::GATEWAY, old, new).cloned().collect();
        keys.extend(changed(&old.gateways, &new.gateways).cloned());
        keys.extend(changed(&before.external.faults, &now.external.faults).cloned());
        for key in changed(old.objects.of_kind(Kind::SERVICE), new.objects.of_kind(Kind::SERVICE)) {
            let services = [old, new].into_iter().filter_map(|inspection| inspection.objects.get::<Service>(key));
            let gateways = services.filter_map(|service| service.gateway.as_deref());
            keys.extend(gateways.map(|gateway| ObjectKey { name: gateway.name.clone(), ..key.clone() }));
        }
        keys
    }
}

/// Returns the status of a Gateway at this stage of its progress.
fn status(facts: &GatewayFacts<'_>, progress: &ObjectProgress) -> DesiredGatewayStatus {
    let (meta, current) = (&facts.gateway.meta, &facts.gateway.status);
    let view = ListenerFacts { generation: meta.generation, verdicts: facts.verdicts, current: &current.listeners };
    let mut conditions = view.of_object();
    conditions.push(view.programmed(progress, &current.conditions));
    let reports = facts.report.map(|report| report.listeners.as_slice()).unwrap_or_default();
    let listeners = reports.iter().take(MAX_LISTENERS).map(|report| view.listener(report, progress, |_| "Invalid"));
    let sets = facts.report.map_or(0, GatewayReport::accepted_sets);
    DesiredGatewayStatus {
        addresses: facts.addresses(),
        conditions,
        listeners: listeners.collect(),
        sets: u32::try_from(sets).unwrap_or(u32::MAX),
    }
}

/// Returns whether `gateway` has the desired status.
fn is_current(gateway: &Gateway, desired: &DesiredGatewayStatus) -> bool {
    let current = &gateway.status;
    current.addresses.len() == desired.addresses.len()
        && current.addresses.iter().zip(&desired.addresses).all(|(current, desired)| is_same(current, desired))
        && are_current(&current.conditions, &desired.conditions)
        && listeners::are_current(&current.listeners, &desired.listeners)
        // The API server drops the field before version 1.5 of Gateway API.
        && current.attached_listener_sets.unwrap_or_default() == desired.sets
}

/// Returns the initial status of a Gateway, if Lockgate served it and its GatewayClass no longer exists. If there is
/// another class, its controller writes the status.
fn withdrawn(gateway: &Gateway, facts: &Facts<'_>) -> Option<DesiredGatewayStatus> {
    let class = ObjectKey::new("", &gateway.spec.gateway_class_name);
    if !facts.withdrawing || facts.inspection.objects.get::<GatewayClass>(&class).is_some() {
        return None;
    }
    let conditions = listeners::pending(gateway.meta.generation);
    let desired = DesiredGatewayStatus { addresses: Vec::new(), conditions, listeners: Vec::new(), sets: 0 };
    (!is_current(gateway, &desired)).then_some(desired)
}

#[cfg(test)]
mod tests;
