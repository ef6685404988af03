//! The objects that translation reads, cut down to what it reads, in one immutable value.
//!
//! `Objects` is persistent: a clone is cheap and shares everything, so a translation works on a state that nobody
//! changes, while the loop goes on applying events.

mod content;
mod deleted;
pub mod foreign;
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

use crate::model::KeyPair;

pub use crate::model::ObjectKey;
pub use content::{Content, Object, Typed};
use deleted::Deleted;
pub use kept::Kept;
pub use kind::{Grouping, Kind, KindInfo};
pub use misencoded::Misencoded;
pub use precedence::Precedence;
pub use revision::Revision;

/// One object among those of all kinds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    /// The kind.
    pub kind: Kind,
    /// Namespace and name.
    pub key: ObjectKey,
}

impl ObjectId {
    /// The object `namespace`/`name` of `kind`.
    pub fn new(kind: Kind, namespace: &str, name: &str) -> Self {
        Self { kind, key: ObjectKey::new(namespace, name) }
    }
}

/// `Ingress shop/cart`, or `IngressClass ours` without a namespace.
impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.as_str(), self.key)
    }
}

/// What every object has. Only annotations that some translation reads are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meta {
    /// Namespace and name.
    pub key: ObjectKey,
    /// `metadata.uid`, empty if absent: another object of the same name has another.
    pub uid: Arc<str>,
    /// `metadata.generation`, 0 if absent.
    pub generation: i64,
    /// `metadata.creationTimestamp` in seconds since the Unix epoch; `i64::MAX` if absent, so that an object of
    /// unknown age is the youngest.
    pub created: i64,
    /// Whether `metadata.deletionTimestamp` is set: the object is being deleted, and finalizers may hold it for any time.
    pub terminating: bool,
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
}

/// An Ingress.
#[derive(Debug, Clone, PartialEq)]
pub struct Ingress {
    /// Its metadata.
    pub meta: Meta,
    /// Its spec, as the API has it.
    pub spec: IngressSpec,
    /// Its status. Translation does not read it.
    pub status: IngressStatus,
}

/// There are no numbers in it that differ from themselves; and two that are one are equal without a look at them.
impl Eq for Ingress {}

/// The status of an Ingress, for who keeps it up to date.
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

impl EndpointSlice {
    /// The key of its Service.
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secret {
    /// Its metadata.
    pub meta: Meta,
    /// The key pair that is served: the current one, the last good one, or an expired one if there is no better.
    pub pair: Option<Arc<KeyPair>>,
    /// The current content, if its only fault is that its time has not come.
    pub early: Option<EarlyPair>,
    /// The current content, if its only fault is that it has expired.
    pub expired: Option<Arc<KeyPair>>,
    /// What is wrong with the current content, if anything; lower case, no full stop, names the data key.
    pub fault: Option<String>,
    /// The same of `ca.crt`: the newest usable certificate authorities that this object ever had, PEM. Shared by all who
    /// have the same ones, as all that one authority has issued do.
    pub authorities: Option<Arc<str>>,
    /// What is wrong with the current `ca.crt`; that there is none, too.
    pub authorities_fault: Option<Arc<str>>,
}

/// A key pair whose certificate is not valid yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EarlyPair {
    /// The first moment of its validity, in seconds since 1970.
    pub not_before: i64,
    /// The key pair.
    pub pair: Arc<KeyPair>,
}

/// A Namespace: whether it exists and whether it is being deleted is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace {
    /// Its metadata.
    pub meta: Meta,
}

/// All objects, by kind and key. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Objects {
    /// The objects of each kind; also deleted Secrets whose last good key pair is still served (see [`Objects::delete`]).
    by_kind: BTreeMap<Kind, OrdMap<ObjectKey, Object>>,
    /// Whether the operator wrote the objects, and not tenants: then endpoints may be on Envoy's own machine.
    pub from_operator: bool,
    /// Service and name of each EndpointSlice.
    slices_of_services: OrdSet<(ObjectKey, Arc<str>)>,
    /// The Secrets that are deleted and yet kept in `secrets`, oldest deletion first.
    deleted_secrets: Deleted,
    /// The Secrets that are served by content that they no longer have.
    kept_secrets: OrdSet<ObjectKey>,
    /// The deleted Secrets that went out of `secrets` since [`Objects::take_evicted_secrets`] was last called.
    evicted_secrets: Vec<ObjectKey>,
    /// The Secrets with an [`EarlyPair`], by the first moment of its validity.
    early_secrets: OrdSet<(i64, ObjectKey)>,
    /// The objects of which something cannot be decoded.
    misencoded: OrdMap<(Kind, ObjectKey), Arc<Misencoded>>,
}

/// What a Secret that was deleted bears as its fault.
pub const SECRET_DELETED: &str = "the Secret was deleted";

impl Objects {
    /// Takes in a new or changed object. Returns whether anything changed that translation reads.
    ///
    /// A Secret without a usable pair of its own keeps the pair that it had before: the last good one. The same with its
    /// certificate authorities. An expired pair is served if the one before does not last longer: that does not depend on
    /// when it arrived. An object of which nothing can be decoded leaves the version before in use.
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

    /// Inserts an object. Returns whether anything changed that the translation reads.
    fn insert(&mut self, object: Object) -> bool {
        let (of_kind, key) = (self.by_kind.entry(object.kind()).or_default(), &object.meta().key);
        let before = of_kind.get(key);
        // An equal object stays as it is: its place in the map stays shared with older versions of the map.
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

    /// Takes an object away. Returns whether anything changed.
    ///
    /// A Secret that ever had a usable key pair, or authorities, is not forgotten: it keeps the last good ones and bears
    /// the fault [`SECRET_DELETED`], since people delete Secrets to have them issued anew, and hosts must not go dark
    /// meanwhile.
    /// That lasts until the Secret is back, until 1024 other Secrets are deleted after it, or until the process ends;
    /// a Secret that was gone before the process started is unknown to it.
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

    /// Makes `objects` all that there is of `kind`, as after a list. Objects of other kinds among them are left out.
    /// Returns what is new, changed or gone, sorted. Secrets that are gone go as in [`Objects::delete`].
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

    /// The metadata of an object, also of one of which nothing else can be decoded.
    pub fn meta(&self, kind: Kind, key: &ObjectKey) -> Option<&Meta> {
        let misencoded = || self.misencoded(kind, key).map(|object| &object.meta);
        self.of_kind(kind).get(key).map(Object::meta).or_else(misencoded)
    }

    /// The objects of `kind`.
    pub fn of_kind(&self, kind: Kind) -> &OrdMap<ObjectKey, Object> {
        static NONE: LazyLock<OrdMap<ObjectKey, Object>> = LazyLock::new(OrdMap::default);
        self.by_kind.get(&kind).unwrap_or(&NONE)
    }

    /// The object with this key of the kind of `T`.
    pub fn get<T: Typed>(&self, key: &ObjectKey) -> Option<&T> {
        self.of_kind(T::KIND).get(key)?.get()
    }

    /// All objects of the kind of `T`, by key.
    pub fn all<T: Typed>(&self) -> impl Iterator<Item = &T> {
        self.of_kind(T::KIND).values().filter_map(Object::get)
    }

    /// The Service that an EndpointSlice belongs to.
    pub fn service_of(&self, slice: &ObjectKey) -> Option<ObjectKey> {
        self.get::<EndpointSlice>(slice).map(EndpointSlice::service_key)
    }

    /// The key by which the translation looks for an object: its own, or that of the group that it belongs to
    /// ([`Grouping`]). `None` if the group is unknown, because the object does not exist.
    pub fn group_of(&self, kind: Kind, key: &ObjectKey) -> Option<ObjectKey> {
        match kind.info().grouping {
            Grouping::Alone => Some(key.clone()),
            Grouping::ByService => self.of_kind(kind).get(key)?.group(),
        }
    }

    /// The EndpointSlices that belong to a Service, by name.
    pub fn slices_of(&self, service: &ObjectKey) -> impl Iterator<Item = &EndpointSlice> {
        let from = self.slices_of_services.range((service.clone(), Arc::from(""))..);
        let names = from.take_while(move |(other, _)| other == service).map(|(_, name)| name.clone());
        names.filter_map(|name| self.get(&ObjectKey { namespace: service.namespace.clone(), name }))
    }

    /// How many objects of `kind` there are.
    pub fn count(&self, kind: Kind) -> usize {
        let deleted = if kind == Kind::SECRET { self.deleted_secrets.len() } else { 0 };
        self.of_kind(kind).len() - deleted
    }

    /// Notes that a slice belongs to `service`, and no longer to the Service of before.
    fn enter_slice(&mut self, slice: &ObjectKey, service: ObjectKey) {
        if let Some(before) = self.service_of(slice).filter(|before| *before != service) {
            self.slices_of_services.remove(&(before, slice.name.clone()));
        }
        self.slices_of_services.insert((service, slice.name.clone()));
    }
}

#[cfg(test)]
mod tests;
