//! Stored claims: the namespace that keeps each host.
//!
//! The leader stores claims in ConfigMaps ([`HostClaims`]), each of which has a part of the hosts. The part of a host depends
//! on its name alone, so no two ConfigMaps can disagree on a host.

use std::collections::BTreeMap;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use super::builtin::Namespace;
use super::content::Typed;
use super::kind::Kind;
use super::meta::Meta;
use super::store::Objects;
use crate::model::{Host, ObjectKey};

/// The number of ConfigMaps with claims of an installation.
pub const CLAIM_SHARDS: usize = 16;

/// The beginning of the key of a wildcard host. Keys of ConfigMaps must not contain `*`, and no host contains `_`.
const WILDCARD: &str = "_.";

/// A stored claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredClaim {
    /// The namespace that keeps the host.
    pub namespace: Arc<str>,
    /// The time at which the claim was stored, in RFC 3339, for people. Empty if unknown.
    pub since: Arc<str>,
}

impl StoredClaim {
    /// Parses the value of a key: the namespace and the time, separated by a space.
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        Some(Self { namespace: words.next()?.into(), since: words.next().unwrap_or_default().into() })
    }

    /// Returns the value of its key.
    pub fn value(&self) -> String {
        format!("{} {}", self.namespace, self.since).trim_end().to_owned()
    }

    /// Returns the size of the claim of a host in JSON, in bytes.
    pub fn size(&self, host: &Host) -> usize {
        let key = match host {
            Host::Exact(name) => name.len(),
            Host::Wildcard(suffix) => WILDCARD.len() + suffix.len(),
            Host::Any => 0,
        };
        let time = if self.since.is_empty() { 0 } else { " ".len() + self.since.len() };
        key + self.namespace.len() + time + r#""":"","#.len()
    }
}

/// A ConfigMap with stored claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostClaims {
    /// The metadata.
    pub meta: Meta,
    /// `metadata.resourceVersion`.
    pub version: Arc<str>,
    /// The number of the ConfigMap, from 0.
    pub shard: usize,
    /// The claims.
    pub claims: BTreeMap<Host, StoredClaim>,
    /// The size of the claims of each namespace in JSON, in bytes.
    pub sizes: BTreeMap<Arc<str>, usize>,
}

impl HostClaims {
    /// Creates the claims of the ConfigMap with this data. Malformed entries, and entries that belong into another ConfigMap,
    /// are no claims. Returns `None` if the name does not end with the number of a ConfigMap.
    pub fn new(meta: Meta, version: Arc<str>, data: &BTreeMap<String, String>) -> Option<Self> {
        let (_, shard) = meta.key.name.rsplit_once('-')?;
        let shard = shard.parse().ok().filter(|shard| *shard < CLAIM_SHARDS)?;
        let claims = data.iter().filter_map(|(key, value)| {
            let host = host_of_key(key);
            (claim_shard(&host) == shard).then_some(())?;
            Some((host, StoredClaim::parse(value)?))
        });
        let claims: BTreeMap<Host, StoredClaim> = claims.collect();
        let mut sizes = BTreeMap::<Arc<str>, usize>::new();
        for (host, claim) in &claims {
            *sizes.entry(claim.namespace.clone()).or_default() += claim.size(host);
        }
        Some(Self { version, shard, claims, sizes, meta })
    }
}

impl Typed for HostClaims {
    const KIND: Kind = Kind::HOST_CLAIMS;

    fn metadata(&self) -> &Meta {
        &self.meta
    }

    fn metadata_mut(&mut self) -> &mut Meta {
        &mut self.meta
    }
}

/// Returns the key of the claim of a host in its ConfigMap: `shop.example.com`, or `_.example.com` for `*.example.com`.
pub fn claim_key(host: &Host) -> String {
    match host {
        Host::Exact(name) => name.to_string(),
        Host::Wildcard(suffix) => format!("{WILDCARD}{suffix}"),
        Host::Any => String::new(),
    }
}

/// Returns the host of a key.
fn host_of_key(key: &str) -> Host {
    match key.strip_prefix(WILDCARD) {
        Some(suffix) => Host::Wildcard(suffix.into()),
        None => Host::Exact(key.into()),
    }
}

/// Returns the number of the ConfigMap that stores the claim of a host.
pub fn claim_shard(host: &Host) -> usize {
    let number = xxh3_64(claim_key(host).as_bytes()) % CLAIM_SHARDS as u64;
    usize::try_from(number).unwrap_or_default()
}

impl Objects {
    /// Returns whether a namespace exists and is not being deleted. Otherwise, it has no claims.
    pub fn can_claim(&self, namespace: &Arc<str>) -> bool {
        let key = ObjectKey { namespace: "".into(), name: namespace.clone() };
        self.get::<Namespace>(&key).is_some_and(|namespace| !namespace.meta.terminating)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::testing::objects::meta;

    #[test]
    fn malformed_and_misplaced_entries_are_no_claims() {
        let hosts =
            ["a.com", "b.com", "c.com", "*.x.com", "d.com"].map(|text| crate::translate::host::parse(text).unwrap());
        for shard in 0..CLAIM_SHARDS {
            let of = |value: &str| hosts.iter().map(|host| (claim_key(host), value.to_owned())).collect();
            let new = |data| HostClaims::new(meta(&format!("lockgate-claims-{shard}")), "1".into(), &data).unwrap();
            let here: Vec<&Host> = hosts.iter().filter(|host| claim_shard(host) == shard).collect();
            let stored = new(of("shop 2026-01-02T03:04:05Z"));
            assert_eq!(stored.shard, shard);
            let mut found: Vec<&Host> = stored.claims.keys().collect();
            found.sort_by_key(|host| hosts.iter().position(|one| one == *host));
            assert_eq!(found, here);
            for claim in stored.claims.values() {
                assert_eq!((&*claim.namespace, &*claim.since), ("shop", "2026-01-02T03:04:05Z"));
                assert_eq!(claim.value(), "shop 2026-01-02T03:04:05Z");
            }
            let json = |host: &&Host| format!(r#""{}":"shop 2026-01-02T03:04:05Z","#, claim_key(host)).len();
            let expected: usize = here.iter().map(json).sum();
            assert_eq!(stored.sizes.values().sum::<usize>(), expected, "{here:?}");
            assert_eq!(new(of("shop")).claims.len(), here.len(), "the time is optional");
            assert!(new(of(" ")).claims.is_empty());
        }
        for name in ["lockgate-claims-16", "lockgate-claims-x", "other"] {
            assert_eq!(HostClaims::new(meta(name), "1".into(), &BTreeMap::new()), None, "{name}");
        }
    }
}
