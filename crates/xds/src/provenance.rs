//! Where a thing came from: every resource, problem and log line names the objects behind it.
//! A base module: it knows nothing of Kubernetes or Envoy beyond names.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

/// A reference to the object that something came from: a Kubernetes object, or a file of resources.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ObjectRef {
    /// The object's kind as the API writes it, e.g. `Ingress`; `File` for a file of Envoy resources.
    pub kind: &'static str,
    /// The namespace; empty for objects that have none.
    pub namespace: Arc<str>,
    /// The object's name; for `File` its path relative to the watched directory.
    pub name: Arc<str>,
    /// `metadata.generation`: counts changes of the spec, 0 for kinds that have none.
    pub generation: i64,
}

impl ObjectRef {
    /// A reference to the object of `kind` at `namespace`/`name`, of no particular generation.
    pub fn new(kind: &'static str, namespace: &str, name: &str) -> Self {
        Self { kind, namespace: namespace.into(), name: name.into(), generation: 0 }
    }

    /// The same reference at `generation`.
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
