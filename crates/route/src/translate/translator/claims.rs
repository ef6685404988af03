//! The stored claims of hosts ([`HostClaims`]), and the hosts whose claim does not match their rules.
//!
//! A claim holds while its ConfigMap has it, its namespace is not being deleted, and no HostGrant gives the host to other namespaces.
//! The leader adds and removes claims, because the translation has no clock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use imbl::OrdMap;

use crate::model::Host;
use crate::objects::{HostClaims, Kind, Object, Objects, StoredClaim, claim_shard};
use crate::settings::{NamespaceOwnership, Settings};
use crate::translate::graph::ChangedInputs;
use crate::translate::host_grants::HostGrants;

/// A host whose claim does not match its rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsettled {
    /// The namespace that has the claim.
    pub claimant: Option<Arc<str>>,
    /// The namespace that owns the host and has a rule for it.
    pub owner: Option<Arc<str>>,
}

/// The hosts whose claim does not match their rules. A clone is cheap.
pub type UnsettledHosts = OrdMap<Host, Unsettled>;

/// The stored claims.
#[derive(Debug, Default)]
pub struct Claims {
    /// The ConfigMaps by number.
    shards: BTreeMap<usize, Object>,
    /// The claimants without claims, because they are being deleted or do not exist.
    ended: BTreeSet<Arc<str>>,
    /// The hosts that their claimant must not define, according to the HostGrants.
    refused: BTreeSet<Host>,
    unsettled: UnsettledHosts,
    /// Whether hosts have owners.
    enabled: bool,
}

impl Claims {
    /// Updates the claims. Returns the hosts whose claimant has changed.
    pub fn update(
        &mut self,
        objects: &Objects,
        settings: &Settings,
        grants: &HostGrants,
        changed: &ChangedInputs,
    ) -> BTreeSet<Host> {
        self.enabled = settings.namespace_ownership == NamespaceOwnership::Strict;
        let mut hosts = BTreeSet::new();
        if !self.enabled {
            return hosts;
        }
        let mut suspects: BTreeSet<Arc<str>> = changed.of_kind(Kind::NAMESPACE).map(|key| key.name.clone()).collect();
        if changed.is_everything() || changed.of_kind(Kind::HOST_CLAIMS).next().is_some() {
            let mut shards = BTreeMap::new();
            for object in objects.of_kind(Kind::HOST_CLAIMS).values() {
                if let Some(claims) = object.get::<HostClaims>() {
                    shards.entry(claims.shard).or_insert_with(|| object.clone());
                }
            }
            let before = std::mem::replace(&mut self.shards, shards);
            let numbers: BTreeSet<&usize> = before.keys().chain(self.shards.keys()).collect();
            for number in numbers {
                differing(before.get(number), self.shards.get(number), &mut hosts);
            }
            suspects.extend(hosts.iter().filter_map(|host| self.stored(host)).cloned());
            if !self.ended.is_empty() {
                let claimants: BTreeSet<Arc<str>> = self.all().map(|(_, claim)| claim.namespace.clone()).collect();
                self.ended.retain(|namespace| claimants.contains(namespace));
            }
        }
        suspects.retain(|namespace| self.ended.contains(namespace) == objects.can_claim(namespace));
        if !suspects.is_empty() {
            self.move_namespaces(&suspects, objects, &mut hosts);
        }
        self.refuse(objects, grants, changed, &mut hosts);
        hosts
    }

    /// Updates the hosts that their claimant must not define. `hosts` are those with another claimant; extends them.
    fn refuse(&mut self, objects: &Objects, grants: &HostGrants, changed: &ChangedInputs, hosts: &mut BTreeSet<Host>) {
        let read_labels = grants.read_labels() && changed.of_kind(Kind::NAMESPACE).next().is_some();
        let all = changed.is_everything() || changed.of_kind(Kind::HOST_GRANT).next().is_some() || read_labels;
        let suspects: BTreeSet<Host> = match all {
            true => self.all().map(|(host, _)| host).chain(&self.refused).cloned().collect(),
            false => hosts.clone(),
        };
        for host in suspects {
            let is_refused = self.stored(&host).is_some_and(|namespace| !grants.permit(&host, namespace, objects));
            if is_refused != self.refused.contains(&host) {
                match is_refused {
                    true => drop(self.refused.insert(host.clone())),
                    false => drop(self.refused.remove(&host)),
                }
                hosts.insert(host);
            }
        }
    }

    /// Records that these namespaces have lost or regained their claims. Extends `hosts` with the hosts that they claim.
    fn move_namespaces(&mut self, suspects: &BTreeSet<Arc<str>>, objects: &Objects, hosts: &mut BTreeSet<Host>) {
        let mut claimants = BTreeSet::new();
        for (host, claim) in self.all().filter(|(_, claim)| suspects.contains(&claim.namespace)) {
            claimants.insert(claim.namespace.clone());
            hosts.insert(host.clone());
        }
        for namespace in suspects {
            match claimants.contains(namespace) && !objects.can_claim(namespace) {
                true => drop(self.ended.insert(namespace.clone())),
                false => drop(self.ended.remove(namespace)),
            }
        }
    }

    /// Returns the namespace that keeps a host.
    pub fn holder(&self, host: &Host) -> Option<&Arc<str>> {
        self.stored(host).filter(|namespace| !self.ended.contains(*namespace) && !self.refused.contains(host))
    }

    fn all(&self) -> impl Iterator<Item = (&Host, &StoredClaim)> {
        self.shards.values().flat_map(claims_of)
    }

    fn stored(&self, host: &Host) -> Option<&Arc<str>> {
        claims_of(self.shards.get(&claim_shard(host))?).get(host).map(|claim| &claim.namespace)
    }

    /// Compares the claim of a host with the owner that has a rule for it.
    pub fn settle(&mut self, host: &Host, owner: Option<Arc<str>>) {
        if !self.enabled || *host == Host::Any {
            return;
        }
        let claimant = self.stored(host).cloned();
        if claimant == owner {
            self.unsettled.remove(host);
            return;
        }
        let now = Unsettled { claimant, owner };
        if self.unsettled.get(host) != Some(&now) {
            self.unsettled.insert(host.clone(), now);
        }
    }

    /// Returns the hosts whose claim does not match their rules.
    pub fn unsettled(&self) -> &UnsettledHosts {
        &self.unsettled
    }
}

fn claims_of(shard: &Object) -> &BTreeMap<Host, StoredClaim> {
    static NONE: BTreeMap<Host, StoredClaim> = BTreeMap::new();
    shard.get::<HostClaims>().map_or(&NONE, |shard| &shard.claims)
}

/// Extends `hosts` with the hosts that have another claimant.
fn differing(before: Option<&Object>, now: Option<&Object>, hosts: &mut BTreeSet<Host>) {
    if before.zip(now).is_some_and(|(before, now)| before == now) {
        return;
    }
    let none = BTreeMap::new();
    let [before, now] = [before, now].map(|shard| shard.map_or(&none, claims_of));
    let claimant = |claims: &BTreeMap<Host, StoredClaim>, host| {
        let claim: Option<&StoredClaim> = claims.get(host);
        claim.map(|claim| claim.namespace.clone())
    };
    let all = before.keys().chain(now.keys());
    hosts.extend(all.filter(|host| claimant(before, host) != claimant(now, host)).cloned());
}
