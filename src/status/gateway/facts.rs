//! The facts that determine the status of a Gateway: its verdicts, its report, and its Service.

use std::net::IpAddr;

use lockgate_route::objects::gateway::{Gateway, GatewayAddress, ListenerSet};
use lockgate_route::objects::{GatewayService, Kind, ObjectKey, Service, Transport};
use lockgate_route::translate::Verdict;
use lockgate_route::translate::gateway::{GatewayReport, service_key};
use lockgate_route::translate::verdict::Status;

use crate::status::fault::Fault;
use crate::status::kind::Facts;

/// The maximum number of addresses. Source: CustomResourceDefinition of Gateway v1.
const MAX_ADDRESSES: usize = 16;

/// A Gateway, and the facts that determine its status.
pub struct GatewayFacts<'a> {
    pub gateway: &'a Gateway,
    pub verdicts: &'a [Verdict],
    pub report: Option<&'a GatewayReport>,
    /// The key of its Service.
    key: ObjectKey,
    pub service: Option<&'a GatewayService>,
}

impl<'a> GatewayFacts<'a> {
    pub fn new(gateway: &'a Gateway, facts: &Facts<'a>) -> Self {
        let (meta, inspection) = (&gateway.meta, facts.inspection);
        let key = service_key(&meta.key, &gateway.spec.gateway_class_name);
        let service = inspection.objects.get::<Service>(&key).and_then(|service| service.gateway.as_deref());
        let service = service.filter(|service| service.name == meta.key.name);
        let report = inspection.gateways.get(&meta.key).map(|report| &**report);
        Self { gateway, verdicts: facts.verdicts, report, key, service }
    }

    /// Returns the Gateway of a ListenerSet.
    pub fn for_set(set: &ListenerSet, facts: &Facts<'a>) -> Option<Self> {
        let key = set.gateway()?;
        let gateway = facts.inspection.objects.get::<Gateway>(&key)?;
        let verdicts = facts.inspection.verdicts.get(&Kind::GATEWAY.id(key));
        Some(Self { verdicts: verdicts.map_or(&[], |verdicts| verdicts), ..Self::new(gateway, facts) })
    }

    /// Returns the reason why the Gateway cannot be programmed now, if there is one. `infrastructure` is the reason why it cannot
    /// have a Service. Listeners of ListenerSets do not count.
    pub fn fault(&self, infrastructure: Option<&Fault>) -> Option<Fault> {
        let verdict = self.verdicts.iter().find(|one| one.listener.is_none() && one.condition == "Accepted");
        if let Some(verdict) = verdict.filter(|verdict| verdict.status == Status::False) {
            return Some(Fault::new("Invalid", format!("the Gateway is not accepted: {}", verdict.reason)));
        }
        // A Gateway without its own listeners serves only its ListenerSets.
        let is_valid = |report: &&GatewayReport| report.own_ports().next().is_some() || report.listeners.is_empty();
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
    pub fn missing_port(&self, service: &GatewayService, desired: (Transport, u16)) -> Option<Fault> {
        let has = service.ports.iter().any(|(transport, port, _)| (*transport, *port) == desired);
        let message = || format!("Service \"{}\" does not have port {} yet", self.key, desired.1);
        (!has).then(|| Fault::new("Pending", message()))
    }

    /// Returns the addresses of the Service.
    pub fn addresses(&self) -> Vec<GatewayAddress> {
        let address = |r#type: &str, value: &Option<String>| {
            let value = value.clone().filter(|value| !value.is_empty())?;
            Some(GatewayAddress { r#type: Some(r#type.to_owned()), value })
        };
        let ingress = self.service.into_iter().flat_map(|service| &service.addresses);
        let all = ingress.flat_map(|one| [address("IPAddress", &one.ip), address("Hostname", &one.hostname)]);
        all.flatten().take(MAX_ADDRESSES).collect()
    }
}

/// Returns whether two addresses are equal, independent of notation and of an explicit default type.
pub fn is_same(a: &GatewayAddress, b: &GatewayAddress) -> bool {
    let [a_type, b_type] = [a, b].map(|address| address.r#type.as_deref().unwrap_or("IPAddress"));
    let [a_ip, b_ip] = [a, b].map(|address| address.value.parse::<IpAddr>().ok());
    a_type == b_type && (a.value == b.value || (a_ip.is_some() && a_ip == b_ip))
}
