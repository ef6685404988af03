//! HTTP filters that only routes configure.
//!
//! Most HTTP filters of Envoy are configured in the listener, where each change drains connections. A delegate is a filter
//! in the listener without an effect. A route selects a filter and its complete configuration, which the delegate runs.

use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::extensions::common::matching::v3 as matching_v3;
use envoy_types::pb::envoy::extensions::filters::common::matcher::action::v3 as action_v3;
use envoy_types::pb::envoy::extensions::filters::http::composite::v3 as composite_v3;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3 as hcm_v3;
use envoy_types::pb::envoy::r#type::matcher::v3 as input_v3;
use envoy_types::pb::google::protobuf as google;
use envoy_types::pb::xds::core::v3 as xds_core_v3;
use envoy_types::pb::xds::r#type::matcher::v3 as matcher_v3;
use matcher_v3::matcher::matcher_list::{FieldMatcher, Predicate, predicate};
use matcher_v3::matcher::{MatcherList, MatcherType, OnMatch, on_match};
use matcher_v3::string_matcher::MatchPattern;

use super::wire;

/// Builds the delegate `name`. If it is `disabled`, only routes with a configuration create it.
pub fn filter(name: &str, disabled: bool) -> hcm_v3::HttpFilter {
    let matched = matching_v3::ExtensionWithMatcher {
        xds_matcher: Some(matcher_v3::Matcher { matcher_type: None, on_no_match: Some(Box::new(skip())) }),
        extension_config: Some(core_v3::TypedExtensionConfig {
            name: "envoy.filters.http.composite".to_owned(),
            typed_config: Some(wire::any(&composite_v3::Composite::default())),
        }),
        ..Default::default()
    };
    hcm_v3::HttpFilter {
        name: name.to_owned(),
        config_type: Some(hcm_v3::http_filter::ConfigType::TypedConfig(wire::any(&matched))),
        disabled,
        ..Default::default()
    }
}

/// Builds the configuration of a route: the delegate runs the filter `name` with this configuration, except for requests
/// that meet `except`.
pub fn per_route<M>(name: &str, config: &M, except: Option<Predicate>) -> google::Any
where
    M: prost::Message + prost::Name,
{
    let execute = composite_v3::ExecuteFilterAction {
        typed_config: Some(core_v3::TypedExtensionConfig {
            name: name.to_owned(),
            typed_config: Some(wire::any(config)),
        }),
        ..Default::default()
    };
    let execute = on_match::OnMatch::Action(xds_core_v3::TypedExtensionConfig {
        name: "execute".to_owned(),
        typed_config: Some(wire::any(&execute)),
    });
    wire::any(&matching_v3::ExtensionWithMatcherPerRoute {
        xds_matcher: Some(matcher_v3::Matcher {
            matcher_type: except.map(skip_if),
            on_no_match: Some(Box::new(OnMatch { on_match: Some(execute), ..Default::default() })),
        }),
    })
}

/// Builds a match of the header `name`.
pub fn header(name: &str, pattern: MatchPattern) -> Predicate {
    let input = input_v3::HttpRequestHeaderMatchInput { header_name: name.to_owned() };
    let value = matcher_v3::StringMatcher { match_pattern: Some(pattern), ..Default::default() };
    let single = predicate::SinglePredicate {
        input: Some(xds_core_v3::TypedExtensionConfig { name: name.to_owned(), typed_config: Some(wire::any(&input)) }),
        matcher: Some(predicate::single_predicate::Matcher::ValueMatch(value)),
    };
    Predicate { match_type: Some(predicate::MatchType::SinglePredicate(single)) }
}

pub fn regex(regex: String) -> matcher_v3::RegexMatcher {
    let engine = matcher_v3::regex_matcher::EngineType::GoogleRe2(matcher_v3::regex_matcher::GoogleRe2 {});
    matcher_v3::RegexMatcher { regex, engine_type: Some(engine) }
}

/// Builds a matcher that skips the filter for requests that meet `predicate`.
pub fn skip_if(predicate: Predicate) -> MatcherType {
    let matchers = vec![FieldMatcher { predicate: Some(predicate), on_match: Some(skip()) }];
    MatcherType::MatcherList(MatcherList { matchers })
}

fn skip() -> OnMatch {
    let skip = on_match::OnMatch::Action(xds_core_v3::TypedExtensionConfig {
        name: "skip".to_owned(),
        typed_config: Some(wire::any(&action_v3::SkipFilter {})),
    });
    OnMatch { on_match: Some(skip), ..Default::default() }
}
