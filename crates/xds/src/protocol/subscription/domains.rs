//! Virtual hosts that share a domain, now or before a change. Envoy accepts such a change in one response or not at all,
//! because a route configuration contains each domain once.
//!
//! A rejected response can contain all virtual hosts, so the work is linear in their number.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use prost::Message;

use super::Subscription;
use crate::snapshot::{Resource, ResourceType};

impl Subscription {
    /// Returns the groups of `names` that must be sent together: virtual hosts that exchange domains, directly or through
    /// other virtual hosts of the group. The groups are sorted by their last names.
    pub fn units(&self, names: &BTreeSet<Arc<str>>) -> Vec<BTreeSet<Arc<str>>> {
        if self.kind != ResourceType::VIRTUAL_HOST {
            return names.iter().map(|name| BTreeSet::from([name.clone()])).collect();
        }
        // A disjoint-set forest of the positions of the names. The root of a tree is its last name.
        let mut parents: Vec<usize> = (0..names.len()).collect();
        let mut last_with: HashMap<String, usize> = HashMap::new();
        for (at, name) in names.iter().enumerate() {
            for domain in self.domains(name, self.base.get(self.kind, name)) {
                if let Some(other) = last_with.insert(domain, at) {
                    let root = root(&mut parents, other);
                    parents[root] = at;
                }
            }
        }
        let mut units: BTreeMap<usize, BTreeSet<Arc<str>>> = BTreeMap::new();
        for (at, name) in names.iter().enumerate() {
            units.entry(root(&mut parents, at)).or_default().insert(name.clone());
        }
        units.into_values().collect()
    }

    /// Returns the domains of the virtual host `name` in its versions at the client and in its version `desired`. Some
    /// domains occur twice.
    pub fn domains(&self, name: &str, desired: Option<&Arc<Resource>>) -> Vec<String> {
        let known = self.known(name);
        let versions = [known.sent.resource(), known.accepted.resource(), desired];
        let mut versions: Vec<&Arc<Resource>> = versions.into_iter().flatten().collect();
        // Most of them are equal, and decoding takes most of the time.
        versions.sort_unstable_by_key(|host| host.version());
        versions.dedup_by_key(|host| host.version());
        versions.into_iter().flat_map(|host| domains_of(host)).collect()
    }
}

/// Returns the root of the tree that contains `at`, and shortens the path to it.
fn root(parents: &mut [usize], mut at: usize) -> usize {
    while parents[at] != at {
        parents[at] = parents[parents[at]];
        at = parents[at];
    }
    at
}

/// Returns the domains of a virtual host.
fn domains_of(host: &Resource) -> Vec<String> {
    VirtualHost::decode(host.message()).map(|host| host.domains).unwrap_or_default()
}

/// The field of `VirtualHost` that contains domains. Decoding the routes would take much longer.
#[derive(Clone, PartialEq, Message)]
struct VirtualHost {
    #[prost(string, repeated, tag = "2")]
    domains: Vec<String>,
}
