//! The effects of policies of Envoy Gateway: a changed policy affects the routes and the Gateways that it targets, which are parsed
//! again. A changed label of a target is a change of the target itself.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::objects::gateway::ListenerSet;
use crate::objects::{FOREIGN_POLICIES, ForeignPolicy, Kind, Object, ObjectId, ObjectKey, Objects};
use crate::translate::ChangedInputs;
use crate::translate::gateway::foreign_policies::{ForeignPolicies, named};
use crate::translate::translator::state::Translator;

impl Translator {
    /// Replaces the changed policies. Returns the routes and the Gateways that they target now, or targeted before.
    pub(super) fn update_foreign_policies(&mut self, objects: &Objects, changed: &ChangedInputs) -> BTreeSet<ObjectId> {
        let mut due = BTreeSet::new();
        if changed.is_everything() {
            self.gateways.foreign_policies = ForeignPolicies::new(objects);
            return due;
        }
        for kind in FOREIGN_POLICIES {
            for key in changed.of_kind(kind) {
                let now = objects.of_kind(kind).get(key).cloned();
                let before = self.gateways.foreign_policies.replace(&kind.id(key.clone()), now.clone());
                if before == now {
                    continue;
                }
                let both = [&before, &now].into_iter().flatten().filter_map(Object::get::<ForeignPolicy>);
                due.extend(
                    both.flat_map(|policy| named(policy).chain(selectable(policy, objects)))
                        .filter_map(|id| parsed(id, objects)),
                );
            }
        }
        due
    }

    /// Returns whether a policy of Envoy Gateway targets an object that this controller serves.
    pub fn has_served_target(&self, policy: &ObjectId, objects: &Objects) -> bool {
        let Some(policy) = self.gateways.foreign_policies.get(policy) else { return false };
        let is_selected =
            |id: &ObjectId| objects.meta(id.kind, &id.key).is_some_and(|meta| policy.selects(id.kind, meta));
        let by_label = selectable(policy, objects).filter(is_selected);
        named(policy).chain(by_label).any(|target| self.is_target_served(&target))
    }

    /// Returns whether a policy of Envoy Gateway names an object that this controller serves, or selects objects by label.
    pub(in super::super) fn may_have_target(&self, policy: &ObjectId) -> bool {
        let policy = self.gateways.foreign_policies.get(policy);
        policy.is_some_and(|policy| {
            !policy.selectors.is_empty() || named(policy).any(|target| self.is_target_served(&target))
        })
    }

    fn is_target_served(&self, target: &ObjectId) -> bool {
        self.sources.get(target).is_some() || self.gateways.revision(target).is_some()
    }
}

/// Returns the objects of the namespace of a policy whose kinds it selects by label. The number of such policies also has an effect
/// on objects with other labels.
fn selectable<'a>(policy: &'a ForeignPolicy, objects: &'a Objects) -> impl Iterator<Item = ObjectId> + 'a {
    let namespace = &policy.meta.key.namespace;
    let kinds: BTreeSet<Kind> = policy.selectors.iter().map(|selector| selector.kind).collect();
    kinds.into_iter().flat_map(move |kind| {
        let first = ObjectKey { namespace: namespace.clone(), name: Arc::from("") };
        let inside = objects.of_kind(kind).range(first..).take_while(move |(key, _)| key.namespace == *namespace);
        inside.map(move |(key, _)| kind.id(key.clone()))
    })
}

/// Returns the object that is parsed with the effects of a policy on `id`: the Gateway of a ListenerSet, or the object itself.
fn parsed(id: ObjectId, objects: &Objects) -> Option<ObjectId> {
    if id.kind != Kind::LISTENER_SET {
        return Some(id);
    }
    objects.get::<ListenerSet>(&id.key)?.gateway().map(|key| Kind::GATEWAY.id(key))
}
