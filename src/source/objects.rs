//! The objects that translation reads, cut down to what it reads, in one immutable value.
//!
//! `Objects` is persistent: a clone is cheap and shares everything, so a translation works on a state that nobody
//! changes, while the loop goes on applying events.

use std::collections::BTreeMap;
use std::sync::Arc;

use imbl::OrdMap;
use k8s_openapi::api::networking::v1::IngressSpec;

use crate::model::KeyPair;
use crate::provenance::ObjectRef;

/// The kinds that are watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// networking.k8s.io/v1
    Ingress,
    /// networking.k8s.io/v1
    IngressClass,
    /// v1
    Service,
    /// discovery.k8s.io/v1
    EndpointSlice,
    /// v1
    Secret,
    /// v1
    ConfigMap,
    /// v1
    Namespace,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 7] = [
        Kind::Ingress,
        Kind::IngressClass,
        Kind::Service,
        Kind::EndpointSlice,
        Kind::Secret,
        Kind::ConfigMap,
        Kind::Namespace,
    ];

    /// The kind as the API writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Ingress => "Ingress",
            Kind::IngressClass => "IngressClass",
            Kind::Service => "Service",
            Kind::EndpointSlice => "EndpointSlice",
            Kind::Secret => "Secret",
            Kind::ConfigMap => "ConfigMap",
            Kind::Namespace => "Namespace",
        }
    }
}

/// Namespace and name; the namespace is empty for kinds that have none.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// The namespace, or empty.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

impl ObjectKey {
    /// The key `namespace`/`name`.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

/// What every object has. Only annotations that some translation reads are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meta {
    /// Namespace and name.
    pub key: ObjectKey,
    /// `metadata.generation`, 0 if absent.
    pub generation: i64,
    /// `metadata.creationTimestamp` in seconds since the Unix epoch; `i64::MAX` if absent, so that an object of
    /// unknown age is the youngest.
    pub created: i64,
    /// Annotations under the prefixes that translation reads.
    pub annotations: BTreeMap<String, String>,
}

impl Meta {
    /// A reference to the object of `kind` with this metadata.
    pub fn object_ref(&self, kind: Kind) -> ObjectRef {
        ObjectRef {
            kind: kind.as_str(),
            namespace: self.key.namespace.clone(),
            name: self.key.name.clone(),
            generation: self.generation,
        }
    }

    /// The order in which conflicts are decided: the older object first, then the lower namespace/name.
    pub fn precedence(&self) -> (i64, &ObjectKey) {
        (self.created, &self.key)
    }
}

/// An Ingress.
#[derive(Debug, Clone, PartialEq)]
pub struct Ingress {
    /// Its metadata.
    pub meta: Meta,
    /// Its spec, as the API has it.
    pub spec: IngressSpec,
}

/// An IngressClass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IngressClass {
    /// Its metadata.
    pub meta: Meta,
    /// `spec.controller`, empty if absent.
    pub controller: String,
}

/// A Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// Its metadata.
    pub meta: Meta,
    /// `spec.externalName` if the type is ExternalName.
    pub external_name: Option<String>,
    /// `spec.ports`.
    pub ports: Vec<ServicePort>,
    /// `spec.ipFamilies`: `true` is IPv6; empty if unset.
    pub ipv6_families: Vec<bool>,
}

/// A port of a Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServicePort {
    /// Its name, empty if it has none.
    pub name: Arc<str>,
    /// Its number. 1 to 65535.
    pub port: u16,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: Arc<str>,
    /// `appProtocol`.
    pub app_protocol: Option<Arc<str>>,
}

/// An EndpointSlice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointSlice {
    /// Its metadata.
    pub meta: Meta,
    /// The Service that it belongs to: label `kubernetes.io/service-name`, empty if absent.
    pub service: Arc<str>,
    /// What its addresses are.
    pub address_type: AddressType,
    /// Its ports: name (empty if nil), and number (`None`: all ports, skipped). Only protocol TCP or nil is kept.
    pub ports: Vec<(Arc<str>, Option<u16>)>,
    /// Its endpoints.
    pub endpoints: Vec<SliceEndpoint>,
}

/// `addressType` of an EndpointSlice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressType {
    /// IPv4 addresses.
    Ipv4,
    /// IPv6 addresses.
    Ipv6,
    /// Names: not served.
    Fqdn,
}

/// An endpoint of an EndpointSlice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SliceEndpoint {
    /// The first of its addresses, as text (only the first one counts, says the API).
    pub address: Arc<str>,
    /// `conditions.ready`; nil is true.
    pub ready: bool,
    /// `conditions.serving`; nil is `ready`.
    pub serving: bool,
    /// `conditions.terminating`; nil is false.
    pub terminating: bool,
    /// `zone`, empty if absent.
    pub zone: Arc<str>,
    /// `targetRef` as `namespace/name` when it is a Pod: the same pod counts once over both IP families.
    pub pod: Option<Arc<str>>,
}

/// A Secret of type `kubernetes.io/tls` or `Opaque`, already checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Secret {
    /// Its metadata.
    pub meta: Meta,
    /// The newest usable key pair that this object ever had in this process: the current one, or the last good one.
    pub pair: Option<Arc<KeyPair>>,
    /// What is wrong with the current content, if anything; lower case, no full stop, names the data key.
    pub fault: Option<String>,
}

/// One object of any kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Object {
    /// An Ingress.
    Ingress(Arc<Ingress>),
    /// An IngressClass.
    IngressClass(Arc<IngressClass>),
    /// A Service.
    Service(Arc<Service>),
    /// An EndpointSlice.
    EndpointSlice(Arc<EndpointSlice>),
    /// A Secret.
    Secret(Arc<Secret>),
    /// A ConfigMap: nothing of it is read yet.
    ConfigMap(Arc<Meta>),
    /// A Namespace: nothing of it is read yet.
    Namespace(Arc<Meta>),
}

impl Object {
    /// The kind.
    pub fn kind(&self) -> Kind {
        match self {
            Object::Ingress(_) => Kind::Ingress,
            Object::IngressClass(_) => Kind::IngressClass,
            Object::Service(_) => Kind::Service,
            Object::EndpointSlice(_) => Kind::EndpointSlice,
            Object::Secret(_) => Kind::Secret,
            Object::ConfigMap(_) => Kind::ConfigMap,
            Object::Namespace(_) => Kind::Namespace,
        }
    }

    /// The metadata.
    pub fn meta(&self) -> &Meta {
        match self {
            Object::Ingress(object) => &object.meta,
            Object::IngressClass(object) => &object.meta,
            Object::Service(object) => &object.meta,
            Object::EndpointSlice(object) => &object.meta,
            Object::Secret(object) => &object.meta,
            Object::ConfigMap(meta) | Object::Namespace(meta) => meta,
        }
    }

    /// A reference to it.
    pub fn object_ref(&self) -> ObjectRef {
        self.meta().object_ref(self.kind())
    }
}

/// All objects, by kind and key. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Objects {
    /// Ingresses.
    pub ingresses: OrdMap<ObjectKey, Arc<Ingress>>,
    /// IngressClasses.
    pub ingress_classes: OrdMap<ObjectKey, Arc<IngressClass>>,
    /// Services.
    pub services: OrdMap<ObjectKey, Arc<Service>>,
    /// EndpointSlices, by the Service that they belong to, then by their own name.
    pub endpoint_slices: OrdMap<ObjectKey, OrdMap<Arc<str>, Arc<EndpointSlice>>>,
    /// Secrets.
    pub secrets: OrdMap<ObjectKey, Arc<Secret>>,
    /// ConfigMaps.
    pub config_maps: OrdMap<ObjectKey, Arc<Meta>>,
    /// Namespaces.
    pub namespaces: OrdMap<ObjectKey, Arc<Meta>>,
    /// The Service of each EndpointSlice, to find it again when it is deleted or moves to another Service.
    service_of_slice: OrdMap<ObjectKey, ObjectKey>,
}
