//! The sources: the objects of all dialects, parsed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::few::Few;
use crate::model::{Host, ListenerId};
use crate::objects::{Object, ObjectId, ObjectKey, Objects, Precedence};
use crate::translate::dialect::Dialect;
use crate::translate::graph::Input;
use crate::translate::source::Source;

/// All parsed objects.
#[derive(Debug, Default)]
pub struct Sources {
    /// The sources that this controller serves.
    pub served: BTreeMap<ObjectId, Arc<Source>>,
    /// The inputs of the others, because this controller may serve them with other parents.
    pub waiting: BTreeMap<ObjectId, Box<[Input]>>,
}

impl Sources {
    /// Returns a source that this controller serves.
    pub fn get(&self, id: &ObjectId) -> Option<&Arc<Source>> {
        self.served.get(id)
    }

    /// Returns the source with this rank.
    pub fn at(&self, rank: &Precedence) -> Option<&Source> {
        self.served.get(&rank.id()).map(|source| &**source)
    }

    /// Returns the sources of these ranks.
    pub fn all_at<'a>(&'a self, ranks: Option<&'a Few<Precedence>>) -> impl Iterator<Item = &'a Source> {
        ranks.into_iter().flat_map(Few::iter).filter_map(|rank| self.at(rank))
    }

    /// Returns the sources that this controller serves.
    pub fn iter(&self) -> impl Iterator<Item = (&ObjectId, &Arc<Source>)> {
        self.served.iter()
    }

    /// Returns the inputs of a source, served or not.
    pub fn inputs(&self, id: &ObjectId) -> &[Input] {
        let waiting = || self.waiting.get(id).map_or(&[][..], |inputs| inputs);
        self.served.get(id).map_or_else(waiting, |source| &source.dependencies.inputs)
    }

    /// Returns the sources of a dialect in a namespace.
    pub fn in_namespace<'a>(
        &'a self,
        dialect: &Dialect,
        namespace: &Arc<str>,
    ) -> impl Iterator<Item = (&'a ObjectId, &'a Arc<Source>)> + use<'a> {
        let (kind, name) = (dialect.kind, namespace.clone());
        let first = ObjectId { kind, key: ObjectKey { namespace: name.clone(), name: "".into() } };
        let inside = self.served.range(first..);
        inside.take_while(move |(id, _)| id.kind == kind && id.key.namespace == name)
    }

    /// Returns the sources of a dialect in a namespace whose rank in conflicts has changed with the namespace. Either the namespace is
    /// being deleted, or a new namespace of the same name has been created.
    pub fn outranked<'a>(
        &'a self,
        dialect: &Dialect,
        namespace: &ObjectKey,
        objects: &'a Objects,
    ) -> impl Iterator<Item = &'a ObjectId> {
        let kind = dialect.kind;
        self.in_namespace(dialect, &namespace.name).filter_map(move |(id, source)| {
            let meta = objects.meta(kind, &id.key)?;
            (objects.precedence(kind, meta) != source.precedence).then_some(id)
        })
    }
}

/// The hosts and objects that an update affects.
#[derive(Debug, Default)]
pub struct Affected {
    /// The hosts of the shared listeners to build again.
    pub shared: BTreeSet<Host>,
    /// Whether a changed source has, or had, a default backend.
    pub has_other_default: bool,
    /// The hosts of listeners of Gateways to build again.
    pub hosts: BTreeSet<(ListenerId, Host)>,
    /// The Gateways and sources that were parsed again.
    pub replaced: BTreeSet<ObjectId>,
    /// The Gateways whose reports may change.
    pub reported: BTreeSet<ObjectKey>,
    /// The Services whose BackendTLSPolicies may have other conditions.
    pub services: BTreeSet<ObjectKey>,
}

/// Returns all objects of kinds that declare routes, with their dialects.
pub fn candidates<'a>(
    dialects: &'static [Dialect],
    objects: &'a Objects,
) -> impl Iterator<Item = (&'static Dialect, &'a Object)> {
    let of_kind =
        move |dialect: &'static Dialect| objects.of_kind(dialect.kind).values().map(move |object| (dialect, object));
    dialects.iter().flat_map(of_kind)
}
