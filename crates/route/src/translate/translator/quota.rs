//! Limits of memory that hosts take for a group, such as a namespace, in the order of precedence.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::Host;
use crate::objects::Precedence;
use crate::translate::limit::fitting;

/// The charges of hosts to groups. Each group has the same limit.
#[derive(Debug)]
pub struct Quota<G> {
    /// The charge of each host, whether it is within the limit or not.
    charges: BTreeMap<Host, Charge<G>>,
    groups: BTreeMap<G, Group>,
    /// The groups with changes since the last call of [`Quota::apply`].
    changed: BTreeSet<G>,
}

/// The memory of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charge<G> {
    /// The group whose limit the memory takes.
    pub group: G,
    /// The rank of the object that takes the memory.
    pub rank: Precedence,
    /// The memory in an Envoy, in bytes.
    pub memory: u64,
}

/// The hosts of a group.
#[derive(Debug, Default)]
struct Group {
    /// The memory of each host, in the order of precedence.
    hosts: BTreeMap<(Precedence, Host), u64>,
    /// The hosts beyond the limit.
    surplus: BTreeSet<Host>,
}

impl<G> Default for Quota<G> {
    fn default() -> Self {
        Self { charges: BTreeMap::new(), groups: BTreeMap::new(), changed: BTreeSet::new() }
    }
}

impl<G: Ord + Clone> Quota<G> {
    /// Returns the charge of a host.
    pub fn charge(&self, host: &Host) -> Option<&Charge<G>> {
        self.charges.get(host)
    }

    /// Returns whether a host is beyond the limit of its group.
    pub fn is_surplus(&self, host: &Host) -> bool {
        let group = self.charges.get(host).and_then(|charge| self.groups.get(&charge.group));
        group.is_some_and(|group| group.surplus.contains(host))
    }

    /// Replaces the charge of a host.
    pub fn replace(&mut self, host: &Host, now: Option<Charge<G>>) {
        if self.charges.get(host) == now.as_ref() {
            return;
        }
        if let Some(before) = self.charges.remove(host) {
            if let Some(group) = self.groups.get_mut(&before.group) {
                group.hosts.remove(&(before.rank, host.clone()));
            }
            self.changed.insert(before.group);
        }
        if let Some(now) = now {
            let group = self.groups.entry(now.group.clone()).or_default();
            group.hosts.insert((now.rank.clone(), host.clone()), now.memory);
            self.changed.insert(now.group.clone());
            self.charges.insert(host.clone(), now);
        }
    }

    /// Applies the limit, in bytes, to the changed groups. Returns the hosts that have come within or beyond it.
    pub fn apply(&mut self, limit: u64) -> BTreeSet<Host> {
        let mut moved = BTreeSet::new();
        for name in std::mem::take(&mut self.changed) {
            let Some(group) = self.groups.get_mut(&name) else { continue };
            let mut fits = fitting(limit);
            let surplus = group.hosts.iter().filter(|(_, memory)| !fits(**memory));
            let surplus = surplus.map(|((_, host), _)| host.clone()).collect();
            let before = std::mem::replace(&mut group.surplus, surplus);
            moved.extend(before.symmetric_difference(&group.surplus).cloned());
            if group.hosts.is_empty() {
                self.groups.remove(&name);
            }
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::{Kind, ObjectKey};

    fn host(name: &str) -> Host {
        Host::Wildcard(name.into())
    }

    fn set(quota: &mut Quota<String>, name: &str, namespace: &str, created: i64) -> Vec<String> {
        let rank =
            Precedence { terminating: false, created, key: ObjectKey::new(namespace, "ingress"), kind: Kind::INGRESS };
        quota.replace(&host(name), Some(Charge { group: namespace.to_owned(), rank, memory: 50 }));
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
