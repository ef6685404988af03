//! The store of all objects, by kind and key.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use imbl::{OrdMap, OrdSet};

use super::content::{Object, Typed};
use super::deleted::DeletedSecrets;
use super::kind::{Grouping, Kind};
use super::misencoded::Misencoded;
use super::service::EndpointSlice;
use crate::model::ObjectKey;

/// All objects, by kind and key. A clone is cheap.
#[derive(Debug, Clone, Default)]
pub struct Objects {
    /// The objects of each kind, and deleted Secrets whose last good key pair is still served (see
    /// [`Objects::delete`]).
    pub(super) by_kind: BTreeMap<Kind, OrdMap<ObjectKey, Object>>,
    /// Whether the objects come from the operator and not from tenants. Then endpoints may be on Envoy's own machine.
    pub from_operator: bool,
    /// The Service and the name of each EndpointSlice.
    pub(super) slices_of_services: OrdSet<(ObjectKey, Arc<str>)>,
    /// The deleted Secrets that are still in `by_kind`, oldest deletion of each namespace first.
    pub(super) deleted_secrets: DeletedSecrets,
    /// The Secrets that are served by their last good content.
    pub(super) kept_secrets: OrdSet<ObjectKey>,
    /// The deleted Secrets that were evicted since the last call of [`Objects::take_evicted_secrets`].
    pub(super) evicted_secrets: Vec<ObjectKey>,
    /// The Secrets with an [`EarlyPair`](super::EarlyPair), by the start of its validity.
    pub(super) early_secrets: OrdSet<(i64, ObjectKey)>,
    /// The objects that cannot be decoded completely.
    pub(super) misencoded: OrdMap<(Kind, ObjectKey), Arc<Misencoded>>,
    /// The optional kinds whose objects must not be read in a namespace, or in none if the namespace is empty.
    pub(super) unreadable: OrdSet<(Kind, Arc<str>)>,
}

impl Objects {
    /// Inserts an object. Returns whether any field that the translation reads has changed.
    pub(super) fn insert(&mut self, object: Object) -> bool {
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

    /// Removes an object. Returns whether it existed.
    pub(super) fn remove(&mut self, kind: Kind, key: &ObjectKey) -> bool {
        self.by_kind.get_mut(&kind).is_some_and(|of_kind| of_kind.remove(key).is_some())
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
    pub(super) fn enter_slice(&mut self, slice: &ObjectKey, service: ObjectKey) {
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
