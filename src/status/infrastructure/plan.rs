//! The Services and EndpointSlices that the Gateways need, as a function of the objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockgate_route::objects::gateway::{Gateway, GatewayClass};
use lockgate_route::objects::{
    AddressType, Kind, Object, ObjectId, ObjectKey, Objects, Precedence, Service as Observed, SliceEndpoint, Transport,
};
use lockgate_route::translate::gateway::listener::PORTS;
use lockgate_route::translate::gateway::{FleetReport, home, service_key};

use super::content::{DesiredObject, DesiredService, DesiredSlice, LABEL};
use super::ports::{Allocation, RANGE, Request, allocate};
use crate::inspection::{Inspection, changed};
use crate::status::fault::{Fault, Faults};
use crate::status::fleets::Template;
use crate::status::settings::WriterSettings;

/// The value of the label with the fleet, for a Gateway without Envoys.
const NOBODY: &str = "none";
/// The maximum number of endpoints in an EndpointSlice. Source: validation of discovery.k8s.io/v1.
const ENDPOINTS: usize = 1000;

/// The ports of a Service: transport, port of the Gateway, and port of Envoy.
pub type Ports = Vec<(Transport, u16, u16)>;

/// The objects that the Gateways need.
#[derive(Debug, Default, PartialEq)]
pub struct Needs {
    /// The content of each object that is needed.
    pub wanted: BTreeMap<ObjectId, DesiredObject>,
    /// The objects that are no longer needed.
    pub obsolete: BTreeSet<ObjectId>,
    /// The Gateways that cannot have all needed objects.
    pub faults: Faults,
    /// The Gateway of each Service.
    pub services: BTreeMap<ObjectKey, ObjectKey>,
    /// The Services in front of the Envoys of dedicated fleets.
    pub fleets: BTreeSet<ObjectKey>,
    /// The Gateways whose Services lead to the shared Envoys until their fleets are ready.
    pub moving: BTreeSet<ObjectKey>,
    /// The Gateways whose Services lead to their fleets, while the shared Envoys still have their listeners.
    pub led: BTreeSet<ObjectKey>,
    /// The Gateways whose open connections the shared Envoys still serve.
    pub draining: BTreeSet<ObjectKey>,
}

/// The inputs of a plan that are not objects.
#[derive(Debug, Default)]
pub struct Outside<'a> {
    /// The template of fleets. `None`: the controller creates none.
    pub template: Option<&'a Template>,
    /// The written ports of Services that the watch has not delivered yet.
    pub recent: BTreeMap<ObjectKey, Ports>,
    /// The Gateways that the Envoys of their fleets have accepted.
    pub accepted: BTreeSet<ObjectKey>,
    /// The Gateways whose listeners the shared Envoys can remove.
    pub released: BTreeSet<ObjectKey>,
    /// The Gateways whose open connections on the shared Envoys have ended.
    pub drained: BTreeSet<ObjectKey>,
}

/// A Gateway that can have a Service.
struct Candidate<'a> {
    precedence: Precedence,
    gateway: &'a Gateway,
    service: ObjectKey,
    ports: &'a [(Transport, u16)],
    /// The ports of the listeners of the Gateway itself, without ListenerSets.
    own_ports: BTreeSet<(Transport, u16)>,
    /// Its dedicated fleet, if it has one.
    fleet: Option<&'a FleetReport>,
}

/// Returns whether two inspections may have different plans.
pub fn concerns(before: &Inspection, now: &Inspection, chosen: &WriterSettings, plan: &Needs) -> bool {
    let differs = |kind| changed(before.objects.of_kind(kind), now.objects.of_kind(kind));
    let envoys = chosen.envoy_service();
    let is_of_gateway = |objects: &Objects, key: &ObjectKey| {
        objects.get::<Observed>(key).is_some_and(|service| service.gateway.is_some())
    };
    let service = |key: &ObjectKey| {
        plan.services.contains_key(key) || is_of_gateway(&before.objects, key) || is_of_gateway(&now.objects, key)
    };
    let slice = |key: &ObjectKey| {
        let services = [before, now].into_iter().filter_map(|inspection| inspection.objects.service_of(key));
        let is_of_envoys = |key: &ObjectKey| Some(key) == envoys.as_ref() || plan.fleets.contains(key);
        services.into_iter().any(|key| plan.services.contains_key(&key) || is_of_envoys(&key))
    };
    changed(&before.gateways, &now.gateways).next().is_some()
        || differs(Kind::GATEWAY).next().is_some()
        || differs(Kind::GATEWAY_CLASS).next().is_some()
        || differs(Kind::SERVICE).any(service)
        || differs(Kind::ENDPOINT_SLICE).any(slice)
}

/// Returns the objects that the Gateways need.
pub fn plan(inspection: &Inspection, chosen: &WriterSettings, outside: &Outside) -> Needs {
    let mut plan = Needs::default();
    let Some(envoys) = chosen.envoy_service() else {
        let message = "no Service is created for Gateways, because the setting `status.envoyService` is empty";
        let fault = Fault::new("AddressNotAssigned", message.to_owned());
        plan.faults = inspection.gateways.keys().map(|key| (key.clone(), fault.clone())).collect();
        return plan;
    };
    let objects = &inspection.objects;
    let mut candidates = candidates(inspection, &mut plan);
    candidates.sort_by(|a, b| a.precedence.cmp(&b.precedence));
    let existing = existing_ports(objects, outside);
    let shared = Endpoints::new(objects, &envoys);
    for (candidate, ports) in candidates.iter().zip(allocate_ports(&candidates, &existing, chosen)) {
        let ports = plan.assigned_ports(candidate, ports);
        if !ports.is_empty() {
            plan.serve(candidate, ports, objects, &shared, outside);
        }
    }
    if !chosen.watches(&envoys.namespace) {
        plan.add_fault_of_unwatched(&envoys.namespace, &candidates);
    }
    plan.obsolete = obsolete(inspection, chosen, &plan);
    plan
}

/// Returns the ports of the existing Services of Gateways, with the latest writes.
fn existing_ports(objects: &Objects, outside: &Outside) -> BTreeMap<ObjectKey, Ports> {
    let mut existing: BTreeMap<ObjectKey, Ports> = of_gateways(objects)
        .filter(|service| has_gateway(objects, service))
        .filter_map(|service| Some((service.meta.key.clone(), bounded(&service.gateway.as_ref()?.ports))))
        .collect();
    existing.extend(outside.recent.iter().map(|(key, ports)| (key.clone(), ports.clone())));
    existing
}

/// Allocates the ports of Envoy for each Gateway. Existing ports stay.
fn allocate_ports(
    candidates: &[Candidate],
    existing: &BTreeMap<ObjectKey, Ports>,
    chosen: &WriterSettings,
) -> Vec<Vec<Allocation>> {
    let requests: Vec<Request> = candidates
        .iter()
        .map(|candidate| Request {
            home: home(&candidate.gateway.meta.uid),
            wanted: candidate.ports,
            existing: existing.get(&candidate.service).map_or(&[], |ports| ports),
        })
        .collect();
    let taken = existing.values().flatten().map(|(_, _, target)| *target).collect();
    allocate(&requests, &taken, &chosen.reserved)
}

impl Needs {
    /// Returns the ports that have a port of Envoy. A listener of the Gateway itself without one is a fault; a ListenerSet
    /// without one does not delay the Gateway.
    fn assigned_ports(&mut self, candidate: &Candidate, ports: Vec<Allocation>) -> Ports {
        let is_own = |port: &Allocation| candidate.own_ports.contains(&(port.0, port.1));
        if let Some((_, port, _)) = ports.iter().find(|port| port.2.is_none() && is_own(port)) {
            let message = format!("no port for port {port}: all from {} to {} are in use", RANGE.start(), RANGE.end());
            self.faults.insert(candidate.gateway.meta.key.clone(), Fault::new("NoResources", message));
        }
        let assigned = ports.into_iter().filter_map(|(transport, port, target)| Some((transport, port, target?)));
        let mut assigned: Ports = assigned.collect();
        assigned.sort_unstable();
        assigned
    }

    /// Adds the objects of a Gateway, in front of its dedicated fleet or of the `shared` Envoys.
    fn serve(&mut self, candidate: &Candidate, ports: Ports, objects: &Objects, shared: &Endpoints, outside: &Outside) {
        let Some(fleet) = candidate.fleet else { return self.need(objects, candidate, ports, shared, None) };
        let Some(envoys) = self.fleet(candidate, fleet, outside.template) else {
            return self.need(objects, candidate, ports, &Endpoints::default(), Some((NOBODY.into(), false)));
        };
        let dedicated = Endpoints::new(objects, &envoys);
        let (endpoints, draining) = self.stage(candidate, objects, outside, [shared, &dedicated]);
        self.need(objects, candidate, ports, endpoints, draining.map(|draining| (envoys.name.clone(), draining)));
    }

    /// Adds a fault to all candidates without another fault, because the namespace of the Envoys is not watched.
    fn add_fault_of_unwatched(&mut self, namespace: &str, candidates: &[Candidate]) {
        let message = format!(
            "the Service of the Gateway has no endpoints, because the namespace of the Envoys, {namespace:?}, is not watched; \
             add it to `watch.namespaces`"
        );
        let fault = Fault::new("NoResources", message);
        for candidate in candidates {
            self.faults.entry(candidate.gateway.meta.key.clone()).or_insert_with(|| fault.clone());
        }
    }

    /// Returns the Service with the Envoys of a dedicated fleet. If the controller creates none, the Gateway has a fault.
    fn fleet(&mut self, candidate: &Candidate, fleet: &FleetReport, template: Option<&Template>) -> Option<ObjectKey> {
        let key = &candidate.gateway.meta.key;
        let message = match (&fleet.refused, template) {
            (Some(limit), _) => format!("the Gateway has no dedicated fleet: {limit}"),
            (None, None) => {
                "the Gateway has no dedicated fleet, because the controller creates none; the operator enables them by the \
                 value gatewayAPI.dedicatedFleets.enabled of the chart"
                    .to_owned()
            }
            (None, Some(template)) => {
                let envoys = template.key(&candidate.gateway.meta);
                self.fleets.insert(envoys.clone());
                return Some(envoys);
            }
        };
        self.faults.insert(key.clone(), Fault::new("NoResources", message));
        None
    }

    /// Returns the Envoys of a Gateway with a fleet. If it leaves the shared Envoys, also returns whether they still serve its open
    /// connections. A Gateway that the shared Envoys have served moves when its fleet is ready.
    fn stage<'a>(
        &mut self,
        candidate: &Candidate,
        objects: &Objects,
        outside: &Outside,
        [shared, of_fleet]: [&'a Endpoints; 2],
    ) -> (&'a Endpoints, Option<bool>) {
        let key = &candidate.gateway.meta.key;
        let service = objects.get::<Observed>(&candidate.service).and_then(|service| service.gateway.as_deref());
        let Some(service) = service else { return (of_fleet, Some(false)) };
        if service.is_dedicated {
            if service.is_draining {
                self.draining.insert(key.clone());
            }
            return (of_fleet, Some(service.is_draining && !outside.drained.contains(key)));
        }
        let leads = objects.slices_of(&candidate.service).any(|slice| of_fleet.has_any(&slice.endpoints));
        if !of_fleet.is_ready() || !(leads || outside.accepted.contains(key)) {
            self.moving.insert(key.clone());
            return (shared, None);
        }
        if leads {
            self.led.insert(key.clone());
        }
        (of_fleet, (leads && outside.released.contains(key)).then_some(true))
    }

    /// Adds the objects of a Gateway. `dedicated` is the name of its fleet once it leaves the shared Envoys, and whether they still
    /// serve its open connections.
    fn need(
        &mut self,
        objects: &Objects,
        candidate: &Candidate,
        ports: Ports,
        endpoints: &Endpoints,
        dedicated: Option<(Arc<str>, bool)>,
    ) {
        let (dedicated, draining) = dedicated.map_or((None, false), |(name, draining)| (Some(name), draining));
        let (gateway, key) = (candidate.gateway, &candidate.service);
        if let Some(uid) = objects.meta(Kind::SERVICE, key).map(|meta| meta.uid.clone()) {
            for slice in endpoints.slices(key, &uid, &ports) {
                self.add(DesiredObject::Slice(slice));
            }
        }
        let infrastructure = gateway.spec.infrastructure.clone().unwrap_or_default();
        let fleet = candidate.fleet.map(|fleet| Box::new(fleet.spec.service.clone().unwrap_or_default()));
        let mut annotations = fleet.as_ref().map(|service| service.annotations.clone()).unwrap_or_default();
        annotations.extend(infrastructure.annotations);
        let is_address = |r#type: Option<&str>| r#type.is_none_or(|r#type| r#type == "IPAddress");
        let mut requested = gateway.spec.addresses.iter().filter(|address| is_address(address.r#type.as_deref()));
        self.add(DesiredObject::Service(DesiredService {
            key: key.clone(),
            gateway: gateway.meta.key.name.clone(),
            uid: gateway.meta.uid.clone(),
            class: gateway.spec.gateway_class_name.clone(),
            labels: infrastructure.labels,
            annotations,
            ports,
            fleet,
            dedicated,
            draining,
            address: requested.find(|address| !address.value.is_empty()).map(|address| address.value.clone()),
        }));
    }

    fn add(&mut self, content: DesiredObject) {
        self.wanted.insert(content.id(), content);
    }
}

/// Returns the Gateways that can have a Service. Adds the faults of the other Gateways to `plan`.
fn candidates<'a>(inspection: &'a Inspection, plan: &mut Needs) -> Vec<Candidate<'a>> {
    let objects = &inspection.objects;
    let (mut candidates, mut claimed) = (Vec::new(), BTreeSet::new());
    for (key, report) in &inspection.gateways {
        let Some(gateway) = objects.get::<Gateway>(key) else { continue };
        let service = service_key(key, &gateway.spec.gateway_class_name);
        plan.services.entry(service.clone()).or_insert_with(|| key.clone());
        let precedence = objects.precedence(Kind::GATEWAY, &gateway.meta);
        let existing = objects.meta(Kind::SERVICE, &service);
        let is_ours = objects.get::<Observed>(&service).and_then(|service| service.gateway.as_ref());
        let is_ours = is_ours.is_some_and(|service| service.name == key.name);
        let fault = if key.name.len() > LABEL {
            Some(format!("the name of the Gateway is longer than {LABEL} characters, so a Service cannot refer to it"))
        } else if (existing.is_some() && !is_ours) || claimed.contains(&service) {
            Some(format!(
                "Service \"{service}\" does not belong to the Gateway; delete the Service or rename the Gateway"
            ))
        } else {
            None
        };
        if let Some(message) = fault {
            plan.faults.insert(key.clone(), Fault::new("Invalid", message));
        } else if existing.is_some() || !precedence.terminating {
            claimed.insert(service.clone());
            plan.services.insert(service.clone(), key.clone());
            let own_ports = report.own_ports().collect();
            let fleet = report.fleet.as_ref();
            candidates.push(Candidate { precedence, gateway, service, ports: &report.ports, own_ports, fleet });
        }
    }
    candidates
}

/// Returns at most [`PORTS`] ports of a Service, which is the limit of a Gateway. Another writer could add more ports, and use up the
/// ports of all Gateways.
fn bounded(ports: &Ports) -> Ports {
    ports.iter().take(PORTS).copied().collect()
}

/// Returns the Services of Gateways, and their EndpointSlices, that no Gateway needs.
///
/// If a Gateway is deleted, Kubernetes deletes its Service. If all listeners of a Gateway are invalid, its Service stays, and
/// keeps its address.
fn obsolete(inspection: &Inspection, chosen: &WriterSettings, plan: &Needs) -> BTreeSet<ObjectId> {
    let objects = &inspection.objects;
    let classes: Vec<&str> = objects
        .all::<GatewayClass>()
        .filter(|class| *class.spec.controller_name == *chosen.gateway_controller)
        .map(|class| &*class.meta.key.name)
        .collect();
    let mut obsolete = BTreeSet::new();
    for service in of_gateways(objects) {
        let (key, name) = (&service.meta.key, service.gateway.as_ref().map(|gateway| gateway.name.clone()));
        let gateway = ObjectKey { namespace: key.namespace.clone(), name: name.unwrap_or_default() };
        let is_needed = plan.services.get(key) == Some(&gateway);
        let was_ours = || {
            let exists = objects.get::<Gateway>(&gateway).is_some();
            exists && classes.iter().any(|class| service_key(&gateway, class) == *key)
        };
        if !is_needed && (inspection.gateways.contains_key(&gateway) || was_ours()) {
            obsolete.insert(Kind::SERVICE.id(key.clone()));
        }
        // Kubernetes deletes the EndpointSlices of a deleted Service.
        if is_needed && plan.wanted.contains_key(&Kind::SERVICE.id(key.clone())) {
            let slices = objects.slices_of(key).filter(|slice| is_slice_of(&slice.meta.key.name, &key.name));
            let slices = slices.map(|slice| Kind::ENDPOINT_SLICE.id(slice.meta.key.clone()));
            obsolete.extend(slices.filter(|id| !plan.wanted.contains_key(id)));
        }
    }
    obsolete
}

/// Returns the Services that were created for Gateways.
fn of_gateways(objects: &Objects) -> impl Iterator<Item = &Observed> {
    objects.all::<Observed>().filter(|service| service.gateway.is_some())
}

/// Returns whether the Gateway of a Service exists. Without this condition, any author of Services could use up the ports.
fn has_gateway(objects: &Objects, service: &Observed) -> bool {
    let name = service.gateway.as_ref().map(|gateway| gateway.name.clone()).unwrap_or_default();
    let key = ObjectKey { namespace: service.meta.key.namespace.clone(), name };
    let gateway = objects.get::<Gateway>(&key);
    gateway.is_some_and(|gateway| service_key(&key, &gateway.spec.gateway_class_name) == service.meta.key)
}

/// Returns the name of an EndpointSlice: `public-lockgate-ipv4`, and `public-lockgate-ipv4-1` for the next one.
fn slice_name(service: &str, family: AddressType, number: usize) -> String {
    let family = if family == AddressType::Ipv6 { "ipv6" } else { "ipv4" };
    if number == 0 { format!("{service}-{family}") } else { format!("{service}-{family}-{number}") }
}

/// Returns whether an EndpointSlice of a Service may be one that Lockgate has written.
fn is_slice_of(name: &str, service: &str) -> bool {
    [AddressType::Ipv4, AddressType::Ipv6].iter().any(|family| name.starts_with(&slice_name(service, *family, 0)))
}

/// The Envoys in the EndpointSlices of their Service, grouped into the EndpointSlices of a Gateway.
#[derive(Default)]
struct Endpoints(Vec<(AddressType, Vec<Arc<[SliceEndpoint]>>)>);

impl Endpoints {
    fn new(objects: &Objects, service: &ObjectKey) -> Self {
        let family = |family: AddressType| {
            let slices = objects.slices_of(service).filter(|slice| slice.address_type == family);
            let endpoints = slices.flat_map(|slice| &slice.endpoints).filter(|one| one.ready || one.serving);
            let by_address: BTreeMap<Arc<str>, SliceEndpoint> =
                endpoints.map(|endpoint| (endpoint.address.clone(), endpoint.clone())).collect();
            let all: Vec<SliceEndpoint> = by_address.into_values().collect();
            (family, all.chunks(ENDPOINTS).map(Arc::from).collect())
        };
        Self([AddressType::Ipv4, AddressType::Ipv6].map(family).into())
    }

    /// Returns whether one of the Envoys is ready.
    fn is_ready(&self) -> bool {
        self.all().any(|endpoint| endpoint.ready)
    }

    /// Returns whether some of these endpoints are Envoys.
    fn has_any(&self, endpoints: &[SliceEndpoint]) -> bool {
        endpoints.iter().any(|one| self.all().any(|endpoint| endpoint.address == one.address))
    }

    fn all(&self) -> impl Iterator<Item = &SliceEndpoint> {
        self.0.iter().flat_map(|(_, endpoints)| endpoints.iter().flat_map(|some| some.iter()))
    }

    /// Returns the EndpointSlices of a Service.
    fn slices(&self, service: &ObjectKey, uid: &Arc<str>, ports: &Ports) -> Vec<DesiredSlice> {
        let chunks = self.0.iter().flat_map(|(family, endpoints)| {
            endpoints.iter().enumerate().map(|(number, endpoints)| (*family, number, endpoints))
        });
        let slice = |(family, number, endpoints): (AddressType, usize, &Arc<[SliceEndpoint]>)| {
            let name = slice_name(&service.name, family, number).into();
            DesiredSlice {
                key: ObjectKey { namespace: service.namespace.clone(), name },
                service: (service.name.clone(), uid.clone()),
                family,
                ports: ports.clone(),
                endpoints: endpoints.clone(),
            }
        };
        chunks.map(slice).collect()
    }
}

/// Returns the observed state of an object.
pub fn observed<'a>(objects: &'a Objects, id: &ObjectId) -> Option<&'a Object> {
    objects.of_kind(id.kind).get(&id.key)
}

#[cfg(test)]
mod tests;
