//! Resources from a directory: all Envoys receive the same resources, and gRPC clients receive those that are for them.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use lockgate_route::envoy::api_listener::{self, Audience};
use lockgate_xds::snapshot::{Changes, Key, Resource, Update};

use super::publication::{Publication, SharedUpdate};
use super::{Class, Fleets, View};

impl Fleets {
    /// Publishes `resources` as the complete content.
    pub(in crate::controller) fn replace_foreign(
        &mut self,
        resources: Vec<Arc<Resource>>,
        start: Instant,
    ) -> Arc<Changes> {
        let ByAudience { envoy, grpc } = ByAudience::split(resources);
        self.publish_foreign(start, |to| {
            [(View::Envoy, &envoy), (View::Grpc, &grpc)]
                .map(|(view, resources)| to.difference_to(view, resources.clone()))
        })
    }

    /// Publishes a difference.
    pub(in crate::controller) fn update_foreign(&mut self, update: SharedUpdate, start: Instant) -> Arc<Changes> {
        let ByAudience { envoy, grpc } = ByAudience::split(update.set);
        // A resource whose audience changed is removed from the views of the previous audience.
        let remove = |set: &[Arc<Resource>], others: &[Arc<Resource>]| {
            let set: HashSet<Key> = set.iter().map(|resource| resource.key()).collect();
            let moved = others.iter().map(|resource| resource.key()).filter(|key| !set.contains(key));
            update.remove.iter().cloned().chain(moved).collect::<Vec<Key>>()
        };
        self.publish_foreign(start, |_| {
            [(&envoy, &grpc), (&grpc, &envoy)]
                .map(|(set, others)| Update { set: set.clone(), remove: remove(set, others) })
        })
    }

    /// Publishes the `updates` of the views of Envoys and of gRPC clients. There are few resources and nothing is built, so all
    /// views exist from the beginning.
    fn publish_foreign(
        &mut self,
        start: Instant,
        updates: impl Fn(&Publication<'_>) -> [SharedUpdate; 2],
    ) -> Arc<Changes> {
        self.is_foreign = true;
        self.request_all();
        self.generation += 1;
        self.publish(start, |_, to| {
            let [envoy, grpc] = updates(to);
            let whole = Update { set: envoy.set.clone(), remove: envoy.remove.clone() };
            // Logged below, with the view of other Envoys. This view is first, because an Envoy can use an aggregated stream
            // for some types, and request other types that these name on other streams.
            let logged = Changes { added: whole.set.clone(), ..Changes::default() };
            to.publish(View::Whole, whole, true, &logged);
            let changes = to.publish(View::Envoy, envoy, true, &Changes::default());
            to.publish(View::Grpc, grpc, true, &changes);
            changes
        })
    }

    /// Requests all views of all fleets.
    pub(in crate::controller) fn request_all(&self) {
        for fleet in self.fleets.keys() {
            for view in View::ALL {
                self.stores.get_or_create(Class { fleet: fleet.clone(), view });
            }
        }
    }
}

/// Resources by the clients that they are for.
#[derive(Default)]
struct ByAudience {
    envoy: Vec<Arc<Resource>>,
    grpc: Vec<Arc<Resource>>,
}

impl ByAudience {
    fn split(resources: Vec<Arc<Resource>>) -> Self {
        let mut split = Self::default();
        for resource in resources {
            match api_listener::audience(&resource) {
                Audience::Envoy => split.envoy.push(resource),
                Audience::Grpc => split.grpc.push(resource),
                Audience::All => {
                    split.envoy.push(resource.clone());
                    split.grpc.push(resource);
                }
            }
        }
        split
    }
}
