//! TLS entries without a usable key pair. Each entry has one problem, which lists all affected hosts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use crate::model::Host;
use crate::translate::problem::{MOST, Message, Problem, Reason};
use crate::translate::tls::{Instead, Missed};

/// The Ingress, the field, and the fault.
type Key = (ObjectRef, String, Message);

/// The fallbacks of the hosts of entries without a usable key pair.
#[derive(Debug, Default)]
pub struct Outcomes {
    open: BTreeMap<Key, Outcome>,
    /// The entries whose problem is outdated.
    changed: BTreeSet<Key>,
}

#[derive(Debug, Default)]
struct Outcome {
    /// The hosts of each fallback: wildcards first, then by name.
    hosts: BTreeMap<Instead, BTreeSet<(bool, Host)>>,
    told: Option<Arc<Problem>>,
}

fn place(host: &Host) -> (bool, Host) {
    (!matches!(host, Host::Wildcard(_)), host.clone())
}

impl Outcomes {
    /// Replaces the entries `before` of `host` by `now`.
    pub fn replace(&mut self, host: &Host, before: &[Missed], now: &[Missed]) {
        if before == now {
            return;
        }
        for missed in before {
            let key = key(missed);
            if let Some(hosts) = self.open.get_mut(&key).and_then(|one| one.hosts.get_mut(&missed.instead)) {
                hosts.remove(&place(host));
            }
            self.changed.insert(key);
        }
        for missed in now {
            let key = key(missed);
            let hosts = self.open.entry(key.clone()).or_default().hosts.entry(missed.instead.clone()).or_default();
            hosts.insert(place(host));
            self.changed.insert(key);
        }
    }

    /// Returns the problems that no longer apply, and those that apply from now on.
    pub fn report(&mut self) -> [Vec<Arc<Problem>>; 2] {
        let (mut before, mut now) = (Vec::new(), Vec::new());
        for key in std::mem::take(&mut self.changed) {
            let Some(outcome) = self.open.get_mut(&key) else { continue };
            outcome.hosts.retain(|_, hosts| !hosts.is_empty());
            before.extend(outcome.told.take());
            if outcome.hosts.is_empty() {
                self.open.remove(&key);
            } else {
                outcome.told = Some(Arc::new(problem(&key, &outcome.hosts)));
                now.extend(outcome.told.clone());
            }
        }
        [before, now]
    }
}

fn key(missed: &Missed) -> Key {
    (missed.object.clone(), missed.field.clone(), missed.fault.clone())
}

fn problem((object, field, fault): &Key, outcomes: &BTreeMap<Instead, BTreeSet<(bool, Host)>>) -> Problem {
    let outcomes = outcomes.iter().map(|(instead, hosts)| {
        let named: Vec<String> = hosts.iter().take(MOST).map(|(_, host)| format!("\"{host}\"")).collect();
        let hosts = match hosts.len().saturating_sub(MOST) {
            0 => named.join(", "),
            others => format!("{} and {others} more hosts", named.join(", ")),
        };
        match instead {
            Instead::Default => format!("default certificate for {hosts}"),
            Instead::Other(secret) => format!("Secret \"{secret}\" for {hosts}"),
            Instead::Nothing => format!("no TLS for {hosts}"),
        }
    });
    Problem {
        object: object.clone(),
        field: format!("{field}.secretName"),
        reason: Reason::SecretNotValid,
        message: fault.clone(),
        consequence: outcomes.collect::<Vec<_>>().join("; "),
    }
}
