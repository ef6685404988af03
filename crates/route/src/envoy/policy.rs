//! The HTTP filters that only routes configure: policies and sessions.
//!
//! One [`delegate`] runs the filters of a route. The limits of request rates have a filter of their own, because the filter chain counts them.

use std::collections::HashMap;

use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3 as hcm_v3;
use envoy_types::pb::google::protobuf as google;

use super::{authorization, body_limit, client_addresses, compression, delegate, jwt, local_rate_limit, session};
use crate::model::{ForwardFilter, LocalRateLimit, RoutePolicy};
use crate::settings::Compression;

/// The name of the delegate, to which routes refer.
const DELEGATE: &str = "lockgate.route";

/// Builds the HTTP filters in order. They have no effect on routes without a configuration.
///
/// If they are `disabled`, Envoy creates them only for routes that configure them.
pub fn filters(disabled: bool) -> [hcm_v3::HttpFilter; 2] {
    [delegate::filter(DELEGATE, disabled), local_rate_limit::filter(disabled)]
}

/// Builds the configuration of a route with this policy and these filters, by filter of the listener. `has_streams`: see
/// [`body_limit::has_streams`]. `compression`: the settings.
pub fn per_route(
    policy: Option<&RoutePolicy>,
    filters: &[ForwardFilter],
    has_streams: bool,
    compression: &Compression,
) -> HashMap<String, google::Any> {
    let body = policy.and_then(|policy| policy.max_request_body_bytes);
    let unlimited =
        body.map(|_| (body_limit::is_unlimited(has_streams), delegated(policy, None, filters, compression)));
    let delegated = delegated(policy, body, filters, compression);
    let delegated = (!delegated.is_empty()).then(|| (DELEGATE.to_owned(), delegate::per_route(delegated, unlimited)));
    let rate = policy.and_then(|policy| policy.local_rate_limit.as_deref()).map(|limit: &LocalRateLimit| {
        let limit = match local_rate_limit::is_in_table(limit) {
            true => local_rate_limit::of_table(),
            false => local_rate_limit::per_route(limit),
        };
        (local_rate_limit::FILTER.to_owned(), limit)
    });
    let wanted = policy.and_then(|policy| policy.compression.as_deref());
    let off = wanted.map(|wanted| compression::off(wanted, compression)).unwrap_or_default();
    delegated.into_iter().chain(rate).chain(off).collect()
}

/// Builds the filters of the delegate in order, with this limit of bodies. A client that is not authorized costs nothing but the check. The server of external
/// authorization is last, because only it waits.
fn delegated(
    policy: Option<&RoutePolicy>,
    body: Option<u32>,
    filters: &[ForwardFilter],
    compression: &Compression,
) -> Vec<core_v3::TypedExtensionConfig> {
    let session = session::of_route(filters);
    let Some(policy) = policy else { return session.into_iter().collect() };
    // Without `..`, so that a new feature does not compile until it is enforced.
    let RoutePolicy {
        client_addresses: addresses,
        jwt: tokens,
        authorization: server,
        local_rate_limit: _,
        max_request_body_bytes: _,
        compression: wanted,
        counted_for: _,
        origins: _,
        decided: _,
    } = policy;
    let compressed = wanted.iter().flat_map(|wanted| compression::of_route(wanted, compression));
    let checks = [
        addresses.as_deref().map(client_addresses::of_route),
        tokens.as_deref().map(jwt::of_route),
        body.map(body_limit::of_route),
        session,
        server.as_deref().map(authorization::of_route),
    ];
    compressed.chain(checks.into_iter().flatten()).collect()
}
