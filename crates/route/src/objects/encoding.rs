//! The stored objects that cannot be decoded completely.

use std::sync::Arc;

use imbl::ordmap::DiffItem;

use super::content::Object;
use super::kind::Kind;
use super::meta::Meta;
use super::misencoded::Misencoded;
use super::store::Objects;
use crate::model::ObjectKey;

impl Objects {
    /// Returns the decoding fault of an object, if any.
    pub fn misencoded(&self, kind: Kind, key: &ObjectKey) -> Option<&Arc<Misencoded>> {
        if self.misencoded.is_empty() {
            return None;
        }
        self.misencoded.get(&(kind, key.clone()))
    }

    /// Returns all objects that cannot be decoded completely.
    pub fn all_misencoded(&self) -> impl Iterator<Item = &Arc<Misencoded>> {
        self.misencoded.values()
    }

    /// Returns the objects whose decoding fault differs from `before`.
    pub fn encoding_changes(&self, before: &Self) -> Vec<(Kind, ObjectKey)> {
        let key = |item| match item {
            DiffItem::Add(key, _) | DiffItem::Update { new: (key, _), .. } | DiffItem::Remove(key, _) => key,
        };
        before.misencoded.diff(&self.misencoded).map(key).cloned().collect()
    }

    /// Records that an object was decoded without a fault, or was deleted.
    pub(super) fn forget_encoding(&mut self, kind: Kind, key: &ObjectKey) {
        if !self.misencoded.is_empty() {
            self.misencoded.remove(&(kind, key.clone()));
        }
    }

    /// Returns the keys of the objects of `kind` that cannot be decoded completely.
    pub(super) fn misencoded_keys(&self, kind: Kind) -> Vec<ObjectKey> {
        let of_kind = self.misencoded.keys().filter(|(of, _)| *of == kind);
        of_kind.map(|(_, key)| key.clone()).collect()
    }

    /// Returns the metadata of an object, even if the rest of it cannot be decoded.
    pub fn meta(&self, kind: Kind, key: &ObjectKey) -> Option<&Meta> {
        let misencoded = || self.misencoded(kind, key).map(|object| &object.meta);
        self.of_kind(kind).get(key).map(Object::meta).or_else(misencoded)
    }
}
