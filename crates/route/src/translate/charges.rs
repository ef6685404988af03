//! The limit of the configuration that a namespace causes, for items such as routes.
//!
//! Older items come first. An item that does not fit is closed, and leaves its size to younger ones. What remains of closed items, such
//! as the matches of routes, has a quarter of the limit.
//!
//! Others can multiply the items of a namespace: the owner of a Gateway by its listeners, the owner of rules by more rules. These
//! causes share the limit. A cause that needs less than an equal share leaves the rest to the others, so no cause closes items of
//! causes within their share.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::limit::fitting;
use crate::objects::Precedence;

/// The number of steps of the limit. Shares and messages change in steps, so that not every change of an item changes the problems of
/// others.
const STEPS: u64 = 64;

/// The size of an item, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Size {
    /// The item as it is served.
    pub open: u64,
    /// What remains if it is closed.
    pub closed: u64,
}

/// The size of an item for one cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charge {
    /// The rank of the object that causes it, whose namespace has the limit.
    pub rank: Precedence,
    /// The size.
    pub size: Size,
}

/// The state of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// It is served.
    Open,
    /// Its requests are answered 503.
    Closed,
    /// It is closed, and its matches do not fit either.
    LeftOut,
}

/// An item beyond the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Beyond {
    /// The state, which is not [`State::Open`].
    pub state: State,
    /// The size of the item if it were served, in bytes.
    pub size: u64,
    /// The size of the older items that are served, in bytes, rounded up.
    pub older: u64,
    /// The share of the limit, in bytes.
    pub limit: u64,
}

/// The charges of items, by cause.
#[derive(Debug)]
pub struct Charges<I, C> {
    charges: BTreeMap<I, Box<[(C, Charge)]>>,
    namespaces: BTreeMap<Arc<str>, BTreeMap<C, Share<I>>>,
    /// The namespaces with changes since the last call of [`Charges::apply`].
    changed: BTreeSet<Arc<str>>,
}

/// The items of a namespace for one cause.
#[derive(Debug)]
struct Share<I> {
    /// In the order of precedence.
    items: BTreeMap<(Precedence, I), Size>,
    /// The sum of the open sizes, in bytes.
    total: u128,
    beyond: BTreeMap<I, Beyond>,
}

impl<I, C> Default for Charges<I, C> {
    fn default() -> Self {
        Self { charges: BTreeMap::new(), namespaces: BTreeMap::new(), changed: BTreeSet::new() }
    }
}

impl<I: Ord + Clone, C: Ord + Clone> Charges<I, C> {
    /// Returns whether these are the charges of an item.
    pub fn has(&self, item: &I, charges: &BTreeMap<C, Charge>) -> bool {
        let known = self.charges.get(item).into_iter().flatten();
        known.map(|(cause, charge)| (cause, charge)).eq(charges)
    }

    /// Returns whether an item has charges.
    pub fn knows(&self, item: &I) -> bool {
        self.charges.contains_key(item)
    }

    /// Returns why an item is not served for a cause. `None`: it is within the limit.
    pub fn beyond(&self, item: &I, cause: &C) -> Option<&Beyond> {
        let (_, charge) = self.charges.get(item)?.iter().find(|(other, _)| other == cause)?;
        self.namespaces.get(&charge.rank.key.namespace)?.get(cause)?.beyond.get(item)
    }

    /// Returns the state of an item for a cause.
    pub fn state(&self, item: &I, cause: &C) -> State {
        self.beyond(item, cause).map_or(State::Open, |beyond| beyond.state)
    }

    /// Returns the size of the items of each namespace, in bytes, whether they are served or not.
    pub fn totals(&self) -> impl Iterator<Item = (&Arc<str>, u64)> {
        let total = |shares: &BTreeMap<C, Share<I>>| shares.values().map(|share| share.total).sum::<u128>();
        self.namespaces.iter().map(move |(name, shares)| (name, u64::try_from(total(shares)).unwrap_or(u64::MAX)))
    }

    /// Replaces the charges of an item.
    pub fn replace(&mut self, item: &I, now: BTreeMap<C, Charge>) {
        if self.has(item, &now) {
            return;
        }
        for (cause, Charge { rank, .. }) in self.charges.remove(item).into_iter().flatten() {
            let shares = self.namespaces.get_mut(&rank.key.namespace);
            self.changed.insert(rank.key.namespace.clone());
            if let Some(share) = shares.and_then(|shares| shares.get_mut(&cause)) {
                let size = share.items.remove(&(rank, item.clone())).unwrap_or_default();
                share.total -= u128::from(size.open);
            }
        }
        for (cause, Charge { rank, size }) in &now {
            let shares = self.namespaces.entry(rank.key.namespace.clone()).or_default();
            let new = || Share { items: BTreeMap::new(), total: 0, beyond: BTreeMap::new() };
            let share = shares.entry(cause.clone()).or_insert_with(new);
            share.items.insert((rank.clone(), item.clone()), *size);
            share.total += u128::from(size.open);
            self.changed.insert(rank.key.namespace.clone());
        }
        if !now.is_empty() {
            self.charges.insert(item.clone(), now.into_iter().collect());
        }
    }

    /// Applies the limit, in bytes, to the changed namespaces. Returns the items that have come within or beyond it.
    pub fn apply(&mut self, limit: u64) -> BTreeSet<I> {
        let mut moved = BTreeSet::new();
        let step = (limit / STEPS).max(1);
        for name in std::mem::take(&mut self.changed) {
            let Some(shares) = self.namespaces.get_mut(&name) else { continue };
            let mut smallest_first: Vec<&mut Share<I>> = shares.values_mut().collect();
            smallest_first.sort_by_key(|share| share.total);
            let (mut left, mut count) = (limit, smallest_first.len() as u64);
            for share in smallest_first {
                let part = left / count;
                moved.extend(share.apply(part, step));
                let total = u64::try_from(share.total).unwrap_or(u64::MAX).min(part);
                (left, count) = (left - total.next_multiple_of(step).min(part), count - 1);
            }
            shares.retain(|_, share| !share.items.is_empty());
            if shares.is_empty() {
                self.namespaces.remove(&name);
            }
        }
        moved
    }
}

impl<I: Ord + Clone> Share<I> {
    /// Applies the limit. Returns the items that have come within or beyond it.
    fn apply(&mut self, limit: u64, step: u64) -> Vec<I> {
        let now = if self.total > u128::from(limit) { self.find_beyond(limit, step) } else { BTreeMap::new() };
        let before = std::mem::replace(&mut self.beyond, now);
        let either = before.keys().chain(self.beyond.keys());
        either.filter(|item| before.get(*item) != self.beyond.get(*item)).cloned().collect()
    }

    fn find_beyond(&self, limit: u64, step: u64) -> BTreeMap<I, Beyond> {
        let (mut fits, mut fits_closed, mut older) = (fitting(limit), fitting(limit / 4), 0u64);
        let beyond = |((_, item), size): (&(Precedence, I), &Size)| {
            if fits(size.open) {
                older += size.open;
                return None;
            }
            let state = if fits_closed(size.closed) { State::Closed } else { State::LeftOut };
            let older = older.next_multiple_of(step).min(limit);
            Some((item.clone(), Beyond { state, size: size.open, older, limit }))
        };
        self.items.iter().filter_map(beyond).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::{Kind, ObjectKey};

    type Causes = Charges<&'static str, &'static str>;

    fn charge(namespace: &str, created: i64, open: u64, closed: u64) -> Charge {
        let key = ObjectKey::new(namespace, "any");
        Charge {
            rank: Precedence { terminating: false, created, key, kind: Kind::HTTP_ROUTE },
            size: Size { open, closed },
        }
    }

    fn set<const N: usize>(
        charges: &mut Causes,
        item: &'static str,
        now: [(&'static str, Charge); N],
    ) -> Vec<&'static str> {
        charges.replace(&item, now.into_iter().collect());
        charges.apply(100).into_iter().collect()
    }

    fn one(charges: &mut Causes, item: &'static str, created: i64, open: u64) -> Vec<&'static str> {
        set(charges, item, [("infra", charge("shop", created, open, open / 10))])
    }

    fn states<const N: usize>(charges: &Causes, cause: &'static str, items: [&'static str; N]) -> [State; N] {
        items.map(|item| charges.state(&item, &cause))
    }

    #[test]
    fn older_items_of_a_namespace_come_first() {
        let mut charges = Causes::default();
        assert!(one(&mut charges, "b", 2, 60).is_empty());
        assert_eq!(one(&mut charges, "c", 3, 50), ["c"]);
        assert!(one(&mut charges, "d", 4, 40).is_empty(), "what does not fit leaves its bytes to others");
        let other = charge("other", 1, 100, 0);
        assert!(set(&mut charges, "other", [("infra", other)]).is_empty(), "a namespace has a limit of its own");
        let expected = Beyond { state: State::Closed, size: 50, older: 60, limit: 100 };
        assert_eq!(charges.beyond(&"c", &"infra"), Some(&expected));
        assert_eq!(one(&mut charges, "a", 1, 70), ["b", "c", "d"]);
        assert_eq!(states(&charges, "infra", ["a", "b"]), [State::Open, State::Closed]);
        assert_eq!(one(&mut charges, "a", 5, 70), ["a", "b", "c", "d"], "a younger object of the same name");
        for item in ["a", "b", "c", "d", "other"] {
            set(&mut charges, item, []);
        }
        assert!(charges.charges.is_empty() && charges.namespaces.is_empty() && charges.changed.is_empty());
    }

    #[test]
    fn an_item_whose_matches_do_not_fit_is_left_out() {
        let mut charges = Causes::default();
        for (at, item, closed) in [(1, "a", 15), (2, "b", 12), (3, "c", 10)] {
            set(&mut charges, item, [("infra", charge("shop", at, 101, closed))]);
        }
        assert_eq!(states(&charges, "infra", ["a", "b", "c"]), [State::Closed, State::LeftOut, State::Closed]);
    }

    #[test]
    fn all_causes_share_one_limit_and_none_closes_the_items_of_others_within_their_share() {
        let mut charges = Causes::default();
        let mut set = |item, by_infra, by_other| {
            let charge = |open| charge("shop", 1, open, 1);
            set(&mut charges, item, [("infra", charge(by_infra)), ("other", charge(by_other))]);
            charges.state(&item, &"infra").max(charges.state(&item, &"other"))
        };
        assert_eq!(set("a", 10, 10), State::Open);
        assert_eq!(set("b", 60, 20), State::Open, "a cause may use what the others leave: 70 of 100 - 30");
        assert_eq!(set("b", 61, 20), State::Closed);
        assert_eq!(set("b", 40, 1000), State::Closed);
        assert_eq!(states(&charges, "infra", ["a", "b"]), [State::Open; 2], "50 of 50");
        assert_eq!(states(&charges, "other", ["a", "b"]), [State::Open, State::Closed]);
    }

    #[test]
    fn no_sum_overflows() {
        let mut charges = Causes::default();
        for (at, item) in [(1, "a"), (2, "b"), (3, "c")] {
            assert_eq!(set(&mut charges, item, [("infra", charge("shop", at, u64::MAX, u64::MAX))]), [item]);
        }
        assert_eq!(one(&mut charges, "a", 1, 0), ["a"]);
    }
}
