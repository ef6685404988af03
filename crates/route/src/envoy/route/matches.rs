//! Matches of requests.

use envoy_types::pb::envoy::config::route::v3 as route_v3;
use envoy_types::pb::envoy::r#type::matcher::v3 as matcher_v3;
use matcher_v3::string_matcher::MatchPattern;
use route_v3::header_matcher::HeaderMatchSpecifier;

use super::Conditions;
use crate::envoy::wire::{fraction, regex, string_matcher};
use crate::model::{HeaderMatch, Match, PathMatch, QueryMatch, ValueMatch, ValuePart};

/// Builds Envoy's match of requests that also meet these conditions.
pub(super) fn route_match(matches: &Match, Conditions { headers, cookie }: Conditions) -> route_v3::RouteMatch {
    let mut built = route_v3::RouteMatch {
        path_specifier: Some(path(&matches.path)),
        headers: headers.to_vec(),
        cookies: cookie.cloned().into_iter().collect(),
        ..Default::default()
    };
    if let Some(conditions) = matches.conditions() {
        let method =
            conditions.method.as_deref().map(|method| header(":method", MatchPattern::Exact(method.to_owned())));
        built.headers.extend(method);
        built.headers.extend(header_matchers(&conditions.headers));
        built.query_parameters = conditions.query.iter().map(query_matcher).collect();
        built.runtime_fraction = conditions.share.map(fraction);
    }
    built
}

/// Builds the matchers of `headers`.
pub fn header_matchers(headers: &[HeaderMatch]) -> impl Iterator<Item = route_v3::HeaderMatcher> {
    headers.iter().map(|HeaderMatch { name, value, inverted, missing_is_empty }| {
        let specifier = match value_matcher(value) {
            None => HeaderMatchSpecifier::PresentMatch(true),
            Some(matcher) => HeaderMatchSpecifier::StringMatch(matcher),
        };
        route_v3::HeaderMatcher {
            name: name.to_string(),
            invert_match: *inverted,
            treat_missing_header_as_empty: *missing_is_empty,
            header_match_specifier: Some(specifier),
        }
    })
}

fn query_matcher(QueryMatch { name, value }: &QueryMatch) -> route_v3::QueryParameterMatcher {
    use route_v3::query_parameter_matcher::QueryParameterMatchSpecifier;
    let specifier = match value.as_ref().map(value_matcher) {
        None => QueryParameterMatchSpecifier::PresentMatch(false),
        Some(None) => QueryParameterMatchSpecifier::PresentMatch(true),
        Some(Some(matcher)) => QueryParameterMatchSpecifier::StringMatch(matcher),
    };
    route_v3::QueryParameterMatcher { name: name.to_string(), query_parameter_match_specifier: Some(specifier) }
}

/// Builds the matcher of a value. Returns `None` if any value matches.
fn value_matcher(value: &ValueMatch) -> Option<matcher_v3::StringMatcher> {
    let (pattern, ignore_case) = match value {
        ValueMatch::Present => return None,
        ValueMatch::Text { part, text, ignores_case } => {
            let text = text.to_string();
            let pattern = match part {
                ValuePart::Whole => MatchPattern::Exact(text),
                ValuePart::Start => MatchPattern::Prefix(text),
                ValuePart::End => MatchPattern::Suffix(text),
            };
            (pattern, *ignores_case)
        }
        ValueMatch::Regex(text) => (MatchPattern::SafeRegex(regex(text.to_string())), false),
    };
    Some(matcher_v3::StringMatcher { match_pattern: Some(pattern), ignore_case })
}

/// Builds the match of a path. `SeparatedPrefix` matches complete path elements, so `/foo` matches `/foo/bar` but not
/// `/foobar`.
fn path(path: &PathMatch) -> route_v3::route_match::PathSpecifier {
    use route_v3::route_match::PathSpecifier;
    match path {
        PathMatch::Exact(path) => PathSpecifier::Path(path.to_string()),
        PathMatch::Regex(pattern) => PathSpecifier::SafeRegex(regex(pattern.to_string())),
        PathMatch::SeparatedPrefix(prefix) => PathSpecifier::PathSeparatedPrefix(prefix.to_string()),
        PathMatch::Prefix(prefix) => PathSpecifier::Prefix(prefix.to_string()),
    }
}

/// Matches `:authority` only if it has exactly one label before `.suffix`.
///
/// Hosts arrive in any case, with or without a port. Envoy normalizes neither for a header match.
pub(super) fn one_label_before(suffix: &str) -> route_v3::HeaderMatcher {
    let pattern = format!(r"(?i)[^.:]+\.{}(:[0-9]+)?", suffix.replace('.', r"\."));
    authority(MatchPattern::SafeRegex(regex(pattern)))
}

/// Matches `:authority` only if it is longer than the longest name, which has 253 bytes, with a dot at the end and a port. Source:
/// RFC 1035 section 2.3.4.
pub(super) fn longer_than_a_name() -> route_v3::HeaderMatcher {
    authority(MatchPattern::SafeRegex(regex(r"(?s).{261,}".to_owned())))
}

/// Matches `:authority`.
pub(super) fn authority(pattern: MatchPattern) -> route_v3::HeaderMatcher {
    header(":authority", pattern)
}

fn header(name: &str, pattern: MatchPattern) -> route_v3::HeaderMatcher {
    route_v3::HeaderMatcher {
        name: name.to_owned(),
        header_match_specifier: Some(HeaderMatchSpecifier::StringMatch(string_matcher(pattern))),
        ..Default::default()
    }
}
