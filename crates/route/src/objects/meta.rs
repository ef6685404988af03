//! The identity and the metadata of an object.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use super::kind::Kind;
use crate::model::ObjectKey;

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

impl Kind {
    /// Returns the identity of the object of this kind with this key.
    pub fn id(self, key: ObjectKey) -> ObjectId {
        ObjectId { kind: self, key }
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
