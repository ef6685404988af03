//! The status of a Gateway: its addresses, its conditions, and its listeners. The submodules have the statuses of the
//! other kinds of Gateway API.
//!
//! `Programmed` is true when the Gateway has an address, and all Envoys have accepted the revision that is served. It then
//! stays true for this generation while other parts of the status change, unless the Gateway loses its address.

mod class;
mod conditions;
mod route;

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use lockgate_route::objects::gateway::{
    Condition, GROUP, Gateway, GatewayAddress, GatewayClass, ListenerStatus, RouteKind,
};
use lockgate_route::objects::{GatewayService, Kind, ObjectKey, Revision, Service};
use lockgate_route::translate::Verdict;
use lockgate_route::translate::gateway::{ListenerReport, Report, service_key};
use lockgate_route::translate::verdict::Status;
use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_64;

use super::infrastructure::Fault;
use super::kind::{Facts, Goal, HasStatus, Known};
use crate::inspection::{changed, changed_sources};
use conditions::{Message, Wanted as Wish, are, merge};

/// The maximum number of addresses, and of listeners. Source: CustomResourceDefinition of Gateway v1.
const MOST: (usize, usize) = (16, 64);

/// The status that a Gateway should have.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    addresses: Vec<GatewayAddress>,
    conditions: Vec<Wish>,
    listeners: Vec<Listener>,
}

/// The status that a listener should have.
#[derive(Debug, Clone, PartialEq)]
struct Listener {
    name: Arc<str>,
    supported_kinds: Vec<RouteKind>,
    attached_routes: u32,
    conditions: Vec<Wish>,
}

/// How far a Gateway is.
enum Progress {
    /// It cannot be served, or not yet.
    Held(Fault),
    /// Nothing but the acceptance by all Envoys is missing.
    Waits,
    /// All Envoys have accepted this revision.
    Done(Revision),
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
        let status = |progress| view.status(&progress);
        if let Some(fault) = view.fault(facts.fault) {
            let held = status(Progress::Held(fault));
            return (!is_right(self, &held)).then(|| Goal { cause: cause(&held), status: held, needs: None });
        }
        let done = status(Progress::Done(published.revision));
        if is_right(self, &done) {
            return None;
        }
        let (waits, cause) = (status(Progress::Waits), cause(&done));
        Some(match is_right(self, &waits) {
            true => Goal { status: done, needs: Some(published.clone()), cause },
            false => Goal { status: waits, needs: None, cause },
        })
    }

    fn patch(&self, wanted: &Wanted, envoys: usize, now: Timestamp) -> Value {
        let listener = |listener: &Listener| {
            let is = existing(self, &listener.name).map_or(&[][..], |is| &is.conditions);
            let kind = |kind: &RouteKind| json!({ "group": group(kind), "kind": kind.kind });
            json!({
                "name": &*listener.name,
                "supportedKinds": listener.supported_kinds.iter().map(kind).collect::<Vec<_>>(),
                "attachedRoutes": listener.attached_routes,
                "conditions": merge(is, &listener.conditions, envoys, now),
            })
        };
        json!({
            "addresses": wanted.addresses,
            "conditions": merge(&self.status.conditions, &wanted.conditions, envoys, now),
            "listeners": wanted.listeners.iter().map(listener).collect::<Vec<_>>(),
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

/// The type of the condition that tells whether Envoys serve an object.
const PROGRAMMED: &str = "Programmed";

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

    /// Returns the reason why the Gateway cannot be programmed now, if there is one. `infrastructure`: the reason why
    /// it cannot have a Service.
    fn fault(&self, infrastructure: Option<&Fault>) -> Option<Fault> {
        let verdict = self.verdicts.iter().find(|one| one.listener.is_none() && one.condition == "Accepted");
        if let Some(verdict) = verdict.filter(|verdict| verdict.status == Status::False) {
            return Some(Fault::new("Invalid", format!("the Gateway is not accepted: {}", verdict.reason)));
        }
        let Some(report) = self.report.filter(|report| !report.ports.is_empty()) else {
            return Some(Fault::new("Invalid", "no listener is valid".to_owned()));
        };
        if let Some(fault) = infrastructure {
            return Some(fault.clone());
        }
        let key = &self.key;
        let Some(service) = self.service else {
            return Some(Fault::new("Pending", format!("Service \"{key}\" does not exist yet")));
        };
        let has = |wanted: &(_, u16)| service.ports.iter().any(|(transport, port, _)| (*transport, *port) == *wanted);
        if let Some((_, port)) = report.ports.iter().find(|wanted| !has(wanted)) {
            return Some(Fault::new("Pending", format!("Service \"{key}\" does not have port {port} yet")));
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
        let of_gateway = self.verdicts.iter().filter(|verdict| verdict.listener.is_none());
        let mut conditions = self.conditions(of_gateway);
        let programmed = match progress {
            Progress::Held(fault) => self.not_programmed(fault.reason, &fault.message),
            other => self.programmed(other, &self.gateway.status.conditions),
        };
        conditions.push(programmed);
        let reports = self.report.map(|report| report.listeners.as_slice()).unwrap_or_default();
        let listeners = reports.iter().take(MOST.1).map(|report| self.listener(report, progress));
        Wanted { addresses: self.addresses(), conditions, listeners: listeners.collect() }
    }

    fn listener(&self, report: &ListenerReport, progress: &Progress) -> Listener {
        let verdicts: Vec<&Verdict> =
            self.verdicts.iter().filter(|verdict| verdict.listener.as_ref() == Some(&report.name)).collect();
        let is_negative = |verdict: &&Verdict| match verdict.condition {
            "Accepted" | "ResolvedRefs" => verdict.status == Status::False,
            "Conflicted" => verdict.status == Status::True,
            _ => false,
        };
        let mut conditions = self.conditions(verdicts.iter().copied());
        conditions.push(match (report.serves, verdicts.iter().copied().find(is_negative)) {
            (false, Some(verdict)) => {
                self.not_programmed("Invalid", &format!("the listener is not served: {}", verdict.reason))
            }
            (false, None) => self.not_programmed("Pending", "Envoy does not listen yet"),
            (true, _) => match progress {
                Progress::Held(fault) => self.not_programmed("Pending", &fault.message),
                other => self.programmed(other, existing(self.gateway, &report.name).map_or(&[], |is| &is.conditions)),
            },
        });
        Listener {
            name: report.name.clone(),
            supported_kinds: report.supported_kinds.clone(),
            attached_routes: report.attached_routes,
            conditions,
        }
    }

    fn conditions<'v>(&self, verdicts: impl Iterator<Item = &'v Verdict>) -> Vec<Wish> {
        verdicts.map(|verdict| Wish::of_verdict(verdict, self.gateway.meta.generation)).collect()
    }

    fn not_programmed(&self, reason: &'static str, message: &str) -> Wish {
        let (generation, message) = (self.gateway.meta.generation, Message::Text(message.to_owned()));
        Wish { r#type: PROGRAMMED, status: Status::False, reason, message, generation }
    }

    /// Returns the condition of a Gateway or a listener that nothing holds back but the Envoys. `is`: its existing
    /// conditions.
    fn programmed(&self, progress: &Progress, is: &[Condition]) -> Wish {
        let generation = self.gateway.meta.generation;
        let yes = |message| Wish { r#type: PROGRAMMED, status: Status::True, reason: PROGRAMMED, message, generation };
        let was = |is: &Condition| {
            is.r#type == PROGRAMMED && is.status == Status::True.as_str() && is.observed_generation == generation
        };
        match progress {
            Progress::Done(revision) => yes(Message::Accepted(*revision)),
            _ if is.iter().any(was) => yes(Message::Kept),
            _ => self.not_programmed("Pending", "not all Envoys have accepted the Gateway yet"),
        }
    }
}

/// Returns whether the status of `gateway` is the wanted one.
fn is_right(gateway: &Gateway, wanted: &Wanted) -> bool {
    let is = &gateway.status;
    let same_kinds = |a: &[RouteKind], b: &[RouteKind]| {
        a.iter().map(|kind| (group(kind), &kind.kind)).eq(b.iter().map(|kind| (group(kind), &kind.kind)))
    };
    let is_listener = |(is, wanted): (&ListenerStatus, &Listener)| {
        *is.name == *wanted.name
            && is.attached_routes == wanted.attached_routes
            && same_kinds(&is.supported_kinds, &wanted.supported_kinds)
            && are(&is.conditions, &wanted.conditions)
    };
    is.addresses.len() == wanted.addresses.len()
        && is.addresses.iter().zip(&wanted.addresses).all(|(is, wanted)| is_same(is, wanted))
        && are(&is.conditions, &wanted.conditions)
        && is.listeners.len() == wanted.listeners.len()
        && is.listeners.iter().zip(&wanted.listeners).all(is_listener)
}

/// Returns the status that a Gateway without a class begins with, if it was ours. A controller of another class
/// writes its own status.
fn withdrawn(gateway: &Gateway, facts: &Facts<'_>) -> Option<Wanted> {
    let class = ObjectKey::new("", &gateway.spec.gateway_class_name);
    if !facts.left || facts.inspection.objects.get::<GatewayClass>(&class).is_some() {
        return None;
    }
    let condition = |r#type| Wish {
        r#type,
        status: Status::Unknown,
        reason: "Pending",
        message: Message::Text("waits for a controller".to_owned()),
        generation: gateway.meta.generation,
    };
    let conditions = ["Accepted", PROGRAMMED].map(condition).into();
    let wanted = Wanted { addresses: Vec::new(), conditions, listeners: Vec::new() };
    (!is_right(gateway, &wanted)).then_some(wanted)
}

/// Returns the existing status of a listener.
fn existing<'a>(gateway: &'a Gateway, listener: &str) -> Option<&'a ListenerStatus> {
    gateway.status.listeners.iter().find(|is| is.name == listener)
}

fn group(kind: &RouteKind) -> &str {
    kind.group.as_deref().unwrap_or(GROUP)
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
