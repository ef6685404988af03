//! Resources that were not made here: Envoys of all kinds get the same, gRPC clients what is for them.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use lockgate_route::envoy::api_listener::{self, Audience};
use lockgate_xds::snapshot::{Changes, Key, Resource, Update};

use super::{View, Views, key};

impl Views {
    /// Publishes resources that were not made here as all there are.
    pub(in crate::controller) fn replace_foreign(
        &mut self,
        resources: Vec<Arc<Resource>>,
        start: Instant,
    ) -> Arc<Changes> {
        let Parted { envoy, grpc } = Parted::of(resources);
        let [envoy, grpc] = [(View::Envoy, envoy), (View::Grpc, grpc)]
            .map(|(view, resources)| self.served.store(view).difference_to(resources));
        self.publish_foreign(envoy, grpc, start)
    }

    /// Publishes a difference of resources that were not made here.
    pub(in crate::controller) fn update_foreign(
        &mut self,
        update: Update<Arc<Resource>>,
        start: Instant,
    ) -> Arc<Changes> {
        let Parted { envoy, grpc } = Parted::of(update.set);
        // One that is now for others is gone for those who had it.
        let without = |kept: &[Arc<Resource>], others: &[Arc<Resource>]| {
            let kept: HashSet<Key> = kept.iter().map(|one| key(one)).collect();
            let moved = others.iter().map(|one| key(one)).filter(|key| !kept.contains(key));
            update.remove.iter().cloned().chain(moved).collect::<Vec<Key>>()
        };
        let (remove, remove_grpc) = (without(&envoy, &grpc), without(&grpc, &envoy));
        self.publish_foreign(Update { set: envoy, remove }, Update { set: grpc, remove: remove_grpc }, start)
    }

    /// There are few of them, and nothing is made: all views are there from the beginning.
    fn publish_foreign(
        &mut self,
        envoy: Update<Arc<Resource>>,
        grpc: Update<Arc<Resource>>,
        start: Instant,
    ) -> Arc<Changes> {
        self.is_foreign = true;
        self.served.want_all();
        self.generation += 1;
        let whole = Update { set: envoy.set.clone(), remove: envoy.remove.clone() };
        // First, for an Envoy may have some types on an aggregated stream, and follow what that tells on others.
        let told_below = Changes { added: whole.set.clone(), ..Changes::default() };
        self.publish(View::Whole, whole, true, &told_below, start);
        let changes = self.publish(View::Envoy, envoy, true, &Changes::default(), start);
        self.publish(View::Grpc, grpc, true, &changes, start);
        changes
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
