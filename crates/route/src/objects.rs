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
mod service;

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
pub use service::{
    AddressType, EndpointSlice, Exposure, GatewayService, SERVICE_PORTS, Service, ServicePort, SliceEndpoint, Transport,
};

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
