//! Objects of which something cannot be decoded.

use std::sync::Arc;

use imbl::ordmap::DiffItem;

use super::{Kind, Meta, Object, ObjectKey, Objects};

/// An object of which something cannot be decoded: text that is not UTF-8, or a whole message that is malformed.
#[derive(Debug, Clone, PartialEq)]
pub struct Misencoded {
    /// Its kind.
    pub kind: Kind,
    /// Its metadata: name, namespace, uid, and generation. Annotations are left out.
    pub meta: Meta,
    /// The first field at fault, as a path; empty if unknown.
    pub field: String,
    /// What is wrong: lower case, no full stop.
    pub message: String,
    /// The object, with U+FFFD for each byte that is not UTF-8. `None` if nothing of it is read; the version before, if
    /// there is one, then stays in use.
    pub readable: Option<Object>,
}

impl Objects {
    /// What cannot be decoded of an object, if anything.
    pub fn misencoded(&self, kind: Kind, key: &ObjectKey) -> Option<&Arc<Misencoded>> {
        if self.misencoded.is_empty() {
            return None;
        }
        self.misencoded.get(&(kind, key.clone()))
    }

    /// All objects of which something cannot be decoded.
    pub fn all_misencoded(&self) -> impl Iterator<Item = &Arc<Misencoded>> {
        self.misencoded.values()
    }

    /// The objects that `before` has in another encoding.
    pub fn encoding_changes(&self, before: &Self) -> Vec<(Kind, ObjectKey)> {
        let key = |item| match item {
            DiffItem::Add(key, _) | DiffItem::Update { new: (key, _), .. } | DiffItem::Remove(key, _) => key,
        };
        before.misencoded.diff(&self.misencoded).map(key).cloned().collect()
    }

    /// Notes that an object was decoded without a fault, or is gone.
    pub(super) fn forget_encoding(&mut self, kind: Kind, key: &ObjectKey) {
        if !self.misencoded.is_empty() {
            self.misencoded.remove(&(kind, key.clone()));
        }
    }

    /// The keys of the objects of `kind` of which something cannot be decoded.
    pub(super) fn misencoded_keys(&self, kind: Kind) -> Vec<ObjectKey> {
        let of_kind = self.misencoded.keys().filter(|(of, _)| *of == kind);
        of_kind.map(|(_, key)| key.clone()).collect()
    }
}
