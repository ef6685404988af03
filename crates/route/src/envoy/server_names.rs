//! Selects a filter chain by server name (SNI).
//!
//! Envoy converts the name to lower case first. Exact names are in a map. Wildcards are suffixes, the longest first,
//! and match any number of labels, like Envoy's own `server_names`. The routes enforce wildcards of one label.

use std::collections::HashMap;

use envoy_types::pb::envoy::extensions::matching::common_inputs::network::v3 as network_v3;
use envoy_types::pb::google::protobuf as google;
use envoy_types::pb::xds::core::v3 as xds_core_v3;
use envoy_types::pb::xds::r#type::matcher::v3 as matcher_v3;
use matcher_v3::matcher::matcher_list::{FieldMatcher, Predicate, predicate};
use matcher_v3::matcher::{MatcherList, MatcherTree, MatcherType, OnMatch, matcher_tree, on_match};

use super::wire;

/// Server names and their filter chains.
#[derive(Debug, Default)]
pub struct Choice {
    exact: HashMap<String, OnMatch>,
    /// `.example.com`
    suffixes: Vec<(String, OnMatch)>,
}

impl Choice {
    /// Selects `chain` for the server name `name`.
    pub fn exact(&mut self, name: &str, chain: &str) {
        self.exact.insert(name.to_owned(), leads_to(chain));
    }

    /// Selects `chain` for all names below `suffix`, except for names with a more specific match.
    pub fn below(&mut self, suffix: &str, chain: &str) {
        self.suffixes.push((format!(".{suffix}"), leads_to(chain)));
    }

    /// Builds the matcher. Returns `None` without any names, because Envoy rejects an empty matcher.
    pub fn matcher(self) -> Option<matcher_v3::Matcher> {
        let suffixes = (!self.suffixes.is_empty()).then(|| by_suffix(self.suffixes));
        if self.exact.is_empty() {
            return suffixes;
        }
        let tree = MatcherTree {
            input: Some(server_name()),
            tree_type: Some(matcher_tree::TreeType::ExactMatchMap(matcher_tree::MatchMap { map: self.exact })),
        };
        let otherwise = suffixes.map(|suffixes| on_match::OnMatch::Matcher(Box::new(suffixes)));
        Some(matcher_v3::Matcher {
            matcher_type: Some(MatcherType::MatcherTree(tree)),
            on_no_match: otherwise.map(|otherwise| Box::new(on(otherwise))),
        })
    }
}

fn by_suffix(mut suffixes: Vec<(String, OnMatch)>) -> matcher_v3::Matcher {
    suffixes.sort_by(|(one, _), (other, _)| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
    let matchers = suffixes.into_iter().map(|(suffix, leads)| {
        let value = matcher_v3::StringMatcher {
            match_pattern: Some(matcher_v3::string_matcher::MatchPattern::Suffix(suffix)),
            ..Default::default()
        };
        let single = predicate::SinglePredicate {
            input: Some(server_name()),
            matcher: Some(predicate::single_predicate::Matcher::ValueMatch(value)),
        };
        let predicate = Predicate { match_type: Some(predicate::MatchType::SinglePredicate(single)) };
        FieldMatcher { predicate: Some(predicate), on_match: Some(leads) }
    });
    let list = MatcherList { matchers: matchers.collect() };
    matcher_v3::Matcher { matcher_type: Some(MatcherType::MatcherList(list)), on_no_match: None }
}

fn on(then: on_match::OnMatch) -> OnMatch {
    OnMatch { on_match: Some(then), ..Default::default() }
}

fn leads_to(chain: &str) -> OnMatch {
    on(on_match::OnMatch::Action(xds_core_v3::TypedExtensionConfig {
        name: "filter-chain-name".to_owned(),
        typed_config: Some(wire::any(&google::StringValue { value: chain.to_owned() })),
    }))
}

fn server_name() -> xds_core_v3::TypedExtensionConfig {
    xds_core_v3::TypedExtensionConfig {
        name: "envoy.matching.inputs.server_name".to_owned(),
        typed_config: Some(wire::any(&network_v3::ServerNameInput {})),
    }
}
