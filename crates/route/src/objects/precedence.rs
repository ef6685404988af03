//! The order in which conflicts between objects are decided.

use super::builtin::Namespace;
use super::kind::Kind;
use super::meta::{Meta, ObjectId};
use super::store::Objects;
use crate::model::ObjectKey;

/// The rank of an object in every conflict: the smaller rank wins.
///
/// An object that is being deleted loses to every other object. Its Service and pods may be gone already, and a
/// finalizer can hold it for any time. Between two objects in the same state, the older one wins, then the lower
/// namespace/name, then the kind. An object that is being deleted but has no conflict is served until it is gone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Precedence {
    /// Whether the object or its namespace is being deleted.
    pub terminating: bool,
    /// [`Meta::created`].
    pub created: i64,
    /// [`Meta::key`].
    pub key: ObjectKey,
    /// The kind, which decides if all other fields are equal.
    pub kind: Kind,
}

impl Precedence {
    /// Returns the identity of the object.
    pub fn id(&self) -> ObjectId {
        ObjectId { kind: self.kind, key: self.key.clone() }
    }
}

impl Objects {
    /// Returns the rank in conflicts of the object of `kind` with this metadata.
    pub fn precedence(&self, kind: Kind, meta: &Meta) -> Precedence {
        let terminating = meta.terminating || self.is_terminating(&meta.key.namespace);
        Precedence { terminating, created: meta.created, key: meta.key.clone(), kind }
    }

    /// Returns whether the namespace of this name is being deleted.
    ///
    /// The API server sets `metadata.deletionTimestamp` and `status.phase: Terminating` in one write, and rejects
    /// either field without the other. The metadata is therefore sufficient.
    pub fn is_terminating(&self, namespace: &str) -> bool {
        !namespace.is_empty()
            && self.get::<Namespace>(&ObjectKey::new("", namespace)).is_some_and(|namespace| namespace.meta.terminating)
    }
}
