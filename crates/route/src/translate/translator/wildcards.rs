//! The memory of the wildcard hosts with TLS of each namespace, and its limit.
//!
//! Envoy has a filter chain for each of them, with a copy of its certificates, and compares all chains of a listener at every
//! update. A certificate for 1,000 wildcards is copied 1,000 times. Without a limit, one namespace could use up the memory of all
//! Envoys, and delay every update.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::model::Host;
use crate::objects::Precedence;
use crate::translate::limit::fitting;

/// The wildcard hosts with TLS.
#[derive(Debug, Default)]
pub struct Wildcards {
    /// The filter chain of each wildcard, whether it is within the limit or not.
    chains: BTreeMap<Host, Wildcard>,
    namespaces: BTreeMap<Arc<str>, Namespace>,
    /// The namespaces with changes since the last call of [`Wildcards::apply`].
    changed: BTreeSet<Arc<str>>,
}

/// The filter chain of a wildcard host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wildcard {
    /// The rank of the object that provides the certificate.
    pub rank: Precedence,
    /// The memory in an Envoy, in bytes.
    pub memory: u64,
}

/// The wildcard hosts with TLS of a namespace.
#[derive(Debug, Default)]
struct Namespace {
    /// The memory of each host, in the order of precedence.
    hosts: BTreeMap<(Precedence, Host), u64>,
    /// The hosts beyond the limit.
    surplus: BTreeSet<Host>,
}

impl Wildcards {
    /// Returns whether a wildcard is beyond the limit of its namespace.
    pub fn is_surplus(&self, host: &Host) -> bool {
        let namespace = self.chains.get(host).and_then(|chain| self.namespaces.get(&chain.rank.key.namespace));
        namespace.is_some_and(|namespace| namespace.surplus.contains(host))
    }

    /// Replaces the filter chain of a host, if it is a wildcard with TLS.
    pub fn replace(&mut self, host: &Host, now: Option<Wildcard>) {
        if self.chains.get(host) == now.as_ref() {
            return;
        }
        if let Some(before) = self.chains.remove(host) {
            let name = before.rank.key.namespace.clone();
            if let Some(namespace) = self.namespaces.get_mut(&name) {
                namespace.hosts.remove(&(before.rank, host.clone()));
            }
            self.changed.insert(name);
        }
        if let Some(now) = now {
            let name = now.rank.key.namespace.clone();
            let namespace = self.namespaces.entry(name.clone()).or_default();
            namespace.hosts.insert((now.rank.clone(), host.clone()), now.memory);
            self.chains.insert(host.clone(), now);
            self.changed.insert(name);
        }
    }

    /// Applies the limit, in bytes, to the changed namespaces. Returns the wildcards that have come within or beyond it.
    pub fn apply(&mut self, limit: u64) -> BTreeSet<Host> {
        let mut moved = BTreeSet::new();
        for name in std::mem::take(&mut self.changed) {
            let Some(namespace) = self.namespaces.get_mut(&name) else { continue };
            let mut fits = fitting(limit);
            let surplus = namespace.hosts.iter().filter(|(_, memory)| !fits(**memory));
            let surplus = surplus.map(|((_, host), _)| host.clone()).collect();
            let before = std::mem::replace(&mut namespace.surplus, surplus);
            moved.extend(before.symmetric_difference(&namespace.surplus).cloned());
            if namespace.hosts.is_empty() {
                self.namespaces.remove(&name);
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

    fn set(wildcards: &mut Wildcards, name: &str, namespace: &str, created: i64) -> Vec<String> {
        let rank =
            Precedence { terminating: false, created, key: ObjectKey::new(namespace, "ingress"), kind: Kind::INGRESS };
        wildcards.replace(&host(name), Some(Wildcard { rank, memory: 50 }));
        wildcards.apply(100).iter().map(Host::to_string).collect()
    }

    #[test]
    fn older_objects_of_a_namespace_come_first() {
        let mut wildcards = Wildcards::default();
        assert!(set(&mut wildcards, "b", "shop", 2).is_empty());
        assert!(set(&mut wildcards, "c", "shop", 3).is_empty());
        assert!(set(&mut wildcards, "z", "other", 9).is_empty());
        assert_eq!(set(&mut wildcards, "a", "shop", 1), ["*.c"]);
        assert!(wildcards.is_surplus(&host("c")) && !wildcards.is_surplus(&host("a")));
        assert_eq!(set(&mut wildcards, "b", "other", 1), ["*.c"], "another namespace provides the certificate");
        for name in ["a", "b", "c", "z"] {
            wildcards.replace(&host(name), None);
        }
        assert!(wildcards.apply(100).is_empty());
        assert!(wildcards.chains.is_empty() && wildcards.namespaces.is_empty() && wildcards.changed.is_empty());
    }
}
