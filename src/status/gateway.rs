//! The status of a Gateway: its addresses, its conditions, and its listeners. The submodules have the statuses of the
//! other kinds of Gateway API.
//!
//! `Programmed` is true when the Gateway has an address, and all Envoys have accepted the revision that is served. It then
//! stays true for this generation while other parts of the status change, unless the Gateway loses its address.

mod class;
mod conditions;
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

use super::infrastructure::Fault;
use super::kind::{Facts, Goal, HasStatus, Known};
use crate::inspection::{changed, changed_sources};
use conditions::{Wanted as Wish, are, merge};
use listeners::{Listener, Listeners, PROGRAMMED, Progress};

/// The maximum number of addresses, and of listeners. Source: CustomResourceDefinition of Gateway v1.
const MOST: (usize, usize) = (16, 64);

/// The status that a Gateway should have.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    addresses: Vec<GatewayAddress>,
    conditions: Vec<Wish>,
    listeners: Vec<Listener>,
    /// The number of accepted ListenerSets.
    sets: u32,
}

impl HasStatus for Gateway {
    type Status = Wanted;

    fn version(&self) -> &Arc<str> {
        &self.version
    }

    fn goal(&self, facts: &Facts<'_>) -> Option<Goal<Wanted>> {
        let Some(published) = facts.published else {
            return withdrawn(self, facts).map(|status| Goal { cause: cause(&status), status, needs: None });
        };
        let view = View::new(self, facts);
        let fault = view.fault(facts.faults.get(&self.meta.key));
        listeners::next(published, fault, |progress| view.status(&progress), |wanted| is_right(self, wanted))
    }

    fn patch(&self, wanted: &Wanted, envoys: usize, now: Timestamp) -> Value {
        json!({
            "addresses": wanted.addresses,
            "conditions": merge(&self.status.conditions, &wanted.conditions, envoys, now),
            "listeners": listeners::patch(&self.status.listeners, &wanted.listeners, envoys, now),
            "attachedListenerSets": wanted.sets,
        })
    }

    fn summary(wanted: &Wanted) -> String {
        let programmed = wanted.conditions.iter().find(|one| one.r#type == PROGRAMMED);
        match programmed {
            Some(Wish { status: Status::True, .. }) => {
                let addresses: Vec<&str> = wanted.addresses.iter().map(|address| &*address.value).collect();
                format!("reachable at {}", addresses.join(", "))
            }
            _ => summary(&wanted.conditions),
        }
    }

    fn changed(before: &Known, now: &Known) -> BTreeSet<ObjectKey> {
        let (old, new) = (&*before.inspection, &*now.inspection);
        let mut keys: BTreeSet<ObjectKey> = changed_sources(Kind::GATEWAY, old, new).cloned().collect();
        keys.extend(changed(&old.gateways, &new.gateways).cloned());
        keys.extend(changed(&before.outside.faults, &now.outside.faults).cloned());
        for key in changed(old.objects.of_kind(Kind::SERVICE), new.objects.of_kind(Kind::SERVICE)) {
            let services = [old, new].into_iter().filter_map(|inspection| inspection.objects.get::<Service>(key));
            let gateways = services.filter_map(|service| service.gateway.as_deref());
            keys.extend(gateways.map(|gateway| ObjectKey { name: gateway.name.clone(), ..key.clone() }));
        }
        keys
    }
}

/// A Gateway, and the facts that its status is made of.
struct View<'a> {
    gateway: &'a Gateway,
    verdicts: &'a [Verdict],
    report: Option<&'a Report>,
    /// The key of its Service.
    key: ObjectKey,
    service: Option<&'a GatewayService>,
}

impl<'a> View<'a> {
    fn new(gateway: &'a Gateway, facts: &Facts<'a>) -> Self {
        let (meta, inspection) = (&gateway.meta, facts.inspection);
        let key = service_key(&meta.key, &gateway.spec.gateway_class_name);
        let service = inspection.objects.get::<Service>(&key).and_then(|service| service.gateway.as_deref());
        let service = service.filter(|service| service.name == meta.key.name);
        let report = inspection.gateways.get(&meta.key).map(|report| &**report);
        Self { gateway, verdicts: facts.verdicts, report, key, service }
    }

    /// Returns the Gateway that `set` names, for its ListenerSets.
    fn of_set(set: &ListenerSet, facts: &Facts<'a>) -> Option<Self> {
        let key = set.gateway()?;
        let gateway = facts.inspection.objects.get::<Gateway>(&key)?;
        let verdicts = facts.inspection.verdicts.get(&Kind::GATEWAY.id(key));
        Some(Self { verdicts: verdicts.map_or(&[], |verdicts| verdicts), ..Self::new(gateway, facts) })
    }

    /// Returns the reason why the Gateway cannot be programmed now, if there is one. `infrastructure`: the reason why
    /// it cannot have a Service. Listeners of ListenerSets have no effect.
    fn fault(&self, infrastructure: Option<&Fault>) -> Option<Fault> {
        let verdict = self.verdicts.iter().find(|one| one.listener.is_none() && one.condition == "Accepted");
        if let Some(verdict) = verdict.filter(|verdict| verdict.status == Status::False) {
            return Some(Fault::new("Invalid", format!("the Gateway is not accepted: {}", verdict.reason)));
        }
        // A Gateway without listeners of its own exists for its ListenerSets.
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
        if let Some(fault) = report.own_ports().find_map(|port| self.lacks(service, port)) {
            return Some(fault);
        }
        let addresses = self.addresses();
        let requested = self.gateway.spec.addresses.iter().filter(|address| !address.value.is_empty());
        if let Some(missing) = requested.into_iter().find(|one| !addresses.iter().any(|is| is_same(is, one))) {
            let message = format!("address {:?} is not assigned to Service \"{key}\"", missing.value);
            return Some(Fault::new("AddressNotUsable", message));
        }
        addresses.is_empty().then(|| {
            let message =
                format!("Service \"{key}\" has no address; a load balancer of the Kubernetes cluster assigns it");
            Fault::new("AddressNotAssigned", message)
        })
    }

    /// Returns the fault of a Service without this port.
    fn lacks(&self, service: &GatewayService, wanted: (Transport, u16)) -> Option<Fault> {
        let has = service.ports.iter().any(|(transport, port, _)| (*transport, *port) == wanted);
        let message = || format!("Service \"{}\" does not have port {} yet", self.key, wanted.1);
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
        all.flatten().take(MOST.0).collect()
    }

    fn status(&self, progress: &Progress) -> Wanted {
        let (meta, is) = (&self.gateway.meta, &self.gateway.status);
        let view = Listeners { generation: meta.generation, verdicts: self.verdicts, is: &is.listeners };
        let mut conditions = view.of_object();
        conditions.push(view.programmed(progress, &is.conditions));
        let reports = self.report.map(|report| report.listeners.as_slice()).unwrap_or_default();
        let listeners = reports.iter().take(MOST.1).map(|report| view.listener(report, progress, |_| "Invalid"));
        let sets = self.report.map_or(0, Report::accepted_sets);
        Wanted {
            addresses: self.addresses(),
            conditions,
            listeners: listeners.collect(),
            sets: u32::try_from(sets).unwrap_or(u32::MAX),
        }
    }
}

/// Returns whether the status of `gateway` is the wanted one.
fn is_right(gateway: &Gateway, wanted: &Wanted) -> bool {
    let is = &gateway.status;
    is.addresses.len() == wanted.addresses.len()
        && is.addresses.iter().zip(&wanted.addresses).all(|(is, wanted)| is_same(is, wanted))
        && are(&is.conditions, &wanted.conditions)
        && listeners::are_right(&is.listeners, &wanted.listeners)
        // The API server drops the field before version 1.5 of Gateway API.
        && is.attached_listener_sets.unwrap_or_default() == wanted.sets
}

/// Returns the status that a Gateway without a class begins with, if it was ours. A controller of another class
/// writes its own status.
fn withdrawn(gateway: &Gateway, facts: &Facts<'_>) -> Option<Wanted> {
    let class = ObjectKey::new("", &gateway.spec.gateway_class_name);
    if !facts.left || facts.inspection.objects.get::<GatewayClass>(&class).is_some() {
        return None;
    }
    let conditions = listeners::pending(gateway.meta.generation);
    let wanted = Wanted { addresses: Vec::new(), conditions, listeners: Vec::new(), sets: 0 };
    (!is_right(gateway, &wanted)).then_some(wanted)
}

/// Returns whether two addresses are the same, with a default type or without, in any notation.
fn is_same(a: &GatewayAddress, b: &GatewayAddress) -> bool {
    let [a_type, b_type] = [a, b].map(|address| address.r#type.as_deref().unwrap_or("IPAddress"));
    let [a_ip, b_ip] = [a, b].map(|address| address.value.parse::<IpAddr>().ok());
    a_type == b_type && (a.value == b.value || (a_ip.is_some() && a_ip == b_ip))
}

/// Returns the hash of a wanted status as the cause of a goal.
fn cause(wanted: &impl Debug) -> u64 {
    xxh3_64(format!("{wanted:?}").as_bytes())
}

/// Returns the text on conditions for the log: the first one that does not hold, or all of them.
fn summary(conditions: &[Wish]) -> String {
    let text = |one: &Wish| format!("{}={} ({})", one.r#type, one.status.as_str(), one.reason);
    match conditions.iter().find(|one| one.status != Status::True) {
        Some(one) => text(one),
        None => conditions.iter().map(text).collect::<Vec<_>>().join(" "),
    }
}

#[cfg(test)]
mod tests;
