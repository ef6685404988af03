//! The status of a Gateway: its addresses, its conditions, and its listeners. The submodules contain the statuses of
//! the other kinds of Gateway API.
//!
//! `Programmed` is true when the Gateway has an address, and all Envoys have accepted the served revision. It then
//! stays true for this generation while other parts of the status change, unless the Gateway loses its address.

mod class;
mod conditions;
mod entries;
mod host_grant;
mod http_policy;
mod listener_set;
mod listeners;
mod policy;
mod route;

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use lockgate_route::objects::gateway::{Gateway, GatewayAddress, GatewayClass, ListenerSet};
use lockgate_route::objects::{GatewayService, Kind, ObjectKey, Service, Transport};
use lockgate_route::translate::Verdict;
use lockgate_route::translate::gateway::{Report, service_key};
use lockgate_route::translate::verdict::Status;
use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_64;

use super::fault::Fault;
use super::kind::{Facts, Goal, HasStatus, Inputs};
use crate::inspection::{changed, changed_sources};
use conditions::{DesiredCondition, are_current, merge};
use listeners::{Listener, Listeners, PROGRAMMED, Progress};

/// The maximum number of addresses. Source: CustomResourceDefinition of Gateway v1.
const MAX_ADDRESSES: usize = 16;
/// The maximum number of listeners. Source: CustomResourceDefinition of Gateway v1.
const MAX_LISTENERS: usize = 64;

/// The status that a Gateway should have.
#[derive(Debug, Clone, PartialEq)]
pub struct DesiredStatus {
    addresses: Vec<GatewayAddress>,
    conditions: Vec<DesiredCondition>,
    listeners: Vec<Listener>,
    /// The number of accepted ListenerSets.
    sets: u32,
}

impl HasStatus for Gateway {
    type Status = DesiredStatus;

    fn version(&self) -> &Arc<str> {
        &self.version
    }

    fn goal(&self, facts: &Facts<'_>) -> Option<Goal<DesiredStatus>> {
        let Some(published) = facts.published else {
            return withdrawn(self, facts).map(|status| Goal { cause: cause(&status), status, needs: None });
        };
        let view = GatewayFacts::new(self, facts);
        let fault = view.fault(facts.faults.get(&self.meta.key));
        listeners::next(published, fault, |progress| view.status(&progress), |desired| is_current(self, desired))
    }

    fn patch(&self, desired: &DesiredStatus, envoys: usize, now: Timestamp) -> Value {
        json!({
            "addresses": desired.addresses,
            "conditions": merge(&self.status.conditions, &desired.conditions, envoys, now),
            "listeners": listeners::patch(&self.status.listeners, &desired.listeners, envoys, now),
            "attachedListenerSets": desired.sets,
        })
    }

    fn summary(desired: &DesiredStatus) -> String {
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

/// A Gateway, and the facts that determine its status.
struct GatewayFacts<'a> {
    gateway: &'a Gateway,
    verdicts: &'a [Verdict],
    report: Option<&'a Report>,
    /// The key of its Service.
    key: ObjectKey,
    service: Option<&'a GatewayService>,
}

impl<'a> GatewayFacts<'a> {
    fn new(gateway: &'a Gateway, facts: &Facts<'a>) -> Self {
        let (meta, inspection) = (&gateway.meta, facts.inspection);
        let key = service_key(&meta.key, &gateway.spec.gateway_class_name);
        let service = inspection.objects.get::<Service>(&key).and_then(|service| service.gateway.as_deref());
        let service = service.filter(|service| service.name == meta.key.name);
        let report = inspection.gateways.get(&meta.key).map(|report| &**report);
        Self { gateway, verdicts: facts.verdicts, report, key, service }
    }

    /// Returns the Gateway of a ListenerSet.
    fn for_set(set: &ListenerSet, facts: &Facts<'a>) -> Option<Self> {
        let key = set.gateway()?;
        let gateway = facts.inspection.objects.get::<Gateway>(&key)?;
        let verdicts = facts.inspection.verdicts.get(&Kind::GATEWAY.id(key));
        Some(Self { verdicts: verdicts.map_or(&[], |verdicts| verdicts), ..Self::new(gateway, facts) })
    }

    /// Returns the reason why the Gateway cannot be programmed now, if there is one. `infrastructure` is the reason why it cannot
    /// have a Service. Listeners of ListenerSets do not count.
    fn fault(&self, infrastructure: Option<&Fault>) -> Option<Fault> {
        let verdict = self.verdicts.iter().find(|one| one.listener.is_none() && one.condition == "Accepted");
        if let Some(verdict) = verdict.filter(|verdict| verdict.status == Status::False) {
            return Some(Fault::new("Invalid", format!("the Gateway is not accepted: {}", verdict.reason)));
        }
        // A Gateway without its own listeners serves only its ListenerSets.
        let is_valid = |report: &&Report| report.own_ports().next().is_some() || report.listeners.is_empty();
        let Some(report) = self.report.filter(is_valid).filter(|report| !report.ports.is_empty()) else {
            return Some(Fault::new("Invalid", "no listener is valid".to_owned()));
        };
        if let Some(fault) = infrastructure {
            return Some(fault.clone());
        }
        let key = &self.key;
        let Some(service) = self.service else {
            return Some(Fault::new("Pending", format!("Service \"{key}\" does not exist yet")));
        };
        if let Some(fault) = report.own_ports().find_map(|port| self.missing_port(service, port)) {
            return Some(fault);
        }
        let addresses = self.addresses();
        let requested = self.gateway.spec.addresses.iter().filter(|address| !address.value.is_empty());
        if let Some(missing) = requested.into_iter().find(|one| !addresses.iter().any(|current| is_same(current, one)))
        {
            let message = format!("address {:?} is not assigned to Service \"{key}\"", missing.value);
            return Some(Fault::new("AddressNotUsable", message));
        }
        addresses.is_empty().then(|| {
            let message =
                format!("Service \"{key}\" has no address; a load balancer of the Kubernetes cluster assigns it");
            Fault::new("AddressNotAssigned", message)
        })
    }

    /// Returns a fault if the Service lacks a port.
    fn missing_port(&self, service: &GatewayService, desired: (Transport, u16)) -> Option<Fault> {
        let has = service.ports.iter().any(|(transport, port, _)| (*transport, *port) == desired);
        let message = || format!("Service \"{}\" does not have port {} yet", self.key, desired.1);
        (!has).then(|| Fault::new("Pending", message()))
    }

    /// Returns the addresses of the Service.
    fn addresses(&self) -> Vec<GatewayAddress> {
        let address = |r#type: &str, value: &Option<String>| {
            let value = value.clone().filter(|value| !value.is_empty())?;
            Some(GatewayAddress { r#type: Some(r#type.to_owned()), value })
        };
        let ingress = self.service.into_iter().flat_map(|service| &service.addresses);
        let all = ingress.flat_map(|one| [address("IPAddress", &one.ip), address("Hostname", &one.hostname)]);
        all.flatten().take(MAX_ADDRESSES).collect()
    }

    fn status(&self, progress: &Progress) -> DesiredStatus {
        let (meta, current) = (&self.gateway.meta, &self.gateway.status);
        let view = Listeners { generation: meta.generation, verdicts: self.verdicts, current: &current.listeners };
        let mut conditions = view.of_object();
        conditions.push(view.programmed(progress, &current.conditions));
        let reports = self.report.map(|report| report.listeners.as_slice()).unwrap_or_default();
        let listeners = reports.iter().take(MAX_LISTENERS).map(|report| view.listener(report, progress, |_| "Invalid"));
        let sets = self.report.map_or(0, Report::accepted_sets);
        DesiredStatus {
            addresses: self.addresses(),
            conditions,
            listeners: listeners.collect(),
            sets: u32::try_from(sets).unwrap_or(u32::MAX),
        }
    }
}

/// Returns whether `gateway` has the desired status.
fn is_current(gateway: &Gateway, desired: &DesiredStatus) -> bool {
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
fn withdrawn(gateway: &Gateway, facts: &Facts<'_>) -> Option<DesiredStatus> {
    let class = ObjectKey::new("", &gateway.spec.gateway_class_name);
    if !facts.withdrawing || facts.inspection.objects.get::<GatewayClass>(&class).is_some() {
        return None;
    }
    let conditions = listeners::pending(gateway.meta.generation);
    let desired = DesiredStatus { addresses: Vec::new(), conditions, listeners: Vec::new(), sets: 0 };
    (!is_current(gateway, &desired)).then_some(desired)
}

/// Returns whether two addresses are equal, independent of notation and of an explicit default type.
fn is_same(a: &GatewayAddress, b: &GatewayAddress) -> bool {
    let [a_type, b_type] = [a, b].map(|address| address.r#type.as_deref().unwrap_or("IPAddress"));
    let [a_ip, b_ip] = [a, b].map(|address| address.value.parse::<IpAddr>().ok());
    a_type == b_type && (a.value == b.value || (a_ip.is_some() && a_ip == b_ip))
}

/// Returns the hash of a desired status as the cause of a goal.
fn cause(desired: &impl Debug) -> u64 {
    xxh3_64(format!("{desired:?}").as_bytes())
}

/// Returns the summary of conditions for the log: the first one that is not true, or all of them.
fn summary(conditions: &[DesiredCondition]) -> String {
    let text = |one: &DesiredCondition| format!("{}={} ({})", one.r#type, one.status.as_str(), one.reason);
    match conditions.iter().find(|one| one.status != Status::True) {
        Some(one) => text(one),
        None => conditions.iter().map(text).collect::<Vec<_>>().join(" "),
    }
}

#[cfg(test)]
mod tests;
