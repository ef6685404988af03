//! Builds Envoy v3 resources from the model. The functions are pure: no I/O, no clock, no errors.
//!
//! The module knows Envoy, but not Kubernetes: its only input is the model. [`build`] builds all resources, and
//! [`Builder`] builds the resources that a change affects. Both use the same code.

pub mod access_log;
mod api_keys;
pub mod api_listener;
mod authority;
pub mod authorization;
mod backend;
mod basic_auth;
mod body_limit;
mod builder;
pub mod chains;
mod client_addresses;
pub mod cluster;
pub mod compression;
mod cookies;
mod cors;
mod csrf;
mod delegate;
pub mod downstream_tls;
pub mod endpoint;
mod error_responses;
mod fallback;
mod fault;
mod grpc_json;
pub mod hcm;
pub mod headers;
mod host_check;
mod jwt;
pub mod listener;
mod local_rate_limit;
mod loops;
mod misdirected;
pub mod names;
mod oidc;
mod parts;
mod policy;
mod processing;
pub mod rate_limit;
mod request_buffer;
mod response_limit;
pub mod route;
pub mod runtime;
pub mod secret;
mod server_names;
pub mod services;
pub mod session;
pub mod socket;
mod statistics;
mod stats;
pub mod stream;
pub mod tls_listener;
pub mod tracing;
mod upstream_tls;
mod wasm;
pub mod wire;
mod zones;

use std::sync::Arc;

use lockgate_xds::snapshot::{Resource, ResourceType};

use crate::model::{Model, Touched};
use crate::settings::Settings;

pub use builder::{Builder, Built, Change, Forms};
pub use parts::{ObjectRoutes, Parts, changed_objects, parts};
pub use statistics::Statistics;

/// Builds all resources that serve `model`: clusters, load assignments, secrets, route configurations with all their
/// hosts, listeners, and the layer of runtime flags.
///
/// The list is in the order in which Envoy needs the resources. Equal input gives equal bytes.
pub fn build(model: &Model, settings: &Settings) -> Vec<Resource> {
    const ORDER: [ResourceType; 6] = [
        ResourceType::CLUSTER,
        ResourceType::ENDPOINTS,
        ResourceType::SECRET,
        ResourceType::ROUTES,
        ResourceType::SCOPED_ROUTES,
        ResourceType::LISTENER,
    ];
    let wanted = Forms { rds: true, ..Forms::default() };
    let change = Change { model, touched: &Touched::all(model), settings, settings_changed: true };
    let built = Builder::default().update(change, wanted);
    let all = built.rds.set.into_iter().chain(built.shared.set);
    let mut resources: Vec<Resource> = all.map(Arc::unwrap_or_clone).collect();
    let place = |resource: &Resource| ORDER.iter().position(|kind| *kind == resource.kind()).unwrap_or(ORDER.len());
    resources.sort_by_key(place);
    resources
}

#[cfg(test)]
mod tests;
