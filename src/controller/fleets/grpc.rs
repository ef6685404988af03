//! The view of gRPC clients without a proxy.

use std::sync::Arc;
use std::time::Instant;

use lockgate_route::envoy::api_listener;
use lockgate_route::model::Model;
use lockgate_xds::snapshot::{Changes, ResourceType, Snapshot, Update};

use super::class::View;
use super::pace::Pace;
use super::publication::{Publication, SharedUpdate};

/// Publishes the view of gRPC clients. If `pace` does not permit to build it, only endpoints change.
pub fn publish(
    pace: &mut Pace,
    model: &Model,
    primary: Option<Arc<Snapshot>>,
    shared: &SharedUpdate,
    to: &Publication<'_>,
    logged: &Changes,
) {
    let update = match primary.filter(|_| pace.is_due(to.start)) {
        Some(primary) => {
            let begin = Instant::now();
            let own = api_listener::resources(model, &to.newest(View::Grpc).unwrap_or_default());
            let clusters = api_listener::shared_clusters(model);
            let clusters = clusters.filter_map(|name| primary.get(ResourceType::CLUSTER, &name));
            let common = clusters.chain(primary.all(ResourceType::ENDPOINTS));
            let update = to.difference_to(View::Grpc, common.cloned().chain(own).collect());
            pace.built(begin, Instant::now());
            update
        }
        None => {
            let endpoints = shared.set.iter().filter(|resource| resource.kind() == ResourceType::ENDPOINTS);
            Update::setting(endpoints.cloned().collect())
        }
    };
    to.publish(View::Grpc, update, !pace.stale, logged);
}
