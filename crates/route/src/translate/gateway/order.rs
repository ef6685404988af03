//! The order in which the routes of one host are tried, across the objects and namespaces that share the host.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::grpc_route::is_method_of_any_service;
use crate::model::{Conditions, Match, PathMatch};
use crate::objects::{Kind, Precedence};
use crate::re2;

/// The sort key of a route. The first fields are its path, then its conditions, its object, and its place in the object.
pub type Rank<'a> = (Path, (bool, Reverse<usize>, Reverse<usize>), &'a Precedence, (u32, u32));

/// The position of a path: its class, its length, its side of prefixes of the same length, and the length of its text.
type Path = (Class, Reverse<usize>, Side, Reverse<usize>);

/// The classes of paths, in their order.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Exact paths.
    Exact,
    /// Regular expressions of the first namespace.
    Regex,
    /// Prefixes, and the regular expressions that rank among them.
    Prefix,
}

/// The rank of a path among the prefixes of the same length.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// Before the prefixes.
    Before,
    /// A prefix.
    Prefix,
    /// After the prefixes.
    After,
}

/// The order of the routes of one host.
///
/// Exact paths come first, then regular expressions, then prefixes, longer before shorter. Among equal paths, a method
/// precedes none, and more headers and more query parameters precede fewer. The age of the object decides next, and the
/// order in the object last. Source: Gateway API v1, `HTTPRouteRule.matches`; the rank of regular expressions is
/// specific to Lockgate.
///
/// Any namespace may attach a route to a shared host. A regular expression of a namespace other than the first is
/// therefore ranked like the prefix of its literal elements. It follows the prefixes of other namespaces with this
/// text. It receives no request that this prefix could not receive.
#[derive(Debug)]
pub struct Order<'a> {
    /// The namespace of the oldest route.
    first: Option<&'a Arc<str>>,
    /// The namespace of each prefix; `None` if several namespaces have it. Empty without a regular expression of a namespace
    /// other than the first.
    prefixes: BTreeMap<&'a str, Option<&'a Arc<str>>>,
}

impl<'a> Order<'a> {
    /// Returns the order of these routes. `first` is the first namespace.
    pub fn new(first: Option<&'a Arc<str>>, routes: impl Iterator<Item = (&'a Match, &'a Precedence)> + Clone) -> Self {
        let mut order = Self { first, prefixes: BTreeMap::new() };
        let is_foreign = |precedence: &Precedence| Some(&precedence.key.namespace) != first;
        let mut regexes = routes.clone().filter(|(matches, _)| matches!(matches.path, PathMatch::Regex(_)));
        // Few hosts have such an expression.
        if !regexes.any(|(_, precedence)| is_foreign(precedence)) {
            return order;
        }
        for (matches, precedence) in routes {
            let (PathMatch::SeparatedPrefix(text) | PathMatch::Prefix(text)) = &matches.path else { continue };
            let namespace = Some(&precedence.key.namespace);
            let owner = order.prefixes.entry(text.trim_end_matches('/')).or_insert(namespace);
            *owner = owner.filter(|owner| Some(*owner) == namespace);
        }
        order
    }

    /// Returns the sort key of a route. `place` is its rule and its match.
    pub fn rank(&self, matches: &Match, precedence: &'a Precedence, place: (u32, u32)) -> Rank<'a> {
        let specific = match matches.conditions() {
            None => (true, Reverse(0), Reverse(0)),
            Some(Conditions { method, headers, query, share: _ }) => {
                (method.is_none(), Reverse(headers.len()), Reverse(query.len()))
            }
        };
        (self.path(&matches.path, precedence), specific, precedence, place)
    }

    fn path(&self, path: &PathMatch, precedence: &Precedence) -> Path {
        let namespace = &precedence.key.namespace;
        match path {
            PathMatch::Exact(text) => (Class::Exact, Reverse(text.len()), Side::Prefix, Reverse(0)),
            PathMatch::SeparatedPrefix(text) | PathMatch::Prefix(text) => {
                (Class::Prefix, Reverse(elements_of(text)), Side::Prefix, Reverse(0))
            }
            // A method without a service precedes only routes without a method and a service. Source: Gateway API v1,
            // `GRPCRouteRule.matches`.
            PathMatch::Regex(text) if precedence.kind == Kind::GRPC_ROUTE && is_method_of_any_service(text) => {
                (Class::Prefix, Reverse(0), Side::Before, Reverse(text.len()))
            }
            PathMatch::Regex(text) if self.first == Some(namespace) => {
                (Class::Regex, Reverse(text.len()), Side::Prefix, Reverse(0))
            }
            PathMatch::Regex(text) => {
                let elements = re2::elements(text);
                let is_own = self.prefixes.get(&*elements).is_none_or(|owner| *owner == Some(namespace));
                let side = if is_own { Side::Before } else { Side::After };
                (Class::Prefix, Reverse(elements.len()), side, Reverse(text.len()))
            }
        }
    }
}

/// Returns the length of a prefix without its trailing slash.
fn elements_of(text: &str) -> usize {
    text.trim_end_matches('/').len()
}
