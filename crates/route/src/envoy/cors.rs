//! Cross-origin requests (CORS).

use envoy_types::pb::envoy::extensions::filters::http::cors::v3 as cors_v3;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3 as hcm_v3;
use envoy_types::pb::envoy::r#type::matcher::v3::string_matcher::MatchPattern;
use envoy_types::pb::google::protobuf as google;

use super::wire::{self, regex, string_matcher};
use crate::model::{Cors, ForwardFilter, HeaderValue, OriginMatch, RoutePolicy};

/// The name of the filter, to which routes refer.
pub const FILTER: &str = "envoy.filters.http.cors";

/// Builds the HTTP filter, which has no effect on routes without a policy. If it is `disabled`, only routes with a policy create
/// it.
pub fn filter(disabled: bool) -> hcm_v3::HttpFilter {
    hcm_v3::HttpFilter {
        name: FILTER.to_owned(),
        config_type: Some(hcm_v3::http_filter::ConfigType::TypedConfig(wire::any(&cors_v3::Cors {}))),
        disabled,
        ..Default::default()
    }
}

/// Returns the configuration of a route that forwards requests, with the name of the filter. The permissions of a policy replace those of
/// the filters of the route.
pub fn per_route(filters: &[ForwardFilter], policy: Option<&RoutePolicy>) -> Option<(String, google::Any)> {
    let of_policy = policy.and_then(|policy| policy.cors.as_deref());
    of_policy.or_else(|| of_filters(filters)).map(|cors| (FILTER.to_owned(), wire::any(&self::policy(cors))))
}

/// Returns the permissions of the last filter.
fn of_filters(filters: &[ForwardFilter]) -> Option<&Cors> {
    filters.iter().rev().find_map(|filter| match filter {
        ForwardFilter::Cors(cors) => Some(&**cors),
        _ => None,
    })
}

fn policy(cors: &Cors) -> cors_v3::CorsPolicy {
    let Cors {
        allow_origins,
        allow_methods,
        allow_headers,
        expose_headers,
        max_age,
        allow_credentials,
        allow_private_network,
    } = cors;
    let origin = |origin: &OriginMatch| match origin {
        OriginMatch::Any => MatchPattern::SafeRegex(regex(".*".to_owned())),
        OriginMatch::Exact(text) => MatchPattern::Exact(text.to_string()),
        OriginMatch::Regex(text) => MatchPattern::SafeRegex(regex(text.to_string())),
    };
    let text = |value: &Option<HeaderValue>| value.as_ref().map(|value| value.as_str().to_owned()).unwrap_or_default();
    cors_v3::CorsPolicy {
        allow_origin_string_match: allow_origins.iter().map(|one| string_matcher(origin(one))).collect(),
        allow_methods: text(allow_methods),
        allow_headers: text(allow_headers),
        expose_headers: expose_headers.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
        max_age: max_age.map(|age| age.as_secs().to_string()).unwrap_or_default(),
        allow_credentials: Some(wire::boolean(*allow_credentials)),
        allow_private_network_access: allow_private_network.then(|| wire::boolean(true)),
        // Otherwise the backend would answer the preflight requests of other origins, perhaps with its own permission.
        forward_not_matching_preflights: Some(wire::boolean(false)),
        ..Default::default()
    }
}
