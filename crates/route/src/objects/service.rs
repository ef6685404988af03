//! Services and their endpoints.

use std::sync::Arc;

use k8s_openapi::api::networking::v1::IngressLoadBalancerIngress;

use super::meta::Meta;
use crate::model::ObjectKey;

/// The maximum number of ports of a Service that count. The API server accepts 10,000. Paths and routes search in the ports, and
/// each used one has a copy of all endpoints.
pub const SERVICE_PORTS: usize = 1000;

/// A Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// The metadata.
    pub meta: Meta,
    /// `spec.externalName` if the type is ExternalName.
    pub external_name: Option<String>,
    /// `spec.ports`, at most [`SERVICE_PORTS`].
    pub ports: Vec<ServicePort>,
    /// `spec.ipFamilies`: `true` is IPv6; empty if unset.
    pub ipv6_families: Vec<bool>,
    /// Whether `spec.trafficDistribution` prefers endpoints that are close.
    pub prefers_close: bool,
    /// Whether it has the label of a dedicated fleet of Envoys. Anybody can write the label.
    pub is_of_fleet: bool,
    /// The Gateway for which Lockgate created the Service, if it did.
    pub gateway: Option<Box<GatewayService>>,
}

/// The properties of a Service that Lockgate created in front of a Gateway.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GatewayService {
    /// The name of the Gateway, which is in the same namespace.
    pub name: Arc<str>,
    /// The ports: transport, port of the Gateway, and port of Envoy (`targetPort`), sorted.
    pub ports: Vec<(Transport, u16, u16)>,
    /// `status.loadBalancer.ingress`, or the cluster IPs if the type is not LoadBalancer. The translation does not read it.
    pub addresses: Vec<IngressLoadBalancerIngress>,
    /// `metadata.resourceVersion`. The translation does not read it.
    pub version: Arc<str>,
    /// Whether it has left the shared Envoys for a dedicated fleet.
    pub is_dedicated: bool,
    /// Whether the shared Envoys still serve its open connections.
    pub is_draining: bool,
    /// The other fields that the leader writes. The translation does not read them.
    pub exposure: Exposure,
}

/// The addresses have no floats, so `Eq` is sound.
impl Eq for GatewayService {}

/// The fields of the Service of a Gateway that determine how clients reach it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exposure {
    /// `spec.type`.
    pub r#type: Option<Arc<str>>,
    /// `spec.externalTrafficPolicy`.
    pub traffic_policy: Option<Arc<str>>,
    /// `spec.loadBalancerIP`.
    pub address: Option<Arc<str>>,
    /// `spec.loadBalancerSourceRanges`.
    pub source_ranges: Box<[Arc<str>]>,
    /// The names of all ports, sorted. EndpointSlices refer to them.
    pub port_names: Box<[Arc<str>]>,
    /// Whether `spec.selector` has an entry.
    pub has_selector: bool,
}

/// A transport protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl Transport {
    /// Returns the name of the protocol in Services and EndpointSlices.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
        }
    }
}

/// A port of a Service.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServicePort {
    /// The name, empty if absent.
    pub name: Arc<str>,
    /// The number, 1 to 65535.
    pub port: u16,
    /// `TCP`, `UDP`, or `SCTP`.
    pub protocol: Arc<str>,
    /// `appProtocol`.
    pub app_protocol: Option<Arc<str>>,
}

/// An EndpointSlice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointSlice {
    /// The metadata.
    pub meta: Meta,
    /// The name of its Service: label `kubernetes.io/service-name`, empty if absent.
    pub service: Arc<str>,
    /// The type of the addresses.
    pub address_type: AddressType,
    /// The ports: name (empty if nil), and number (`None` means all ports, and is skipped). Only ports with protocol
    /// TCP, UDP, or nil are kept. The names of a Service's ports are unique, so the protocol is left out.
    pub ports: Vec<(Arc<str>, Option<u16>)>,
    /// The endpoints.
    pub endpoints: Vec<SliceEndpoint>,
}

impl EndpointSlice {
    /// Returns the key of the Service.
    pub fn service_key(&self) -> ObjectKey {
        ObjectKey { namespace: self.meta.key.namespace.clone(), name: self.service.clone() }
    }
}

/// `addressType` of an EndpointSlice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressType {
    /// IPv4 addresses.
    Ipv4,
    /// IPv6 addresses.
    Ipv6,
    /// Host names. They are not served.
    Fqdn,
}

/// An endpoint of an EndpointSlice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SliceEndpoint {
    /// The first address, as text. According to the API, the other addresses have no meaning.
    pub address: Arc<str>,
    /// `conditions.ready`; nil is true.
    pub ready: bool,
    /// `conditions.serving`; nil is `ready`.
    pub serving: bool,
    /// `conditions.terminating`; nil is false.
    pub terminating: bool,
    /// `zone`, empty if absent.
    pub zone: Arc<str>,
    /// `nodeName`, empty if absent. The translation does not read it.
    pub node: Arc<str>,
    /// `targetRef` as `namespace/name` if it is a Pod. A pod with addresses of both IP families counts once.
    pub pod: Option<Arc<str>>,
}
