//! Which objects have changed since the last translation.

use std::collections::BTreeSet;

use crate::objects::{Kind, ObjectKey, Trigger};

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
    /// Objects of which something else cannot be decoded than before.
    pub(super) encodings: BTreeSet<(Kind, ObjectKey)>,
}

impl Dirty {
    /// Everything: other settings, or objects of which nothing was translated yet.
    pub fn everything() -> Self {
        Self { everything: true, ..Self::default() }
    }

    /// An object has changed, come or gone. For an EndpointSlice, `key` is that of the Service which it belongs to; one
    /// that moves to another Service has changed both.
    pub fn note(&mut self, kind: Kind, key: ObjectKey) {
        // A full translation reads no notes, and the first lists would note every object.
        if self.everything {
            return;
        }
        match kind.info().trigger {
            Trigger::Source => drop(self.ingresses.insert(key)),
            Trigger::Service => drop(self.services.insert(key)),
            Trigger::Secret => drop(self.secrets.insert(key)),
            Trigger::Endpoints => drop(self.endpoints.insert(key)),
            Trigger::Class => self.classes = true,
            Trigger::Namespace => drop(self.namespaces.insert(key)),
        }
    }

    /// What cannot be decoded of an object has changed. Its content is for [`Dirty::note`].
    pub fn note_encoding(&mut self, kind: Kind, key: ObjectKey) {
        if !self.everything {
            self.encodings.insert((kind, key));
        }
    }

    /// Takes in what `other` notes.
    pub fn extend(&mut self, other: Self) {
        let Self { everything, ingresses, services, secrets, endpoints, classes, namespaces, encodings } = other;
        self.everything |= everything;
        self.ingresses.extend(ingresses);
        self.services.extend(services);
        self.secrets.extend(secrets);
        self.endpoints.extend(endpoints);
        self.classes |= classes;
        self.namespaces.extend(namespaces);
        self.encodings.extend(encodings);
    }

    /// Whether nothing has changed.
    pub fn is_empty(&self) -> bool {
        let Self { everything, ingresses, services, secrets, endpoints, classes, namespaces, encodings } = self;
        let sets = [ingresses, services, secrets, endpoints, namespaces];
        !(*everything || *classes) && encodings.is_empty() && sets.into_iter().all(BTreeSet::is_empty)
    }
}
