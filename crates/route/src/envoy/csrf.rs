//! Requests of web pages that change something (cross-site request forgery).

use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::extensions::filters::http::csrf::v3 as csrf_v3;
use envoy_types::pb::envoy::r#type::matcher::v3 as matcher_v3;
use envoy_types::pb::envoy::r#type::v3 as type_v3;
use matcher_v3::string_matcher::MatchPattern;

use super::delegate;
use crate::model::{Csrf, OriginHost};

/// Builds the filter of a route that answers 403 to requests with the method POST, PUT, DELETE, or PATCH, unless the header `Origin`, or
/// else `Referer`, names the host of the request or one of these hosts.
pub fn of_route(csrf: &Csrf) -> core_v3::TypedExtensionConfig {
    let all = type_v3::FractionalPercent {
        numerator: 100,
        denominator: type_v3::fractional_percent::DenominatorType::Hundred as i32,
    };
    let config = csrf_v3::CsrfPolicy {
        filter_enabled: Some(core_v3::RuntimeFractionalPercent { default_value: Some(all), ..Default::default() }),
        additional_origins: csrf.additional_origins.iter().map(origin).collect(),
        ..Default::default()
    };
    delegate::part("envoy.filters.http.csrf", &config)
}

fn origin(host: &OriginHost) -> matcher_v3::StringMatcher {
    let pattern = match host {
        OriginHost::Exact(text) => MatchPattern::Exact(text.to_string()),
        OriginHost::Suffix(text) => MatchPattern::Suffix(text.to_string()),
    };
    matcher_v3::StringMatcher { match_pattern: Some(pattern), ignore_case: true }
}
