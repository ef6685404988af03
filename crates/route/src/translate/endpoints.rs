//! Translates EndpointSlices to endpoints. The translation is independent of routes, so a change of endpoints never
//! waits for routes.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use crate::model::{Endpoint, Endpoints, Health, ServicePortId};
use crate::objects::{AddressType, EndpointSlice, Kind, Objects, Service, SliceEndpoint, Transport};

use super::backend_policies::BackendPolicies;
use super::envoys::Envoys;
use super::problem::{Cause, MOST, Message, Problem, Reason};
use super::{address, backend};

/// The readiness of an endpoint, from best to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fitness {
    /// Accepts requests.
    Ready,
    /// Terminating, but still serving. Receives requests if no endpoint is ready.
    Serving,
    /// Terminating. Open streams may finish.
    Terminating,
}

/// The maximum number of endpoints of all used ports of a Service. Each used port has a copy of the endpoints, and an EndpointSlice
/// can have 100 ports.
pub const MAX_ENDPOINTS: usize = 100_000;

/// The share of a port in the endpoints of its Service.
#[derive(Debug, Clone, Copy)]
pub struct PortShare {
    /// The number of ports of the Service that clusters use.
    pub used: usize,
    /// Whether this port reports the problems of the EndpointSlices, which all ports have in common.
    pub reports: bool,
}

impl PortShare {
    /// The share of the only used port.
    #[cfg(test)]
    pub const ALL: Self = Self { used: 1, reports: true };

    /// Returns the maximum number of endpoints of the port.
    fn most(self) -> usize {
        MAX_ENDPOINTS / self.used.max(1)
    }
}

/// An endpoint of a slice.
struct Candidate<'a> {
    fitness: Fitness,
    zone: &'a Arc<str>,
    pod: Option<&'a Arc<str>>,
}

/// Returns the endpoints of a Service port and their problems. Returns `None` if the Service or the port does not exist, or if the
/// Service has no endpoints (ExternalName).
pub fn endpoints_of(
    objects: &Objects,
    envoys: &Envoys,
    id: &ServicePortId,
    share: PortShare,
) -> Option<(Endpoints, Vec<Problem>)> {
    let service = objects.get::<Service>(id.service())?;
    let port = backend::referenced_port(service, id.port())?;
    service.external_name.is_none().then(|| endpoints(objects, envoys, service, &port.name, share))
}

/// Returns the port of the endpoints that receives the health checks, if a BackendPolicy or an HTTPProxy sets one. An Envoy must not be
/// checked at its own listeners. If endpoints have different numbers for a port of the Service, the lowest one receives the checks.
pub fn health_check_port(
    objects: &Objects,
    envoys: &Envoys,
    policies: &BackendPolicies,
    id: &ServicePortId,
    endpoints: &Endpoints,
) -> Option<u16> {
    let service = objects.get::<Service>(id.service())?;
    let port = backend::referenced_port(service, id.port())?;
    let is_tcp = *port.protocol == *Transport::Tcp.as_str();
    let check = match id.health() {
        None => policies.health_check_port(id.service(), port.port),
        Some(health) => {
            let health = backend::referenced_port(service, health)?;
            objects.slices_of(id.service()).flat_map(|slice| ports(slice, &health.name)).min()
        }
    };
    let check = check.filter(|_| is_tcp)?;
    let mut members = endpoints.zones.iter().flat_map(|(_, members)| members);
    (!members.any(|endpoint| envoys.has(endpoint.address, check))).then_some(check)
}

/// Returns the endpoints of the port of `service` with the name `port`, which is empty for an unnamed port.
/// Source: EndpointSlice v1; kube-proxy's fallback to terminating endpoints that still serve (KEP-1669).
fn endpoints(
    objects: &Objects,
    envoys: &Envoys,
    service: &Service,
    port: &str,
    share: PortShare,
) -> (Endpoints, Vec<Problem>) {
    let mut problems = Vec::new();
    let mut origins = vec![service.meta.object_ref(Kind::SERVICE)];
    let mut found: BTreeMap<(IpAddr, u16), Candidate> = BTreeMap::new();
    // The number of slices, and of their endpoints, that may be read, valid or not. Pods with two families have two addresses, of
    // which one is dropped below.
    let mut budget = 2 * share.most();
    let mut slices: Vec<&EndpointSlice> = objects.slices_of(&service.meta.key).collect();
    let mut unread = slices.len() > budget;
    // If not all slices are read, the endpoints of the preferred family are used.
    slices.sort_by_key(|slice| (slice.address_type == AddressType::Ipv6) != prefers_ipv6(service));
    slices.truncate(budget);
    'slices: for slice in slices {
        if slice.address_type == AddressType::Fqdn {
            problems.extend(share.reports.then(|| fqdn_problem(slice)));
            continue;
        }
        origins.push(slice.meta.object_ref(Kind::ENDPOINT_SLICE));
        let numbers: Vec<u16> = ports(slice, port).collect();
        if numbers.is_empty() && !share.reports {
            continue;
        }
        let mut faults = 0usize;
        for (i, endpoint) in slice.endpoints.iter().enumerate() {
            let Some(rest) = budget.checked_sub(numbers.len().max(1)) else {
                unread = true;
                break 'slices;
            };
            budget = rest;
            let address = address(slice, endpoint, objects.from_operator);
            let is_envoy = |address: &IpAddr| numbers.iter().any(|number| envoys.has(*address, *number));
            let address = match address {
                Ok(address) if is_envoy(&address) => Err("is an Envoy of this installation"),
                other => other,
            };
            let address = match address {
                Ok(address) => address,
                Err(fault) => {
                    faults += 1;
                    if faults <= MOST && share.reports {
                        problems.push(address_problem(slice, i, endpoint, fault));
                    }
                    continue;
                }
            };
            let Some(fitness) = fitness(endpoint) else { continue };
            let candidate = || Candidate { fitness, zone: &endpoint.zone, pod: endpoint.pod.as_ref() };
            for number in &numbers {
                let known = found.entry((address, *number)).or_insert_with(candidate);
                // One slice may lag behind the other while an endpoint moves. The better state is the newer one.
                if fitness < known.fitness {
                    *known = candidate();
                }
            }
        }
        if let Some(others) = faults.checked_sub(MOST).filter(|others| *others > 0 && share.reports) {
            let object = slice.meta.object_ref(Kind::ENDPOINT_SLICE);
            problems.push(Problem::further(&object, Reason::EndpointNotValid, others));
        }
    }
    drop_second_families(&mut found, prefers_ipv6(service));
    let surplus = found.keys().nth(share.most()).copied();
    if let Some(first) = surplus {
        found.split_off(&first);
    }
    if unread || surplus.is_some() {
        problems.push(too_many(service, port, share, unread));
    }
    let ready = found.values().any(|candidate| candidate.fitness == Fitness::Ready);
    let mut zones: BTreeMap<&Arc<str>, Vec<Endpoint>> = BTreeMap::new();
    for ((address, port), candidate) in found {
        let health = match candidate.fitness {
            Fitness::Ready => Health::Healthy,
            Fitness::Serving if !ready => Health::Healthy,
            Fitness::Serving | Fitness::Terminating => Health::Draining,
        };
        zones.entry(candidate.zone).or_default().push(Endpoint { address, port, health });
    }
    // Endpoints are long-lived and numerous, so spare capacity is released.
    zones.values_mut().for_each(Vec::shrink_to_fit);
    let zones = zones.into_iter().map(|(zone, members)| (zone.clone(), members)).collect();
    origins.sort();
    origins.shrink_to_fit();
    (Endpoints { zones, health_check_port: None, origins }, problems)
}

/// Returns the numbers of the port `name` in `slice`.
fn ports<'a>(slice: &'a EndpointSlice, name: &'a str) -> impl Iterator<Item = u16> + 'a {
    slice.ports.iter().filter(move |(port, _)| **port == *name).filter_map(|(_, number)| number.filter(|&n| n != 0))
}

/// Returns the fitness of an endpoint, or `None` if it must not be used.
fn fitness(endpoint: &SliceEndpoint) -> Option<Fitness> {
    match (endpoint.ready, endpoint.serving, endpoint.terminating) {
        (true, _, _) => Some(Fitness::Ready),
        (false, true, true) => Some(Fitness::Serving),
        (false, false, true) => Some(Fitness::Terminating),
        (false, _, false) => None,
    }
}

/// Returns the address if it has the slice's family and can be reached. Only an operator may use addresses of Envoy's
/// own machine, as the examples do.
fn address(slice: &EndpointSlice, endpoint: &SliceEndpoint, from_operator: bool) -> Result<IpAddr, &'static str> {
    let address: IpAddr = endpoint.address.parse().map_err(|_| "is not an IP address")?;
    match slice.address_type {
        AddressType::Ipv4 if !address.is_ipv4() => Err("is not an IPv4 address"),
        AddressType::Ipv6 if !address.is_ipv6() => Err("is not an IPv6 address"),
        _ if address.is_unspecified() => Err("is the unspecified address"),
        _ if address.is_multicast() => Err("is a multicast address"),
        _ if from_operator => Ok(address),
        _ => address::check(address).map(|()| address),
    }
}

/// Keeps one address of each pod in slices of both families: the address with the better readiness, or the address of
/// the preferred family.
fn drop_second_families(found: &mut BTreeMap<(IpAddr, u16), Candidate>, prefers_ipv6: bool) {
    let mut family_of: BTreeMap<Arc<str>, (Fitness, bool)> = BTreeMap::new();
    for ((address, _), candidate) in found.iter() {
        let Some(pod) = candidate.pod else { continue };
        // `false` sorts first, so the preferred family wins.
        let claim = (candidate.fitness, address.is_ipv6() != prefers_ipv6);
        let best = family_of.entry(pod.clone()).or_insert(claim);
        *best = claim.min(*best);
    }
    found.retain(|(address, _), candidate| {
        let best = candidate.pod.and_then(|pod| family_of.get(pod));
        best.is_none_or(|(_, second)| (address.is_ipv6() != prefers_ipv6) == *second)
    });
}

/// Returns whether the first of `spec.ipFamilies` is IPv6. The default is IPv4.
fn prefers_ipv6(service: &Service) -> bool {
    service.ipv6_families.first().copied().unwrap_or(false)
}

/// Returns the problem of a port with too many endpoints. If not all of them are read, nobody knows how many are usable.
fn too_many(service: &Service, port: &str, share: PortShare, unread: bool) -> Problem {
    let (most, used) = (share.most(), share.used);
    let consequence = match unread {
        true => {
            format!("only {} entries of its EndpointSlices are read, and at most {most} endpoints are used", 2 * most)
        }
        false => format!("the first {most} endpoints are used"),
    };
    Problem {
        object: service.meta.object_ref(Kind::SERVICE),
        field: "spec.ports".to_owned(),
        reason: Reason::EndpointNotValid,
        message: format!(
            "port {port:?} has more than {most} endpoints; the {used} used ports of this Service have at most {MAX_ENDPOINTS}"
        ).into(),
        consequence,
    }
}

fn fqdn_problem(slice: &EndpointSlice) -> Problem {
    Problem {
        object: slice.meta.object_ref(Kind::ENDPOINT_SLICE),
        field: "addressType".to_owned(),
        reason: Reason::EndpointNotValid,
        message: "address type \"FQDN\" is not served".into(),
        consequence: "EndpointSlice left out".to_owned(),
    }
}

fn address_problem(slice: &EndpointSlice, i: usize, endpoint: &SliceEndpoint, fault: &str) -> Problem {
    let message = Message::from(format!("address {:?} {fault}", &*endpoint.address));
    let is_loopback = endpoint.address.parse().is_ok_and(|address: IpAddr| address::canonical(address).is_loopback());
    Problem {
        object: slice.meta.object_ref(Kind::ENDPOINT_SLICE),
        field: format!("endpoints[{i}].addresses[0]"),
        reason: Reason::EndpointNotValid,
        message: if is_loopback { message.because(Cause::Loopback) } else { message },
        consequence: "endpoint left out".to_owned(),
    }
}
