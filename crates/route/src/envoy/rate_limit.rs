//! Global rate limiting: an external service that counts requests, and the descriptors of a request.

use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::config::ratelimit::v3 as ratelimit_config_v3;
use envoy_types::pb::envoy::config::route::v3 as route_v3;
use envoy_types::pb::envoy::extensions::filters::http::ratelimit::v3 as ratelimit_v3;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3 as hcm_v3;
use envoy_types::pb::envoy::r#type::matcher::v3 as matcher_v3;
use envoy_types::pb::google::protobuf as google;

use super::wire::regex;
use super::{names, services, wire};
use crate::model::{EntryHeader, GlobalRateLimit, HeaderCondition, RateLimitEntry};
use crate::settings::RateLimit;

/// The name of the filter, to which routes refer.
const FILTER: &str = "envoy.filters.http.ratelimit";

/// Builds the HTTP filter if a service is configured.
///
/// The filter contains the descriptors, so that routes do not change. Envoy sends descriptors only for requests that it
/// forwards to a backend, not for direct responses.
pub fn filter(settings: &RateLimit) -> Option<hcm_v3::HttpFilter> {
    use ratelimit_v3::rate_limit::XRateLimitHeadersRfcVersion;
    let RateLimit { endpoint, domain, timeout, fail_open, headers, resource_exhausted, descriptors } = settings;
    endpoint.as_ref()?;
    let headers = match headers {
        true => XRateLimitHeadersRfcVersion::DraftVersion03,
        false => XRateLimitHeadersRfcVersion::Off,
    };
    let filter = ratelimit_v3::RateLimit {
        domain: domain.clone(),
        timeout: Some(wire::duration(*timeout)),
        failure_mode_deny: !fail_open,
        rate_limited_as_resource_exhausted: *resource_exhausted,
        rate_limit_service: Some(ratelimit_config_v3::RateLimitServiceConfig {
            grpc_service: Some(services::grpc(names::RATE_LIMIT_CLUSTER, *timeout)),
            transport_api_version: core_v3::ApiVersion::V3 as i32,
        }),
        enable_x_ratelimit_headers: headers as i32,
        rate_limits: descriptors.iter().map(|entries| descriptor(entries)).collect(),
        ..Default::default()
    };
    Some(hcm_v3::HttpFilter {
        name: FILTER.to_owned(),
        config_type: Some(hcm_v3::http_filter::ConfigType::TypedConfig(wire::any(&filter))),
        ..Default::default()
    })
}

/// Returns the name of the filter, and the configuration of a route that has its own descriptors. Without a service, it has no effect.
pub fn per_route(limit: &GlobalRateLimit) -> (String, google::Any) {
    let config = match limit.descriptors.is_empty() {
        true => wire::any(&route_v3::FilterConfig { disabled: true, ..Default::default() }),
        false => wire::any(&ratelimit_v3::RateLimitPerRoute {
            rate_limits: limit.descriptors.iter().map(|entries| descriptor(entries)).collect(),
            ..Default::default()
        }),
    };
    (FILTER.to_owned(), config)
}

/// Builds a descriptor.
fn descriptor(entries: &[RateLimitEntry]) -> route_v3::RateLimit {
    route_v3::RateLimit { actions: entries.iter().map(action).collect(), ..Default::default() }
}

/// Builds the action that derives an entry from a request.
fn action(entry: &RateLimitEntry) -> route_v3::rate_limit::Action {
    use route_v3::rate_limit::action::{ActionSpecifier, GenericKey, HeaderValueMatch, RemoteAddress, RequestHeaders};
    let specifier = match entry {
        RateLimitEntry::GenericKey { key, value } => ActionSpecifier::GenericKey(GenericKey {
            descriptor_key: key.clone().unwrap_or_default(),
            descriptor_value: value.clone(),
            ..Default::default()
        }),
        RateLimitEntry::RequestHeader { header_name, descriptor_key } => {
            ActionSpecifier::RequestHeaders(RequestHeaders {
                header_name: header_name.clone(),
                descriptor_key: descriptor_key.clone(),
                ..Default::default()
            })
        }
        RateLimitEntry::RequestHeaderValueMatch { headers, expect_match, value } => {
            ActionSpecifier::HeaderValueMatch(HeaderValueMatch {
                descriptor_value: value.clone(),
                expect_match: Some(wire::boolean(*expect_match)),
                headers: headers.iter().map(header_matcher).collect(),
                ..Default::default()
            })
        }
        RateLimitEntry::RemoteAddress => ActionSpecifier::RemoteAddress(RemoteAddress::default()),
    };
    route_v3::rate_limit::Action { action_specifier: Some(specifier) }
}

fn header_matcher(header: &EntryHeader) -> route_v3::HeaderMatcher {
    use matcher_v3::string_matcher::MatchPattern;
    use route_v3::header_matcher::HeaderMatchSpecifier;
    let EntryHeader { name, condition, ignore_case, treat_missing_as_empty } = header;
    let pattern = match condition {
        HeaderCondition::Present | HeaderCondition::NotPresent => None,
        HeaderCondition::Exact(text) | HeaderCondition::NotExact(text) => Some(MatchPattern::Exact(text.clone())),
        HeaderCondition::Contains(text) | HeaderCondition::NotContains(text) => {
            Some(MatchPattern::Contains(text.clone()))
        }
        HeaderCondition::Regex(pattern) => Some(MatchPattern::SafeRegex(regex(pattern.clone()))),
    };
    let specifier = match pattern {
        None => HeaderMatchSpecifier::PresentMatch(true),
        pattern => HeaderMatchSpecifier::StringMatch(matcher_v3::StringMatcher {
            match_pattern: pattern,
            ignore_case: *ignore_case,
        }),
    };
    route_v3::HeaderMatcher {
        name: name.clone(),
        header_match_specifier: Some(specifier),
        invert_match: matches!(
            condition,
            HeaderCondition::NotPresent | HeaderCondition::NotExact(_) | HeaderCondition::NotContains(_)
        ),
        treat_missing_header_as_empty: *treat_missing_as_empty,
    }
}
