//! The objects of CustomResourceDefinitions, from JSON or a manifest, and the Services in front of Gateways.
//!
//! The API server checks objects by the schemas of the CustomResourceDefinitions. Manifests have not passed them, so
//! [`Spec::refused`] repeats the rules that users violate most.

mod definitions;
mod foreign_policy;
mod http_proxy;
mod policy;
mod routes;

use std::sync::Arc;

use k8s_openapi::api::{core::v1 as core, networking::v1 as networking};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use lockgate_route::objects::gateway::{
    EnvoyFleet, EnvoyFleetSpec, FleetService, Gateway, GatewayClass, GatewayClassSpec, GatewayClassStatus, GatewaySpec,
    GatewayStatus, HttpFilter, HttpMatch, HttpRouteRule, ListenerSet, ListenerSetSpec, ListenerSetStatus,
    ReferenceGrant, ReferenceGrantSpec, RouteStatus,
};
use lockgate_route::objects::{
    Exposure, GatewayService, HostGrant, HostGrantSpec, HostGrantStatus, Kind, Meta, Object, Transport,
};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;

use super::decode::{Decode, exact, list, meta};
use super::names::shared;

pub use definitions::Metadata;
pub use foreign_policy::ForeignPolicySpec;

/// The label of a Service with the name of its Gateway.
pub const GATEWAY_NAME: &str = "gateway.networking.k8s.io/gateway-name";

/// The label of the objects of a dedicated fleet with its name, and of the Service of a Gateway that has moved to the fleet.
pub const FLEET: &str = "lockgate.dev/fleet";

/// The label of the Service of a Gateway whose open connections the shared Envoys still serve.
pub const DRAINING: &str = "lockgate.dev/draining";

/// The label of an object with the program that manages it.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// The value of the label [`MANAGED_BY`] of objects that Lockgate creates.
pub const MANAGER: &str = "lockgate";

/// An object with a spec and a status. Both are optional in the API.
#[derive(Deserialize)]
pub struct Custom<S, T> {
    metadata: ObjectMeta,
    spec: Option<S>,
    status: Option<T>,
}

/// A field that must be present, and its path for messages.
type Required<'a> = (Option<&'a Value>, &'a str);

/// The spec of a kind of Gateway API. It determines how an object of the kind is decoded.
pub trait Spec: Default + DeserializeOwned {
    /// The status.
    type Status: Default + DeserializeOwned;

    /// The kind.
    const KIND: Kind;

    /// Returns the fault of an object that the API server would reject; see [`Decode::refused`].
    fn refused(_: &Value) -> Option<(String, String)> {
        None
    }

    /// Creates the object. `version` is its `metadata.resourceVersion`.
    fn object(self, meta: Meta, version: Arc<str>, status: Self::Status) -> Object;
}

impl<S: Spec> Decode for Custom<S, S::Status> {
    const KIND: Kind = S::KIND;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn normalized(value: Value) -> Value {
        without_nulls(value)
    }

    fn refused(value: &Value) -> Option<(String, String)> {
        S::refused(value)
    }

    fn decode(self) -> Option<Object> {
        let version = version(&self.metadata);
        let (spec, status) = (self.spec.unwrap_or_default(), self.status.unwrap_or_default());
        Some(spec.object(meta(self.metadata, S::KIND), version, status))
    }
}

impl Spec for GatewayClassSpec {
    type Status = GatewayClassStatus;

    const KIND: Kind = Kind::GATEWAY_CLASS;

    fn refused(value: &Value) -> Option<(String, String)> {
        missing("", &[(value.pointer("/spec/controllerName"), "spec.controllerName")])
    }

    fn object(self, meta: Meta, version: Arc<str>, status: GatewayClassStatus) -> Object {
        Object::new(GatewayClass { meta, spec: self, status, version })
    }
}

impl Spec for EnvoyFleetSpec {
    type Status = IgnoredAny;

    const KIND: Kind = Kind::ENVOY_FLEET;

    fn object(mut self, meta: Meta, _: Arc<str>, _: IgnoredAny) -> Object {
        self.tolerations.shrink_to_fit();
        Object::new(EnvoyFleet { meta, spec: self })
    }
}

impl Spec for HostGrantSpec {
    type Status = HostGrantStatus;

    const KIND: Kind = Kind::HOST_GRANT;

    fn refused(value: &Value) -> Option<(String, String)> {
        let required = ["hosts", "namespaces"].map(|field| (value.get("spec").and_then(|spec| spec.get(field)), field));
        missing("spec.", &required)
    }

    fn object(mut self, meta: Meta, version: Arc<str>, status: HostGrantStatus) -> Object {
        self.hosts.shrink_to_fit();
        self.namespaces.names.shrink_to_fit();
        Object::new(HostGrant { meta, spec: self, status, version })
    }
}

impl Spec for GatewaySpec {
    type Status = GatewayStatus;

    const KIND: Kind = Kind::GATEWAY;

    fn refused(value: &Value) -> Option<(String, String)> {
        let class = (value.pointer("/spec/gatewayClassName"), "spec.gatewayClassName");
        missing("", &[class]).or_else(|| refused_listeners(value))
    }

    fn object(mut self, meta: Meta, version: Arc<str>, status: GatewayStatus) -> Object {
        self.listeners.shrink_to_fit();
        Object::new(Gateway { meta, spec: self, status, version })
    }
}

impl Spec for ListenerSetSpec {
    type Status = ListenerSetStatus;

    const KIND: Kind = Kind::LISTENER_SET;

    fn refused(value: &Value) -> Option<(String, String)> {
        let parent = (value.pointer("/spec/parentRef/name"), "spec.parentRef.name");
        missing("", &[parent]).or_else(|| refused_listeners(value))
    }

    fn object(mut self, meta: Meta, version: Arc<str>, status: ListenerSetStatus) -> Object {
        self.listeners.shrink_to_fit();
        Object::new(ListenerSet { meta, spec: self, status, version })
    }
}

/// Returns the fault of the first listener that the API server would reject.
fn refused_listeners(value: &Value) -> Option<(String, String)> {
    let listeners = list(value.get("spec"), "listeners");
    let fault = |(i, listener): (usize, &Value)| {
        let path = format!("spec.listeners[{i}].");
        let required = ["name", "port", "protocol"].map(|field| (listener.get(field), field));
        missing(&path, &required).or_else(|| port(&path, listener)).or_else(|| {
            let name = listener.get("name")?;
            let is_taken = listeners.iter().take(i).any(|other| other.get("name") == Some(name));
            is_taken.then(|| (format!("{path}name"), format!("{name} is the name of another listener")))
        })
    };
    listeners.iter().enumerate().find_map(fault)
}

/// Returns the fault of a route that the API server would reject: a reference without a name, or with an invalid port.
fn refused_route(value: &Value) -> Option<(String, String)> {
    let spec = value.get("spec");
    let parent = |(i, parent): (usize, &Value)| {
        let path = format!("spec.parentRefs[{i}].");
        missing(&path, &[(parent.get("name"), "name")]).or_else(|| port(&path, parent))
    };
    let backends = |(i, rule): (usize, &Value)| {
        list(Some(rule), "backendRefs").iter().enumerate().find_map(|(j, backend)| {
            let path = format!("spec.rules[{i}].backendRefs[{j}].");
            missing(&path, &[(backend.get("name"), "name")]).or_else(|| port(&path, backend))
        })
    };
    let parents = list(spec, "parentRefs").iter().enumerate().find_map(parent);
    parents.or_else(|| list(spec, "rules").iter().enumerate().find_map(backends))
}

impl Spec for ReferenceGrantSpec {
    type Status = IgnoredAny;

    const KIND: Kind = Kind::REFERENCE_GRANT;

    fn refused(value: &Value) -> Option<(String, String)> {
        let spec = value.get("spec");
        let fault = |of: &str, fields: &[&str]| {
            list(spec, of).iter().enumerate().find_map(|(i, item)| {
                let required: Vec<Required<'_>> = fields.iter().map(|field| (item.get(field), *field)).collect();
                missing(&format!("spec.{of}[{i}]."), &required)
            })
        };
        fault("from", &["kind", "namespace"]).or_else(|| fault("to", &["kind"]))
    }

    fn object(mut self, meta: Meta, _: Arc<str>, _: IgnoredAny) -> Object {
        self.from.shrink_to_fit();
        self.to.shrink_to_fit();
        Object::new(ReferenceGrant { meta, spec: self })
    }
}

/// Returns the properties of a Service that Lockgate created in front of a Gateway, which two labels mark.
pub fn service(
    metadata: &ObjectMeta,
    spec: &core::ServiceSpec,
    status: Option<core::ServiceStatus>,
) -> Option<Box<GatewayService>> {
    let label = |name: &str| metadata.labels.as_ref()?.get(name);
    let name = label(GATEWAY_NAME).filter(|_| label(MANAGED_BY).is_some_and(|manager| manager == MANAGER))?;
    let number = |port: i32| u16::try_from(port).ok().filter(|port| *port > 0);
    let port = |port: &core::ServicePort| {
        let transport = match port.protocol.as_deref() {
            None | Some("TCP") => Transport::Tcp,
            Some("UDP") => Transport::Udp,
            Some(_) => return None,
        };
        let target = match &port.target_port {
            None => port.port,
            Some(IntOrString::Int(target)) => *target,
            Some(IntOrString::String(_)) => return None,
        };
        Some((transport, number(port.port)?, number(target)?))
    };
    let mut ports = exact(spec.ports.iter().flatten().filter_map(port));
    ports.sort_unstable();
    let assigned = status.and_then(|status| status.load_balancer).and_then(|balancer| balancer.ingress);
    let assigned = assigned.unwrap_or_default().into_iter().map(|from| (from.ip, from.hostname));
    // Without a load balancer, clients of the Kubernetes cluster can reach it.
    let has_balancer = spec.type_.as_deref().is_none_or(|kind| kind == FleetService::LOAD_BALANCER);
    let inside = spec.cluster_ips.iter().flatten().filter(|ip| !has_balancer && *ip != "None");
    let inside = inside.map(|ip| (Some(ip.clone()), None));
    let address = |(ip, hostname)| networking::IngressLoadBalancerIngress { ip, hostname, ports: None };
    let text = |text: &Option<String>| text.as_deref().filter(|text| !text.is_empty()).map(shared);
    let mut port_names: Box<[Arc<str>]> =
        spec.ports.iter().flatten().map(|port| shared(port.name.as_deref().unwrap_or_default())).collect();
    port_names.sort_unstable();
    let exposure = Exposure {
        r#type: text(&spec.type_),
        traffic_policy: text(&spec.external_traffic_policy),
        address: text(&spec.load_balancer_ip),
        source_ranges: spec.load_balancer_source_ranges.iter().flatten().map(|range| shared(range)).collect(),
        port_names,
        has_selector: spec.selector.as_ref().is_some_and(|selector| !selector.is_empty()),
    };
    Some(Box::new(GatewayService {
        name: shared(name),
        ports,
        addresses: exact(assigned.filter(|_| has_balancer).chain(inside).map(address)),
        version: version(metadata),
        is_draining: label(DRAINING).is_some(),
        is_dedicated: label(FLEET).is_some_and(|fleet| !fleet.is_empty()),
        exposure,
    }))
}

/// Returns `metadata.resourceVersion`, for the status writers.
fn version(metadata: &ObjectMeta) -> Arc<str> {
    metadata.resource_version.as_deref().unwrap_or_default().into()
}

/// Returns the fault of the first required field that is absent or empty. Values of other types are faults of the type.
fn missing(path: &str, required: &[Required<'_>]) -> Option<(String, String)> {
    let is_missing = |(value, _): &&Required<'_>| value.is_none_or(|value| value.as_str() == Some(""));
    required.iter().find(is_missing).map(|(_, field)| (format!("{path}{field}"), "missing".to_owned()))
}

/// Returns the fault of the field `port` if it is a number that is no port.
fn port(path: &str, of: &Value) -> Option<(String, String)> {
    let number = of.get("port").and_then(Value::as_number)?;
    let is_port = number.as_i64().is_some_and(|port| (1..=65535).contains(&port));
    (!is_port).then(|| (format!("{path}port"), format!("{number} is not between 1 and 65535")))
}

/// Removes fields that are null. The API server treats them as absent.
fn without_nulls(mut value: Value) -> Value {
    fn prune(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.retain(|_, value| !value.is_null());
                fields.values_mut().for_each(prune);
            }
            Value::Array(items) => items.iter_mut().for_each(prune),
            _ => {}
        }
    }
    prune(&mut value);
    value
}

/// Releases spare capacity in the lists of the status of a route.
fn shrink_status(status: &mut RouteStatus) {
    status.parents.iter_mut().for_each(|parent| parent.conditions.shrink_to_fit());
    status.parents.shrink_to_fit();
}

/// Releases spare capacity in the lists of a rule, whose elements are large.
fn shrink(rule: &mut HttpRouteRule) {
    rule.matches.iter_mut().for_each(|HttpMatch { headers, query_params, .. }| {
        headers.shrink_to_fit();
        query_params.shrink_to_fit();
    });
    let backends = rule.backend_refs.iter_mut().map(|backend| &mut backend.filters);
    backends.chain([&mut rule.filters]).for_each(Vec::<HttpFilter>::shrink_to_fit);
    rule.matches.shrink_to_fit();
    rule.backend_refs.shrink_to_fit();
}

#[cfg(test)]
mod tests;
