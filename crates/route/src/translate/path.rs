//! Paths of Ingress rules: the match of each path type, and the order of routes.

use std::cmp::Reverse;

use crate::model::PathMatch;
use crate::re2::{Cost, Rejection};

use super::order::{PathClass, PathRank};
use super::patterns::Patterns;
use super::problem::Reason;

/// A parsed path of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsedPath {
    /// The match.
    pub path: PathMatch,
    /// The cost, if the path is a regular expression.
    pub cost: Cost,
    /// A warning for the owner. The path is still served as `path`.
    pub doubt: Option<Doubt>,
}

/// A warning about a path that is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Doubt {
    /// The fact, for a message that quotes the path.
    pub message: &'static str,
    /// The consequence.
    pub consequence: &'static str,
}

/// The reason why a path cannot be served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathFault {
    /// The stable reason.
    pub reason: Reason,
    /// The fault, for a message that quotes the path.
    pub message: String,
}

impl From<String> for PathFault {
    fn from(message: String) -> Self {
        Self { reason: Reason::PathMatchConditionsNotValid, message }
    }
}

/// Parses `path` and `pathType` of a rule. Source: Ingress v1 "Path types" and its validation.
pub fn parse(path_type: &str, path: &str, patterns: &mut Patterns) -> Result<ParsedPath, PathFault> {
    let matcher: fn(&str, &mut Patterns) -> Result<ParsedPath, PathFault> = match path_type {
        "Exact" => |path, _| Ok(exact(path)?),
        "Prefix" => |path, _| Ok(prefix(path)?),
        "ImplementationSpecific" | "" => implementation_specific,
        other => return Err(format!("has the unknown path type {other:?}").into()),
    };
    match path {
        // In the API, the path is optional for this type only.
        "" if matches!(path_type, "ImplementationSpecific" | "") => matcher("/", patterns),
        "" => Err("is empty".to_owned().into()),
        path if !path.starts_with('/') => Err("does not start with \"/\"".to_owned().into()),
        path if path.chars().any(char::is_control) => Err("has a control character".to_owned().into()),
        path => matcher(path, patterns),
    }
}

/// Parses an `Exact` path, which matches byte for byte.
fn exact(path: &str) -> Result<ParsedPath, String> {
    check_elements(path)?;
    let doubt = literal(path, "looks like a wildcard or a regular expression, and the type Exact has neither");
    Ok(ParsedPath { doubt, ..certain(PathMatch::Exact(path.into())) })
}

/// Parses a `Prefix` path, which matches complete elements: `/foo` and `/foo/` match `/foo` and `/foo/bar`, but not
/// `/foobar`. `/` alone is a string prefix, because Envoy rejects it as a `path_separated_prefix`.
fn prefix(path: &str) -> Result<ParsedPath, String> {
    check_elements(path)?;
    let message =
        "looks like a wildcard or a regular expression; the type Prefix has neither, and \"/api\" needs no \"/*\"";
    let doubt = literal(path, message);
    let path = match path.trim_end_matches('/') {
        "" => PathMatch::root(),
        elements => PathMatch::SeparatedPrefix(elements.into()),
    };
    Ok(ParsedPath { doubt, ..certain(path) })
}

/// Returns a warning if a path that is compared literally looks like a pattern: `/api/*`, `/foo(/|$)(.*)`.
fn literal(path: &str, message: &'static str) -> Option<Doubt> {
    // Parentheses alone occur in paths such as `/wiki/Foo_(bar)`.
    let is_pattern = path.contains(['*', '|', '[', ']', '^', '\\']) || path.contains("(.");
    is_pattern.then_some(Doubt { message, consequence: "served literally: only requests with these characters match" })
}

/// Parses an `ImplementationSpecific` path: a regular expression if it contains one of `^ + * [ ] %`, otherwise a
/// string prefix. Source: Contour, for users who migrate from it.
fn implementation_specific(path: &str, patterns: &mut Patterns) -> Result<ParsedPath, PathFault> {
    if path.contains(['^', '+', '*', '[', ']', '%']) {
        let cost = patterns.cost(path).map_err(|rejection| match rejection {
            Rejection::Invalid(fault) => format!("is not a regular expression that Envoy accepts: {fault}").into(),
            Rejection::TooExpensive(fault) => {
                let message = format!("is a regular expression that would take Envoy too long: {fault}");
                PathFault { reason: Reason::RegexTooExpensive, message }
            }
        })?;
        return Ok(ParsedPath { cost, ..certain(PathMatch::Regex(path.into())) });
    }
    // A dot does not indicate a regular expression: `/favicon.ico`, `/.well-known/acme-challenge/…`.
    let looks_like_regex = path.contains(['(', ')', '?', '$', '|', '#']);
    Ok(ParsedPath {
        path: PathMatch::Prefix(path.into()),
        cost: Cost::default(),
        doubt: looks_like_regex.then_some(Doubt {
            message: "is not a regular expression without one of \"^+*[]%\"",
            consequence: "served as a string prefix",
        }),
    })
}

fn certain(path: PathMatch) -> ParsedPath {
    ParsedPath { path, cost: Cost::default(), doubt: None }
}

/// Checks an `Exact` or `Prefix` path for elements that the API server rejects, because no normalized request path
/// matches them. Also checks it for characters that are never part of a path. Source: Kubernetes `ValidateIngressSpec`,
/// `invalidPathSequences`, `invalidPathSuffixes`.
fn check_elements(path: &str) -> Result<(), String> {
    let part = ["//", "/./", "/../", "%2f", "%2F", "?", "#"].into_iter().find(|part| path.contains(part));
    let end = ["/..", "/."].into_iter().find(|end| path.ends_with(end));
    match part.or(end) {
        Some(part) => Err(format!("has {part:?}, which no normalized request path has")),
        None => Ok(()),
    }
}

/// Returns the position of a route in its virtual host. Exact paths come first, then regular expressions, then
/// prefixes. Longer paths precede shorter ones. Paths of equal length are in descending order of their text, and
/// complete elements precede a string prefix.
///
/// `foreign` paths belong to namespaces other than the first namespace of the host. Their regular expressions come
/// last, and their exact paths follow the regular expressions of the first namespace. Foreign paths therefore cannot
/// take requests from the paths of the first namespace.
pub fn rank(path: &PathMatch, foreign: bool) -> PathRank<'_> {
    let (class, text) = match path {
        PathMatch::Exact(text) => (if foreign { PathClass::ForeignExact } else { PathClass::Exact }, text),
        PathMatch::Regex(text) => (if foreign { PathClass::ForeignRegex } else { PathClass::Regex }, text),
        PathMatch::SeparatedPrefix(text) | PathMatch::Prefix(text) => (PathClass::Prefix, text),
    };
    let is_string = matches!(path, PathMatch::Prefix(_));
    PathRank { text: Reverse(text), is_string, ..PathRank::new(class, text.len()) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::settings::Regexes;

    fn parse(path_type: &str, text: &str) -> Result<ParsedPath, PathFault> {
        super::parse(path_type, text, &mut Patterns::new(&Regexes::default()))
    }

    fn path(path_type: &str, text: &str) -> PathMatch {
        parse(path_type, text).unwrap().path
    }

    #[test]
    fn regexes_that_are_common_are_within_the_limits_and_explosive_ones_are_not() {
        for text in [
            "/api/v[0-9]+/.*",
            "/foo(/|$)(.*)",
            "/users/[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}/orders/\\d+",
            r"/.*\.(png|jpe?g|gif|css|js|svg|ico|woff2?|ttf|map|html|webp|avif|mp4)$",
            "/([a-z]{2}(-[A-Z]{2})?)/(products|categories|search|about|contact)(/.*)?",
            "/s/[A-Za-z0-9_-]{6,64}",
            "/.*(login|logout|signin|signup).*",
            "/v2/.*/(blobs|manifests|tags)/.*",
            "/(?i:admin)/.*",
        ] {
            assert!(parse("", text).is_ok(), "{text}: {:?}", parse("", text));
        }
        for text in ["/(a|b)*a(a|b){20}", "/.*a.{30}", "/.*(a.{15}|b.{14})", "/[a-z]*x[a-z]{25}/.*", "/.{600}.*"] {
            let fault = parse("", text).unwrap_err();
            assert_eq!(fault.reason, Reason::RegexTooExpensive, "{text}: {}", fault.message);
        }
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
    fn invalid_paths_are_rejected() {
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
    fn a_literal_that_looks_like_a_regex_is_served_with_a_warning() {
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
        paths.sort_by(|a, b| rank(a, false).cmp(&rank(b, false)));
        assert_eq!(paths, sorted);
    }
}
