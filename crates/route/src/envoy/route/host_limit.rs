//! The limit of the request rate that all routes of a virtual host share.
//!
//! Envoy gives a bucket to each configuration of the filter. A limit of a host that the filter chain cannot count is therefore on the
//! virtual host, and its routes inherit it. All other routes of the virtual host have a configuration of their own.

use std::collections::HashMap;
use std::sync::Arc;

use envoy_types::pb::envoy::config::route::v3 as route_v3;
use envoy_types::pb::google::protobuf as google;

use crate::envoy::local_rate_limit::{self, FILTER};
use crate::model::{LocalRateLimit, VirtualHostRoutes};

/// Returns the limit of the virtual host: the first one of its routes. Routes with another one, such as copies of those of a wildcard host,
/// have buckets of their own.
pub fn of(content: &VirtualHostRoutes) -> Option<&Arc<LocalRateLimit>> {
    let limits = content.routes.iter().filter_map(|route| route.policy()?.local_rate_limit.as_ref());
    limits.into_iter().find(|limit| local_rate_limit::is_of_host(limit))
}

/// Builds the filter configuration of a virtual host.
pub fn config(limit: Option<&Arc<LocalRateLimit>>) -> HashMap<String, google::Any> {
    limit.map(|limit| (FILTER.to_owned(), local_rate_limit::with_bucket(limit))).into_iter().collect()
}

/// Applies the limit of a route on a virtual host with the limit `of_host`.
pub fn apply(route: &mut route_v3::Route, limit: Option<&LocalRateLimit>, of_host: &LocalRateLimit) {
    match limit {
        Some(limit) if limit == of_host => drop(route.typed_per_filter_config.remove(FILTER)),
        // Not in the table: a route that the table counts has no configuration with which it replaces that of the virtual host.
        Some(limit) => {
            let config = local_rate_limit::with_bucket(limit);
            route.typed_per_filter_config.insert(FILTER.to_owned(), config);
        }
        None => drop(route.typed_per_filter_config.insert(FILTER.to_owned(), local_rate_limit::none())),
    }
}

/// Returns a route without a limit, on a virtual host that may have one.
pub fn without(mut route: route_v3::Route, of_host: Option<&Arc<LocalRateLimit>>) -> route_v3::Route {
    of_host.into_iter().for_each(|of_host| apply(&mut route, None, of_host));
    route
}
