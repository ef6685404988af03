//! The stores that one pass brings up to date, one for each kind of client: Envoys, and gRPC without a proxy.
//!
//! What both may have is one resource that both stores share. What is made for one alone never reaches the other, and a
//! store whose resources do not change tells its streams nothing.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use super::report;
use crate::envoy::api_listener::{self, Audience};
use crate::model::{ClusterName, Model};
use crate::snapshot::{Changes, Key, Resource, ResourceType, Store, Update};

/// The stores.
#[derive(Debug, Clone, Default)]
pub struct Views {
    /// What Envoys are served.
    pub envoy: Arc<Store>,
    /// What gRPC clients and servers without a proxy are served.
    pub grpc: Arc<Store>,
}

impl Views {
    /// Publishes all of `model`, whose resources for Envoy are `built`. What it changed for Envoys.
    pub(super) fn replace(&self, model: &Model, built: Vec<Resource>, start: Instant) -> Arc<Changes> {
        let built: Vec<Arc<Resource>> = built.into_iter().map(Arc::new).collect();
        let own = api_listener::resources(model, &self.grpc.newest().unwrap_or_default());
        let grpc = built.iter().filter(|resource| is_shared(resource, model)).cloned().chain(own).collect();
        self.replace_both(built, grpc, start)
    }

    /// Publishes new load assignments, which both kinds of clients have.
    pub(super) fn update_endpoints(&self, update: Update<Arc<Resource>>, start: Instant) -> Arc<Changes> {
        let grpc = Update { set: update.set.clone(), remove: update.remove.clone() };
        self.update_both(update, grpc, start)
    }

    /// Publishes resources that were not made here as all there are.
    pub(super) fn replace_foreign(&self, resources: Vec<Arc<Resource>>, start: Instant) -> Arc<Changes> {
        let Parted { envoy, grpc } = Parted::of(resources);
        self.replace_both(envoy, grpc, start)
    }

    /// Publishes a difference of resources that were not made here.
    pub(super) fn update_foreign(&self, update: Update<Arc<Resource>>, start: Instant) -> Arc<Changes> {
        let Parted { envoy, grpc } = Parted::of(update.set);
        // One that is now for others is gone for those who had it.
        let without = |kept: &[Arc<Resource>], others: &[Arc<Resource>]| {
            let kept: HashSet<Key> = kept.iter().map(|one| key(one)).collect();
            let moved = others.iter().map(|one| key(one)).filter(|key| !kept.contains(key));
            update.remove.iter().cloned().chain(moved).collect::<Vec<Key>>()
        };
        let (remove, remove_grpc) = (without(&envoy, &grpc), without(&grpc, &envoy));
        self.update_both(Update { set: envoy, remove }, Update { set: grpc, remove: remove_grpc }, start)
    }

    fn replace_both(&self, envoy: Vec<Arc<Resource>>, grpc: Vec<Arc<Resource>>, start: Instant) -> Arc<Changes> {
        let changes = self.envoy.replace_announced(envoy, |changes| report::published(changes, start.elapsed()));
        self.grpc.replace_announced(grpc, |own| report::published_to_grpc(&beyond(own, &changes), start.elapsed()));
        changes
    }

    fn update_both(&self, envoy: Update<Arc<Resource>>, grpc: Update<Arc<Resource>>, start: Instant) -> Arc<Changes> {
        let changes = self.envoy.update_announced(envoy, |changes| report::published(changes, start.elapsed()));
        self.grpc.update_announced(grpc, |own| report::published_to_grpc(&beyond(own, &changes), start.elapsed()));
        changes
    }
}

/// Whether gRPC clients have this resource just as Envoys do: clusters that gRPC takes, and every load assignment.
fn is_shared(resource: &Resource, model: &Model) -> bool {
    match resource.kind() {
        ResourceType::ENDPOINTS => true,
        ResourceType::CLUSTER => {
            model.clusters.get(&ClusterName(resource.name().clone())).is_some_and(api_listener::is_shared)
        }
        _ => false,
    }
}

/// Resources by whom they are for.
#[derive(Default)]
struct Parted {
    envoy: Vec<Arc<Resource>>,
    grpc: Vec<Arc<Resource>>,
}

impl Parted {
    fn of(resources: Vec<Arc<Resource>>) -> Self {
        let mut parted = Self::default();
        for resource in resources {
            match api_listener::audience(&resource) {
                Audience::Envoy => parted.envoy.push(resource),
                Audience::Grpc => parted.grpc.push(resource),
                Audience::All => {
                    parted.envoy.push(resource.clone());
                    parted.grpc.push(resource);
                }
            }
        }
        parted
    }
}

fn key(resource: &Resource) -> Key {
    (resource.kind(), resource.name().clone())
}

/// What of `changes` is not told already by `told`.
fn beyond(changes: &Changes, told: &Changes) -> Changes {
    let told: HashSet<Key> = told.names().collect();
    let rest = |resources: &[Arc<Resource>]| {
        resources.iter().filter(|resource| !told.contains(&key(resource))).cloned().collect()
    };
    Changes {
        generation: changes.generation,
        added: rest(&changes.added),
        changed: rest(&changes.changed),
        removed: rest(&changes.removed),
    }
}

#[cfg(test)]
mod tests;
