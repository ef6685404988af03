//! Groups of hosts with equal routes, in parts of a bounded size.
//!
//! The parts are the leaves of a binary trie over a hash of the host. A part that exceeds [`MOST`] is split by the next
//! bit, and two halves that fit into one part are merged. The parts therefore depend only on the set of hosts, not on
//! the order of changes. Adding or removing a host changes one part, or splits or merges a few parts.

use std::collections::BTreeSet;

use xxhash_rust::xxh3::xxh3_64;

use crate::model::Host;

/// The maximum number of hosts in a part. It bounds the size of the update for a change of one host.
pub const MOST: usize = 64;

/// The changed parts, named by their first hosts before the change and by any host after the change.
#[derive(Debug, Default)]
pub struct Renamed {
    /// The first hosts of the parts that were changed.
    pub before: BTreeSet<Host>,
    /// A host of each changed part. If the host has moved to another part since, that part has changed too.
    pub after: BTreeSet<Host>,
}

/// The hosts that share their routes.
#[derive(Debug, Default)]
pub struct Group {
    /// The parts cover all hashes, in order. Empty if there never was a host.
    parts: Vec<Part>,
}

/// The hosts whose hash begins with the first `depth` bits of `start`.
#[derive(Debug)]
struct Part {
    start: u64,
    depth: u32,
    /// Sorted.
    hosts: Vec<Host>,
}

impl Group {
    /// Adds a host that is not in the group.
    pub fn insert(&mut self, host: &Host, renamed: &mut Renamed) {
        if self.parts.is_empty() {
            // Nearly every group has one host.
            self.parts = vec![Part { start: 0, depth: 0, hosts: Vec::with_capacity(1) }];
        }
        let at = self.place(host);
        let part = &mut self.parts[at];
        renamed.before.extend(part.hosts.first().cloned());
        let place = part.hosts.partition_point(|other| other < host);
        part.hosts.insert(place, host.clone());
        let mut at = at;
        let mut pending = 1;
        while pending > 0 {
            let part = &mut self.parts[at];
            if part.hosts.len() > MOST && part.depth < u64::BITS {
                let upper = part.halve();
                self.parts.insert(at + 1, upper);
                pending += 1;
            } else {
                renamed.after.extend(part.hosts.first().cloned());
                at += 1;
                pending -= 1;
            }
        }
    }

    /// Removes a host that is in the group.
    pub fn remove(&mut self, host: &Host, renamed: &mut Renamed) {
        if self.parts.is_empty() {
            return;
        }
        let mut at = self.place(host);
        renamed.before.extend(self.parts[at].hosts.first().cloned());
        self.parts[at].hosts.retain(|other| other != host);
        while let Some(lower) = self.sibling(at) {
            let upper = &mut self.parts[lower + 1];
            renamed.before.extend(upper.hosts.first().cloned());
            let hosts = std::mem::take(&mut upper.hosts);
            self.parts.remove(lower + 1);
            let joined = &mut self.parts[lower];
            renamed.before.extend(joined.hosts.first().cloned());
            joined.depth -= 1;
            joined.hosts.extend(hosts);
            joined.hosts.sort_unstable();
            at = lower;
        }
        renamed.after.extend(self.parts[at].hosts.first().cloned());
    }

    /// Returns the sorted hosts of the part that contains `host`.
    pub fn with(&self, host: &Host) -> &[Host] {
        if self.parts.is_empty() { &[] } else { &self.parts[self.place(host)].hosts }
    }

    /// Returns whether no host is left.
    pub fn is_empty(&self) -> bool {
        self.parts.iter().all(|part| part.hosts.is_empty())
    }

    fn place(&self, host: &Host) -> usize {
        let hash = hash(host);
        self.parts.partition_point(|part| part.start <= hash).saturating_sub(1)
    }

    /// Returns the index of the lower of two halves: the part at `at` and its sibling. Returns `None` if both do not
    /// fit into one part.
    fn sibling(&self, at: usize) -> Option<usize> {
        let part = &self.parts[at];
        let bit = 1u64.checked_shl(u64::BITS.checked_sub(part.depth)?)?;
        let lower = if part.start & bit == 0 { at } else { at.checked_sub(1)? };
        let (one, other) = (&self.parts[lower], self.parts.get(lower + 1)?);
        let fit = one.depth == other.depth && one.hosts.len() + other.hosts.len() <= MOST;
        fit.then_some(lower)
    }
}

impl Part {
    /// Splits the part, keeps the lower half, and returns the upper half.
    fn halve(&mut self) -> Self {
        self.depth += 1;
        let start = self.start | 1 << (u64::BITS - self.depth);
        let (upper, lower) = std::mem::take(&mut self.hosts).into_iter().partition(|host| hash(host) >= start);
        self.hosts = lower;
        Self { start, depth: self.depth, hosts: upper }
    }
}

fn hash(host: &Host) -> u64 {
    match host {
        Host::Exact(name) => xxh3_64(name.as_bytes()),
        Host::Wildcard(_) | Host::Any => xxh3_64(host.to_string().as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(number: u32) -> Host {
        Host::Exact(format!("host-{number}.example.com").into())
    }

    fn shape(group: &Group) -> Vec<(u64, u32, Vec<Host>)> {
        group.parts.iter().map(|part| (part.start, part.depth, part.hosts.clone())).collect()
    }

    fn of(numbers: impl IntoIterator<Item = u32>) -> Group {
        let mut group = Group::default();
        numbers.into_iter().for_each(|number| group.insert(&host(number), &mut Renamed::default()));
        group
    }

    #[test]
    fn the_parts_do_not_depend_on_the_history() {
        let mut group = of(0..2_000);
        for kept in [1_000, 300, 129, 65, 64, 1] {
            for number in kept..2_000 {
                if group.with(&host(number)).contains(&host(number)) {
                    group.remove(&host(number), &mut Renamed::default());
                }
            }
            assert_eq!(shape(&group), shape(&of((0..kept).rev())), "{kept}");
        }
        group.remove(&host(0), &mut Renamed::default());
        assert!(group.is_empty());
    }

    #[test]
    fn a_change_affects_one_part_at_any_size() {
        for size in [1, 63, 100, 1_000, 20_000] {
            let mut group = of(0..size);
            assert!(group.parts.iter().all(|part| part.hosts.len() <= MOST));
            let mut renamed = Renamed::default();
            group.insert(&host(size), &mut renamed);
            let changed: BTreeSet<_> = renamed.after.iter().map(|host| group.with(host)).collect();
            assert!(changed.len() <= 2 && renamed.before.len() <= 1, "{size}: {}", changed.len());
            assert!(group.with(&host(size)).contains(&host(size)));
        }
    }
}
