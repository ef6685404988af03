//! Aliases of resources. A subscription contains only resource names. An alias in a request is replaced by the name of
//! its resource. While no resource has the alias, it is treated as a name. The name of a resource is never an alias.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::State;
use crate::protocol::message::{Request, Variant};
use crate::protocol::subscription::{Need, Subscription};
use crate::snapshot::{Glob, Resource, ResourceType, Snapshot};

/// The subscribed aliases, and the resource name of each. Empty if the client subscribes to none.
#[derive(Debug, Default)]
pub(super) struct Aliases(BTreeMap<(ResourceType, Arc<str>), Arc<str>>);

impl Aliases {
    /// Returns the number of subscribed aliases.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Replaces the aliases in a delta `request` by names. Returns the names that the client subscribes to by alias.
    fn resolve(&mut self, kind: ResourceType, request: &mut Request, snapshot: &Snapshot) -> Vec<Arc<str>> {
        let mut resolved = Vec::new();
        for requested in request.subscribe.iter_mut().filter(|name| *name != "*" && Glob::parse(name).is_none()) {
            if let Some(name) = name_of_alias(snapshot, kind, requested) {
                let alias = std::mem::replace(requested, name.to_string());
                self.0.insert((kind, alias.into()), name.clone());
                resolved.push(name.clone());
            }
        }
        for requested in &mut request.unsubscribe {
            if let Some(name) = self.0.remove(&(kind, requested.as_str().into())) {
                *requested = name.to_string();
            }
            self.0.retain(|(of, _), name| *of != kind || **name != **requested);
        }
        resolved
    }

    /// Replaces names in `subscription` that are aliases of the new and `changed` resources. Adds the resources to
    /// which aliases have moved.
    pub fn replace<'a>(
        &mut self,
        subscription: &mut Subscription,
        snapshot: &Snapshot,
        changed: impl Iterator<Item = &'a Arc<str>>,
    ) {
        let kind = subscription.kind;
        if !snapshot.has_aliases(kind) {
            return;
        }
        for resource in changed.filter_map(|name| snapshot.get(kind, name)) {
            for alias in resource.lease().aliases.iter().filter(|alias| *alias != resource.name()) {
                if subscription.named(alias) && snapshot.get(kind, alias).is_none() {
                    subscription.replace_name(alias, resource.name());
                    self.0.insert((kind, alias.clone()), resource.name().clone());
                }
            }
        }
        for ((_, alias), name) in self.0.iter_mut().filter(|((of, _), _)| *of == kind) {
            let has_alias = |resource: &Arc<Resource>| resource.lease().aliases.contains(alias);
            let stays = snapshot.get(kind, name).is_some_and(has_alias);
            if let Some(now) = name_of_alias(snapshot, kind, alias).filter(|_| !stays) {
                // The subscription to the earlier resource stays: the client may have named this resource too.
                subscription.add_name(now);
                *name = now.clone();
            }
        }
    }
}

/// Returns the name of the resource with this alias, unless it is the name of another resource.
fn name_of_alias<'a>(snapshot: &'a Snapshot, kind: ResourceType, alias: &str) -> Option<&'a Arc<str>> {
    snapshot.name_of_alias(kind, alias).filter(|_| snapshot.get(kind, alias).is_none())
}

impl State {
    /// Replaces the aliases in `request` by names. Returns the names that the client subscribes to by alias.
    pub(super) fn resolve_aliases(&mut self, kind: ResourceType, request: &mut Request) -> Vec<Arc<str>> {
        let possible = self.newest.has_aliases(kind) || !self.aliases.0.is_empty();
        match self.variant == Variant::Delta && possible {
            true => self.aliases.resolve(kind, request, &self.newest),
            false => Vec::new(),
        }
    }

    /// Requests the resources `names` even if the client has had them on an earlier stream, because it named an alias.
    pub(super) fn request_resolved(&mut self, kind: ResourceType, names: &[Arc<str>]) {
        let Some(subscription) = self.types.get_mut(&kind) else { return };
        for name in names {
            if subscription.named(name) {
                subscription.touch(name, Need::Asked);
            }
        }
    }
}
