//! Paths of Ingress rules: what each path type matches, and the order in which routes are tried.

use std::cmp::{Ordering, Reverse};

use crate::model::PathMatch;

use crate::re2;

/// A path as the rule means it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parsed {
    /// What it matches.
    pub path: PathMatch,
    /// A doubt that its owner should read; the path is served as `path` all the same.
    pub doubt: Option<&'static str>,
}

/// The match of a rule's `path` and `pathType`.
/// Errors: what is wrong with it, for a message that quotes it. Source: Ingress v1 "Path types" and its validation.
pub fn parse(path_type: &str, path: &str) -> Result<Parsed, String> {
    let matcher: fn(&str) -> Result<Parsed, String> = match path_type {
        "Exact" => exact,
        "Prefix" => prefix,
        "ImplementationSpecific" | "" => implementation_specific,
        other => return Err(format!("has the unknown path type {other:?}")),
    };
    match path {
        // Optional in the API for this type alone.
        "" if matches!(path_type, "ImplementationSpecific" | "") => matcher("/"),
        "" => Err("is empty".to_owned()),
        path if !path.starts_with('/') => Err("does not start with \"/\"".to_owned()),
        path if path.chars().any(char::is_control) => Err("has a control character".to_owned()),
        path => matcher(path),
    }
}

/// `Exact`: byte for byte.
fn exact(path: &str) -> Result<Parsed, String> {
    check_elements(path)?;
    Ok(certain(PathMatch::Exact(path.to_owned())))
}

/// `Prefix`: whole elements, so `/foo` and `/foo/` take `/foo` and `/foo/bar` and not `/foobar`.
/// `/` alone is a string prefix, for Envoy refuses it as a `path_separated_prefix`.
fn prefix(path: &str) -> Result<Parsed, String> {
    check_elements(path)?;
    Ok(certain(match path.trim_end_matches('/') {
        "" => PathMatch::Prefix("/".to_owned()),
        elements => PathMatch::SeparatedPrefix(elements.to_owned()),
    }))
}

/// `ImplementationSpecific`: a regular expression if it holds one of `^ + * [ ] %`, else a string prefix.
/// Source: Contour, whose users this type serves.
fn implementation_specific(path: &str) -> Result<Parsed, String> {
    if path.contains(['^', '+', '*', '[', ']', '%']) {
        re2::check(path).map_err(|fault| format!("is not a regular expression that Envoy takes: {fault}"))?;
        return Ok(certain(PathMatch::Regex(path.to_owned())));
    }
    // A point alone says nothing: `/favicon.ico`, `/.well-known/acme-challenge/…`.
    let looks_like_regex = path.contains(['(', ')', '?', '$', '|', '#']);
    Ok(Parsed {
        path: PathMatch::Prefix(path.to_owned()),
        doubt: looks_like_regex.then_some("is no regular expression without one of \"^+*[]%\""),
    })
}

fn certain(path: PathMatch) -> Parsed {
    Parsed { path, doubt: None }
}

/// What the API server refuses in `Exact` and `Prefix` paths, for no normalised request path can match it, and what
/// is never part of a path. Source: Kubernetes `ValidateIngressSpec`, `invalidPathSequences`, `invalidPathSuffixes`.
fn check_elements(path: &str) -> Result<(), String> {
    let part = ["//", "/./", "/../", "%2f", "%2F", "?", "#"].into_iter().find(|part| path.contains(part));
    let end = ["/..", "/."].into_iter().find(|end| path.ends_with(end));
    match part.or(end) {
        Some(part) => Err(format!("has {part:?}, which no request path that Envoy matches has")),
        None => Ok(()),
    }
}

/// The order in which the routes of one virtual host are tried: exact, regular expression, prefix; the longer first;
/// of equal length by text, descending; whole elements before a string prefix.
pub fn order(a: &PathMatch, b: &PathMatch) -> Ordering {
    rank(a).cmp(&rank(b))
}

/// The sort key of [`order`].
fn rank(path: &PathMatch) -> (u8, Reverse<usize>, Reverse<&str>, u8) {
    match path {
        PathMatch::Exact(text) => (0, Reverse(text.len()), Reverse(text), 0),
        PathMatch::Regex(text) => (1, Reverse(text.len()), Reverse(text), 0),
        PathMatch::SeparatedPrefix(text) => (2, Reverse(text.len()), Reverse(text), 0),
        PathMatch::Prefix(text) => (2, Reverse(text.len()), Reverse(text), 1),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn path(path_type: &str, text: &str) -> PathMatch {
        parse(path_type, text).unwrap().path
    }

    #[test]
    fn each_type_matches_what_the_api_says() {
        assert_eq!(path("Exact", "/foo/"), PathMatch::Exact("/foo/".into()));
        assert_eq!(path("Prefix", "/aaa/bbb/"), PathMatch::SeparatedPrefix("/aaa/bbb".into()));
        assert_eq!(path("Prefix", "/"), PathMatch::Prefix("/".into()));
        assert_eq!(path("ImplementationSpecific", ""), PathMatch::Prefix("/".into()));
        assert_eq!(path("", "/foo"), PathMatch::Prefix("/foo".into()));
        assert_eq!(path("ImplementationSpecific", "/v[0-9]+/.*"), PathMatch::Regex("/v[0-9]+/.*".into()));
    }

    #[test]
    fn what_is_not_a_path_is_refused() {
        for (path_type, text) in [
            ("Exact", ""),
            ("Prefix", ""),
            ("Prefix", "foo"),
            ("Exact", "*"),
            ("ImplementationSpecific", "foo"),
            ("Prefix", "/a?b"),
            ("Prefix", "/a#b"),
            ("Prefix", "/a//b"),
            ("Prefix", "//"),
            ("Exact", "/a/../b"),
            ("Exact", "/a/.."),
            ("Exact", "/a%2Fb"),
            ("Regex", "/a"),
            ("Exact", "/a\0"),
            ("ImplementationSpecific", "/a["),
            ("ImplementationSpecific", "/a\n"),
        ] {
            assert!(parse(path_type, text).is_err(), "{path_type} {text:?}");
        }
    }

    #[test]
    fn a_literal_that_looks_like_a_regex_is_served_with_a_doubt() {
        let parsed = parse("ImplementationSpecific", "/a(b)").unwrap();
        assert_eq!(parsed.path, PathMatch::Prefix("/a(b)".into()));
        assert!(parsed.doubt.is_some());
        assert!(parse("ImplementationSpecific", "/favicon.ico").unwrap().doubt.is_none());
    }

    #[test]
    fn exact_then_regex_then_the_longest_prefix() {
        let sorted = [
            path("Exact", "/longer"),
            path("Exact", "/a"),
            path("", "/b.*"),
            path("", "/.*"),
            path("Prefix", "/foo/bar"),
            path("", "/foo/"),
            path("Prefix", "/foo"),
            path("", "/foo"),
            path("Prefix", "/fab"),
            path("Prefix", "/"),
        ];
        let mut paths = sorted.clone();
        paths.reverse();
        paths.sort_by(order);
        assert_eq!(paths, sorted);
    }
}
