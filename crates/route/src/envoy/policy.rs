//! Policies of routes: the HTTP filters of the listener, and the configuration of a route.

use std::collections::HashMap;

use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3 as hcm_v3;
use envoy_types::pb::google::protobuf as google;

use super::{authorization, body_limit, client_addresses, compression, delegate, jwt, local_rate_limit};
use crate::model::{CompressionAlgorithm, LocalRateLimit, RoutePolicy};

/// Builds the HTTP filters in order, except for the compression filters. They have no effect on routes without a
/// policy.
///
/// If they are `disabled`, Envoy creates them only for routes that configure them.
pub fn filters(disabled: bool) -> [hcm_v3::HttpFilter; 5] {
    [
        client_addresses::filter(disabled),
        delegate::filter(jwt::OF_ROUTES, disabled),
        delegate::filter(authorization::OF_ROUTES, disabled),
        local_rate_limit::filter(disabled),
        delegate::filter(body_limit::OF_ROUTES, disabled),
    ]
}

/// Builds the configuration of a route by filter. `has_streams`: see [`body_limit::has_streams`]. `compression` are the algorithms of
/// the settings.
pub fn per_route(
    policy: &RoutePolicy,
    has_streams: bool,
    compression: &[CompressionAlgorithm],
) -> HashMap<String, google::Any> {
    let limit = |limit: &LocalRateLimit| match local_rate_limit::is_in_table(limit) {
        true => local_rate_limit::of_table(),
        false => local_rate_limit::per_route(limit),
    };
    // Without `..`, so that a new feature does not compile until it is enforced.
    let RoutePolicy {
        client_addresses: addresses,
        jwt: tokens,
        authorization: server,
        local_rate_limit: rate,
        max_request_body_bytes: body,
        compression: wanted,
        counted_for: _,
        origins: _,
    } = policy;
    let features = [
        addresses.as_deref().map(|lists| (client_addresses::FILTER, client_addresses::per_route(lists))),
        tokens.as_deref().map(|tokens| (jwt::OF_ROUTES, jwt::per_route(tokens))),
        server.as_deref().map(|server| (authorization::OF_ROUTES, authorization::per_route(server))),
        rate.as_deref().map(|rate| (local_rate_limit::FILTER, limit(rate))),
        body.map(|bytes| (body_limit::OF_ROUTES, body_limit::per_route(bytes, has_streams))),
    ];
    let features = features.into_iter().flatten().map(|(name, config)| (name.to_owned(), config));
    let compressed = wanted.iter().flat_map(|wanted| compression::per_route(wanted, compression));
    features.chain(compressed).collect()
}
