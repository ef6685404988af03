//! Grants: permissions to refer to objects of another namespace.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::objects::gateway::{GrantTo, ReferenceGrant};
use crate::objects::{Kind, ObjectKey, Objects};

/// A reference from one object to another.
#[derive(Debug, Clone, Copy)]
pub struct Reference<'a> {
    /// The kind of the referring object.
    pub from: Kind,
    /// The namespace of the referring object.
    pub namespace: &'a str,
    /// The API group of the other object; empty is the core group.
    pub group: &'a str,
    /// The kind of the other object.
    pub kind: &'a str,
    /// The other object.
    pub to: &'a ObjectKey,
}

/// The grants that one object has needed so far. Each set is collected once, because an object can have many references.
#[derive(Debug, Default)]
pub struct Grants<'a>(BTreeMap<From, BTreeSet<To<'a>>>);

/// The kind and the namespace of the referring object, and the namespace of the grants.
type From = (Kind, String, Arc<str>);

/// A permitted reference: group, kind, and name. `None` is every name.
type To<'a> = (&'a str, &'a str, Option<&'a str>);

impl<'a> Grants<'a> {
    /// Returns whether the reference stays in its namespace, or a ReferenceGrant permits it. Source: Gateway API v1,
    /// `ReferenceGrant`.
    pub fn permit(&mut self, reference: &Reference, objects: &'a Objects) -> bool {
        let Reference { from, namespace, group, kind, to } = *reference;
        if *to.namespace == *namespace {
            return true;
        }
        let key = (from, namespace.to_owned(), to.namespace.clone());
        let granted = self.0.entry(key).or_insert_with(|| granted(reference, objects));
        granted.contains(&(group, kind, None)) || granted.contains(&(group, kind, Some(&*to.name)))
    }
}

/// Returns whether an object of the kind `from` in `namespace` may reference a Secret: one of its namespace, or one that a
/// ReferenceGrant permits.
pub fn permits_secret(objects: &Objects, from: Kind, namespace: &str, to: &ObjectKey) -> bool {
    Grants::default().permit(&Reference { from, namespace, group: "", kind: "Secret", to }, objects)
}

/// Returns the references from this kind and namespace that the grants of the other namespace permit.
fn granted<'a>(reference: &Reference, objects: &'a Objects) -> BTreeSet<To<'a>> {
    let namespace = &reference.to.namespace;
    let first = ObjectKey { namespace: namespace.clone(), name: "".into() };
    let grants = objects.of_kind(Kind::REFERENCE_GRANT).range(first..);
    let grants = grants.take_while(|(key, _)| key.namespace == *namespace);
    let grants = grants.filter_map(|(_, object)| object.get::<ReferenceGrant>()).filter(|grant| {
        grant.spec.from.iter().any(|from| {
            from.group == reference.from.info().group
                && from.kind == reference.from.as_str()
                && *from.namespace == *reference.namespace
        })
    });
    let to = |to: &'a GrantTo| -> To<'a> { (&to.group, &to.kind, to.name.as_deref().filter(|name| !name.is_empty())) };
    grants.flat_map(|grant| grant.spec.to.iter().map(to)).collect()
}
