//! The namespaces whose TLS entries count for a host.

use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use crate::few::set_of;
use crate::model::{Host, SecretId};
use crate::translate::source::Source;

/// The namespaces whose rules serve a host.
#[derive(Debug, Default)]
pub struct Routing {
    /// The namespaces, sorted. Empty if no rule applies to the host.
    namespaces: Box<[Arc<str>]>,
    /// An Ingress of the first namespace, which is the owner of the host if it has one.
    first: Option<ObjectRef>,
    /// The reason why other TLS entries are ignored, if the host is kept for a namespace without a rule.
    kept: Option<String>,
}

impl Routing {
    /// Returns the routing of a host from the Ingresses whose rules serve it. The Ingresses of the first namespace come
    /// first. An owner without a rule for the host has delegated it, and may present its certificate.
    pub fn new(served: &[&Source], owner: Option<&ObjectRef>) -> Self {
        let first = owner.or(served.first().map(|source| &source.origin));
        let namespaces = served.iter().map(|source| &source.origin).chain(first).map(|origin| origin.namespace.clone());
        Self { namespaces: set_of(namespaces.collect()), first: first.cloned(), kept: None }
    }

    /// Returns the routing of a host that is kept for `namespace`, although the namespace has no rule for it.
    pub fn kept(namespace: Arc<str>, reason: String) -> Self {
        Self { namespaces: [namespace].into(), first: None, kept: Some(reason) }
    }

    /// Returns whether TLS entries of `namespace` are permitted: it has a rule for the host, or no namespace has one.
    pub(super) fn counts(&self, namespace: &Arc<str>) -> bool {
        self.namespaces.is_empty() || self.namespaces.binary_search(namespace).is_ok()
    }

    /// Returns whether the certificate in `secret` may be presented: its namespace must be permitted to have TLS
    /// entries.
    pub(super) fn presents(&self, secret: &SecretId) -> bool {
        self.namespaces.is_empty() || self.namespaces.contains(&secret.object().namespace)
    }

    /// Describes why a TLS entry for `host` is ignored.
    pub(super) fn ignores(&self, host: &Host) -> Option<String> {
        let by_first = |first: &ObjectRef| {
            let namespace = &first.namespace;
            format!("namespace \"{namespace}\" provides the routes and the certificate of host \"{host}\" ({first})")
        };
        self.first.as_ref().map(by_first).or_else(|| self.kept.clone())
    }

    /// Returns whether `namespace` is the first namespace.
    pub(super) fn is_first(&self, namespace: &Arc<str>) -> bool {
        self.first.as_ref().is_some_and(|first| first.namespace == *namespace)
    }
}
