//! The memory that HTTPPolicies can take in an Envoy, and the limit of policies, filters, and copies of matches for the routes of
//! each namespace on the listeners of each owner.
//!
//! Envoy has a copy of a policy for each match of a route on each host, unless hosts share all their routes. A route of
//! 128 matches and 16 hosts multiplies the policy of a Gateway by 2,048. The memory therefore counts toward the
//! namespace of the route. Older routes take precedence.
//!
//! The owner of a Gateway chooses its listeners and policies, which multiply the memory of routes of other namespaces. The limit
//! therefore applies separately to the listeners of each owner: an owner affects only routes on its own listeners.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::attach::ListenerOwner;
use crate::model::{Authorization, ClientAddresses, Jwt, JwtProvider, LocalRateLimit};
use crate::objects::{ObjectId, Precedence};
use crate::translate::limit::fitting;

/// The memory of a feature without its lists and keys. All figures are in bytes, measured with Envoy 1.40 and rounded up.
pub const FEATURE: u64 = 4 << 10;
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

/// The memory that a route can take in an Envoy on the listeners of one owner, as far as it counts toward the limit of its
/// namespace.
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

/// The memory of a route on the listeners of each owner.
pub type MemoryByOwner = BTreeMap<ListenerOwner, RouteMemory>;

/// The memory that all routes can take, and the routes beyond the limit of their namespace.
#[derive(Debug, Default)]
pub struct Budget {
    /// The ranks of the routes with memory, and the owners of the listeners where they have it.
    charged: BTreeMap<ObjectId, (Precedence, Vec<ListenerOwner>)>,
    /// The routes of each namespace on the listeners of each owner.
    shares: BTreeMap<ListenerOwner, BTreeMap<Arc<str>, Share>>,
}

/// The routes of a namespace that have policies, large filters, or copies on the listeners of an owner.
#[derive(Debug, Default)]
struct Share {
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
    /// Returns the part of a route on the listeners of `owner` that is beyond the limit of its namespace.
    pub fn refused(&self, route: &Precedence, owner: &ListenerOwner) -> Option<Refused> {
        self.shares.get(owner)?.get(&route.key.namespace)?.refused.get(route).copied()
    }

    /// Returns the memory of the copies of a route that is left out on the listeners of `owner`.
    pub fn left_out(&self, route: &Precedence, owner: &ListenerOwner) -> Option<u64> {
        match self.refused(route, owner)? {
            Refused::Route(memory) => Some(memory),
            Refused::Features(_) => None,
        }
    }

    /// Replaces the memory of `routes`. Returns the routes that have come within or beyond the limit of a namespace in bytes.
    pub fn update(
        &mut self,
        routes: Vec<(ObjectId, Option<Precedence>, MemoryByOwner)>,
        limit: u64,
    ) -> BTreeSet<ObjectId> {
        let mut changed = BTreeSet::new();
        for (id, rank, memory) in routes {
            let namespace = &id.key.namespace;
            if let Some((rank, owners)) = self.charged.remove(&id) {
                for owner in owners {
                    if let Some(share) = self.shares.get_mut(&owner).and_then(|shares| shares.get_mut(namespace)) {
                        share.remove(&rank);
                    }
                    changed.insert((owner, namespace.clone()));
                }
            }
            let Some(rank) = rank else { continue };
            let memory = memory.into_iter().filter(|(_, memory)| *memory != RouteMemory::default());
            let mut owners = Vec::new();
            for (owner, memory) in memory {
                let shares = self.shares.entry(owner.clone()).or_default();
                shares.entry(namespace.clone()).or_default().insert(rank.clone(), memory);
                changed.insert((owner.clone(), namespace.clone()));
                owners.push(owner);
            }
            if !owners.is_empty() {
                self.charged.insert(id, (rank, owners));
            }
        }
        let mut moved = BTreeSet::new();
        for (owner, namespace) in changed {
            let Some(shares) = self.shares.get_mut(&owner) else { continue };
            let Some(share) = shares.get_mut(&namespace) else { continue };
            moved.extend(share.refuse(limit));
            if share.routes.is_empty() {
                shares.remove(&namespace);
            }
            if shares.is_empty() {
                self.shares.remove(&owner);
            }
        }
        moved
    }
}

impl Share {
    fn insert(&mut self, rank: Precedence, memory: RouteMemory) {
        self.total += memory.total();
        self.routes.insert(rank, memory);
    }

    fn remove(&mut self, rank: &Precedence) {
        self.total -= self.routes.remove(rank).unwrap_or_default().total();
    }

    /// Applies the limit. Returns the routes that have come within or beyond it.
    fn refuse(&mut self, limit: u64) -> Vec<ObjectId> {
        let before = std::mem::take(&mut self.refused);
        self.refused = self.beyond(limit);
        let either = before.keys().chain(self.refused.keys());
        either.filter(|rank| before.get(*rank) != self.refused.get(*rank)).map(Precedence::id).collect()
    }

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

    fn owner(gateway: &str) -> ListenerOwner {
        ListenerOwner { gateway: gateway.into(), set: None }
    }

    fn replace(budget: &mut Budget, name: &str, created: i64, memory: RouteMemory) -> Vec<String> {
        replace_on(budget, name, created, [("infra", memory)])
    }

    fn replace_on<const N: usize>(
        budget: &mut Budget,
        name: &str,
        created: i64,
        memory: [(&str, RouteMemory); N],
    ) -> Vec<String> {
        let rank = rank(name, created);
        let memory = memory.into_iter().map(|(gateway, memory)| (owner(gateway), memory)).collect();
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
        assert_eq!(budget.refused(&rank("c", 3), &owner("infra")), Some(Refused::Features(50)));
        assert_eq!(budget.refused(&rank("a", 1), &owner("infra")), None);
        // An older route of the same name takes the place of a younger one.
        assert_eq!(set(&mut budget, "a", 5, 70), ["shop/a", "shop/b", "shop/d"]);
        assert_eq!(set(&mut budget, "c", 3, 0), ["shop/c"]);
        for name in ["a", "b", "d", "other/a"] {
            set(&mut budget, name, 0, 0);
        }
        assert!(budget.charged.is_empty() && budget.shares.is_empty());
    }

    #[test]
    fn a_route_is_left_out_only_if_its_copies_do_not_fit() {
        let mut budget = Budget::default();
        replace(&mut budget, "a", 1, RouteMemory { copies: 30, features: 0 });
        replace(&mut budget, "b", 2, RouteMemory { copies: 60, features: 120 });
        assert_eq!(budget.refused(&rank("b", 2), &owner("infra")), Some(Refused::Features(120)));
        assert_eq!(budget.left_out(&rank("b", 2), &owner("infra")), None);
        assert_eq!(replace(&mut budget, "c", 3, RouteMemory { copies: 11, features: 1 }), ["shop/c"]);
        assert_eq!(
            budget.left_out(&rank("c", 3), &owner("infra")),
            Some(11),
            "the policies of a route do not fit without its matches"
        );
        assert!(replace(&mut budget, "d", 4, RouteMemory { copies: 9, features: 1 }).is_empty());
        let moved = replace(&mut budget, "a", 1, RouteMemory { copies: 101, features: 0 });
        assert_eq!(moved, ["shop/a", "shop/c"]);
        assert_eq!(budget.left_out(&rank("a", 1), &owner("infra")), Some(101));
        assert_eq!(budget.left_out(&rank("b", 2), &owner("infra")), None);
    }

    #[test]
    fn policies_do_not_take_the_memory_of_copies() {
        let mut budget = Budget::default();
        replace(&mut budget, "old", 1, RouteMemory { copies: 20, features: 90 });
        assert!(replace(&mut budget, "young", 2, RouteMemory { copies: 80, features: 10 }).is_empty());
        assert_eq!(replace(&mut budget, "third", 3, RouteMemory { copies: 0, features: 1 }), ["shop/third"]);
    }

    #[test]
    fn the_owner_of_a_gateway_affects_only_routes_on_its_own_listeners() {
        let memory = |copies| RouteMemory { copies, features: 0 };
        let mut budget = Budget::default();
        assert!(replace_on(&mut budget, "old", 1, [("infra", memory(10)), ("other", memory(10))]).is_empty());
        assert!(replace_on(&mut budget, "young", 2, [("infra", memory(90))]).is_empty());
        let moved = replace_on(&mut budget, "old", 1, [("infra", memory(10)), ("other", memory(1_000))]);
        assert_eq!(moved, ["shop/old"]);
        assert_eq!(budget.left_out(&rank("old", 1), &owner("other")), Some(1_000));
        assert_eq!(budget.left_out(&rank("old", 1), &owner("infra")), None);
        assert_eq!(budget.left_out(&rank("young", 2), &owner("infra")), None);
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
