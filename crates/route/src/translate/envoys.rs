//! The Envoys of this installation, which no route may have as a backend: one request could go around in a loop until Envoy has no
//! more sockets.
//!
//! A loop through other proxies ends by a mark in the header `cdn-loop`, which names the installation. Source: RFC 8586. A limit on
//! the number of passes without a name would not do: mirrors multiply the requests of each pass. The addresses of the Envoys that are
//! connected are not read, because each replica has others. Nor are EndpointSlices of Gateways: tenants can write them, and would
//! remove the endpoints of others.

use std::collections::BTreeSet;
use std::net::IpAddr;

use xxhash_rust::xxh3::xxh3_64;

use super::address::canonical;
use crate::model::Model;
use crate::objects::{Kind, Namespace, ObjectKey, Objects, Service};
use crate::settings::Settings;

/// The addresses and ports at which the Envoys of this installation listen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Envoys {
    addresses: BTreeSet<IpAddr>,
    ports: BTreeSet<u16>,
}

impl Envoys {
    /// Collects the endpoints of `status.envoyService` and of the Services of dedicated fleets in its namespace, and the ports of
    /// all listeners. Tenants cannot write in that namespace.
    pub fn new(objects: &Objects, settings: &Settings, model: &Model) -> Self {
        let endpoints = services(objects, settings).flat_map(|service| objects.slices_of(service));
        let endpoints = endpoints.flat_map(|slice| &slice.endpoints);
        let addresses = endpoints.filter_map(|endpoint| endpoint.address.parse().ok().map(canonical)).collect();
        let listeners = &settings.listeners;
        let probes = [listeners.readiness, listeners.overload_probe];
        let of_operators = [listeners.stats, listeners.stats_tls.at, listeners.admin].into_iter().chain(probes);
        let ports = model.listeners.values().map(|listener| listener.bind).chain(of_operators).map(|bind| bind.port);
        Self { addresses, ports: ports.filter(|port| *port != 0).collect() }
    }

    /// Returns whether an Envoy listens at this address and port.
    pub fn has(&self, address: IpAddr, port: u16) -> bool {
        self.ports.contains(&port) && self.addresses.contains(&canonical(address))
    }

    /// Returns whether an endpoint of a Service has an address of an Envoy, at any port.
    pub fn share_addresses(&self, objects: &Objects, service: &ObjectKey) -> bool {
        let endpoints = objects.slices_of(service).flat_map(|slice| &slice.endpoints);
        let mut addresses = endpoints.filter_map(|endpoint| endpoint.address.parse().ok());
        !self.addresses.is_empty() && addresses.any(|address| self.addresses.contains(&canonical(address)))
    }
}

/// Returns whether a Service is in the namespace of the Services that [`Envoys::new`] reads.
pub fn is_in_namespace_of_envoys(service: &ObjectKey, settings: &Settings) -> bool {
    settings.envoy_service.as_ref().is_some_and(|(namespace, _)| **namespace == *service.namespace)
}

/// Returns why no route may lead to a Service: its endpoints are Envoys.
pub fn loop_through(service: &Service, settings: &Settings) -> Option<String> {
    let key = &service.meta.key;
    if let Some(gateway) = &service.gateway {
        return Some(format!(
            "Service \"{key}\" leads to the Envoys of Gateway \"{}/{}\"",
            key.namespace, gateway.name
        ));
    }
    let is_of_envoys =
        is_in_namespace_of_envoys(key, settings) && (service.is_of_fleet || is_envoy_service(key, settings));
    is_of_envoys.then(|| format!("Service \"{key}\" leads to the Envoys of this installation"))
}

/// Returns a number that no other installation has: a hash of the uid of the Kubernetes cluster and of the names of the controllers.
/// Returns `None` without a Kubernetes cluster.
pub fn installation(objects: &Objects, settings: &Settings) -> Option<u64> {
    // The uid of this Namespace is the usual identity of a Kubernetes cluster.
    let cluster = objects.get::<Namespace>(&ObjectKey::new("", "kube-system"))?;
    let (ingress, gateway) = (&settings.ingress, &settings.gateway);
    let names = [&*cluster.meta.uid, &ingress.controller, &gateway.controller];
    let names = names.into_iter().chain(ingress.class_names.iter().map(String::as_str));
    Some(xxh3_64(names.collect::<Vec<_>>().join("\n").as_bytes()))
}

fn is_envoy_service(key: &ObjectKey, settings: &Settings) -> bool {
    let service = settings.envoy_service.as_ref();
    service.is_some_and(|(namespace, name)| **namespace == *key.namespace && **name == *key.name)
}

/// Returns `status.envoyService` and the Services of dedicated fleets.
fn services<'a>(objects: &'a Objects, settings: &'a Settings) -> impl Iterator<Item = &'a ObjectKey> {
    let namespace = settings.envoy_service.as_ref().map(|(namespace, _)| namespace.as_str());
    let from = ObjectKey::new(namespace.unwrap_or_default(), "");
    let all = objects.of_kind(Kind::SERVICE).range(from..).map(|(_, object)| object.get::<Service>());
    let all = all.take_while(move |service| {
        service.is_some_and(|service| namespace.is_some_and(|namespace| *service.meta.key.namespace == *namespace))
    });
    let keys = all.flatten().filter(|service| service.is_of_fleet || is_envoy_service(&service.meta.key, settings));
    keys.map(|service| &service.meta.key)
}
