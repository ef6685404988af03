//! Model → Envoy v3 resources. Plain functions: no I/O, no clock, and nothing here can fail.
//!
//! It knows what Envoy wants, not what Kubernetes said: the model is all that it reads. [`build`] makes everything;
//! each part can be made alone, for an endpoint change must not pay for routes ([`endpoint::load_assignment`]).

pub mod access_log;
pub mod api_listener;
pub mod cluster;
pub mod compression;
pub mod downstream_tls;
pub mod endpoint;
pub mod hcm;
pub mod headers;
pub mod listener;
pub mod names;
pub mod route;
pub mod runtime;
pub mod secret;
pub mod stats;
pub mod tracing;
pub(crate) mod wire;

use crate::model::Model;
use crate::settings::Settings;
use crate::snapshot::Resource;

/// Every resource that serves `model`: clusters, load assignments, secrets, route configurations, listeners, and the
/// layer of runtime flags.
///
/// The list is in the order in which Envoy needs them, and by name within a type. Equal input, equal bytes.
pub fn build(model: &Model, settings: &Settings) -> Vec<Resource> {
    let mut resources = Vec::new();
    resources.extend(model.clusters.iter().map(|(name, cluster)| cluster::resource(name, cluster, settings)));
    resources.extend(tracing::cluster_resource(&settings.tracing));
    resources.extend(model.endpoints.iter().map(|(name, endpoints)| endpoint::load_assignment(name, endpoints)));
    resources.extend(model.secrets.iter().map(|(name, secret)| secret::resource(name, secret)));
    resources.extend(route::route_configurations(model, settings));
    resources.extend(listener::listeners(model, settings));
    resources.push(runtime::resource(settings));
    resources
}

#[cfg(test)]
pub(crate) mod tests;
