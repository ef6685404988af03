//! The check of `:authority`. Envoy ignores everything behind the last colon when it looks for a virtual host, so `a.test:x@b.test`
//! would reach the backends of `a.test` unchanged.
//!
//! The filter skips valid requests: one matcher costs them less than a filter and its rules (2 % of a request, in instructions of Envoy).

use std::collections::HashMap;

use envoy_types::pb::envoy::config::rbac::v3 as rbac_config_v3;
use envoy_types::pb::envoy::extensions::filters::http::rbac::v3 as rbac_v3;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3 as hcm_v3;
use envoy_types::pb::xds::r#type::matcher::v3::string_matcher::MatchPattern;
use rbac_config_v3::{Permission, Principal, permission, principal};

use super::delegate;

/// A host without a user, and optionally a port. Source: RFC 3986 section 3.2.
const VALID: &str = r"([^:@]*|\[[0-9A-Fa-f:.]*\])(:[0-9]*)?";

/// Builds the HTTP filter that answers 403 to any other authority.
pub fn filter() -> hcm_v3::HttpFilter {
    let policy = rbac_config_v3::Policy {
        permissions: vec![Permission { rule: Some(permission::Rule::Any(true)) }],
        principals: vec![Principal { identifier: Some(principal::Identifier::Any(true)) }],
        ..Default::default()
    };
    let rules = rbac_config_v3::Rbac {
        action: rbac_config_v3::rbac::Action::Deny as i32,
        policies: HashMap::from([("authority".to_owned(), policy)]),
        ..Default::default()
    };
    let deny = rbac_v3::Rbac { rules: Some(rules), ..Default::default() };
    let is_valid = delegate::header(":authority", MatchPattern::SafeRegex(delegate::regex(VALID.to_owned())));
    let checked = delegate::unless(is_valid, delegate::part("deny", &deny));
    hcm_v3::HttpFilter {
        name: "lockgate.authority".to_owned(),
        config_type: checked.typed_config.map(hcm_v3::http_filter::ConfigType::TypedConfig),
        ..Default::default()
    }
}
