//! A real Envoy accepts all paths and regular expressions that pass the checks.

use std::collections::BTreeMap;

use lockgate_xds::provenance::ObjectRef;

use crate::model::{Action, Host, ListenerId, PathMatch, Route, VirtualHostRoutes};
use crate::settings::Settings;
use crate::testing::envoy::{standalone, validate};
use crate::translate::path;
use crate::translate::patterns::Patterns;

/// The parts of patterns: each construct of either grammar, and its context.
const TOKENS: &[&str] = &[
    "a",
    "b",
    "0",
    "/",
    "-",
    "_",
    " ",
    ".",
    "*",
    "+",
    "?",
    "*?",
    "+?",
    "??",
    "|",
    "(",
    ")",
    "(?:",
    "(?i)",
    "(?i:",
    "(?s)",
    "(?U)",
    "(?m)",
    "(?x)",
    "(?u)",
    "(?-u)",
    "(?-i)",
    "(?P<n>",
    "(?<n>",
    "(?=",
    "(?!",
    "[",
    "]",
    "[^",
    "[a-z]",
    "[^/]",
    "[]a]",
    "[[:alpha:]]",
    "[[:^alpha:]]",
    "[[:word:]]",
    "[[:foo:]]",
    "[a&&b]",
    "[a--b]",
    "[a-b-c]",
    "[\\d-z]",
    "&&",
    "--",
    "~~",
    "^",
    "$",
    "\\A",
    "\\z",
    "\\b",
    "\\B",
    "\\<",
    "\\d",
    "\\W",
    "\\s",
    "\\pL",
    "\\PN",
    "\\p{Greek}",
    "\\p{^Greek}",
    "\\p{greek}",
    "\\x41",
    "\\x{1F600}",
    "\\u0041",
    "\\.",
    "\\_",
    "\\Q",
    "{2}",
    "{2,}",
    "{0,1000}",
];

/// Returns accepted random paths of each type, equal in each run.
fn accepted(count: usize) -> Vec<PathMatch> {
    let mut random: u64 = 7;
    let mut next = move |below: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % below
    };
    let mut paths = Vec::new();
    while paths.len() < count {
        let mut text = "/".to_owned();
        for _ in 0..=next(7) {
            text.push_str(TOKENS[next(TOKENS.len())]);
        }
        let path_type = ["Exact", "Prefix", "ImplementationSpecific"][next(3)];
        paths.extend(
            path::parse(path_type, &text, &mut Patterns::new(&Settings::default().regexes)).map(|parsed| parsed.path),
        );
    }
    paths
}

#[test]
fn a_real_envoy_accepts_all_paths_that_pass_the_checks() {
    let paths = accepted(3000);
    let route = |path| Route::new(path, Action::respond(404), ObjectRef::new("Ingress", "shop", "i"));
    let host = VirtualHostRoutes::new(paths.into_iter().map(route));
    let routes = crate::envoy::route::http_routes(
        &ListenerId::new(ListenerId::HTTP),
        &BTreeMap::from([(Host::Any, host)]),
        &Settings::default(),
    );
    validate(&standalone(&[routes], &Settings::default())).unwrap();
}
