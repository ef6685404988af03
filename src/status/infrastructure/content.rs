//! The wanted Services and EndpointSlices, and the patches that change existing objects into them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::discovery::v1 as discovery;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use lockgate_route::objects::gateway::{FleetService, GROUP};
use lockgate_route::objects::{
    AddressType, EndpointSlice, Exposure, Kind, Object, ObjectId, ObjectKey, SliceEndpoint, Transport,
};
use serde_json::{Map, Value, json};

use crate::source::gateway::{self, DRAINING, FLEET, GATEWAY_NAME};

/// The label of a Service with the GatewayClass. Source: GEP-1762.
const CLASS_NAME: &str = "gateway.networking.k8s.io/gateway-class-name";
/// The label of an object with the program that manages it, and its value.
pub const MANAGED_BY: (&str, &str) = (gateway::MANAGED_BY, gateway::MANAGER);
/// The label of an EndpointSlice with the name of its Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// The label of an EndpointSlice with its writer, and its value. Other writers leave the EndpointSlice alone.
pub const SLICE_MANAGED_BY: (&str, &str) =
    ("endpointslice.kubernetes.io/managed-by", "gateway-controller.lockgate.dev");

/// The longest value of a label.
pub const LABEL: usize = 63;

/// An object that the leader maintains for Gateways.
#[derive(Debug, Clone, PartialEq)]
pub enum DesiredObject {
    /// A Service.
    Service(DesiredService),
    /// An EndpointSlice.
    Slice(DesiredSlice),
}

/// The Service in front of a Gateway.
#[derive(Debug, Clone, PartialEq)]
pub struct DesiredService {
    /// The key.
    pub key: ObjectKey,
    /// The name of the Gateway.
    pub gateway: Arc<str>,
    /// The uid of the Gateway.
    pub uid: Arc<str>,
    /// The name of the GatewayClass.
    pub class: String,
    /// The labels that the owner of the Gateway wants.
    pub labels: BTreeMap<String, String>,
    /// The annotations that the owner of the Gateway wants.
    pub annotations: BTreeMap<String, String>,
    /// The ports: transport, port of the Gateway, and port of Envoy, sorted.
    pub ports: Vec<(Transport, u16, u16)>,
    /// The requested address.
    pub address: Option<String>,
    /// The properties in the EnvoyFleet of the Gateway. `None`: the Gateway has no fleet. The type is then LoadBalancer,
    /// and other writers set the other fields.
    pub fleet: Option<Box<FleetService>>,
    /// The name of the dedicated fleet, once the Gateway has left the shared Envoys.
    pub dedicated: Option<Arc<str>>,
    /// Whether the shared Envoys still serve its open connections.
    pub draining: bool,
}

/// An EndpointSlice of the Service in front of a Gateway.
#[derive(Debug, Clone, PartialEq)]
pub struct DesiredSlice {
    /// The key.
    pub key: ObjectKey,
    /// The name and the uid of the Service.
    pub service: (Arc<str>, Arc<str>),
    /// The type of the addresses.
    pub family: AddressType,
    /// The ports of the Service.
    pub ports: Vec<(Transport, u16, u16)>,
    /// The Envoys, which the Services of all Gateways share.
    pub endpoints: Arc<[SliceEndpoint]>,
}

/// Returns the name of a port: `tcp-80`.
fn name(transport: Transport, port: u16) -> String {
    format!("{}-{port}", transport.as_str().to_ascii_lowercase())
}

impl DesiredObject {
    /// Returns the identity of the object.
    pub fn id(&self) -> ObjectId {
        match self {
            Self::Service(service) => Kind::SERVICE.id(service.key.clone()),
            Self::Slice(slice) => Kind::ENDPOINT_SLICE.id(slice.key.clone()),
        }
    }

    /// Returns the object to create.
    pub fn object(&self) -> Value {
        match self {
            Self::Service(service) => service.object(),
            Self::Slice(slice) => slice.object(),
        }
    }

    /// Returns whether an observed object has this content, as far as the source reads it.
    pub fn matches(&self, observed: &Object) -> bool {
        match self {
            Self::Service(wanted) => {
                let service = observed.get::<lockgate_route::objects::Service>();
                service.and_then(|service| service.gateway.as_deref()).is_some_and(|is| {
                    is.ports == wanted.ports
                        && is.is_dedicated == wanted.dedicated.is_some()
                        && is.is_draining == wanted.draining
                        && wanted.is_exposed_as(&is.exposure)
                })
            }
            Self::Slice(wanted) => observed.get::<EndpointSlice>().is_some_and(|is| {
                let port = |(transport, port, to): &(Transport, u16, u16)| (name(*transport, *port), Some(*to));
                let ports: BTreeSet<_> = wanted.ports.iter().map(port).collect();
                let is_ports: BTreeSet<_> = is.ports.iter().map(|(name, to)| (name.to_string(), *to)).collect();
                is.address_type == wanted.family && is_ports == ports && *is.endpoints == *wanted.endpoints
            }),
        }
    }
}

impl DesiredService {
    fn labels(&self) -> BTreeMap<String, String> {
        let own = [(GATEWAY_NAME, &*self.gateway), (CLASS_NAME, &*self.class), MANAGED_BY];
        let dedicated = self.dedicated.as_deref().map(|name| (FLEET, name));
        let draining = self.draining.then_some((DRAINING, "true"));
        let own = own.into_iter().chain(dedicated).chain(draining).filter(|(_, value)| value.len() <= LABEL);
        let own = own.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let labels = self.labels.iter().filter(|(name, _)| ![FLEET, DRAINING].contains(&name.as_str()));
        labels.map(|(name, value)| (name.clone(), value.clone())).chain(own).collect()
    }

    fn ports(&self) -> Vec<Value> {
        let port = |(transport, port, target): &(Transport, u16, u16)| {
            json!({
                "name": name(*transport, *port),
                "port": port,
                "protocol": transport.as_str(),
                "targetPort": target,
            })
        };
        self.ports.iter().map(port).collect()
    }

    fn owner(&self) -> OwnerReference {
        OwnerReference {
            api_version: format!("{GROUP}/v1"),
            kind: Kind::GATEWAY.as_str().to_owned(),
            name: self.gateway.to_string(),
            uid: self.uid.to_string(),
            controller: Some(true),
            block_owner_deletion: None,
        }
    }

    /// Returns the Service to create. It has no selector, because Lockgate writes its EndpointSlices.
    pub fn object(&self) -> Value {
        let mut spec = json!({ "type": self.kind(), "ports": self.ports() });
        if let Some(address) = &self.address {
            spec["loadBalancerIP"] = address.as_str().into();
        }
        if let Some(fleet) = self.fleet.as_deref() {
            let FleetService { external_traffic_policy: policy, load_balancer_class: class, .. } = fleet;
            for (field, value) in [("externalTrafficPolicy", policy), ("loadBalancerClass", class)] {
                if let Some(value) = value {
                    spec[field] = value.as_str().into();
                }
            }
            if !fleet.load_balancer_source_ranges.is_empty() {
                spec["loadBalancerSourceRanges"] = json!(fleet.load_balancer_source_ranges);
            }
        }
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {
                "name": &*self.key.name,
                "namespace": &*self.key.namespace,
                "labels": self.labels(),
                "annotations": self.annotations,
                "ownerReferences": [self.owner()],
            },
            "spec": spec,
        })
    }

    /// Returns whether the observed fields of the spec have the values that [`DesiredService::patch`] writes. Fields that other
    /// writers may set are ignored.
    fn is_exposed_as(&self, is: &Exposure) -> bool {
        let Exposure { r#type, traffic_policy, address, source_ranges, port_names, has_selector } = is;
        let mut names: Vec<String> = self.ports.iter().map(|(transport, port, _)| name(*transport, *port)).collect();
        names.sort_unstable();
        let FleetService { external_traffic_policy: policy, load_balancer_source_ranges: ranges, .. } =
            &self.fleet.as_deref().cloned().unwrap_or_default();
        let has =
            |is: &Option<Arc<str>>, wanted: &Option<String>| wanted.is_none() || is.as_deref() == wanted.as_deref();
        r#type.as_deref() == Some(self.kind())
            && (has(traffic_policy, policy) || self.kind() == "ClusterIP")
            && has(address, &self.address)
            && (ranges.is_empty() || source_ranges.iter().map(|range| &**range).eq(ranges.iter().map(String::as_str)))
            && port_names.iter().map(|name| &**name).eq(names.iter().map(String::as_str))
            && !has_selector
    }

    fn kind(&self) -> &str {
        self.fleet.as_ref().map_or(FleetService::LOAD_BALANCER, |fleet| fleet.kind())
    }

    /// Extends `spec` with the changes of the fields that an EnvoyFleet can set. If the EnvoyFleet does not set a field,
    /// the value of another writer remains, and a value of `manager` is removed.
    fn expose(&self, is: &core::Service, manager: &str, spec: &mut Map<String, Value>) {
        let Some(fleet) = self.fleet.as_deref() else { return };
        let FleetService { external_traffic_policy, load_balancer_class, load_balancer_source_ranges: ranges, .. } =
            fleet;
        let existing = is.spec.clone().unwrap_or_default();
        let is_ours = |field: &str| has_written(&is.metadata, field, manager);
        let policy = existing.external_traffic_policy.as_deref();
        // The API server sets the default. It removes the field from Services of type ClusterIP.
        let wanted = match external_traffic_policy.as_deref() {
            None if policy == Some("Local") && is_ours("f:externalTrafficPolicy") => Some("Cluster"),
            wanted => wanted,
        };
        if wanted.is_some() && policy != wanted && self.kind() != "ClusterIP" {
            spec.insert("externalTrafficPolicy".to_owned(), json!(wanted));
        }
        // The field is immutable. Without a value in the EnvoyFleet, an admission webhook may have set it.
        if load_balancer_class.is_some() && existing.load_balancer_class != *load_balancer_class {
            spec.insert("loadBalancerClass".to_owned(), json!(load_balancer_class));
        }
        let of_balancer = existing.load_balancer_source_ranges.unwrap_or_default();
        if of_balancer != *ranges && (!ranges.is_empty() || is_ours("f:loadBalancerSourceRanges")) {
            let ranges = (!ranges.is_empty()).then_some(ranges);
            spec.insert("loadBalancerSourceRanges".to_owned(), json!(ranges));
        }
    }

    /// Returns whether an existing Service has the labels of a Service that Lockgate created for this Gateway.
    pub fn owns(&self, is: &core::Service) -> bool {
        let label = |name: &str| is.metadata.labels.as_ref().and_then(|labels| labels.get(name)).map(String::as_str);
        label(GATEWAY_NAME) == Some(&*self.gateway) && label(MANAGED_BY.0) == Some(MANAGED_BY.1)
    }

    /// Returns the merge patch that changes `is` into this Service; `None` if they are equal. Labels and annotations of
    /// other writers remain. Obsolete labels and annotations of `manager` are removed.
    pub fn patch(&self, is: &core::Service, manager: &str) -> Option<Value> {
        let mut metadata = Map::new();
        let labels = changes(is.metadata.labels.as_ref(), &self.labels(), &written(&is.metadata, "f:labels", manager));
        let annotations = written(&is.metadata, "f:annotations", manager);
        let annotations = changes(is.metadata.annotations.as_ref(), &self.annotations, &annotations);
        for (field, changes) in [("labels", labels), ("annotations", annotations)] {
            if !changes.is_empty() {
                metadata.insert(field.to_owned(), Value::Object(changes));
            }
        }
        let owners = is.metadata.owner_references.as_deref().unwrap_or_default();
        if !owners.iter().any(|owner| owner.uid == *self.uid) {
            let stale = |owner: &&OwnerReference| owner.kind != Kind::GATEWAY.as_str();
            let owners: Vec<_> = owners.iter().filter(stale).cloned().chain([self.owner()]).collect();
            metadata.insert("ownerReferences".to_owned(), json!(owners));
        }
        let mut spec = Map::new();
        let existing = is.spec.clone().unwrap_or_default();
        if existing.type_.as_deref() != Some(self.kind()) {
            spec.insert("type".to_owned(), self.kind().into());
        }
        self.expose(is, manager, &mut spec);
        let address = existing.load_balancer_ip.as_deref().filter(|ip| !ip.is_empty());
        // Some load balancers write the address that they have assigned.
        let is_of_others = self.address.is_none() && !has_written(&is.metadata, "f:loadBalancerIP", manager);
        if address != self.address.as_deref() && !is_of_others {
            spec.insert("loadBalancerIP".to_owned(), json!(self.address));
        }
        if existing.selector.is_some_and(|selector| !selector.is_empty()) {
            spec.insert("selector".to_owned(), Value::Null);
        }
        let ports = self.ports();
        if !same_ports(&existing.ports.unwrap_or_default(), &ports) {
            spec.insert("ports".to_owned(), ports.into());
        }
        let rest = (!spec.is_empty()).then(|| ("spec".to_owned(), Value::Object(spec)));
        patch(&is.metadata, metadata, rest.into_iter().collect())
    }
}

impl DesiredSlice {
    fn ports(&self) -> Value {
        let port = |(transport, port, target): &(Transport, u16, u16)| json!({ "name": name(*transport, *port), "port": target, "protocol": transport.as_str() });
        self.ports.iter().map(port).collect::<Vec<_>>().into()
    }

    fn endpoints(&self) -> Value {
        let endpoint = |endpoint: &SliceEndpoint| {
            let SliceEndpoint { address, ready, serving, terminating, zone, node, pod } = endpoint;
            let mut json = json!({
                "addresses": [&**address],
                "conditions": { "ready": ready, "serving": serving, "terminating": terminating },
            });
            // `externalTrafficPolicy: Local` ignores endpoints without a node.
            for (field, value) in [("zone", zone), ("nodeName", node)] {
                if !value.is_empty() {
                    json[field] = (&**value).into();
                }
            }
            if let Some((namespace, name)) = pod.as_deref().and_then(|pod| pod.split_once('/')) {
                json["targetRef"] = json!({ "kind": "Pod", "namespace": namespace, "name": name });
            }
            json
        };
        self.endpoints.iter().map(endpoint).collect::<Vec<_>>().into()
    }

    fn labels(&self) -> BTreeMap<String, String> {
        let labels = [(SERVICE_NAME, &*self.service.0), MANAGED_BY, SLICE_MANAGED_BY];
        labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
    }

    /// Returns the EndpointSlice to create.
    pub fn object(&self) -> Value {
        let family = match self.family {
            AddressType::Ipv4 => "IPv4",
            AddressType::Ipv6 => "IPv6",
            AddressType::Fqdn => "FQDN",
        };
        let owner = OwnerReference {
            api_version: Kind::SERVICE.api_version(),
            kind: Kind::SERVICE.as_str().to_owned(),
            name: self.service.0.to_string(),
            uid: self.service.1.to_string(),
            controller: Some(true),
            block_owner_deletion: None,
        };
        json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": &*self.key.name,
                "namespace": &*self.key.namespace,
                "labels": self.labels(),
                "ownerReferences": [owner],
            },
            "addressType": family,
            "ports": self.ports(),
            "endpoints": self.endpoints(),
        })
    }

    /// Returns whether Lockgate manages an existing EndpointSlice.
    pub fn owns(is: &discovery::EndpointSlice) -> bool {
        let labels = is.metadata.labels.as_ref();
        labels.and_then(|labels| labels.get(SLICE_MANAGED_BY.0)).is_some_and(|value| value == SLICE_MANAGED_BY.1)
    }

    /// Returns the merge patch that changes `is` into this EndpointSlice; `None` if they are equal.
    pub fn patch(&self, is: &discovery::EndpointSlice) -> Option<Value> {
        let mut metadata = Map::new();
        let labels = changes(is.metadata.labels.as_ref(), &self.labels(), &BTreeSet::new());
        if !labels.is_empty() {
            metadata.insert("labels".to_owned(), Value::Object(labels));
        }
        let mut rest = Map::new();
        for (field, is, wanted) in
            [("endpoints", json!(is.endpoints), self.endpoints()), ("ports", json!(is.ports), self.ports())]
        {
            if is != wanted {
                rest.insert(field.to_owned(), wanted);
            }
        }
        patch(&is.metadata, metadata, rest)
    }
}

/// Returns whether the existing ports of a Service are the wanted ports, in any order.
fn same_ports(is: &[core::ServicePort], wanted: &[Value]) -> bool {
    let port = |port: &core::ServicePort| {
        let target = port.target_port.as_ref().map(|target| json!(target)).unwrap_or_default();
        json!({ "name": port.name, "port": port.port, "protocol": port.protocol, "targetPort": target })
    };
    is.len() == wanted.len() && is.iter().map(port).all(|is| wanted.contains(&is))
}

/// Returns the changes of a map of labels or annotations: new values of wanted entries, and `null` for obsolete
/// entries in `written`.
fn changes(
    is: Option<&BTreeMap<String, String>>,
    wanted: &BTreeMap<String, String>,
    written: &BTreeSet<String>,
) -> Map<String, Value> {
    let is = |name: &String| is.and_then(|is| is.get(name));
    let set = wanted.iter().filter(|(name, value)| is(name) != Some(value));
    let set = set.map(|(name, value)| (name.clone(), Value::from(value.as_str())));
    let stale = written.iter().filter(|name| is(name).is_some() && !wanted.contains_key(*name));
    set.chain(stale.map(|name| (name.clone(), Value::Null))).collect()
}

/// Returns the labels (`f:labels`) or annotations (`f:annotations`) that `manager` has written.
fn written(is: &ObjectMeta, field: &str, manager: &str) -> BTreeSet<String> {
    let entries = is.managed_fields.iter().flatten().filter(|entry| entry.manager.as_deref() == Some(manager));
    let fields = entries.filter_map(|entry| entry.fields_v1.as_ref()?.0.get("f:metadata")?.get(field)?.as_object());
    fields.flat_map(|fields| fields.keys().filter_map(|key| key.strip_prefix("f:")).map(str::to_owned)).collect()
}

/// Returns whether `manager` has written a field of the spec, such as `f:externalTrafficPolicy`.
fn has_written(is: &ObjectMeta, field: &str, manager: &str) -> bool {
    let entries = is.managed_fields.iter().flatten().filter(|entry| entry.manager.as_deref() == Some(manager));
    let mut fields = entries.filter_map(|entry| entry.fields_v1.as_ref()?.0.get("f:spec"));
    fields.any(|fields| fields.get(field).is_some())
}

/// Returns a merge patch that the API server applies only to the version of `is`; `None` without changes.
fn patch(is: &ObjectMeta, mut metadata: Map<String, Value>, mut rest: Map<String, Value>) -> Option<Value> {
    if metadata.is_empty() && rest.is_empty() {
        return None;
    }
    metadata.insert("resourceVersion".to_owned(), json!(is.resource_version));
    rest.insert("metadata".to_owned(), Value::Object(metadata));
    Some(Value::Object(rest))
}

#[cfg(test)]
mod tests;
