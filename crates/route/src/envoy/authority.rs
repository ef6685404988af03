//! The check of `:authority`. Envoy ignores everything behind the last colon when it looks for a virtual host, so `a.test:x@b.test`
//! would reach the backends of `a.test` unchanged.

use std::collections::HashMap;

use envoy_types::pb::envoy::config::rbac::v3 as rbac_config_v3;
use envoy_types::pb::envoy::config::route::v3 as route_v3;
use envoy_types::pb::envoy::extensions::filters::http::rbac::v3 as rbac_v3;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3 as hcm_v3;
use envoy_types::pb::envoy::r#type::matcher::v3 as matcher_v3;
use rbac_config_v3::{Permission, Principal, permission, principal};

use super::wire;

/// A host without a user, and optionally a port. Source: RFC 3986 section 3.2.
const VALID: &str = r"([^:@]*|\[[0-9A-Fa-f:.]*\])(:[0-9]*)?";

/// Builds the HTTP filter that answers 403 to any other authority.
pub fn filter() -> hcm_v3::HttpFilter {
    use matcher_v3::string_matcher::MatchPattern;
    use route_v3::header_matcher::HeaderMatchSpecifier;
    let regex = matcher_v3::RegexMatcher { regex: VALID.to_owned(), ..Default::default() };
    let valid = matcher_v3::StringMatcher { match_pattern: Some(MatchPattern::SafeRegex(regex)), ..Default::default() };
    let invalid = route_v3::HeaderMatcher {
        name: ":authority".to_owned(),
        header_match_specifier: Some(HeaderMatchSpecifier::StringMatch(valid)),
        invert_match: true,
        ..Default::default()
    };
    let policy = rbac_config_v3::Policy {
        permissions: vec![Permission { rule: Some(permission::Rule::Header(invalid)) }],
        principals: vec![Principal { identifier: Some(principal::Identifier::Any(true)) }],
        ..Default::default()
    };
    let rules = rbac_config_v3::Rbac {
        action: rbac_config_v3::rbac::Action::Deny as i32,
        policies: HashMap::from([("authority".to_owned(), policy)]),
        ..Default::default()
    };
    hcm_v3::HttpFilter {
        name: "lockgate.authority".to_owned(),
        config_type: Some(hcm_v3::http_filter::ConfigType::TypedConfig(wire::any(&rbac_v3::Rbac {
            rules: Some(rules),
            ..Default::default()
        }))),
        ..Default::default()
    }
}
