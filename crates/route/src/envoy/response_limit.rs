//! A limit of the size of responses.
//!
//! Envoy has no filter that stops a response. But it never passes on more bytes than the header `content-length` of a response states, so a
//! limit of this header is one of the body. Responses that do not state their length are refused too, unless the policy allows them.

use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::extensions::filters::http::custom_response::v3 as custom_response_v3;
use envoy_types::pb::envoy::extensions::http::custom_response::local_response_policy::v3 as local_v3;
use envoy_types::pb::envoy::r#type::matcher::v3 as input_v3;
use envoy_types::pb::xds::core::v3 as xds_core_v3;
use envoy_types::pb::xds::r#type::matcher::v3 as matcher_v3;
use matcher_v3::matcher::matcher_list::FieldMatcher;
use matcher_v3::matcher::{MatcherList, MatcherType, OnMatch, on_match};
use matcher_v3::string_matcher::MatchPattern;

use super::{delegate, wire};
use crate::model::ResponseLimit;

/// The answer instead of a response over the limit.
const STATUS: u32 = 502;
const BODY: &str = "the response of the backend is too large\n";

/// Builds the filter of a route. Envoy must create it before any filter of its delegate waits.
pub fn of_route(limit: ResponseLimit) -> core_v3::TypedExtensionConfig {
    let ResponseLimit { bytes, allows_unknown } = limit;
    let pattern = |regex: String| MatchPattern::SafeRegex(delegate::regex(regex));
    let length = |regex: String| {
        let input = input_v3::HttpResponseHeaderMatchInput { header_name: "content-length".to_owned() };
        delegate::matches("length", &input, pattern(regex))
    };
    let is_unknown = allows_unknown.then(|| delegate::none_of(length(".*".to_owned())));
    let is_permitted = delegate::any_of(at_most(bytes).into_iter().map(length).chain(is_unknown).collect());
    // These have no body. The length in an answer to HEAD is that of another answer.
    let status = input_v3::HttpResponseStatusCodeMatchInput::default();
    let has_no_body = delegate::any_of(vec![
        delegate::header(":method", MatchPattern::Exact("HEAD".to_owned())),
        delegate::matches("status", &status, pattern("1[0-9][0-9]|204|304".to_owned())),
    ]);
    let is_refused = delegate::none_of(delegate::any_of(vec![has_no_body, is_permitted]));
    let answer = local_v3::LocalResponsePolicy {
        status_code: Some(wire::uint32(STATUS)),
        body: Some(wire::inline_string(BODY)),
        ..Default::default()
    };
    let answer =
        xds_core_v3::TypedExtensionConfig { name: "answer".to_owned(), typed_config: Some(wire::any(&answer)) };
    let on_match = OnMatch { on_match: Some(on_match::OnMatch::Action(answer)), ..Default::default() };
    let matchers = vec![FieldMatcher { predicate: Some(is_refused), on_match: Some(on_match) }];
    let matcher = matcher_v3::Matcher {
        matcher_type: Some(MatcherType::MatcherList(MatcherList { matchers })),
        on_no_match: None,
    };
    let filter = custom_response_v3::CustomResponse { custom_response_matcher: Some(matcher) };
    delegate::part("envoy.filters.http.custom_response", &filter)
}

/// Returns regular expressions for the decimal numbers up to `most`: those with fewer digits, and those with as many. One expression for both
/// could have more than 100 instructions, the limit of an Envoy without runtime flags.
fn at_most(most: u32) -> Vec<String> {
    let digits = most.to_string();
    let shorter = Some(digits.len() - 1).filter(|length| *length > 0);
    let shorter = shorter.map(|length| format!("[0-9]{{1,{length}}}"));
    shorter.into_iter().chain([up_to(digits.as_bytes())]).collect()
}

/// Returns a regular expression for the texts of digits of this length that are not larger.
fn up_to(digits: &[u8]) -> String {
    let Some((first, rest)) = digits.split_first() else { return String::new() };
    let first = first - b'0';
    let smaller = match first {
        0 => None,
        1 => Some("0".to_owned()),
        _ => Some(format!("[0-{}]", first - 1)),
    };
    let any = match rest.len() {
        0 => String::new(),
        1 => "[0-9]".to_owned(),
        length => format!("[0-9]{{{length}}}"),
    };
    let equal = format!("{first}{}", up_to(rest));
    match smaller {
        None => equal,
        Some(smaller) => format!("(?:{smaller}{any}|{equal})"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used)]

    use proptest::prelude::*;

    use super::*;

    fn matches(most: u32, text: &str) -> bool {
        let is_match =
            |regex: &String| regex::Regex::new(&format!("^(?:{regex})$")).expect("an expression").is_match(text);
        at_most(most).iter().any(is_match)
    }

    #[test]
    fn a_number_is_compared_with_its_limit() {
        for (most, text, fits) in [
            (1, "0", true),
            (1, "1", true),
            (1, "2", false),
            (1, "01", false),
            (9, "9", true),
            (10, "10", true),
            (10, "11", false),
            (10, "09", true),
            (1 << 20, "1048576", true),
            (1 << 20, "1048577", false),
            (1 << 20, "", false),
            (1 << 20, "-1", false),
            (1 << 20, "1, 1", false),
            (u32::MAX, "4294967295", true),
            (u32::MAX, "4294967296", false),
        ] {
            assert_eq!(matches(most, text), fits, "{text:?} of {most}");
        }
    }

    #[test]
    fn an_expression_has_at_most_100_instructions() {
        let limits = crate::re2::Limits { size: 100, steps: 1_000 };
        for most in [1, 9, 1 << 20, 1 << 30, 999_999_999, 888_888_888, 1_073_741_823] {
            for regex in at_most(most) {
                let cost = crate::re2::cost(&regex, limits);
                assert!(cost.is_ok(), "{most}: {cost:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn all_numbers_are_compared_with_their_limit(most in 1..u32::MAX, number: u64, near in -3_i64..4) {
            for number in [number, number >> 32, number >> 48, i64::from(most).saturating_add(near).unsigned_abs()] {
                prop_assert_eq!(matches(most, &number.to_string()), number <= u64::from(most), "{} of {}", number, most);
            }
        }
    }
}
