//! Path rewrites.

use envoy_types::pb::envoy::r#type::matcher::v3 as matcher_v3;

use crate::envoy::wire::regex;
use crate::model::{PathMatch, PathRewrite, RegexRewrite};

/// A path rewrite in Envoy's form.
#[derive(Debug, PartialEq)]
pub enum EnvoyPathRewrite {
    /// Replaces the prefix that the route matched.
    Prefix(String),
    /// Replaces the match of a pattern.
    Regex(matcher_v3::RegexMatchAndSubstitute),
    /// Replaces the path.
    Full(String),
}

impl EnvoyPathRewrite {
    /// Builds the rewrite of paths that `path` matches.
    ///
    /// The result starts with a slash and has no double slashes, even if the matched prefix or its replacement ends
    /// with a slash. Source: Gateway API v1, `HTTPPathModifier`.
    pub fn new(path: &PathMatch, rewrite: &PathRewrite) -> Self {
        let prefix = match rewrite {
            PathRewrite::Prefix(prefix) => prefix.as_str(),
            PathRewrite::Full(full) => return Self::Full(or_root(full.as_str())),
            PathRewrite::Regex(rewrite) => {
                let RegexRewrite { pattern, substitution } = &**rewrite;
                return Self::Regex(matcher_v3::RegexMatchAndSubstitute {
                    pattern: Some(regex(pattern.to_string())),
                    substitution: substitution.to_string(),
                });
            }
        };
        let elements = prefix.trim_end_matches('/');
        match path {
            PathMatch::SeparatedPrefix(matched) if elements.is_empty() => {
                Self::Regex(substitute(format!("^{}/*", escape(matched)), "/"))
            }
            PathMatch::SeparatedPrefix(_) => Self::Prefix(elements.to_owned()),
            // The matched slash is the first character of each path.
            PathMatch::Prefix(matched) if **matched == *"/" => Self::Prefix(format!("{elements}/")),
            PathMatch::Prefix(_) => Self::Prefix(or_root(prefix)),
            PathMatch::Exact(_) | PathMatch::Regex(_) => Self::Full(or_root(prefix)),
        }
    }

    /// Returns the rewrite as a pattern. Envoy cannot replace the complete path of forwarded requests in another way.
    pub fn full_by_regex(full: &str) -> matcher_v3::RegexMatchAndSubstitute {
        substitute("^.*$".to_owned(), full)
    }
}

/// Builds the host that is made of the path.
pub fn host_by_path(rewrite: &RegexRewrite) -> matcher_v3::RegexMatchAndSubstitute {
    let pattern = Some(regex(rewrite.for_any_path()));
    matcher_v3::RegexMatchAndSubstitute { pattern, substitution: rewrite.substitution.to_string() }
}

/// Returns `path`, or `/` if it is empty: Envoy treats an empty path as no rewrite.
fn or_root(path: &str) -> String {
    if path.is_empty() { "/".to_owned() } else { path.to_owned() }
}

/// Builds a substitution of the match of `pattern` by `text`, in which a backslash has no special meaning.
fn substitute(pattern: String, text: &str) -> matcher_v3::RegexMatchAndSubstitute {
    matcher_v3::RegexMatchAndSubstitute { pattern: Some(regex(pattern)), substitution: text.replace('\\', r"\\") }
}

/// Returns an RE2 pattern that matches only `text`.
fn escape(text: &str) -> String {
    let special = |one: char| one.is_ascii() && !one.is_ascii_alphanumeric() && one != '/' && one != '_';
    let mut escaped = String::with_capacity(text.len());
    for one in text.chars() {
        if special(one) {
            escaped.push('\\');
        }
        escaped.push(one);
    }
    escaped
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::model::HeaderValue;

    /// Returns the path that Envoy forwards for `request`.
    fn rewritten(path: &PathMatch, prefix: &str, request: &str) -> String {
        let matched = match path {
            PathMatch::SeparatedPrefix(text) | PathMatch::Prefix(text) => &**text,
            PathMatch::Exact(_) | PathMatch::Regex(_) => request,
        };
        match EnvoyPathRewrite::new(path, &PathRewrite::Prefix(HeaderValue::parse(prefix).unwrap())) {
            EnvoyPathRewrite::Prefix(prefix) => request.replacen(matched, &prefix, 1),
            EnvoyPathRewrite::Full(full) => full,
            EnvoyPathRewrite::Regex(change) => {
                let pattern = regex::Regex::new(&change.pattern.unwrap().regex).unwrap();
                pattern.replace(request, change.substitution).into_owned()
            }
        }
    }

    #[test]
    fn a_replaced_prefix_leaves_complete_elements() {
        let foo = PathMatch::SeparatedPrefix("/foo".into());
        // Source: the table of Gateway API v1, `HTTPPathModifier.replacePrefixMatch`.
        for (request, prefix, expected) in [
            ("/foo/bar", "/xyz", "/xyz/bar"),
            ("/foo/bar", "/xyz/", "/xyz/bar"),
            ("/foo", "/xyz", "/xyz"),
            ("/foo/", "/xyz", "/xyz/"),
            ("/foo/bar", "", "/bar"),
            ("/foo/", "", "/"),
            ("/foo", "", "/"),
            ("/foo/", "/", "/"),
            ("/foo", "/", "/"),
        ] {
            assert_eq!(rewritten(&foo, prefix, request), expected, "{request} {prefix:?}");
        }
        assert_eq!(rewritten(&PathMatch::SeparatedPrefix("/a.b".into()), "/", "/a.b/c"), "/c");
        assert_eq!(rewritten(&PathMatch::root(), "/xyz", "/a"), "/xyz/a");
        assert_eq!(rewritten(&PathMatch::root(), "/", "/a"), "/a");
        assert_eq!(rewritten(&PathMatch::Prefix("/foo".into()), "/xyz", "/foobar"), "/xyzbar");
        assert_eq!(rewritten(&PathMatch::Prefix("/foo/".into()), "", "/foo/bar"), "/bar");
        assert_eq!(rewritten(&PathMatch::Exact("/foo".into()), "/xyz", "/foo"), "/xyz");
    }

    #[test]
    fn patterns_match_only_the_text() {
        assert_eq!(escape("/a.b(c)_é"), r"/a\.b\(c\)_é");
        assert_eq!(EnvoyPathRewrite::full_by_regex(r"/a\1").substitution, r"/a\\1");
    }
}
