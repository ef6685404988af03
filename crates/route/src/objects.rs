//! The objects that translation reads, cut down to what it reads, in one immutable value.
//!
//! `Objects` is persistent: a clone is cheap and shares everything, so a translation works on a state that nobody
//! changes, while the loop goes on applying events.

mod deleted;
pub mod foreign;
mod kept;
mod misencoded;
mod precedence;
mod secrets;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};
use k8s_openapi::api::networking::v1::{IngressLoadBalancerIngress, IngressSpec};
use lockgate_xds::provenance::ObjectRef;

use crate::model::KeyPair;

use deleted::Deleted;
pub use kept::Kept;
pub use misencoded::Misencoded;
pub use precedence::Precedence;

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
    /// A Namespace: whether it exists and whether it is being deleted is read.
    Namespace(Arc<Meta>),
    /// An object of any kind of which something cannot be decoded.
    Misencoded(Arc<Misencoded>),
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
            Object::Misencoded(object) => object.kind,
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
            Object::Misencoded(object) => &object.meta,
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
    /// EndpointSlices.
    pub endpoint_slices: OrdMap<ObjectKey, Arc<EndpointSlice>>,
    /// Secrets; also deleted ones whose last good key pair is still served (see [`Objects::delete`]).
    pub secrets: OrdMap<ObjectKey, Arc<Secret>>,
    /// ConfigMaps.
    pub config_maps: OrdMap<ObjectKey, Arc<Meta>>,
    /// Namespaces.
    pub namespaces: OrdMap<ObjectKey, Arc<Meta>>,
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
        if let Object::Misencoded(found) = object {
            let readable = found.readable.clone();
            self.misencoded.insert((found.kind, found.meta.key.clone()), found);
            return readable.is_some_and(|object| self.put(object));
        }
        self.forget_encoding(object.kind(), &object.meta().key);
        self.put(object)
    }

    fn put(&mut self, object: Object) -> bool {
        match object {
            Object::Ingress(object) => {
                let before = self.ingresses.insert(object.meta.key.clone(), object.clone());
                before.is_none_or(|before| before.meta != object.meta || before.spec != object.spec)
            }
            Object::IngressClass(object) => put(&mut self.ingress_classes, object.meta.key.clone(), object),
            Object::Service(object) => put(&mut self.services, object.meta.key.clone(), object),
            Object::EndpointSlice(slice) => self.apply_slice(slice),
            Object::Secret(secret) => self.apply_secret(secret),
            Object::ConfigMap(meta) => put(&mut self.config_maps, meta.key.clone(), meta),
            Object::Namespace(meta) => put(&mut self.namespaces, meta.key.clone(), meta),
            // What is readable of one is no other of these.
            Object::Misencoded(_) => false,
        }
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
        match kind {
            Kind::Ingress => self.ingresses.remove(key).is_some(),
            Kind::IngressClass => self.ingress_classes.remove(key).is_some(),
            Kind::Service => self.services.remove(key).is_some(),
            Kind::EndpointSlice => self.delete_slice(key),
            Kind::Secret => self.delete_secret(key),
            Kind::ConfigMap => self.config_maps.remove(key).is_some(),
            Kind::Namespace => self.namespaces.remove(key).is_some(),
        }
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
        for gone in self.refs(kind).into_iter().filter(|(key, _)| !listed.contains(key)) {
            if self.delete(kind, &gone.0) {
                changed.push(gone.1);
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
        self.decoded_meta(kind, key).or_else(misencoded)
    }

    fn decoded_meta(&self, kind: Kind, key: &ObjectKey) -> Option<&Meta> {
        match kind {
            Kind::Ingress => self.ingresses.get(key).map(|object| &object.meta),
            Kind::IngressClass => self.ingress_classes.get(key).map(|object| &object.meta),
            Kind::Service => self.services.get(key).map(|object| &object.meta),
            Kind::EndpointSlice => self.endpoint_slices.get(key).map(|object| &object.meta),
            Kind::Secret => self.secrets.get(key).map(|object| &object.meta),
            Kind::ConfigMap => self.config_maps.get(key).map(|meta| &**meta),
            Kind::Namespace => self.namespaces.get(key).map(|meta| &**meta),
        }
    }

    /// The Service that an EndpointSlice belongs to.
    pub fn service_of(&self, slice: &ObjectKey) -> Option<ObjectKey> {
        self.endpoint_slices.get(slice).map(|slice| slice.service_key())
    }

    /// The EndpointSlices that belong to a Service, by name.
    pub fn slices_of(&self, service: &ObjectKey) -> impl Iterator<Item = &Arc<EndpointSlice>> {
        let from = self.slices_of_services.range((service.clone(), Arc::from(""))..);
        let names = from.take_while(move |(other, _)| other == service).map(|(_, name)| name.clone());
        names.filter_map(|name| self.endpoint_slices.get(&ObjectKey { namespace: service.namespace.clone(), name }))
    }

    /// How many objects of `kind` there are.
    pub fn count(&self, kind: Kind) -> usize {
        match kind {
            Kind::Ingress => self.ingresses.len(),
            Kind::IngressClass => self.ingress_classes.len(),
            Kind::Service => self.services.len(),
            Kind::EndpointSlice => self.endpoint_slices.len(),
            Kind::Secret => self.secrets.len() - self.deleted_secrets.len(),
            Kind::ConfigMap => self.config_maps.len(),
            Kind::Namespace => self.namespaces.len(),
        }
    }

    /// Key and reference of every object of `kind`.
    fn refs(&self, kind: Kind) -> Vec<(ObjectKey, ObjectRef)> {
        fn of<'a>(kind: Kind, metas: impl Iterator<Item = &'a Meta>) -> Vec<(ObjectKey, ObjectRef)> {
            metas.map(|meta| (meta.key.clone(), meta.object_ref(kind))).collect()
        }
        match kind {
            Kind::Ingress => of(kind, self.ingresses.values().map(|object| &object.meta)),
            Kind::IngressClass => of(kind, self.ingress_classes.values().map(|object| &object.meta)),
            Kind::Service => of(kind, self.services.values().map(|object| &object.meta)),
            Kind::EndpointSlice => of(kind, self.endpoint_slices.values().map(|object| &object.meta)),
            Kind::Secret => of(kind, self.secrets.values().map(|object| &object.meta)),
            Kind::ConfigMap => of(kind, self.config_maps.values().map(|meta| &**meta)),
            Kind::Namespace => of(kind, self.namespaces.values().map(|meta| &**meta)),
        }
    }

    fn apply_slice(&mut self, slice: Arc<EndpointSlice>) -> bool {
        let (key, service) = (slice.meta.key.clone(), slice.service_key());
        if let Some(before) = self.service_of(&key).filter(|before| *before != service) {
            self.slices_of_services.remove(&(before, key.name.clone()));
        }
        self.slices_of_services.insert((service, key.name.clone()));
        put(&mut self.endpoint_slices, key, slice)
    }

    fn delete_slice(&mut self, key: &ObjectKey) -> bool {
        let Some(slice) = self.endpoint_slices.remove(key) else { return false };
        self.slices_of_services.remove(&(slice.service_key(), key.name.clone()));
        true
    }
}

/// Puts `object` into `map`, unless an equal one is there already. Returns whether it did.
fn put<T: PartialEq>(map: &mut OrdMap<ObjectKey, Arc<T>>, key: ObjectKey, object: Arc<T>) -> bool {
    if map.get(&key).is_some_and(|before| **before == *object) {
        return false;
    }
    map.insert(key, object);
    true
}

#[cfg(test)]
mod tests;
