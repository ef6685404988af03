//! Host names of listeners and routes of Gateway API. In contrast to Ingress, a wildcard matches one or several labels.

use crate::model::Host;

/// Returns whether every name that `host` matches also matches `pattern`.
pub fn covers(pattern: &Host, host: &Host) -> bool {
    match (pattern, host) {
        (Host::Any, _) => true,
        (Host::Exact(one), Host::Exact(other)) => one == other,
        (Host::Wildcard(suffix), Host::Exact(name)) => is_below(name, suffix),
        (Host::Wildcard(suffix), Host::Wildcard(other)) => suffix == other || is_below(other, suffix),
        (Host::Exact(_), Host::Wildcard(_) | Host::Any) | (Host::Wildcard(_), Host::Any) => false,
    }
}

/// Returns the names that match both patterns, as one pattern. Two patterns either have no common name, or one pattern
/// covers the other. Source: Gateway API v1, `HTTPRouteSpec.hostnames`.
pub fn intersect(one: &Host, other: &Host) -> Option<Host> {
    match (covers(one, other), covers(other, one)) {
        (true, _) => Some(other.clone()),
        (false, true) => Some(one.clone()),
        (false, false) => None,
    }
}

/// Returns the position of a pattern among the patterns that match a name. More specific patterns come first.
pub fn specificity(host: &Host) -> (u8, usize) {
    match host {
        Host::Exact(_) => (0, 0),
        Host::Wildcard(suffix) => (1, usize::MAX - suffix.len()),
        Host::Any => (2, 0),
    }
}

fn is_below(name: &str, suffix: &str) -> bool {
    name.strip_suffix(suffix).is_some_and(|labels| labels.len() > 1 && labels.ends_with('.'))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::translate::host::parse;

    #[test]
    fn a_wildcard_matches_one_or_several_labels() {
        for (pattern, host, expected) in [
            ("", "a.test", true),
            ("", "", true),
            ("*.test", "a.test", true),
            ("*.test", "a.b.test", true),
            ("*.test", "test", false),
            ("*.test", "atest", false),
            ("*.test", "*.b.test", true),
            ("*.test", "*.test", true),
            ("*.b.test", "*.test", false),
            ("a.test", "*.test", false),
            ("a.test", "a.test", true),
            ("*.test", "", false),
        ] {
            assert_eq!(covers(&parse(pattern).unwrap(), &parse(host).unwrap()), expected, "{pattern} {host}");
        }
    }

    #[test]
    fn the_intersection_is_the_more_specific_pattern() {
        for (one, other, expected) in [
            ("*.test", "a.test", Some("a.test")),
            ("*.test", "*.b.test", Some("*.b.test")),
            ("", "*.test", Some("*.test")),
            ("a.test", "b.test", None),
            ("*.a.test", "*.b.test", None),
        ] {
            let (one, other) = (parse(one).unwrap(), parse(other).unwrap());
            let expected = expected.map(|text| parse(text).unwrap());
            assert_eq!(intersect(&one, &other), expected);
            assert_eq!(intersect(&other, &one), expected);
        }
    }

    #[test]
    fn specific_patterns_come_first() {
        let sorted = ["a.test", "*.b.test", "*.test", ""].map(|text| parse(text).unwrap());
        assert!(sorted.is_sorted_by_key(specificity));
    }
}
