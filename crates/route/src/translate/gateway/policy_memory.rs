//! The memory that HTTPPolicies can take in an Envoy, and the limit of policies, filters, and copies of matches for the routes of
//! each namespace.
//!
//! Envoy has a copy of a policy for each match of a route on each host, unless hosts share all their routes. A route of
//! 128 matches and 16 hosts multiplies the policy of a Gateway by 2,048. The memory therefore counts toward the
//! namespace of the route. Older routes take precedence.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::model::{Authorization, ClientAddresses, Jwt, JwtProvider, LocalRateLimit};
use crate::objects::{ObjectId, Precedence};

/// The memory of a feature without its lists and keys. All figures are in bytes, measured with Envoy 1.40 and rounded up.
pub const FEATURE: u64 = 4 << 10;
/// The memory of a limit of bodies.
pub const BODY_LIMIT: u64 = 16 << 10;
/// The memory of a client address that is counted separately.
const ADDRESS: u64 = 700;
/// The memory of a range of client addresses, or of the name of a header.
const ITEM: u64 = 512;
/// The memory of a byte of keys and names. Envoy has the text in its configuration, and the keys that it parses from it.
const TEXT: u64 = 8;

/// Returns the memory of a limit.
pub fn of_local_rate_limit(limit: &LocalRateLimit) -> u64 {
    let addresses = if limit.per_client_address { LocalRateLimit::MAX_ADDRESSES } else { 0 };
    FEATURE + ADDRESS * u64::from(addresses)
}

/// Returns the memory of lists of addresses.
pub fn of_client_addresses(lists: &ClientAddresses) -> u64 {
    let ClientAddresses { allow, deny } = lists;
    FEATURE + ITEM * (allow.len() + deny.len()) as u64
}

/// Returns the memory of the verification of tokens.
pub fn of_jwt(tokens: &Jwt) -> u64 {
    let provider = |JwtProvider { issuer, audiences, jwks }: &JwtProvider| {
        let audiences: usize = audiences.iter().map(|one| one.len()).sum();
        FEATURE + TEXT * (issuer.len() + audiences + jwks.len()) as u64
    };
    tokens.providers.iter().map(provider).sum()
}

/// Returns the memory of external authorization.
pub fn of_authorization(authorization: &Authorization) -> u64 {
    let http = &authorization.check.http;
    let names = http.allowed_request_headers.iter().chain(&http.allowed_upstream_headers);
    FEATURE + ITEM * names.count() as u64
}

/// The memory that a route can take in an Envoy, as far as it counts toward the limit of its namespace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RouteMemory {
    /// The memory of its matches that is not proportional to the size of the route: on all hosts and listeners but one, and of
    /// repeated actions.
    pub copies: u64,
    /// The memory of its policies and large filters on all hosts and listeners.
    pub features: u64,
}

/// The part of a route that is beyond the limit of its namespace, with its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The policies and filters, but not the matches.
    Features(u64),
    /// The route as a whole. It is left out, because matches that are answered with an error take as much memory.
    Route(u64),
}

/// The memory that all routes can take, and the routes beyond the limit of their namespace.
#[derive(Debug, Default)]
pub struct Budget {
    ranks: BTreeMap<ObjectId, Precedence>,
    namespaces: BTreeMap<Arc<str>, Namespace>,
}

/// The routes of a namespace that have policies, large filters, or copies.
#[derive(Debug, Default)]
struct Namespace {
    /// The memory of each route.
    routes: BTreeMap<Precedence, RouteMemory>,
    total: u128,
    /// The routes beyond the limit.
    refused: BTreeMap<Precedence, Refused>,
}

impl RouteMemory {
    fn total(self) -> u128 {
        u128::from(self.copies) + u128::from(self.features)
    }
}

impl Budget {
    /// Returns the part of a route that is beyond the limit of its namespace.
    pub fn refused(&self, route: &Precedence) -> Option<Refused> {
        self.namespaces.get(&route.key.namespace)?.refused.get(route).copied()
    }

    /// Returns the memory of the copies of a route that is left out.
    pub fn left_out(&self, route: &Precedence) -> Option<u64> {
        match self.refused(route)? {
            Refused::Route(memory) => Some(memory),
            Refused::Features(_) => None,
        }
    }

    /// Replaces the memory of `routes`. Returns the routes that have come within or beyond the limit of a namespace in bytes.
    pub fn update(
        &mut self,
        routes: Vec<(ObjectId, Option<Precedence>, RouteMemory)>,
        limit: u64,
    ) -> BTreeSet<ObjectId> {
        let mut changed = BTreeSet::new();
        for (id, rank, memory) in routes {
            let rank = rank.filter(|_| memory != RouteMemory::default());
            let before = match &rank {
                Some(rank) => self.ranks.insert(id.clone(), rank.clone()),
                None => self.ranks.remove(&id),
            };
            if before.is_none() && rank.is_none() {
                continue;
            }
            let namespace = self.namespaces.entry(id.key.namespace.clone()).or_default();
            let freed = before.and_then(|before| namespace.routes.remove(&before)).unwrap_or_default();
            namespace.total -= freed.total();
            if let Some(rank) = rank {
                namespace.total += memory.total();
                namespace.routes.insert(rank, memory);
            }
            changed.insert(id.key.namespace);
        }
        let mut moved = BTreeSet::new();
        for name in changed {
            let Some(namespace) = self.namespaces.get_mut(&name) else { continue };
            let now = namespace.beyond(limit);
            let before = std::mem::take(&mut namespace.refused);
            let either = before.keys().chain(now.keys());
            moved.extend(either.filter(|rank| before.get(*rank) != now.get(*rank)).map(Precedence::id));
            namespace.refused = now;
            if namespace.routes.is_empty() {
                self.namespaces.remove(&name);
            }
        }
        moved
    }
}

impl Namespace {
    /// Returns the routes beyond the limit, which applies to all copies and to all features. A part that does not fit leaves its
    /// memory to younger routes. Features do not take the memory of copies: they can be those of another namespace.
    fn beyond(&self, limit: u64) -> BTreeMap<Precedence, Refused> {
        if self.total <= u128::from(limit) {
            return BTreeMap::new();
        }
        let mut copies_fit = fitting(limit);
        let mut features_fit = fitting(limit);
        let refused = |(rank, memory): (&Precedence, &RouteMemory)| {
            let RouteMemory { copies, features } = *memory;
            let refused = match copies_fit(copies) {
                false => Refused::Route(copies),
                true if !features_fit(features) => Refused::Features(features),
                true => return None,
            };
            Some((rank.clone(), refused))
        };
        self.routes.iter().filter_map(refused).collect()
    }
}

/// Returns a function that takes memory from the limit if it fits.
fn fitting(limit: u64) -> impl FnMut(u64) -> bool {
    let mut left = limit;
    move |memory| {
        let after = left.checked_sub(memory);
        left = after.unwrap_or(left);
        after.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::{Kind, ObjectKey};

    fn rank(name: &str, created: i64) -> Precedence {
        let (namespace, name) = name.split_once('/').unwrap_or(("shop", name));
        Precedence { terminating: false, created, key: ObjectKey::new(namespace, name), kind: Kind::HTTP_ROUTE }
    }

    fn set(budget: &mut Budget, name: &str, created: i64, features: u64) -> Vec<String> {
        replace(budget, name, created, RouteMemory { copies: 0, features })
    }

    fn replace(budget: &mut Budget, name: &str, created: i64, memory: RouteMemory) -> Vec<String> {
        let rank = rank(name, created);
        let moved = budget.update(vec![(rank.id(), Some(rank), memory)], 100);
        moved.into_iter().map(|id| id.key.to_string()).collect()
    }

    #[test]
    fn older_routes_use_the_memory_of_their_namespace_first() {
        let mut budget = Budget::default();
        assert!(set(&mut budget, "b", 2, 60).is_empty());
        assert_eq!(set(&mut budget, "c", 3, 50), ["shop/c"]);
        assert!(set(&mut budget, "d", 4, 40).is_empty(), "what does not fit leaves its memory to others");
        assert!(set(&mut budget, "other/a", 9, 100).is_empty(), "a namespace has a limit of its own");
        assert_eq!(set(&mut budget, "a", 1, 70), ["shop/b", "shop/d"]);
        assert_eq!(budget.refused(&rank("c", 3)), Some(Refused::Features(50)));
        assert_eq!(budget.refused(&rank("a", 1)), None);
        // An older route of the same name takes the place of a younger one.
        assert_eq!(set(&mut budget, "a", 5, 70), ["shop/a", "shop/b", "shop/d"]);
        assert_eq!(set(&mut budget, "c", 3, 0), ["shop/c"]);
        for name in ["a", "b", "d", "other/a"] {
            set(&mut budget, name, 0, 0);
        }
        assert!(budget.ranks.is_empty() && budget.namespaces.is_empty());
    }

    #[test]
    fn a_route_is_left_out_only_if_its_copies_do_not_fit() {
        let mut budget = Budget::default();
        replace(&mut budget, "a", 1, RouteMemory { copies: 30, features: 0 });
        replace(&mut budget, "b", 2, RouteMemory { copies: 60, features: 120 });
        assert_eq!(budget.refused(&rank("b", 2)), Some(Refused::Features(120)));
        assert_eq!(budget.left_out(&rank("b", 2)), None);
        assert_eq!(replace(&mut budget, "c", 3, RouteMemory { copies: 11, features: 1 }), ["shop/c"]);
        assert_eq!(budget.left_out(&rank("c", 3)), Some(11), "the policies of a route do not fit without its matches");
        assert!(replace(&mut budget, "d", 4, RouteMemory { copies: 9, features: 1 }).is_empty());
        let moved = replace(&mut budget, "a", 1, RouteMemory { copies: 101, features: 0 });
        assert_eq!(moved, ["shop/a", "shop/c"]);
        assert_eq!(budget.left_out(&rank("a", 1)), Some(101));
        assert_eq!(budget.left_out(&rank("b", 2)), None);
    }

    #[test]
    fn policies_do_not_take_the_memory_of_copies() {
        let mut budget = Budget::default();
        replace(&mut budget, "old", 1, RouteMemory { copies: 20, features: 90 });
        assert!(replace(&mut budget, "young", 2, RouteMemory { copies: 80, features: 10 }).is_empty());
        assert_eq!(replace(&mut budget, "third", 3, RouteMemory { copies: 0, features: 1 }), ["shop/third"]);
    }

    #[test]
    fn no_sum_overflows() {
        let mut budget = Budget::default();
        assert_eq!(set(&mut budget, "a", 1, u64::MAX), ["shop/a"]);
        assert_eq!(set(&mut budget, "b", 2, u64::MAX), ["shop/b"]);
        let most = RouteMemory { copies: u64::MAX, features: u64::MAX };
        assert_eq!(replace(&mut budget, "c", 3, most), ["shop/c"]);
        assert_eq!(set(&mut budget, "a", 1, 0), ["shop/a"]);
    }
}
