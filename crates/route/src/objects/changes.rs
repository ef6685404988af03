//! Changes of the stored objects: new, changed, and deleted objects, and complete lists.

use std::collections::BTreeSet;
use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use super::content::Object;
use super::kind::Kind;
use super::misencoded::Misencoded;
use super::service::EndpointSlice;
use super::store::Objects;
use crate::model::ObjectKey;

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

    /// Deletes an object. Returns whether anything changed.
    ///
    /// A Secret that ever had a usable key pair or authorities is retained with its last good content and the fault
    /// [`SECRET_DELETED`](super::SECRET_DELETED). Users delete Secrets to have them issued again, and hosts must stay available during that
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
}
