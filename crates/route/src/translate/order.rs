//! The order in which the units for one host are tried, across the objects, kinds, and namespaces that share the host.

use std::cell::OnceCell;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::{Conditions, Match, PathMatch};
use crate::objects::Precedence;

use super::merge::Merged;
use super::rules::Contender;

/// The sort key of a unit: its path, then its conditions, its object, and its place in the object.
///
/// Among equal paths, a method precedes none, and more headers and more query parameters precede fewer. Source: Gateway API v1,
/// `HTTPRouteRule.matches`.
pub type Rank<'a> = (PathRank<'a>, (bool, Reverse<usize>, Reverse<usize>), &'a Precedence, &'a [u32]);

/// The rank of a path. Each dialect defines it, and all dialects share its scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PathRank<'a> {
    /// The class.
    pub class: PathClass,
    /// The length, longer first.
    pub length: Reverse<usize>,
    /// The side of prefixes of the same length.
    pub side: PrefixOrder,
    /// The length of the text of a regular expression among prefixes, longer first.
    pub text_length: Reverse<usize>,
    /// The text, in descending order, if the dialect orders paths of the same length by it.
    pub text: Reverse<&'a str>,
    /// Whether the path is a string prefix, which follows complete elements of the same text.
    pub is_string: bool,
}

/// The classes of paths, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathClass {
    /// Exact paths.
    Exact,
    /// Regular expressions of the first namespace.
    Regex,
    /// Exact paths of other namespaces that must not precede regular expressions of the first.
    ForeignExact,
    /// Prefixes, and the regular expressions that rank among them.
    Prefix,
    /// Regular expressions of other namespaces that must not precede prefixes of the first.
    ForeignRegex,
}

/// The rank of a path among the prefixes of the same length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PrefixOrder {
    /// Before the prefixes.
    Before,
    /// A prefix.
    Prefix,
    /// After the prefixes.
    After,
}

impl PathRank<'_> {
    /// Returns the rank of a path of this class and length.
    pub const fn new(class: PathClass, length: usize) -> Self {
        let (length, side, text_length) = (Reverse(length), PrefixOrder::Prefix, Reverse(0));
        Self { class, length, side, text_length, text: Reverse(""), is_string: false }
    }
}

/// What a dialect may know about the other units of a host to rank a path.
#[derive(Debug)]
pub struct Order<'r, 'a> {
    units: &'r Merged<'a, Contender<'a>>,
    /// Whether a unit belongs to the first namespace.
    has_first: bool,
    /// The namespace of each prefix; `None` if several namespaces have it.
    prefixes: OnceCell<BTreeMap<&'a str, Option<&'a Arc<str>>>>,
}

impl<'r, 'a> Order<'r, 'a> {
    /// Returns the order of these units.
    pub fn new(units: &'r Merged<'a, Contender<'a>>) -> Self {
        let has_first = units.winners().any(|one| !one.is_foreign);
        Self { units, has_first, prefixes: OnceCell::new() }
    }

    /// Returns whether a unit must not take requests from the first namespace of the host.
    pub fn is_behind(&self, one: &Contender) -> bool {
        self.has_first && one.is_foreign
    }

    /// Returns whether no namespace but that of `one` has a prefix with this text.
    pub fn owns_prefix(&self, one: &Contender, text: &str) -> bool {
        let prefixes = self.prefixes.get_or_init(|| {
            let mut prefixes = BTreeMap::new();
            for one in self.units.winners() {
                let (PathMatch::SeparatedPrefix(text) | PathMatch::Prefix(text)) = one.unit.path() else { continue };
                let namespace = Some(one.namespace());
                let owner = prefixes.entry(text.trim_end_matches('/')).or_insert(namespace);
                *owner = owner.filter(|owner| Some(*owner) == namespace);
            }
            prefixes
        });
        prefixes.get(text).is_none_or(|owner| *owner == Some(one.namespace()))
    }

    /// Returns the sort key of a unit with this rank of its path.
    pub fn rank(&self, path: PathRank<'a>, one: &Contender<'a>) -> Rank<'a> {
        (path, specificity(one.unit.matches()), one.precedence, one.unit.field.place())
    }
}

/// Returns the rank of the conditions of a match: a method, the number of headers, and the number of query parameters.
fn specificity(matches: &Match) -> (bool, Reverse<usize>, Reverse<usize>) {
    match matches.conditions() {
        None => (true, Reverse(0), Reverse(0)),
        Some(Conditions { method, headers, query, share: _ }) => {
            (method.is_none(), Reverse(headers.len()), Reverse(query.len()))
        }
    }
}
