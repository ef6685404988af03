//! Limits of size for the hosts or objects of a group, such as a namespace, in the order of precedence.

use std::collections::{BTreeMap, BTreeSet};

use crate::objects::Precedence;
use crate::translate::limit::fitting;

/// The charges of items to groups. Each group has the same limit.
#[derive(Debug)]
pub struct Quota<I, G> {
    /// The charge of each item, whether it is within the limit or not.
    charges: BTreeMap<I, Charge<G>>,
    groups: BTreeMap<G, Group<I>>,
    /// The groups with changes since the last call of [`Quota::apply`].
    changed: BTreeSet<G>,
}

/// The size of an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charge<G> {
    /// The group whose limit it takes.
    pub group: G,
    /// The rank of the object that causes it.
    pub rank: Precedence,
    /// The size, in bytes.
    pub size: u64,
}

/// The items of a group.
#[derive(Debug)]
struct Group<I> {
    /// The size of each item, in the order of precedence.
    items: BTreeMap<(Precedence, I), u64>,
    /// The sum of the sizes, in bytes.
    total: u128,
    /// The items beyond the limit.
    surplus: BTreeSet<I>,
}

impl<I, G> Default for Quota<I, G> {
    fn default() -> Self {
        Self { charges: BTreeMap::new(), groups: BTreeMap::new(), changed: BTreeSet::new() }
    }
}

impl<I: Ord + Clone, G: Ord + Clone> Quota<I, G> {
    /// Returns the items from `first` on, with their charges.
    pub fn charges_from(&self, first: I) -> impl Iterator<Item = (&I, &Charge<G>)> {
        self.charges.range(first..)
    }

    /// Returns the groups with the sum of their sizes, in bytes.
    pub fn totals(&self) -> impl Iterator<Item = (&G, u64)> {
        self.groups.iter().map(|(name, group)| (name, u64::try_from(group.total).unwrap_or(u64::MAX)))
    }

    /// Returns whether an item is beyond the limit of its group.
    pub fn is_surplus(&self, item: &I) -> bool {
        let group = self.charges.get(item).and_then(|charge| self.groups.get(&charge.group));
        group.is_some_and(|group| group.surplus.contains(item))
    }

    /// Replaces the charge of an item.
    pub fn replace(&mut self, item: &I, now: Option<Charge<G>>) {
        if self.charges.get(item) == now.as_ref() {
            return;
        }
        if let Some(before) = self.charges.remove(item) {
            if let Some(group) = self.groups.get_mut(&before.group) {
                group.items.remove(&(before.rank, item.clone()));
                group.total -= u128::from(before.size);
            }
            self.changed.insert(before.group);
        }
        if let Some(now) = now {
            let new = || Group { items: BTreeMap::new(), total: 0, surplus: BTreeSet::new() };
            let group = self.groups.entry(now.group.clone()).or_insert_with(new);
            group.items.insert((now.rank.clone(), item.clone()), now.size);
            group.total += u128::from(now.size);
            self.changed.insert(now.group.clone());
            self.charges.insert(item.clone(), now);
        }
    }

    /// Applies the limit, in bytes, to the changed groups. Returns the items that have come within or beyond it.
    pub fn apply(&mut self, limit: u64) -> BTreeSet<I> {
        let mut moved = BTreeSet::new();
        for name in std::mem::take(&mut self.changed) {
            let Some(group) = self.groups.get_mut(&name) else { continue };
            let mut fits = fitting(limit);
            let surplus = group.items.iter().filter(|(_, size)| !fits(**size));
            let surplus = surplus.map(|((_, item), _)| item.clone()).collect();
            let before = std::mem::replace(&mut group.surplus, surplus);
            moved.extend(before.symmetric_difference(&group.surplus).cloned());
            if group.items.is_empty() {
                self.groups.remove(&name);
            }
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Host;
    use crate::objects::{Kind, ObjectKey};

    fn host(name: &str) -> Host {
        Host::Wildcard(name.into())
    }

    fn set(quota: &mut Quota<Host, String>, name: &str, namespace: &str, created: i64) -> Vec<String> {
        let rank =
            Precedence { terminating: false, created, key: ObjectKey::new(namespace, "ingress"), kind: Kind::INGRESS };
        quota.replace(&host(name), Some(Charge { group: namespace.to_owned(), rank, size: 50 }));
        quota.apply(100).iter().map(Host::to_string).collect()
    }

    #[test]
    fn older_objects_of_a_group_come_first() {
        let mut quota = Quota::default();
        assert!(set(&mut quota, "b", "shop", 2).is_empty());
        assert!(set(&mut quota, "c", "shop", 3).is_empty());
        assert!(set(&mut quota, "z", "other", 9).is_empty());
        assert_eq!(set(&mut quota, "a", "shop", 1), ["*.c"]);
        assert!(quota.is_surplus(&host("c")) && !quota.is_surplus(&host("a")));
        assert_eq!(set(&mut quota, "b", "other", 1), ["*.c"], "another group has the charge");
        for name in ["a", "b", "c", "z"] {
            quota.replace(&host(name), None);
        }
        assert!(quota.apply(100).is_empty());
        assert!(quota.charges.is_empty() && quota.groups.is_empty() && quota.changed.is_empty());
    }
}
