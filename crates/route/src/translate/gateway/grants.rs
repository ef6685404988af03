//! Grants: permissions to refer to objects of another namespace.

use crate::objects::gateway::{GROUP, GrantFrom, GrantTo, ReferenceGrant};
use crate::objects::{Kind, ObjectKey};
use crate::translate::dialect::Reading;
use crate::translate::graph::Input;

/// A reference from one object to another.
#[derive(Debug, Clone, Copy)]
pub struct Reference<'a> {
    /// The kind of the referring object, of Gateway API.
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

/// Returns whether the reference stays in its namespace, or a ReferenceGrant permits it. Source: Gateway API v1,
/// `ReferenceGrant`.
pub fn permits(reference: &Reference, reading: &mut Reading) -> bool {
    let namespace = &reference.to.namespace;
    if **namespace == *reference.namespace {
        return true;
    }
    reading.record(Input::new(Kind::REFERENCE_GRANT, ObjectKey { namespace: "".into(), name: namespace.clone() }));
    let first = ObjectKey { namespace: namespace.clone(), name: "".into() };
    let grants = reading.context.objects.of_kind(Kind::REFERENCE_GRANT).range(first..);
    let grants = grants.take_while(|(key, _)| key.namespace == *namespace);
    grants.filter_map(|(_, object)| object.get::<ReferenceGrant>()).any(|grant| {
        let from = |from: &GrantFrom| {
            from.group == GROUP && from.kind == reference.from.as_str() && *from.namespace == *reference.namespace
        };
        let to = |to: &GrantTo| {
            let named = to.name.as_deref().filter(|name| !name.is_empty());
            to.group == reference.group
                && to.kind == reference.kind
                && named.is_none_or(|name| *name == *reference.to.name)
        };
        grant.spec.from.iter().any(from) && grant.spec.to.iter().any(to)
    })
}
