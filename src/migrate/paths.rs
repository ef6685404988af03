//! Paths of Ingresses and HTTPProxies as matches of HTTPRoutes.
//!
//! In Lockgate, a path of type `ImplementationSpecific`, and a prefix of an HTTPProxy, is a prefix of characters, which Gateway API does
//! not have. Such a path becomes a regular expression. Regular expressions precede prefixes, and longer expressions precede shorter ones. Each longer
//! prefix that the expression would hide therefore becomes a regular expression, too.

use lockgate_route::model::PathMatch;
use lockgate_route::re2;

/// The longest value of a path in an HTTPRoute. Source: Gateway API v1, `HTTPPathMatch.value`.
const LONGEST: usize = 1024;

/// The condition of an HTTPRoute on a path.
#[derive(Debug, Clone)]
pub struct PathCondition {
    /// The type.
    pub kind: Kind,
    /// The value.
    pub value: String,
    /// The characters with which all matched paths begin, which follow from the type and the value.
    start: String,
}

impl PartialEq for PathCondition {
    fn eq(&self, other: &Self) -> bool {
        (self.kind, &self.value) == (other.kind, &other.value)
    }
}

/// The type of a condition, in the order in which conditions are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The whole path.
    Exact,
    /// RE2 for the whole path.
    RegularExpression,
    /// Whole elements.
    PathPrefix,
}

impl Kind {
    /// Returns the name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "Exact",
            Self::RegularExpression => "RegularExpression",
            Self::PathPrefix => "PathPrefix",
        }
    }
}

impl PathCondition {
    /// The condition that every path meets.
    pub fn everything() -> Self {
        Self { kind: Kind::PathPrefix, value: "/".to_owned(), start: String::new() }
    }

    /// Returns whether the API server accepts it.
    pub fn is_valid(&self) -> bool {
        self.value.len() <= LONGEST
    }

    /// Returns whether a path may meet both conditions. They are compared by the beginnings of the paths.
    pub fn may_overlap(&self, other: &Self) -> bool {
        self.start.starts_with(&other.start) || other.start.starts_with(&self.start)
    }

    /// Returns whether it precedes `other` although it should follow, or whether their order is undefined.
    pub fn overtakes(&self, other: &Self, are_in_order: bool) -> bool {
        let is_regex = |one: &Self| one.kind == Kind::RegularExpression;
        if !is_regex(self) && !is_regex(other) {
            return false;
        }
        let rank = |one: &Self| (one.kind, usize::MAX - one.value.len());
        let is_before = rank(self) < rank(other) || rank(self) == rank(other) && !are_in_order;
        is_before && self.may_overlap(other)
    }
}

/// Returns the paths of a host with whole elements instead of characters where `is_forced`, and for every shorter prefix that would
/// otherwise become a regular expression and precede it.
pub fn with_elements(paths: &[&PathMatch], is_forced: &[bool]) -> Vec<PathMatch> {
    let texts = paths.iter().zip(is_forced).filter(|(_, is_forced)| **is_forced);
    let forced: Vec<&str> = texts.filter_map(|(path, _)| string_prefix(path)).collect();
    let is_hiding = |text: &str| forced.iter().any(|other| other.trim_end_matches('/').starts_with(text));
    let of_elements = |path: &&PathMatch| match path {
        PathMatch::Prefix(text) if **text != *"/" && (forced.contains(&&**text) || is_hiding(text)) => {
            match text.trim_end_matches('/') {
                "" => PathMatch::root(),
                elements => PathMatch::SeparatedPrefix(elements.into()),
            }
        }
        other => (*other).clone(),
    };
    paths.iter().map(of_elements).collect()
}

/// Returns the conditions of all paths of a host, which are in the order in which they are tried.
pub fn conditions(paths: &[&PathMatch]) -> Vec<PathCondition> {
    let strings: Vec<&str> = paths.iter().filter_map(|path| string_prefix(path)).collect();
    let hides = |prefix: &&str, path: &str| path.len() >= prefix.len() && path.starts_with(*prefix);
    let is_hidden = |path: &str| strings.iter().any(|prefix| hides(prefix, path));
    let elements = |path: &&PathMatch| matches!(path, PathMatch::SeparatedPrefix(text) if is_hidden(text));
    // All expressions of prefixes have the same number of characters more than their text, so that longer texts come first.
    let padded = paths.iter().any(elements);
    paths.iter().map(|path| condition(path, &is_hidden, padded, paths)).collect()
}

/// Returns the text of a prefix that can only be written as a regular expression.
fn string_prefix(path: &PathMatch) -> Option<&str> {
    match path {
        PathMatch::Prefix(text) if **text != *"/" => Some(text),
        PathMatch::SeparatedPrefix(text) if !is_plain(text) => Some(text),
        _ => None,
    }
}

fn condition(path: &PathMatch, is_hidden: &dyn Fn(&str) -> bool, padded: bool, all: &[&PathMatch]) -> PathCondition {
    let start = match path {
        PathMatch::Regex(text) => re2::elements(text).to_owned(),
        PathMatch::Exact(text) | PathMatch::SeparatedPrefix(text) | PathMatch::Prefix(text) => {
            text.trim_end_matches('/').to_owned()
        }
    };
    let of = |kind: Kind, value: String| PathCondition { kind, value, start: start.clone() };
    let regex = |value: String| of(Kind::RegularExpression, value);
    let escape = regex_escape;
    match path {
        PathMatch::Exact(text) if is_plain(text) => of(Kind::Exact, text.to_string()),
        PathMatch::Exact(text) => regex(escape(text)),
        PathMatch::Regex(text) => regex(text.to_string()),
        PathMatch::SeparatedPrefix(text) if is_hidden(text) => regex(format!("{}(/.*)?", escape(text))),
        PathMatch::SeparatedPrefix(text) => of(Kind::PathPrefix, text.to_string()),
        PathMatch::Prefix(text) if **text == *"/" => PathCondition::everything(),
        PathMatch::Prefix(text) => {
            let has_elements = all.iter().any(|other| matches!(other, PathMatch::SeparatedPrefix(one) if one == text));
            regex(match (has_elements, padded) {
                (true, _) => format!("{}[^/].*", escape(text)),
                (false, true) => format!("{}(?:.*)", escape(text)),
                (false, false) => format!("{}.*", escape(text)),
            })
        }
    }
}

/// Returns whether a path of type `Exact` or `PathPrefix` may have this value. Source: the validation of Gateway API v1,
/// `HTTPPathMatch`.
fn is_plain(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-/._~!$&'()*+,;=:@%".contains(&byte);
    let is_escaped =
        |at: usize| text.as_bytes().get(at + 1..at + 3).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit));
    let forbidden = ["//", "/./", "/../", "%2f", "%2F"].iter().any(|part| text.contains(part));
    let ends = ["/..", "/."].iter().any(|end| text.ends_with(end));
    let escapes = text.bytes().enumerate().filter(|(_, byte)| *byte == b'%').all(|(at, _)| is_escaped(at));
    text.bytes().all(is_allowed) && escapes && !forbidden && !ends && text.len() <= LONGEST
}

/// Returns a regular expression that matches `text` alone.
pub fn regex_escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if r"\.+*?()|[]{}^$".contains(c) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(paths: &[PathMatch]) -> Vec<String> {
        let paths: Vec<&PathMatch> = paths.iter().collect();
        conditions(&paths).into_iter().map(|one| format!("{} {}", one.kind.as_str(), one.value)).collect()
    }

    fn elements(text: &str) -> PathMatch {
        PathMatch::SeparatedPrefix(text.into())
    }

    fn string(text: &str) -> PathMatch {
        PathMatch::Prefix(text.into())
    }

    #[test]
    fn whole_elements_and_exact_paths_stay() {
        let paths = [PathMatch::Exact("/a/".into()), elements("/a.b"), string("/")];
        assert_eq!(written(&paths), ["Exact /a/", "PathPrefix /a.b", "PathPrefix /"]);
    }

    #[test]
    fn a_string_prefix_becomes_a_regular_expression() {
        assert_eq!(written(&[string("/a.b")]), [r"RegularExpression /a\.b.*"]);
        assert_eq!(written(&[PathMatch::Regex("/v[0-9]".into())]), ["RegularExpression /v[0-9]"]);
        assert_eq!(written(&[PathMatch::Exact("/a b".into())]), ["RegularExpression /a b"]);
    }

    #[test]
    fn prefixes_that_it_would_hide_become_longer_regular_expressions() {
        let paths = [string("/a/b/"), elements("/a/b"), elements("/ab"), elements("/b"), string("/a")];
        let expected = ["/a/b/(?:.*)", "/a/b(/.*)?", "/ab(/.*)?", "", "/a(?:.*)"];
        let now = written(&paths);
        assert_eq!(now[3], "PathPrefix /b");
        for (at, expected) in expected.iter().enumerate().filter(|(_, expected)| !expected.is_empty()) {
            assert_eq!(now[at], format!("RegularExpression {expected}"));
        }
        let lengths: Vec<usize> = [0, 1, 2, 4].map(|at| now[at].len()).into();
        assert!(lengths.is_sorted_by(|one, other| one > other), "{now:?}");
    }

    #[test]
    fn a_string_prefix_beside_the_same_elements_takes_the_rest() {
        assert_eq!(written(&[elements("/a"), string("/a")])[1], "RegularExpression /a[^/].*");
    }

    #[test]
    fn prefixes_before_a_prefix_of_elements_become_elements() {
        let paths = [string("/foo/"), string("/f"), string("/bar"), string("/")];
        let paths: Vec<&PathMatch> = paths.iter().collect();
        let forced = with_elements(&paths, &[true, false, false, false]);
        assert_eq!(forced, [elements("/foo"), elements("/f"), string("/bar"), string("/")]);
    }

    #[test]
    fn an_expression_that_is_tried_too_early_is_found() {
        let all = [PathMatch::Regex("/a/.".into()), string("/a/bcd")];
        let all: Vec<&PathMatch> = all.iter().collect();
        let written = conditions(&all);
        assert!(written[1].overtakes(&written[0], true));
        assert!(!written[0].overtakes(&written[1], true));
        let other = [PathMatch::Regex("/b/.".into()), string("/a/bcd")];
        let other = conditions(&other.iter().collect::<Vec<_>>());
        assert!(!other[1].overtakes(&other[0], true));
    }
}
