//! Which objects have changed since the last translation.

use std::collections::BTreeSet;

use crate::source::objects::{Kind, ObjectKey};

/// Which objects have changed since the last translation. One too many costs time, one too few is a wrong world.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dirty {
    /// So much that everything is translated again.
    pub(super) everything: bool,
    pub(super) ingresses: BTreeSet<ObjectKey>,
    pub(super) services: BTreeSet<ObjectKey>,
    pub(super) secrets: BTreeSet<ObjectKey>,
    /// Services whose EndpointSlices have changed.
    pub(super) endpoints: BTreeSet<ObjectKey>,
    pub(super) classes: bool,
    pub(super) namespaces: BTreeSet<ObjectKey>,
}

impl Dirty {
    /// Everything: other settings, or objects of which nothing was translated yet.
    pub fn everything() -> Self {
        Self { everything: true, ..Self::default() }
    }

    /// An object has changed, come or gone. For an EndpointSlice, `key` is that of the Service which it belongs to; one
    /// that moves to another Service has changed both.
    pub fn note(&mut self, kind: Kind, key: ObjectKey) {
        match kind {
            Kind::Ingress => drop(self.ingresses.insert(key)),
            Kind::Service => drop(self.services.insert(key)),
            Kind::Secret => drop(self.secrets.insert(key)),
            Kind::EndpointSlice => drop(self.endpoints.insert(key)),
            Kind::IngressClass => self.classes = true,
            Kind::Namespace => drop(self.namespaces.insert(key)),
            // Nothing of these is read yet.
            Kind::ConfigMap => {}
        }
    }

    /// Takes in what `other` notes.
    pub fn extend(&mut self, other: Self) {
        let Self { everything, ingresses, services, secrets, endpoints, classes, namespaces } = other;
        self.everything |= everything;
        self.ingresses.extend(ingresses);
        self.services.extend(services);
        self.secrets.extend(secrets);
        self.endpoints.extend(endpoints);
        self.classes |= classes;
        self.namespaces.extend(namespaces);
    }

    /// Whether nothing has changed.
    pub fn is_empty(&self) -> bool {
        let Self { everything, ingresses, services, secrets, endpoints, classes, namespaces } = self;
        let sets = [ingresses, services, secrets, endpoints, namespaces];
        !(*everything || *classes) && sets.into_iter().all(BTreeSet::is_empty)
    }
}
