//! Limits the size of request bodies.
//!
//! Envoy has no such limit except in the buffer filter, which first reads a complete body into memory. The filter is
//! therefore skipped for bodies of a known length within the limit, which stream through, and for endless streams. A
//! body of a known, excessive length is read up to the limit and answered with 413. The same applies to a body of
//! unknown length that exceeds the limit.

use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::extensions::common::matching::v3 as matching_v3;
use envoy_types::pb::envoy::extensions::filters::http::buffer::v3 as buffer_v3;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3 as hcm_v3;
use envoy_types::pb::envoy::r#type::matcher::v3 as input_v3;
use envoy_types::pb::google::protobuf as google;
use envoy_types::pb::xds::core::v3 as xds_core_v3;
use envoy_types::pb::xds::r#type::matcher::v3 as matcher_v3;
use matcher_v3::matcher::matcher_list::{Predicate, predicate};
use matcher_v3::string_matcher::MatchPattern;

use super::{delegate, wire};

/// The name of Envoy's filter.
const BUFFER: &str = "envoy.filters.http.buffer";

/// The name of the filter for the limits of routes.
pub const OF_ROUTES: &str = "lockgate.body_limit";

/// Builds the HTTP filter that answers 413 to bodies of more than `bytes`.
pub fn filter(bytes: u32) -> hcm_v3::HttpFilter {
    let matched = matching_v3::ExtensionWithMatcher {
        xds_matcher: Some(matcher_v3::Matcher {
            matcher_type: Some(delegate::skip_if(streams_through(bytes))),
            on_no_match: None,
        }),
        extension_config: Some(core_v3::TypedExtensionConfig {
            name: BUFFER.to_owned(),
            typed_config: Some(wire::any(&buffer(bytes))),
        }),
        ..Default::default()
    };
    hcm_v3::HttpFilter {
        name: BUFFER.to_owned(),
        config_type: Some(hcm_v3::http_filter::ConfigType::TypedConfig(wire::any(&matched))),
        ..Default::default()
    }
}

/// Builds the configuration of a route with such a limit, for the filter [`OF_ROUTES`].
pub fn per_route(bytes: u32) -> google::Any {
    delegate::per_route(BUFFER, &buffer(bytes), Some(streams_through(bytes)))
}

fn buffer(bytes: u32) -> buffer_v3::Buffer {
    buffer_v3::Buffer { max_request_bytes: Some(wire::uint32(bytes)) }
}

/// Builds the condition on requests whose body needs no buffer.
fn streams_through(bytes: u32) -> Predicate {
    let within_limit = header("content-length", MatchPattern::SafeRegex(regex(at_most(bytes))));
    let grpc = header("content-type", MatchPattern::Prefix("application/grpc".to_owned()));
    let grpc = all_of(vec![grpc, none_of(header("content-length", MatchPattern::SafeRegex(regex(".+".to_owned()))))]);
    let websocket = header("upgrade", MatchPattern::SafeRegex(regex("(?i)websocket".to_owned())));
    any_of(vec![within_limit, grpc, websocket])
}

/// Builds a match of the header `name`.
fn header(name: &str, pattern: MatchPattern) -> Predicate {
    let input = input_v3::HttpRequestHeaderMatchInput { header_name: name.to_owned() };
    let value = matcher_v3::StringMatcher { match_pattern: Some(pattern), ..Default::default() };
    let single = predicate::SinglePredicate {
        input: Some(xds_core_v3::TypedExtensionConfig { name: name.to_owned(), typed_config: Some(wire::any(&input)) }),
        matcher: Some(predicate::single_predicate::Matcher::ValueMatch(value)),
    };
    Predicate { match_type: Some(predicate::MatchType::SinglePredicate(single)) }
}

fn any_of(predicate: Vec<Predicate>) -> Predicate {
    Predicate { match_type: Some(predicate::MatchType::OrMatcher(predicate::PredicateList { predicate })) }
}

fn all_of(predicate: Vec<Predicate>) -> Predicate {
    Predicate { match_type: Some(predicate::MatchType::AndMatcher(predicate::PredicateList { predicate })) }
}

fn none_of(other: Predicate) -> Predicate {
    Predicate { match_type: Some(predicate::MatchType::NotMatcher(Box::new(other))) }
}

fn regex(regex: String) -> matcher_v3::RegexMatcher {
    let engine = matcher_v3::regex_matcher::EngineType::GoogleRe2(matcher_v3::regex_matcher::GoogleRe2 {});
    matcher_v3::RegexMatcher { regex, engine_type: Some(engine) }
}

/// Returns a pattern of the decimal numbers up to `number`, because the matcher compares texts, not numbers.
fn at_most(number: u32) -> String {
    let digits = number.to_string();
    let mut cases = vec![digits.clone()];
    if digits.len() > 1 {
        cases.push(format!("[0-9]{{1,{}}}", digits.len() - 1));
    }
    // Numbers of the same length, equal up to a digit, and smaller at that digit.
    for (at, digit) in digits.bytes().enumerate() {
        if digit > b'0' {
            let less = char::from(digit - 1);
            cases.push(format!("{}[0-{less}][0-9]{{{}}}", &digits[..at], digits.len() - at - 1));
        }
    }
    format!("0*({})", cases.join("|"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use regex::Regex;

    use super::*;

    #[test]
    fn the_pattern_matches_numbers_up_to_the_limit() {
        for limit in [1, 9, 10, 99, 100, 1000, 1023, 1024, 8192, 1_048_576, 1 << 30, u32::MAX] {
            let pattern = Regex::new(&format!("^(?:{})$", at_most(limit))).unwrap();
            let limit = u64::from(limit);
            let around = (limit.saturating_sub(1200)..limit + 1200).chain((0..40).map(|bits| 1 << bits));
            for number in around {
                assert_eq!(pattern.is_match(&number.to_string()), number <= limit, "{number} of {limit}");
                assert_eq!(pattern.is_match(&format!("00{number}")), number <= limit, "00{number} of {limit}");
            }
            for bad in ["", "-1", "+1", "1x", "0x1", "1.0", " 1"] {
                assert!(!pattern.is_match(bad), "{bad:?} of {limit}");
            }
        }
    }
}
