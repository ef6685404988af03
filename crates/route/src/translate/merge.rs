//! Merges the routes of several objects for one host, independently of their dialects.
//!
//! A dialect offers its candidates in the order of precedence, and defines the order in which routes are tried.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::model::Match;

/// The candidates that won their match. Two candidates conflict if their complete matches are equal.
#[derive(Debug)]
pub struct Merged<'a, C> {
    winners: BTreeMap<&'a Match, C>,
}

impl<C> Default for Merged<'_, C> {
    fn default() -> Self {
        Self { winners: BTreeMap::new() }
    }
}

impl<'a, C> Merged<'a, C> {
    /// Adds `candidate` unless an earlier candidate has the same match. The error is the earlier candidate.
    pub fn offer(&mut self, matches: &'a Match, candidate: C) -> Result<(), &C> {
        match self.winners.entry(matches) {
            Entry::Vacant(entry) => {
                entry.insert(candidate);
                Ok(())
            }
            Entry::Occupied(entry) => Err(entry.into_mut()),
        }
    }

    /// Removes the winner of `matches`.
    pub fn remove(&mut self, matches: &Match) {
        self.winners.remove(matches);
    }

    /// Returns the winners in no particular order.
    pub fn winners(&self) -> impl Iterator<Item = &C> + Clone {
        self.winners.values()
    }

    /// Returns the winners by `rank`, the lowest first. Winners of equal rank are in the order of their matches.
    pub fn in_order<K: Ord>(&self, rank: impl Fn(&'a Match, &C) -> K) -> Vec<&C> {
        let mut ranked: Vec<(K, &C)> = self.winners.iter().map(|(matches, one)| (rank(matches, one), one)).collect();
        ranked.sort_by(|(a, _), (b, _)| a.cmp(b));
        ranked.into_iter().map(|(_, one)| one).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::cmp::Reverse;

    use super::*;
    use crate::model::{Conditions, HeaderMatch, HeaderName, PathMatch, QueryMatch, ValueMatch};

    fn header(name: &str) -> HeaderMatch {
        HeaderMatch {
            name: HeaderName::parse(name).unwrap(),
            value: ValueMatch::exact("1"),
            inverted: false,
            missing_is_empty: false,
        }
    }

    fn matches(path: PathMatch, method: Option<&str>, headers: &[&str], query: &[&str]) -> Match {
        let headers = headers.iter().map(|name| header(name)).collect();
        let query = query.iter().map(|name| QueryMatch { name: (*name).into(), value: Some(ValueMatch::Present) });
        Match::new(path, Conditions { method: method.map(Into::into), headers, query: query.collect(), share: None })
    }

    /// The order of a dialect: path kind, length of the path, method, number of headers, number of query parameters, age of
    /// the object, its name.
    fn dialect_rank<'a>(matches: &Match, (age, name): &(u32, &'a str)) -> impl Ord + use<'a> {
        let (kind, text) = match &matches.path {
            PathMatch::Exact(text) => (0, text),
            PathMatch::SeparatedPrefix(text) | PathMatch::Prefix(text) => (1, text),
            PathMatch::Regex(text) => (2, text),
        };
        let none = Conditions::default();
        let Conditions { method, headers, query, share: _ } = matches.conditions().unwrap_or(&none);
        let specific = (method.is_none(), Reverse(headers.len()), Reverse(query.len()));
        (kind, Reverse(text.len()), specific, *age, *name)
    }

    #[test]
    fn a_dialect_defines_the_order() {
        let prefix = |text: &str| PathMatch::SeparatedPrefix(text.into());
        // The routes are in the expected order. The age and the name of the object decide only between the last two
        // routes.
        let expected = [
            (matches(PathMatch::Exact("/a".into()), None, &[], &[]), (9, "z")),
            (matches(prefix("/a/b"), None, &[], &[]), (8, "y")),
            (matches(prefix("/a"), Some("GET"), &[], &[]), (7, "x")),
            (matches(prefix("/a"), None, &["a", "b"], &[]), (6, "w")),
            (matches(prefix("/a"), None, &["a"], &["q"]), (5, "v")),
            (matches(prefix("/a"), None, &["a"], &[]), (4, "u")),
            (matches(prefix("/a"), None, &[], &["q"]), (1, "t")),
            (matches(prefix("/a"), None, &[], &["p"]), (2, "s")),
            (matches(prefix("/b"), None, &[], &["p"]), (2, "t")),
        ];
        let mut merged = Merged::default();
        for (matches, object) in expected.iter().rev() {
            merged.offer(matches, *object).unwrap();
        }
        let order: Vec<_> = merged.in_order(dialect_rank).into_iter().copied().collect();
        assert_eq!(order, expected.map(|(_, object)| object));
    }

    #[test]
    fn only_equal_matches_conflict() {
        let root = PathMatch::root;
        let (plain, get) = (matches(root(), None, &[], &[]), matches(root(), Some("GET"), &[], &[]));
        let (ab, ba) = (matches(root(), None, &["a", "b"], &[]), matches(root(), None, &["b", "a"], &[]));
        let mut merged = Merged::default();
        for (matches, candidate) in [(&plain, 1), (&get, 2), (&ab, 3)] {
            assert_eq!(merged.offer(matches, candidate), Ok(()));
        }
        assert_eq!(merged.offer(&ba, 4), Err(&3), "the order of conditions has no effect");
        let again = plain.clone();
        assert_eq!(merged.offer(&again, 5), Err(&1));
        merged.remove(&get);
        assert_eq!(merged.offer(&get, 6), Ok(()));
        assert!(merged.winners().copied().eq(merged.in_order(|_, _| ()).into_iter().copied()));
    }
}
