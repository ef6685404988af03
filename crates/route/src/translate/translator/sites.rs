//! The hosts that sources name, and the dependencies between hosts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::state::owners::Claim;
use crate::few::Few;
use crate::model::Host;
use crate::objects::Precedence;
use crate::translate::host::parent;
use crate::translate::problem::Problem;
use crate::translate::source::{HostClientValidation, Source};
use crate::translate::tls::{Missed, TlsProperties};

/// A host that a source names, in a rule or for TLS.
#[derive(Debug, Default)]
pub struct Site {
    /// The sources that name it, in the order of precedence.
    pub sources: Few<Precedence>,
    /// Whether any source names it in a rule that is served.
    pub in_rules: bool,
    /// The claim of its owner. Stored only for wildcards, because the names below them depend on it.
    pub claim: Option<Box<Claim>>,
    /// The size of a copy of its rules of each namespace, in bytes. Empty for exact hosts, whose rules are not copied.
    pub sizes: BTreeMap<Arc<str>, u64>,
    /// The TLS properties of the host.
    pub chain: Option<TlsProperties>,
    /// Whether its TLS connections are forwarded without being decrypted.
    pub is_passed_through: bool,
    /// The verification of the clients of its rules.
    pub clients: Option<Arc<HostClientValidation>>,
    /// The problems of sources that concern only this host.
    pub problems: Vec<Arc<Problem>>,
    /// The TLS entries for the host without a usable key pair.
    pub missed: Vec<Missed>,
}

/// All hosts that sources name.
#[derive(Debug, Default)]
pub struct Sites {
    sites: BTreeMap<Host, Box<Site>>,
    /// The exact hosts below each wildcard, whether a source names the wildcard or not.
    below: BTreeMap<Host, Few<Host>>,
    /// Hosts that are named for TLS only, so that the rules of the wildcard above or without a host apply.
    borrowing: BTreeSet<Host>,
}

impl Sites {
    /// Returns a host if a source names it.
    pub fn get(&self, host: &Host) -> Option<&Site> {
        self.sites.get(host).map(|site| &**site)
    }

    /// Returns a mutable host if a source names it.
    pub fn get_mut(&mut self, host: &Host) -> Option<&mut Site> {
        self.sites.get_mut(host).map(|site| &mut **site)
    }

    /// Adds a source to the hosts that it names.
    pub fn enter(&mut self, source: &Source) {
        for host in source.shared.hosts() {
            if let Some(above) = parent(host).filter(|_| !self.sites.contains_key(host)) {
                self.below.entry(above).or_default().insert(host.clone());
            }
            self.sites.entry(host.clone()).or_default().sources.insert(source.precedence.clone());
        }
    }

    /// Removes a source from the hosts that it names.
    pub fn leave(&mut self, source: &Source) {
        for host in source.shared.hosts() {
            if let Some(site) = self.sites.get_mut(host) {
                site.sources.remove(&source.precedence);
            }
        }
    }

    /// Records whether `host` is named in a rule.
    pub fn set_in_rules(&mut self, host: &Host, in_rules: bool) {
        let Some(site) = self.sites.get_mut(host) else { return };
        site.in_rules = in_rules;
        match in_rules {
            true => drop(self.borrowing.remove(host)),
            false => drop(self.borrowing.insert(host.clone())),
        }
    }

    /// Removes and returns a host that no source names any more.
    pub fn forget_unnamed(&mut self, host: &Host) -> Option<Site> {
        self.sites.get(host).filter(|site| site.sources.is_empty())?;
        self.borrowing.remove(host);
        if let Some(above) = parent(host)
            && let Some(hosts) = self.below.get_mut(&above)
        {
            hosts.remove(host);
            if hosts.is_empty() {
                self.below.remove(&above);
            }
        }
        self.sites.remove(host).map(|site| *site)
    }

    /// Extends `hosts` with every host whose owner, virtual host or filter chain depends on one of them.
    pub fn close(&self, hosts: &mut BTreeSet<Host>) {
        if hosts.contains(&Host::Any) {
            hosts.extend(self.borrowing.iter().cloned());
            // Envoy's wildcard domains also match names that no rule names.
            let wildcards = self.sites.range(Host::Wildcard("".into())..Host::Any);
            hosts.extend(wildcards.map(|(host, _)| host.clone()));
        }
        let wildcards = hosts.iter().filter(|host| matches!(host, Host::Wildcard(_)));
        let below: Vec<Host> = wildcards.filter_map(|host| self.below.get(host)).flat_map(Few::iter).cloned().collect();
        hosts.extend(below);
    }
}
