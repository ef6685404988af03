//! References to objects: every resource, problem, and log line contains the objects behind it. This module contains
//! only names of Kubernetes and Envoy.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

/// A reference to an object: a Kubernetes object, or a file of resources.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ObjectRef {
    /// The kind of the object in the API, e.g. `Ingress`, or `File` for a file of Envoy resources.
    pub kind: &'static str,
    /// The namespace, or empty for objects without one.
    pub namespace: Arc<str>,
    /// The object's name. For `File`, the path relative to the watched directory.
    pub name: Arc<str>,
    /// `metadata.generation`, which counts changes of the spec; 0 for kinds without it.
    pub generation: i64,
}

impl ObjectRef {
    /// Returns a reference to the object of `kind` at `namespace`/`name`, without a generation.
    pub fn new(kind: &'static str, namespace: &str, name: &str) -> Self {
        Self { kind, namespace: namespace.into(), name: name.into(), generation: 0 }
    }

    /// Returns the same reference with `generation`.
    pub fn at(mut self, generation: i64) -> Self {
        self.generation = generation;
        self
    }
}

/// `Ingress shop/cart`, or `IngressClass public` for an object without a namespace.
impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.namespace {
            "" => write!(f, "{} {}", self.kind, self.name),
            namespace => write!(f, "{} {}/{}", self.kind, namespace, self.name),
        }
    }
}
