//! Limits the size of request bodies. Envoy counts the bytes while they stream through, and holds no body in memory.
//!
//! A body of a known, excessive length is answered 413 at once. Otherwise, the backend receives the bytes up to the limit.

use std::collections::HashMap;

use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::extensions::common::matching::v3 as matching_v3;
use envoy_types::pb::envoy::extensions::filters::http::body_size_limit::v3 as body_size_limit_v3;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3 as hcm_v3;
use envoy_types::pb::google::protobuf as google;
use envoy_types::pb::xds::r#type::matcher::v3 as matcher_v3;
use matcher_v3::matcher::matcher_list::Predicate;
use matcher_v3::string_matcher::MatchPattern;

use super::{delegate, wire};
use crate::model::Route;

/// The name of Envoy's filter.
const FILTER: &str = "envoy.filters.http.body_size_limit";

/// Builds the HTTP filter that answers 413 to bodies of more than `bytes`.
pub fn filter(bytes: u32) -> hcm_v3::HttpFilter {
    let matched = matching_v3::ExtensionWithMatcher {
        xds_matcher: Some(except(websocket())),
        extension_config: Some(core_v3::TypedExtensionConfig {
            name: FILTER.to_owned(),
            typed_config: Some(wire::any(&limit(bytes))),
        }),
        ..Default::default()
    };
    hcm_v3::HttpFilter {
        name: FILTER.to_owned(),
        config_type: Some(hcm_v3::http_filter::ConfigType::TypedConfig(wire::any(&matched))),
        ..Default::default()
    }
}

/// Builds the configuration of the same filter for the streams of GRPCRoutes.
pub fn for_streams() -> HashMap<String, google::Any> {
    let matched = matching_v3::ExtensionWithMatcherPerRoute { xds_matcher: Some(except(stream())) };
    HashMap::from([(FILTER.to_owned(), wire::any(&matched))])
}

/// Builds the filter of a route with a limit of its own.
pub fn of_route(bytes: u32) -> core_v3::TypedExtensionConfig {
    delegate::part(FILTER, &limit(bytes))
}

/// Builds the condition on requests without a limit. `has_streams`: see [`has_streams`].
pub fn is_unlimited(has_streams: bool) -> Predicate {
    if has_streams { stream() } else { websocket() }
}

/// Returns whether the requests of a route can be streams of gRPC, which have no end. A client can claim so of any request.
pub fn has_streams(route: &Route) -> bool {
    route.origin.kind == "GRPCRoute"
}

fn limit(bytes: u32) -> body_size_limit_v3::BodySizeLimit {
    body_size_limit_v3::BodySizeLimit { max_request_bytes: Some(google::UInt64Value { value: bytes.into() }) }
}

fn except(predicate: Predicate) -> matcher_v3::Matcher {
    matcher_v3::Matcher { matcher_type: Some(delegate::skip_if(predicate)), on_no_match: None }
}

/// Builds the condition on a connection that becomes a websocket. Envoy removes the header from other requests.
fn websocket() -> Predicate {
    without_length(delegate::header("upgrade", MatchPattern::SafeRegex(delegate::regex("(?i)websocket".to_owned()))))
}

/// Builds the condition on a websocket, or on a stream of gRPC.
fn stream() -> Predicate {
    let grpc = delegate::header("content-type", MatchPattern::Prefix("application/grpc".to_owned()));
    delegate::any_of(vec![websocket(), without_length(grpc)])
}

/// Builds the condition `predicate` on requests that do not state the length of a body.
fn without_length(predicate: Predicate) -> Predicate {
    let length = delegate::header("content-length", MatchPattern::SafeRegex(delegate::regex(".+".to_owned())));
    delegate::all_of(vec![predicate, delegate::none_of(length)])
}
