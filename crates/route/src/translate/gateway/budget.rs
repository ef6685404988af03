//! The limit of the size of the configuration that the routes of a namespace cause.
//!
//! The size is that of the encoded configuration on all hosts and listeners. Older routes come first. A route that does not fit is
//! closed: its matches stay, and are answered 503. Closed routes have a quarter of the limit for their matches alone. A route whose
//! matches do not fit either is left out.
//!
//! The owner of a Gateway chooses its listeners and policies, which multiply the size of routes of other namespaces. The limit
//! therefore applies separately to the listeners of each owner: an owner affects only routes on its own listeners.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::attach::ListenerOwner;
use crate::objects::{ObjectId, Precedence};

/// The size of the configuration of a route on the listeners of one owner, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Size {
    /// The route as it is served.
    pub open: u64,
    /// The route without its actions, filters, and policies.
    pub closed: u64,
}

/// The state of a route on the listeners of an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// It is served.
    Open,
    /// Its requests are answered 503.
    Closed,
    /// It is on no host.
    LeftOut,
}

/// A route beyond the limit of its namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    /// The state, which is not [`State::Open`].
    pub state: State,
    /// The size of the route if it were served, in bytes.
    pub size: u64,
    /// The size of the older routes that are served, in bytes, rounded up to a 64th of the limit. Not every change of an older route
    /// must change the conditions of this one.
    pub older: u64,
    /// The limit, in bytes.
    pub limit: u64,
}

/// The size of a route on the listeners of each owner.
pub type SizeByOwner = BTreeMap<ListenerOwner, Size>;

/// The sizes of all routes, and the routes beyond the limit of their namespace.
#[derive(Debug, Default)]
pub struct Budget {
    /// The ranks of the routes, and the owners of their listeners.
    charged: BTreeMap<ObjectId, (Precedence, Vec<ListenerOwner>)>,
    /// The routes of each namespace on the listeners of each owner.
    shares: BTreeMap<ListenerOwner, BTreeMap<Arc<str>, Share>>,
}

/// The routes of a namespace on the listeners of an owner.
#[derive(Debug, Default)]
struct Share {
    routes: BTreeMap<Precedence, Size>,
    /// The sum of the sizes of all routes, whether they are served or not.
    total: u128,
    /// The routes beyond the limit.
    refused: BTreeMap<Precedence, Refused>,
}

impl Budget {
    /// Returns whether and why a route is not served on the listeners of `owner`.
    pub fn refused(&self, route: &Precedence, owner: &ListenerOwner) -> Option<&Refused> {
        self.shares.get(owner)?.get(&route.key.namespace)?.refused.get(route)
    }

    /// Returns the state of a route on the listeners of `owner`.
    pub fn state(&self, route: &Precedence, owner: &ListenerOwner) -> State {
        self.refused(route, owner).map_or(State::Open, |refused| refused.state)
    }

    /// Returns the size of the routes of each namespace on the listeners of each owner, in bytes.
    pub fn totals(&self) -> impl Iterator<Item = (&Arc<str>, u64)> {
        let shares = self.shares.values().flatten();
        shares.map(|(namespace, share)| (namespace, u64::try_from(share.total).unwrap_or(u64::MAX)))
    }

    /// Replaces the sizes of `routes`. Returns the routes that have come within or beyond the limit of a namespace in bytes.
    pub fn update(
        &mut self,
        routes: Vec<(ObjectId, Option<Precedence>, SizeByOwner)>,
        limit: u64,
    ) -> BTreeSet<ObjectId> {
        let mut changed = BTreeSet::new();
        for (id, rank, sizes) in routes {
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
            let mut owners = Vec::new();
            for (owner, size) in sizes {
                let shares = self.shares.entry(owner.clone()).or_default();
                shares.entry(namespace.clone()).or_default().insert(rank.clone(), size);
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
    fn insert(&mut self, rank: Precedence, size: Size) {
        self.total += u128::from(size.open);
        self.routes.insert(rank, size);
    }

    fn remove(&mut self, rank: &Precedence) {
        self.total -= u128::from(self.routes.remove(rank).unwrap_or_default().open);
    }

    /// Applies the limit. Returns the routes that have come within or beyond it.
    fn refuse(&mut self, limit: u64) -> Vec<ObjectId> {
        let before = std::mem::take(&mut self.refused);
        self.refused = self.beyond(limit);
        let either = before.keys().chain(self.refused.keys());
        either.filter(|rank| before.get(*rank) != self.refused.get(*rank)).map(Precedence::id).collect()
    }

    /// Returns the routes beyond the limit. A route that does not fit leaves its bytes to younger routes.
    fn beyond(&self, limit: u64) -> BTreeMap<Precedence, Refused> {
        if self.total <= u128::from(limit) {
            return BTreeMap::new();
        }
        let (mut open, mut closed) = (0u64, 0u64);
        let add = |sum: &mut u64, size: u64, limit: u64| {
            let after = sum.checked_add(size).filter(|after| *after <= limit);
            *sum = after.unwrap_or(*sum);
            after.is_some()
        };
        let refused = |(rank, size): (&Precedence, &Size)| {
            if add(&mut open, size.open, limit) {
                return None;
            }
            let state = if add(&mut closed, size.closed, limit / 4) { State::Closed } else { State::LeftOut };
            let older = open.next_multiple_of((limit / 64).max(1)).min(limit);
            Some((rank.clone(), Refused { state, size: size.open, older, limit }))
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

    fn owner(gateway: &str) -> ListenerOwner {
        ListenerOwner { gateway: gateway.into(), set: None }
    }

    fn set(budget: &mut Budget, name: &str, created: i64, open: u64) -> Vec<String> {
        replace(budget, name, created, [("infra", Size { open, closed: open / 10 })])
    }

    fn replace<const N: usize>(budget: &mut Budget, name: &str, created: i64, sizes: [(&str, Size); N]) -> Vec<String> {
        let rank = rank(name, created);
        let sizes = sizes.into_iter().map(|(gateway, size)| (owner(gateway), size)).collect();
        let moved = budget.update(vec![(rank.id(), Some(rank), sizes)], 100);
        moved.into_iter().map(|id| id.key.to_string()).collect()
    }

    fn remove(budget: &mut Budget, name: &str) {
        budget.update(vec![(rank(name, 0).id(), None, SizeByOwner::new())], 100);
    }

    fn state(budget: &Budget, name: &str, created: i64) -> State {
        budget.state(&rank(name, created), &owner("infra"))
    }

    #[test]
    fn older_routes_of_a_namespace_come_first() {
        let mut budget = Budget::default();
        assert!(set(&mut budget, "b", 2, 60).is_empty());
        assert_eq!(set(&mut budget, "c", 3, 50), ["shop/c"]);
        assert!(set(&mut budget, "d", 4, 40).is_empty(), "what does not fit leaves its bytes to others");
        assert!(set(&mut budget, "other/a", 9, 100).is_empty(), "a namespace has a limit of its own");
        let expected = Refused { state: State::Closed, size: 50, older: 60, limit: 100 };
        assert_eq!(budget.refused(&rank("c", 3), &owner("infra")), Some(&expected));
        assert_eq!(set(&mut budget, "a", 1, 70), ["shop/b", "shop/c", "shop/d"]);
        assert_eq!(
            [("a", 1), ("b", 2)].map(|(name, created)| state(&budget, name, created)),
            [State::Open, State::Closed]
        );
        // An older route of the same name takes the place of a younger one.
        assert_eq!(set(&mut budget, "a", 5, 70), ["shop/a", "shop/b", "shop/c", "shop/d"]);
        ["a", "b", "c", "d", "other/a"].iter().for_each(|name| remove(&mut budget, name));
        assert!(budget.charged.is_empty() && budget.shares.is_empty());
    }

    #[test]
    fn a_route_whose_matches_do_not_fit_is_left_out() {
        let mut budget = Budget::default();
        let both = |open, closed| [("infra", Size { open, closed })];
        replace(&mut budget, "a", 1, both(101, 15));
        replace(&mut budget, "b", 2, both(200, 12));
        replace(&mut budget, "c", 3, both(300, 10));
        let states = [("a", 1), ("b", 2), ("c", 3)].map(|(name, created)| state(&budget, name, created));
        assert_eq!(states, [State::Closed, State::LeftOut, State::Closed]);
    }

    #[test]
    fn the_owner_of_a_gateway_affects_only_routes_on_its_own_listeners() {
        let size = |open| Size { open, closed: 1 };
        let mut budget = Budget::default();
        assert!(replace(&mut budget, "old", 1, [("infra", size(10)), ("other", size(10))]).is_empty());
        assert!(replace(&mut budget, "young", 2, [("infra", size(90))]).is_empty());
        let moved = replace(&mut budget, "old", 1, [("infra", size(10)), ("other", size(1_000))]);
        assert_eq!(moved, ["shop/old"]);
        assert_eq!(budget.state(&rank("old", 1), &owner("other")), State::Closed);
        assert_eq!((state(&budget, "old", 1), state(&budget, "young", 2)), (State::Open, State::Open));
    }

    #[test]
    fn no_sum_overflows() {
        let mut budget = Budget::default();
        assert_eq!(set(&mut budget, "a", 1, u64::MAX), ["shop/a"]);
        assert_eq!(set(&mut budget, "b", 2, u64::MAX), ["shop/b"]);
        let most = Size { open: u64::MAX, closed: u64::MAX };
        assert_eq!(replace(&mut budget, "c", 3, [("infra", most)]), ["shop/c"]);
        assert_eq!(set(&mut budget, "a", 1, 0), ["shop/a"]);
    }
}
