//! Objects that cannot be decoded completely.

use std::sync::Arc;

use imbl::ordmap::DiffItem;

use super::{Kind, Meta, Object, ObjectKey, Objects};

/// An object that cannot be decoded completely: it contains text that is not UTF-8, or is malformed as a whole.
#[derive(Debug, Clone, PartialEq)]
pub struct Misencoded {
    /// The kind.
    pub kind: Kind,
    /// The metadata: name, namespace, uid, and generation, without annotations.
    pub meta: Meta,
    /// The path of the first malformed field, empty if unknown.
    pub field: String,
    /// The fault: lower case, no full stop.
    pub message: String,
    /// The object, with U+FFFD for each byte that is not UTF-8. `None` if it cannot be decoded at all; then its
    /// previous version, if any, stays in use.
    pub readable: Option<Object>,
}

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
}
