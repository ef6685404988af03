//! A delegate: an HTTP filter of the listener that runs the filters of a route.
//!
//! Most HTTP filters of Envoy are configured in the listener, where each change drains connections. A delegate is a filter
//! in the listener without an effect. A route selects filters and their complete configuration, which the delegate runs in order.
//!
//! Only the last filter of a delegate may wait, such as for an answer of a server. Envoy continues a request that waited after the delegate,
//! so the filters behind it would not see the request.

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
    hcm_v3::HttpFilter { disabled, ..with(name, &composite_v3::Composite::default()) }
}

/// Builds the delegate `name` that runs these filters for all requests, except for those of routes that disable it.
pub fn running(name: &str, filters: Vec<core_v3::TypedExtensionConfig>) -> hcm_v3::HttpFilter {
    with(name, &composite_v3::Composite { matcher: Some(matcher(None, filters)), ..Default::default() })
}

fn with(name: &str, composite: &composite_v3::Composite) -> hcm_v3::HttpFilter {
    hcm_v3::HttpFilter {
        name: name.to_owned(),
        config_type: Some(hcm_v3::http_filter::ConfigType::TypedConfig(wire::any(composite))),
        ..Default::default()
    }
}

/// Builds the configuration of a route: the delegate runs these filters, or others for requests that meet a condition. The first condition decides.
///
/// A filter of a route cannot have a condition of its own: Envoy creates no `ExtensionWithMatcher` there.
pub fn per_route(
    filters: Vec<core_v3::TypedExtensionConfig>,
    others: Vec<(Predicate, Vec<core_v3::TypedExtensionConfig>)>,
) -> google::Any {
    let matchers = others.into_iter().map(|(predicate, filters)| {
        let on_match = if filters.is_empty() { skip() } else { execute(filters) };
        FieldMatcher { predicate: Some(predicate), on_match: Some(on_match) }
    });
    let matchers: Vec<_> = matchers.collect();
    let others = (!matchers.is_empty()).then_some(MatcherType::MatcherList(MatcherList { matchers }));
    wire::any(&composite_v3::CompositePerRoute { matcher: Some(matcher(others, filters)) })
}

/// Builds a filter of a delegate.
pub fn part<M>(name: &str, config: &M) -> core_v3::TypedExtensionConfig
where
    M: prost::Message + prost::Name,
{
    core_v3::TypedExtensionConfig { name: name.to_owned(), typed_config: Some(wire::any(config)) }
}

/// Builds a filter of the listener that skips requests that meet `except`.
pub fn unless(except: Predicate, part: core_v3::TypedExtensionConfig) -> core_v3::TypedExtensionConfig {
    let matched = matching_v3::ExtensionWithMatcher {
        xds_matcher: Some(matcher_v3::Matcher { matcher_type: Some(skip_if(except)), on_no_match: None }),
        extension_config: Some(part),
        ..Default::default()
    };
    self::part("match", &matched)
}

/// Builds a matcher that runs these filters for the requests that do not meet the conditions.
fn matcher(conditions: Option<MatcherType>, filters: Vec<core_v3::TypedExtensionConfig>) -> matcher_v3::Matcher {
    matcher_v3::Matcher { matcher_type: conditions, on_no_match: Some(Box::new(execute(filters))) }
}

fn execute(typed_config: Vec<core_v3::TypedExtensionConfig>) -> OnMatch {
    let filter_chain = Some(composite_v3::FilterChainConfiguration { typed_config });
    let execute = composite_v3::ExecuteFilterAction { filter_chain, ..Default::default() };
    let action =
        xds_core_v3::TypedExtensionConfig { name: "execute".to_owned(), typed_config: Some(wire::any(&execute)) };
    OnMatch { on_match: Some(on_match::OnMatch::Action(action)), ..Default::default() }
}

/// Builds a match of the header `name`.
pub fn header(name: &str, pattern: MatchPattern) -> Predicate {
    matches(name, &input_v3::HttpRequestHeaderMatchInput { header_name: name.to_owned() }, pattern)
}

/// Builds a match of a value of the request or of its response. A value that does not exist matches no pattern.
pub fn matches<M>(name: &str, input: &M, pattern: MatchPattern) -> Predicate
where
    M: prost::Message + prost::Name,
{
    let value = matcher_v3::StringMatcher { match_pattern: Some(pattern), ..Default::default() };
    let single = predicate::SinglePredicate {
        input: Some(xds_core_v3::TypedExtensionConfig { name: name.to_owned(), typed_config: Some(wire::any(input)) }),
        matcher: Some(predicate::single_predicate::Matcher::ValueMatch(value)),
    };
    Predicate { match_type: Some(predicate::MatchType::SinglePredicate(single)) }
}

/// Builds the condition that one of these holds. Envoy refuses a list of one condition.
pub fn any_of(mut predicate: Vec<Predicate>) -> Predicate {
    if predicate.len() == 1
        && let Some(only) = predicate.pop()
    {
        return only;
    }
    Predicate { match_type: Some(predicate::MatchType::OrMatcher(predicate::PredicateList { predicate })) }
}

/// Builds the condition that all of these hold.
pub fn all_of(predicate: Vec<Predicate>) -> Predicate {
    Predicate { match_type: Some(predicate::MatchType::AndMatcher(predicate::PredicateList { predicate })) }
}

/// Builds the condition that `other` does not hold.
pub fn none_of(other: Predicate) -> Predicate {
    Predicate { match_type: Some(predicate::MatchType::NotMatcher(Box::new(other))) }
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
