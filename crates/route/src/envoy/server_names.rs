//! Selects a filter chain by server name (SNI).
//!
//! Envoy converts the name to lower case first. Exact names are in a map, or, with a chain that many names share, in a list of
//! domains: Envoy reads a list in a fifth of the time. Wildcards are suffixes, the longest first, and match any number of
//! labels, like Envoy's own `server_names`. The routes enforce wildcards of one label.

use std::collections::{BTreeMap, HashMap};

use envoy_types::pb::envoy::extensions::matching::common_inputs::network::v3 as network_v3;
use envoy_types::pb::google::protobuf as google;
use envoy_types::pb::xds::core::v3 as xds_core_v3;
use envoy_types::pb::xds::r#type::matcher::v3 as matcher_v3;
use matcher_v3::matcher::matcher_list::{FieldMatcher, Predicate, predicate};
use matcher_v3::matcher::{MatcherList, MatcherTree, MatcherType, OnMatch, matcher_tree, on_match};

use super::wire;

/// The number of names of a chain from which they are a list of domains. Envoy warns about each list, because the list is a
/// work-in-progress message, so small chains do without.
const MANY: usize = 100;

/// Server names and their filter chains.
#[derive(Debug, Default)]
pub struct Choice {
    /// The exact names of each chain.
    exact: BTreeMap<String, Vec<String>>,
    /// `.example.com`
    suffixes: Vec<(String, OnMatch)>,
}

impl Choice {
    /// Selects `chain` for these server names.
    pub fn exact<'a>(&mut self, names: impl IntoIterator<Item = &'a str>, chain: &str) {
        let names = names.into_iter().map(str::to_owned);
        self.exact.entry(chain.to_owned()).or_default().extend(names);
    }

    /// Selects `chain` for all names below `suffix`, except for names with a more specific match.
    pub fn below(&mut self, suffix: &str, chain: &str) {
        self.suffixes.push((format!(".{suffix}"), leads_to(chain)));
    }

    /// Builds the matcher. Returns `None` without any names, because Envoy rejects an empty matcher.
    pub fn matcher(self) -> Option<matcher_v3::Matcher> {
        let (many, few): (BTreeMap<_, _>, BTreeMap<_, _>) =
            self.exact.into_iter().partition(|(_, names)| names.len() >= MANY);
        let suffixes = (!self.suffixes.is_empty()).then(|| by_suffix(self.suffixes));
        let many = (!many.is_empty()).then(|| by_domain(many));
        let few = (!few.is_empty()).then(|| by_name(few));
        [many, few].into_iter().flatten().fold(suffixes, |otherwise, names| Some(tree(names, otherwise)))
    }
}

/// Builds a matcher of the server name, and continues with `otherwise` for other names.
fn tree(names: matcher_tree::TreeType, otherwise: Option<matcher_v3::Matcher>) -> matcher_v3::Matcher {
    let tree = MatcherTree { input: Some(server_name()), tree_type: Some(names) };
    let otherwise = otherwise.map(|otherwise| on(on_match::OnMatch::Matcher(Box::new(otherwise))));
    matcher_v3::Matcher { matcher_type: Some(MatcherType::MatcherTree(tree)), on_no_match: otherwise.map(Box::new) }
}

fn by_name(chains: BTreeMap<String, Vec<String>>) -> matcher_tree::TreeType {
    let leads = |(chain, names): (String, Vec<String>)| names.into_iter().map(move |name| (name, leads_to(&chain)));
    let map: HashMap<_, _> = chains.into_iter().flat_map(leads).collect();
    matcher_tree::TreeType::ExactMatchMap(matcher_tree::MatchMap { map })
}

fn by_domain(chains: BTreeMap<String, Vec<String>>) -> matcher_tree::TreeType {
    let of_chain =
        |(chain, domains): (String, Vec<String>)| DomainMatcher { domains, on_match: Some(leads_to(&chain)) };
    let matcher = ServerNameMatcher { domain_matchers: chains.into_iter().map(of_chain).collect() };
    matcher_tree::TreeType::CustomMatch(xds_core_v3::TypedExtensionConfig {
        name: "envoy.matching.custom_matchers.domain_matcher".to_owned(),
        typed_config: Some(wire::any(&matcher)),
    })
}

/// Lists of domains. Source: xds/type/matcher/v3/domain.proto, which `envoy-types` lacks.
#[derive(Clone, PartialEq, prost::Message)]
struct ServerNameMatcher {
    #[prost(message, repeated, tag = "1")]
    domain_matchers: Vec<DomainMatcher>,
}

impl prost::Name for ServerNameMatcher {
    const PACKAGE: &'static str = "xds.type.matcher.v3";
    const NAME: &'static str = "ServerNameMatcher";

    fn type_url() -> String {
        format!("type.googleapis.com/{}", Self::full_name())
    }
}

/// The domains with one action.
#[derive(Clone, PartialEq, prost::Message)]
struct DomainMatcher {
    #[prost(string, repeated, tag = "1")]
    domains: Vec<String>,
    #[prost(message, optional, tag = "2")]
    on_match: Option<OnMatch>,
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

#[cfg(test)]
mod tests;
