//! The conditions of a route on requests.

use std::sync::Arc;

use super::{HeaderName, Share};

/// The condition on the requests of a route. Two routes of one host with equal matches conflict.
///
/// A match with only a path needs no memory for other conditions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Match {
    /// The condition on the path.
    pub path: PathMatch,
    /// Sorted; absent without conditions, so that equal conditions are equal values.
    conditions: Option<Box<Conditions>>,
}

/// The conditions of a [`Match`] in addition to its path. A request must meet all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Conditions {
    /// The method, such as `GET`. `None`: any method.
    pub method: Option<Arc<str>>,
    /// Conditions on headers.
    pub headers: Vec<HeaderMatch>,
    /// Conditions on query parameters.
    pub query: Vec<QueryMatch>,
    /// The share of the requests that match, chosen at random; `None` is all.
    pub share: Option<Share>,
}

/// A condition on the path. `translate` determines the order of routes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PathMatch {
    /// The whole path, byte for byte.
    Exact(Arc<str>),
    /// RE2, matched against the whole path.
    Regex(Arc<str>),
    /// Complete path elements. The text has no trailing slash, and is neither empty nor `/`, which is `Prefix("/")`.
    SeparatedPrefix(Arc<str>),
    /// A string prefix.
    Prefix(Arc<str>),
}

/// A condition on a header.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HeaderMatch {
    /// The name of the header.
    pub name: HeaderName,
    /// The condition on its value.
    pub value: ValueMatch,
    /// Whether the condition must not hold. A request without the header meets an inverted [`ValueMatch::Present`] and no
    /// other inverted condition, unless `missing_is_empty`.
    pub inverted: bool,
    /// Whether a request without the header is treated like one with an empty value. Not with [`ValueMatch::Present`].
    pub missing_is_empty: bool,
}

/// A condition on a query parameter.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueryMatch {
    /// The name of the parameter, at most 1024 bytes.
    pub name: Arc<str>,
    /// The condition on its first value; `None` if the parameter must be absent. Envoy inverts no other condition.
    pub value: Option<ValueMatch>,
}

/// A condition on a value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ValueMatch {
    /// Any value, also an empty one.
    Present,
    /// A text at one place of the value.
    Text {
        /// Where the text is.
        part: ValuePart,
        /// The text. Empty only as a whole value.
        text: Arc<str>,
        /// Whether ASCII letters of both cases are equal. Otherwise, the text is compared byte for byte.
        ignores_case: bool,
    },
    /// RE2, matched against the whole value.
    Regex(Arc<str>),
}

/// A part of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ValuePart {
    /// The whole value.
    Whole,
    /// Its beginning.
    Start,
    /// Its end.
    End,
}

impl ValueMatch {
    /// Returns the condition that a value is this text.
    pub fn exact(text: &str) -> Self {
        Self::Text { part: ValuePart::Whole, text: text.into(), ignores_case: false }
    }

    /// Returns whether the condition is one text, byte for byte, so that no other value meets it.
    pub fn is_exact(&self) -> bool {
        matches!(self, Self::Text { part: ValuePart::Whole, ignores_case: false, .. })
    }
}

impl Match {
    /// Returns the match by `path` and `conditions`, whose order has no effect.
    pub fn new(path: PathMatch, mut conditions: Conditions) -> Self {
        conditions.headers.sort();
        conditions.headers.dedup();
        conditions.query.sort();
        conditions.query.dedup();
        let conditions = (conditions != Conditions::default()).then(|| Box::new(conditions));
        Self { path, conditions }
    }

    /// Returns the match of a random share of the requests.
    pub fn with_share(self, share: Share) -> Self {
        let conditions = self.conditions.map(|conditions| *conditions).unwrap_or_default();
        Self { path: self.path, conditions: Some(Box::new(Conditions { share: Some(share), ..conditions })) }
    }

    /// Returns the conditions in addition to the path, if there are any.
    pub fn conditions(&self) -> Option<&Conditions> {
        self.conditions.as_deref()
    }

    /// Returns whether all requests match.
    pub fn is_everything(&self) -> bool {
        self.conditions.is_none() && matches!(&self.path, PathMatch::Prefix(text) if **text == *"/")
    }
}

/// Returns a match with only a path.
impl From<PathMatch> for Match {
    fn from(path: PathMatch) -> Self {
        Self { path, conditions: None }
    }
}

impl PathMatch {
    /// Returns the match of every path.
    pub fn root() -> Self {
        Self::Prefix("/".into())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn header(name: &str) -> HeaderMatch {
        HeaderMatch {
            name: HeaderName::parse(name).unwrap(),
            value: ValueMatch::Present,
            inverted: false,
            missing_is_empty: false,
        }
    }

    #[test]
    fn equal_conditions_are_equal_matches_in_any_order() {
        let of = |headers: &[&str]| {
            let headers = headers.iter().map(|name| header(name)).collect();
            Match::new(PathMatch::root(), Conditions { headers, ..Conditions::default() })
        };
        assert_eq!(of(&["a", "b"]), of(&["b", "A", "b"]));
        assert_ne!(of(&["a", "b"]), of(&["a"]));
        assert_eq!(of(&[]), PathMatch::root().into());
        assert!(of(&[]).is_everything() && !of(&["a"]).is_everything());
    }

    #[test]
    fn conditions_are_one_pointer_in_a_match_by_path() {
        assert_eq!(size_of::<Match>(), size_of::<PathMatch>() + size_of::<usize>());
        assert!(Match::from(PathMatch::root()).conditions().is_none());
    }
}
