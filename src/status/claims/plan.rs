//! The writes of claims: a function of the stored claims, the rules, and the time. No I/O.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lockgate_route::model::Host;
use lockgate_route::objects::{HostClaims, StoredClaim, claim_key, claim_shard};
use lockgate_route::translate::host::parent;
use lockgate_route::translate::{Unsettled, UnsettledHosts};
use tokio::time::Instant;

/// The time for which a host is kept for a namespace after its last rule for the host.
pub const GRACE: Duration = Duration::from_secs(60);
/// The maximum size of the claims of a ConfigMap in bytes. The API server permits 1 MiB.
pub const MAX_SHARD: usize = 512 << 10;
/// The maximum size of the claims of a namespace in a ConfigMap, so that a namespace leaves room for others.
pub const MAX_OF_NAMESPACE: usize = 64 << 10;

/// The state on which the writes depend.
pub struct Known<'a> {
    /// The hosts whose claim does not match their rules.
    pub unsettled: &'a UnsettledHosts,
    /// The stored claims.
    pub shards: BTreeMap<usize, &'a HostClaims>,
    /// Returns whether a namespace exists and is not being deleted.
    pub can_claim: &'a dyn Fn(&Arc<str>) -> bool,
    /// The time of new claims.
    pub since: &'a str,
}

/// A write of one ConfigMap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimsWrite {
    /// The number of the ConfigMap.
    pub shard: usize,
    /// The version that the write changes. `None`: the ConfigMap does not exist.
    pub version: Option<Arc<str>>,
    /// The new values of keys. `None` removes the key.
    pub data: BTreeMap<String, Option<String>>,
}

/// The memory of a leader. A new leader starts with an empty memory, so it keeps hosts for another [`GRACE`].
#[derive(Debug, Default)]
pub struct Memory {
    seen: Seen,
    /// The number of hosts that cannot be claimed, because there is no room.
    pub beyond: usize,
}

impl Memory {
    /// Returns the due writes, at most one for each ConfigMap, and the time of the next call without a change.
    pub fn writes(&mut self, known: &Known, now: Instant) -> (Vec<ClaimsWrite>, Option<Instant>) {
        self.seen.retain(|host, (before, _)| known.unsettled.get(host) == Some(before));
        for (host, unsettled) in known.unsettled {
            self.seen.entry(host.clone()).or_insert_with(|| (unsettled.clone(), now));
        }
        let (due, wake) = due(&self.seen, known, now);
        self.beyond = 0;
        let mut writes = Vec::new();
        for (shard, changes) in due {
            let stored = known.shards.get(&shard).copied();
            let (data, beyond) = fit(stored, &changes, known.since);
            self.beyond += beyond;
            if !data.is_empty() {
                writes.push(ClaimsWrite { shard, version: stored.map(|stored| stored.version.clone()), data });
            }
        }
        (writes, wake)
    }
}

/// The hosts whose claim does not match their rules, each with the time since which it has not.
type Seen = BTreeMap<Host, (Unsettled, Instant)>;

/// Returns the due changes by ConfigMap, in the order of their occurrence. Also returns the time of the next change.
fn due<'a>(seen: &'a Seen, known: &Known, now: Instant) -> (BTreeMap<usize, Vec<Change<'a>>>, Option<Instant>) {
    let (mut due, mut wake) = (BTreeMap::<usize, Vec<Change>>::new(), None);
    let below = unclaimed_below_wildcards(seen);
    for (host, (Unsettled { claimant, owner }, since)) in seen {
        let owner = owner.as_ref().filter(|owner| (known.can_claim)(owner));
        // Otherwise, the claim of the wildcard would take names below it from their owners.
        let is_first = |owner: &&Arc<str>| {
            let mut below = below.get(host).into_iter().flatten();
            !below.any(|(other, at)| *other != **owner && at <= since)
        };
        let owner = owner.filter(is_first);
        match claimant {
            Some(claimant) if (known.can_claim)(claimant) => {
                if *since + GRACE > now {
                    wake = earlier(wake, *since + GRACE);
                    continue;
                }
                due.entry(claim_shard(host)).or_default().push(Change { host, owner: None, since: *since });
            }
            None if owner.is_none() => {}
            _ => due.entry(claim_shard(host)).or_default().push(Change { host, owner, since: *since }),
        }
    }
    for changes in due.values_mut() {
        changes.sort_by_key(|change| change.since);
    }
    (due, wake)
}

/// Returns the owners of unclaimed hosts below each wildcard that is not claimed yet, each with the time since which the host is
/// known.
fn unclaimed_below_wildcards(seen: &Seen) -> BTreeMap<Host, Vec<(Arc<str>, Instant)>> {
    let mut below = BTreeMap::<Host, Vec<(Arc<str>, Instant)>>::new();
    if !seen.keys().any(|host| matches!(host, Host::Wildcard(_))) {
        return below;
    }
    for (host, (Unsettled { owner, .. }, since)) in seen {
        if let Some((above, owner)) = parent(host).zip(owner.as_ref()).filter(|(above, _)| seen.contains_key(above)) {
            below.entry(above).or_default().push((owner.clone(), *since));
        }
    }
    below
}

/// A due change of a claim.
struct Change<'a> {
    host: &'a Host,
    /// The new claimant; `None` removes the claim.
    owner: Option<&'a Arc<str>>,
    since: Instant,
}

fn earlier(one: Option<Instant>, other: Instant) -> Option<Instant> {
    Some(one.map_or(other, |one| one.min(other)))
}

/// Returns the changes that fit into a ConfigMap, and the number of claims that do not. The cost depends on the changes and the
/// namespaces, not on the other claims.
fn fit(stored: Option<&HostClaims>, changes: &[Change], since: &str) -> (BTreeMap<String, Option<String>>, usize) {
    let mut of_namespace: BTreeMap<Arc<str>, usize> = stored.map_or_else(BTreeMap::new, |stored| stored.sizes.clone());
    let stored_claim = |host| stored.and_then(|stored| stored.claims.get(host));
    for Change { host, .. } in changes {
        if let Some((claim, size)) =
            stored_claim(*host).and_then(|claim| Some((claim, of_namespace.get_mut(&claim.namespace)?)))
        {
            *size -= claim.size(host);
        }
    }
    let mut total: usize = of_namespace.values().sum();
    let (mut data, mut beyond) = (BTreeMap::new(), 0);
    for Change { host, owner, .. } in changes {
        let mut value = None;
        if let Some(owner) = owner {
            let claim = StoredClaim { namespace: (*owner).clone(), since: since.into() };
            let (size, own) = (claim.size(host), of_namespace.entry((*owner).clone()).or_default());
            if total + size <= MAX_SHARD && *own + size <= MAX_OF_NAMESPACE {
                total += size;
                *own += size;
                value = Some(claim.value());
            } else {
                beyond += 1;
            }
        }
        if value.is_some() || stored_claim(*host).is_some() {
            data.insert(claim_key(host), value);
        }
    }
    (data, beyond)
}

#[cfg(test)]
mod tests;
