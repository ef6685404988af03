//! The Kubernetes objects, reduced to the fields that the translation reads, in one immutable value.
//!
//! `Objects` is persistent: a clone is cheap and shares all objects. A translation works on an unchanging state while
//! the loop applies further events.

mod backend_policy;
mod claims;
mod content;
mod credentials;
mod deleted;
pub mod foreign;
mod foreign_policy;
pub mod gateway;
mod host_grant;
pub mod http_proxy;
mod kept;
mod kind;
mod misencoded;
mod precedence;
mod revision;
mod secrets;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, LazyLock};

use imbl::{OrdMap, OrdSet};
use k8s_openapi::api::networking::v1::{IngressLoadBalancerIngress, IngressSpec};
use lockgate_xds::provenance::ObjectRef;

use crate::model::{Confidential, KeyPair};

pub use crate::model::ObjectKey;
pub use backend_policy::{
    BackendPolicy, BackendPolicySpec, BackendPolicyTarget, EndpointHttp3Spec, GrpcProbeSpec, HashOnSpec, HashOnType,
    HealthCheckSpec, HttpProbeSpec, LoadBalancingAlgorithm, LoadBalancingSpec, OutlierDetectionSpec, PreferredZones,
    ProxyProtocolVersion, RetryBudgetSpec, SlowStartSpec, SuccessRateSpec, TcpKeepaliveSpec, TcpProbeSpec, ZonesSpec,
};
pub use claims::{CLAIM_SHARDS, HostClaims, StoredClaim, claim_key, claim_shard};
pub use content::{Content, Object, Typed};
pub use credentials::{API_KEYS_TYPE, CLIENT_SECRET, CredentialKind, Credentials, HTPASSWD};
pub use foreign_policy::{ENVOY_GATEWAY, FOREIGN_POLICIES, ForeignPolicy, ForeignSelector, ForeignTarget};
pub use host_grant::{GrantedNamespaces, HostGrant, HostGrantSpec, HostGrantStatus};
pub use kept::Kept;
pub use kind::{Grouping, Kind, KindInfo};
pub use misencoded::Misencoded;
pub use precedence::Precedence;
pub use revision::Revision;
use secrets::DeletedSecrets;

/// The identity of an object of any kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    /// The kind.
    pub kind: Kind,
    /// The namespace and the name.
    pub key: ObjectKey,
}

impl ObjectId {
    /// Returns the identity of the object `namespace`/`name` of `kind`.
    pub fn new(kind: Kind, namespace: &str, name: &str) -> Self {
        Self { kind, key: ObjectKey::new(namespace, name) }
    }
}

/// Displays `Ingress shop/cart`, or `IngressClass ours` without a namespace.
impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.as_str(), self.key)
    }
}

/// The metadata of an object. It contains only annotations that the translation reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meta {
    /// The namespace and the name.
    pub key: ObjectKey,
    /// `metadata.uid`, empty if absent. It distinguishes successive objects with the same name.
    pub uid: Arc<str>,
    /// `metadata.generation`, 0 if absent.
    pub generation: i64,
    /// `metadata.creationTimestamp` in seconds since the Unix epoch. If absent, it is `i64::MAX`, so that an object of
    /// unknown age is the youngest.
    pub created: i64,
    /// Whether `metadata.deletionTimestamp` is set. Finalizers may hold such an object for any time.
    pub terminating: bool,
    /// Annotations with the prefixes that the translation reads.
    pub annotations: BTreeMap<String, String>,
    /// The labels, of kinds that policies select by label. Empty for other kinds.
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
}

impl Meta {
    /// Returns a reference to the object of `kind` with this metadata.
    pub fn object_ref(&self, kind: Kind) -> ObjectRef {
        ObjectRef {
            kind: kind.as_str(),
            namespace: self.key.namespace.clone(),
            name: self.key.name.clone(),
            generation: self.generation,
        }
    }
}

/// An Ingress.
#[derive(Debug, Clone, PartialEq)]
pub struct Ingress {
    /// The metadata.
    pub meta: Meta,
    /// The spec, as in the API.
    pub spec: IngressSpec,
    /// The status. The translation does not read it.
    pub status: IngressStatus,
}

/// `IngressSpec` has no floats, so `Eq` is sound.
impl Eq for Ingress {}

/// The status of an Ingress, for the status writer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct IngressStatus {
    /// `status.loadBalancer.ingress`.
    pub addresses: Vec<IngressLoadBalancerIngress>,
    /// The field managers that wrote the addresses.
    pub writers: Vec<Arc<str>>,
    /// `metadata.resourceVersion` of the whole object.
    pub version: Arc<str>,
}

/// An IngressClass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IngressClass {
    /// The metadata.
    pub meta: Meta,
    /// `spec.controller`, empty if absent.
    pub controller: String,
}

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

/// The addresses have no floats, so `Eq` is sound.
impl Eq for GatewayService {}

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

/// A validated Secret of type `kubernetes.io/tls`, `Opaque`, or [`API_KEYS_TYPE`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secret {
    /// The metadata.
    pub meta: Meta,
    /// The key pair that is served: the current one, the last good one, or an expired one if there is no other.
    pub pair: Option<Arc<KeyPair>>,
    /// The current content, if its only fault is that it is not valid yet.
    pub early: Option<EarlyPair>,
    /// The current content, if its only fault is that it has expired.
    pub expired: Option<Arc<KeyPair>>,
    /// The fault of the current content, if any; lower case, no full stop, names the data key.
    pub fault: Option<String>,
    /// The newest usable certificate authorities (`ca.crt`) that this object ever had, in PEM. Secrets with equal
    /// authorities share the text, such as all Secrets that one authority has issued.
    pub authorities: Option<Arc<str>>,
    /// The fault of the current `ca.crt`. An absent `ca.crt` is a fault too.
    pub authorities_fault: Option<Arc<str>>,
    /// The certificate revocation lists in PEM, or their fault. `None`: there are none.
    pub revocations: Option<Result<Arc<str>, Arc<str>>>,
    /// The current credentials of clients.
    pub credentials: Option<Arc<Credentials>>,
    /// The current values that may be JSON Web Key Sets, by data key, in order. They can contain private keys.
    pub key_sets: Box<[(Arc<str>, Confidential)]>,
    /// The current secret of an application at an OpenID provider, in the data key [`CLIENT_SECRET`].
    pub client_secret: Option<Confidential>,
}

/// A key pair whose certificate is not valid yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EarlyPair {
    /// The start of the validity, in seconds since 1970.
    pub not_before: i64,
    /// The key pair.
    pub pair: Arc<KeyPair>,
}

/// A Namespace. The translation reads its existence, its labels, and whether it is being deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace {
    /// The metadata.
    pub meta: Meta,
    /// The labels.
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
}

/// A ConfigMap with certificate authorities. Others are not stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigMap {
    /// The metadata.
    pub meta: Meta,
    /// The validated certificate authorities (`ca.crt`) in PEM, or their fault: lower case, no full stop, names the data
    /// key. ConfigMaps with equal authorities share the text.
    pub authorities: Result<Arc<str>, Arc<str>>,
}

/// All objects, by kind and key. A clone is cheap.
#[derive(Debug, Clone, Default)]
pub struct Objects {
    /// The objects of each kind, and deleted Secrets whose last good key pair is still served (see
    /// [`Objects::delete`]).
    by_kind: BTreeMap<Kind, OrdMap<ObjectKey, Object>>,
    /// Whether the objects come from the operator and not from tenants. Then endpoints may be on Envoy's own machine.
    pub from_operator: bool,
    /// The Service and the name of each EndpointSlice.
    slices_of_services: OrdSet<(ObjectKey, Arc<str>)>,
    /// The deleted Secrets that are still in `by_kind`, oldest deletion of each namespace first.
    deleted_secrets: DeletedSecrets,
    /// The Secrets that are served by their last good content.
    kept_secrets: OrdSet<ObjectKey>,
    /// The deleted Secrets that were evicted since the last call of [`Objects::take_evicted_secrets`].
    evicted_secrets: Vec<ObjectKey>,
    /// The Secrets with an [`EarlyPair`], by the start of its validity.
    early_secrets: OrdSet<(i64, ObjectKey)>,
    /// The objects that cannot be decoded completely.
    misencoded: OrdMap<(Kind, ObjectKey), Arc<Misencoded>>,
    /// The optional kinds whose objects must not be read in a namespace, or in none if the namespace is empty.
    unreadable: OrdSet<(Kind, Arc<str>)>,
}

/// The fault of a deleted Secret.
pub const SECRET_DELETED: &str = "the Secret was deleted";

impl Objects {
    /// Applies a new or changed object. Returns whether any field that the translation reads has changed.
    ///
    /// A Secret without a usable key pair keeps its previous pair, the last good one. The same applies to its
    /// certificate authorities. An expired pair is served unless the previous pair expires later; the order of arrival
    /// has no effect. If an object cannot be decoded at all, its previous version stays in use.
    pub fn apply(&mut self, object: Object) -> bool {
        if let Some(found) = object.get::<Misencoded>() {
            let readable = found.readable.clone();
            self.misencoded.insert((found.kind, found.meta.key.clone()), Arc::new(found.clone()));
            return readable.is_some_and(|object| self.put(object));
        }
        self.forget_encoding(object.kind(), &object.meta().key);
        self.put(object)
    }

    fn put(&mut self, object: Object) -> bool {
        if let Some(slice) = object.get::<EndpointSlice>() {
            self.enter_slice(&slice.meta.key, slice.service_key());
        }
        match object.kind() == Kind::SECRET {
            true => self.apply_secret(object),
            false => self.insert(object),
        }
    }

    /// Inserts an object. Returns whether any field that the translation reads has changed.
    fn insert(&mut self, object: Object) -> bool {
        let (of_kind, key) = (self.by_kind.entry(object.kind()).or_default(), &object.meta().key);
        let before = of_kind.get(key);
        // An equal object is not replaced, so its node stays shared with older versions of the map.
        if before == Some(&object) {
            return false;
        }
        let has_changed = before.is_none_or(|before| !before.is_same_to_translation(&object));
        of_kind.insert(key.clone(), object);
        has_changed
    }

    fn remove(&mut self, kind: Kind, key: &ObjectKey) -> bool {
        self.by_kind.get_mut(&kind).is_some_and(|of_kind| of_kind.remove(key).is_some())
    }

    /// Deletes an object. Returns whether anything changed.
    ///
    /// A Secret that ever had a usable key pair or authorities is retained with its last good content and the fault
    /// [`SECRET_DELETED`]. Users delete Secrets to have them issued again, and hosts must stay available during that
    /// time. It is retained until the Secret exists again, until it is evicted, or until the process ends. If 1024 Secrets
    /// are retained, the oldest deletion of the namespace with the most of them is evicted. A new process does not know
    /// Secrets that were deleted before it started, except from other replicas (see [`Objects::adopt`]).
    pub fn delete(&mut self, kind: Kind, key: &ObjectKey) -> bool {
        self.forget_encoding(kind, key);
        if kind == Kind::SECRET {
            return self.delete_secret(key);
        }
        if let Some(service) = self.service_of(key).filter(|_| kind == Kind::ENDPOINT_SLICE) {
            self.slices_of_services.remove(&(service, key.name.clone()));
        }
        self.remove(kind, key)
    }

    /// Replaces all objects of `kind`, as after a list. Objects of other kinds are ignored. Returns the added, changed,
    /// and removed objects, sorted. Removed Secrets are handled as in [`Objects::delete`].
    pub fn replace(&mut self, kind: Kind, objects: Vec<Object>) -> Vec<ObjectRef> {
        let listed: BTreeSet<ObjectKey> =
            objects.iter().filter(|object| object.kind() == kind).map(|object| object.meta().key.clone()).collect();
        let mut changed = Vec::new();
        for gone in self.misencoded_keys(kind).iter().filter(|key| !listed.contains(*key)) {
            self.forget_encoding(kind, gone);
        }
        let gone = self.of_kind(kind).values().filter(|object| !listed.contains(&object.meta().key));
        for gone in gone.map(Object::object_ref).collect::<Vec<_>>() {
            let key = ObjectKey { namespace: gone.namespace.clone(), name: gone.name.clone() };
            if self.delete(kind, &key) {
                changed.push(gone);
            }
        }
        for object in objects.into_iter().filter(|object| object.kind() == kind) {
            let object_ref = object.object_ref();
            if self.apply(object) {
                changed.push(object_ref);
            }
        }
        changed.sort();
        changed
    }

    /// Sets whether the objects of a kind may be read in a namespace, or at all if the namespace is empty. Returns whether this has
    /// changed.
    pub fn set_readable(&mut self, kind: Kind, namespace: &Arc<str>, readable: bool) -> bool {
        let entry = (kind, namespace.clone());
        match readable {
            true => self.unreadable.remove(&entry).is_some(),
            false => self.unreadable.insert(entry).is_none(),
        }
    }

    /// Returns whether the objects of a kind in a namespace may be read. If not, it is unknown whether there are any.
    pub fn is_readable(&self, kind: Kind, namespace: &Arc<str>) -> bool {
        let is_listed = |namespace: &Arc<str>| self.unreadable.contains(&(kind, namespace.clone()));
        self.unreadable.is_empty() || !(is_listed(namespace) || is_listed(&"".into()))
    }

    /// Returns the metadata of an object, even if the rest of it cannot be decoded.
    pub fn meta(&self, kind: Kind, key: &ObjectKey) -> Option<&Meta> {
        let misencoded = || self.misencoded(kind, key).map(|object| &object.meta);
        self.of_kind(kind).get(key).map(Object::meta).or_else(misencoded)
    }

    /// Returns the objects of `kind`.
    pub fn of_kind(&self, kind: Kind) -> &OrdMap<ObjectKey, Object> {
        static NONE: LazyLock<OrdMap<ObjectKey, Object>> = LazyLock::new(OrdMap::default);
        self.by_kind.get(&kind).unwrap_or(&NONE)
    }

    /// Returns the object of type `T` with this key.
    pub fn get<T: Typed>(&self, key: &ObjectKey) -> Option<&T> {
        self.of_kind(T::KIND).get(key)?.get()
    }

    /// Returns all objects of type `T`, by key.
    pub fn all<T: Typed>(&self) -> impl Iterator<Item = &T> {
        self.of_kind(T::KIND).values().filter_map(Object::get)
    }

    /// Returns the Service that an EndpointSlice belongs to.
    pub fn service_of(&self, slice: &ObjectKey) -> Option<ObjectKey> {
        self.get::<EndpointSlice>(slice).map(EndpointSlice::service_key)
    }

    /// Returns the key under which the translation reads an object: its own key, or the key of its group
    /// ([`Grouping`]). Returns `None` if the group is unknown, because the object does not exist.
    pub fn group_of(&self, kind: Kind, key: &ObjectKey) -> Option<ObjectKey> {
        match kind.info().grouping {
            Grouping::Alone => Some(key.clone()),
            Grouping::ByService => self.of_kind(kind).get(key)?.group(),
            Grouping::ByNamespace => Some(ObjectKey { namespace: "".into(), name: key.namespace.clone() }),
        }
    }

    /// Returns the EndpointSlices that belong to a Service, by name.
    pub fn slices_of(&self, service: &ObjectKey) -> impl Iterator<Item = &EndpointSlice> {
        let from = self.slices_of_services.range((service.clone(), Arc::from(""))..);
        let names = from.take_while(move |(other, _)| other == service).map(|(_, name)| name.clone());
        names.filter_map(|name| self.get(&ObjectKey { namespace: service.namespace.clone(), name }))
    }

    /// Returns the number of objects of `kind`.
    pub fn count(&self, kind: Kind) -> usize {
        let deleted = if kind == Kind::SECRET { self.deleted_secrets.len() } else { 0 };
        self.of_kind(kind).len() - deleted
    }

    /// Records that a slice belongs to `service`, and no longer to its previous Service.
    fn enter_slice(&mut self, slice: &ObjectKey, service: ObjectKey) {
        let before = self.service_of(slice);
        // Most changes move no slice. An insertion would copy nodes of the set, even if the entry exists.
        if before.as_ref() == Some(&service) {
            return;
        }
        if let Some(before) = before {
            self.slices_of_services.remove(&(before, slice.name.clone()));
        }
        self.slices_of_services.insert((service, slice.name.clone()));
    }
}

#[cfg(test)]
mod tests;
