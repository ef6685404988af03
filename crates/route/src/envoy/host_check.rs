//! The check of a host for the backends that comes from the request.
//!
//! Envoy writes any value of a header into `:authority`. Servers of HTTP/2, Envoy among them, close a connection with the requests of all
//! clients because of a value such as `a b`.

use std::collections::HashMap;

use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::config::rbac::v3 as rbac_config_v3;
use envoy_types::pb::envoy::config::route::v3 as route_v3;
use envoy_types::pb::envoy::extensions::filters::http::rbac::v3 as rbac_v3;
use envoy_types::pb::envoy::r#type::matcher::v3 as matcher_v3;
use matcher_v3::string_matcher::MatchPattern;
use rbac_config_v3::{Permission, Principal, permission, principal};

use super::{delegate, wire};
use crate::model::{ForwardFilter, HeaderName, HostRewrite, RegexRewrite, RoutePolicy};

/// A value that is not a host with an optional port. Envoy compares each value of a header, so the pattern is not that of valid values: one of
/// them would admit all others.
const OTHER: &str = "(?s).*([^0-9A-Za-z._:-]|:[0-9]*[^0-9]).*";

/// Builds the filter of a route whose requests contain the host. It answers 403 to requests that contain something else.
pub fn of_route(policy: Option<&RoutePolicy>, filters: &[ForwardFilter]) -> Option<core_v3::TypedExtensionConfig> {
    let of_policy = policy.and_then(|policy| policy.rewrite.as_ref()?.host.as_ref());
    let refused = match of_policy {
        Some(HostRewrite::Name(_)) => return None,
        Some(HostRewrite::Header(name)) => in_header(name),
        Some(HostRewrite::Path(rewrite)) => other_than(rewrite),
        None => filters.iter().find_map(|filter| match filter {
            ForwardFilter::HostFromHeader(name) => Some(in_header(name)),
            _ => None,
        })?,
    };
    let policy = rbac_config_v3::Policy {
        permissions: vec![refused],
        principals: vec![Principal { identifier: Some(principal::Identifier::Any(true)) }],
        ..Default::default()
    };
    let rules = rbac_config_v3::Rbac {
        action: rbac_config_v3::rbac::Action::Deny as i32,
        policies: HashMap::from([("host".to_owned(), policy)]),
        ..Default::default()
    };
    let deny = rbac_v3::Rbac { rules: Some(rules), ..Default::default() };
    Some(delegate::part("envoy.filters.http.rbac", &deny))
}

fn in_header(name: &HeaderName) -> Permission {
    use route_v3::header_matcher::HeaderMatchSpecifier;
    permitted(permission::Rule::Header(route_v3::HeaderMatcher {
        name: name.to_string(),
        header_match_specifier: Some(HeaderMatchSpecifier::StringMatch(text(OTHER))),
        ..Default::default()
    }))
}

fn other_than(rewrite: &RegexRewrite) -> Permission {
    use matcher_v3::path_matcher::Rule;
    let path = matcher_v3::PathMatcher { rule: Some(Rule::Path(text(&rewrite.pattern))) };
    permitted(permission::Rule::NotRule(Box::new(permitted(permission::Rule::UrlPath(path)))))
}

fn permitted(rule: permission::Rule) -> Permission {
    Permission { rule: Some(rule) }
}

fn text(pattern: &str) -> matcher_v3::StringMatcher {
    let pattern = MatchPattern::SafeRegex(wire::regex(pattern.to_owned()));
    matcher_v3::StringMatcher { match_pattern: Some(pattern), ..Default::default() }
}
