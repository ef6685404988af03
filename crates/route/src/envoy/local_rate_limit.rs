//! Limits of the request rate that each Envoy counts by itself.

use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::config::route::v3 as route_v3;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3 as descriptor_v3;
use envoy_types::pb::envoy::extensions::filters::http::local_ratelimit::v3 as local_ratelimit_v3;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3 as hcm_v3;
use envoy_types::pb::envoy::r#type::v3 as type_v3;
use envoy_types::pb::google::protobuf as google;

use super::wire;
use crate::model::{LocalRateLimit, Share};

/// The name of the filter, to which routes refer.
pub const FILTER: &str = "envoy.filters.http.local_ratelimit";

/// The prefix of the filter's statistics.
const STATISTICS: &str = "policy";

/// The key of the client's address in descriptors. Source: Envoy `RateLimit.Action.RemoteAddress`.
const REMOTE_ADDRESS: &str = "remote_address";

/// Builds the HTTP filter, which has no effect on routes without a limit.
pub fn filter(disabled: bool) -> hcm_v3::HttpFilter {
    let nothing = local_ratelimit_v3::LocalRateLimit { stat_prefix: STATISTICS.to_owned(), ..Default::default() };
    hcm_v3::HttpFilter {
        name: FILTER.to_owned(),
        config_type: Some(hcm_v3::http_filter::ConfigType::TypedConfig(wire::any(&nothing))),
        disabled,
        ..Default::default()
    }
}

/// Builds the configuration of a route with this limit. Requests over it are answered 429.
pub fn per_route(limit: &LocalRateLimit) -> google::Any {
    let LocalRateLimit { requests, period, burst, per_client_address } = *limit;
    let bucket = || {
        Some(type_v3::TokenBucket {
            max_tokens: requests.saturating_add(burst),
            tokens_per_fill: Some(wire::uint32(requests)),
            fill_interval: Some(wire::duration(period)),
        })
    };
    let all: fn() -> Option<core_v3::RuntimeFractionalPercent> = || Some(wire::fraction(Share::ALL));
    let mut config = local_ratelimit_v3::LocalRateLimit {
        stat_prefix: STATISTICS.to_owned(),
        token_bucket: bucket(),
        filter_enabled: all(),
        filter_enforced: all(),
        ..Default::default()
    };
    if per_client_address {
        use route_v3::rate_limit::action::{ActionSpecifier, RemoteAddress};
        let action = ActionSpecifier::RemoteAddress(RemoteAddress::default());
        let actions = vec![route_v3::rate_limit::Action { action_specifier: Some(action) }];
        config.rate_limits = vec![route_v3::RateLimit { actions, ..Default::default() }];
        // An entry without a value has a bucket for each value.
        let entry =
            descriptor_v3::rate_limit_descriptor::Entry { key: REMOTE_ADDRESS.to_owned(), value: String::new() };
        config.descriptors = vec![descriptor_v3::LocalRateLimitDescriptor {
            entries: vec![entry],
            token_bucket: bucket(),
            ..Default::default()
        }];
        config.max_dynamic_descriptors = Some(wire::uint32(LocalRateLimit::MAX_ADDRESSES));
        config.always_consume_default_token_bucket = Some(wire::boolean(false));
    }
    wire::any(&config)
}
