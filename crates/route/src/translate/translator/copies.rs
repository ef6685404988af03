//! The size of hosts that copy the content of others, and its limits.
//!
//! - A wildcard with TLS has a filter chain, with a copy of its key pair. A certificate for 1,000 wildcards is copied 1,000 times.
//! - A host that only a TLS entry names has a copy of the rules of the wildcard above it, or of the rules without a host.
//! - A wildcard has a copy of the rules without a host, for the names of several labels below it.
//!
//! The product of two objects would otherwise use up the memory of all Envoys. The limit of each group is the limit of the
//! configuration of a namespace. Charges depend on the objects alone, not on the
//! limits, so that the result does not depend on the history.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use super::quota::{Charge, Quota};
use super::sites::Site;
use crate::model::{Host, TlsVersion};
use crate::settings::Settings;
use crate::translate::problem::{Problem, Reason};
use crate::translate::source::{Field, Source};
use crate::translate::tls::{Asking, Chain};

/// The size of the filter chain of a wildcard without its key pair, in bytes.
const WILDCARD: u64 = 2 << 10;

/// The size of a copied route of a wildcard, as a multiple of that of other routes: it has a regular expression for the names of
/// several labels.
const OF_WILDCARD: u64 = 2;

/// The namespace that names a host, and a namespace with rules that the host copies. Neither can take the limit of others: the
/// first by more hosts, the second by more rules.
type Pair = [Arc<str>; 2];

/// The charges of a host for rules, by the namespace of the rules.
pub type RuleCharges = BTreeMap<Arc<str>, Charge<Pair>>;

/// The charges for copies.
#[derive(Debug, Default)]
pub struct Copies {
    /// Wildcards with TLS, by the namespace that provides the certificate.
    pub key_pairs: Quota<Host, Arc<str>>,
    /// Hosts with rules of each namespace.
    rules: Quota<(Host, Arc<str>), Pair>,
}

impl Copies {
    /// Returns whether these are the charges of a host for rules.
    pub fn has_charges(&self, host: &Host, charges: &RuleCharges) -> bool {
        self.rules_of(host).eq(charges)
    }

    /// Replaces the charges of a host for rules.
    pub fn replace_rules(&mut self, host: &Host, now: RuleCharges) {
        let gone = self.rules_of(host).map(|(namespace, _)| namespace.clone());
        let gone: Vec<Arc<str>> = gone.filter(|namespace| !now.contains_key(namespace)).collect();
        gone.into_iter().for_each(|namespace| self.rules.replace(&(host.clone(), namespace), None));
        now.into_iter().for_each(|(namespace, charge)| self.rules.replace(&(host.clone(), namespace), Some(charge)));
    }

    /// Decides which rules of another host `host` copies. `other` is that host, with the first namespace of its rules.
    pub fn decide(
        &self,
        host: &Host,
        other: Option<(&Host, &Arc<str>)>,
        copier: Option<&Copier>,
        charges: &RuleCharges,
    ) -> Decision {
        let is_surplus = |namespace: &&Arc<str>| self.rules.is_surplus(&(host.clone(), (*namespace).clone()));
        let left_out: BTreeSet<Arc<str>> = charges.keys().filter(is_surplus).cloned().collect();
        let (Some((other, first)), Some(copier), false) = (other, copier, left_out.is_empty()) else {
            return Decision::default();
        };
        let is_denied = left_out.contains(first);
        let size = charges.iter().filter(|(namespace, _)| left_out.contains(*namespace));
        let size = size.map(|(_, charge)| charge.size).sum();
        let problems = copier.surplus(host, other, &left_out, size, is_denied);
        Decision { left_out, is_denied, problems }
    }

    /// Applies the limits. Returns the hosts that have come within or beyond them.
    pub fn apply(&mut self, settings: &Settings) -> BTreeSet<Host> {
        let limit = settings.tenants.max_configuration_per_namespace;
        let mut moved = self.key_pairs.apply(limit);
        let of_rules = self.rules.apply(limit);
        moved.extend(of_rules.into_iter().map(|(host, _)| host));
        moved
    }

    /// Returns the sizes of the copies for each namespace, in bytes.
    pub fn totals(&self) -> impl Iterator<Item = (&Arc<str>, u64)> {
        let of_rules = self.rules.totals().map(|([namespace, _], size)| (namespace, size));
        self.key_pairs.totals().chain(of_rules)
    }

    fn rules_of(&self, host: &Host) -> impl Iterator<Item = (&Arc<str>, &Charge<Pair>)> {
        let charges = self.rules.charges_from((host.clone(), Arc::default()));
        charges.take_while(move |((other, _), _)| other == host).map(|((_, namespace), charge)| (namespace, charge))
    }
}

/// The decision about a copy of rules.
#[derive(Debug, Default)]
pub struct Decision {
    /// The namespaces whose rules are not copied, because they are beyond a limit.
    pub left_out: BTreeSet<Arc<str>>,
    /// Whether nothing is copied. The rules of other namespaces are not copied without those of the first.
    pub is_denied: bool,
    /// The problems of the objects that need the copy.
    pub problems: Vec<Problem>,
}

/// Returns the charge of the filter chain of a wildcard. With HTTP/3, Envoy has another one for QUIC.
pub fn of_key_pair(chain: &Chain, settings: &Settings) -> Charge<Arc<str>> {
    let is_over_quic = settings.http.http3.enabled && chain.maximum >= TlsVersion::V1_3;
    let size = (WILDCARD + chain.pair_size) * if is_over_quic { 2 } else { 1 };
    Charge { group: chain.provider.key.namespace.clone(), rank: chain.provider.clone(), size }
}

/// The objects that make a host copy the rules of another host.
#[derive(Debug)]
pub enum Copier<'a> {
    /// The TLS entries for a host that no rule names. The first one is charged.
    Entries(Vec<Asking<'a>>),
    /// The first Ingress with a rule for a wildcard.
    Rule(&'a Source),
}

impl<'a> Copier<'a> {
    /// Returns the copier of a host with these permitted TLS entries. The entry that provides the certificate is charged, so that
    /// the entries of others do not decide about it.
    pub fn entries(mut entries: Vec<Asking<'a>>, chain: &Chain) -> Option<Self> {
        let provider = entries.iter().position(|asking| asking.source.precedence == chain.provider);
        entries.swap(0, provider.unwrap_or(0));
        (!entries.is_empty()).then_some(Self::Entries(entries))
    }

    /// Returns the charges for a copy of the rules of `site`.
    pub fn charges(&self, site: &Site) -> RuleCharges {
        let (payer, times) = match self {
            Self::Entries(entries) => (entries.first().map(|asking| asking.source), 1),
            Self::Rule(source) => (Some(*source), OF_WILDCARD),
        };
        let Some(payer) = payer else { return RuleCharges::new() };
        let charge = |(namespace, size): (&Arc<str>, &u64)| {
            let group = [payer.origin.namespace.clone(), namespace.clone()];
            let size = size.saturating_mul(times);
            (namespace.clone(), Charge { group, rank: payer.precedence.clone(), size })
        };
        site.sizes.iter().map(charge).collect()
    }

    /// Returns the problems of `host` if the rules of these namespaces for `other`, of this size, are not copied. `is_denied`:
    /// nothing is copied.
    fn surplus(
        &self,
        host: &Host,
        other: &Host,
        namespaces: &BTreeSet<Arc<str>>,
        size: u64,
        is_denied: bool,
    ) -> Vec<Problem> {
        let rules = match other {
            Host::Any => "the rules without a host".to_owned(),
            other => format!("the rules of \"{other}\""),
        };
        let namespaces = namespaces.iter().map(|namespace| format!("\"{namespace}\"")).collect::<Vec<_>>().join(", ");
        let message = format!(
            "a copy of {rules} of namespace {namespaces} for \"{host}\" takes {} KiB of configuration, more than older Ingresses leave \
             of the limit tenants.maxConfigurationPerNamespace",
            size.div_ceil(1 << 10),
        );
        let problem = |source: &Source, field: Option<Field>, consequence: String| Problem {
            object: source.origin.clone(),
            field: field.map(|field| field.to_string()).unwrap_or_default(),
            reason: Reason::TooManyCopies,
            message: message.clone(),
            consequence,
        };
        match self {
            Self::Entries(entries) => {
                let consequence = match is_denied {
                    true => format!("TLS entry not used for \"{host}\""),
                    false => format!("these rules left out for \"{host}\""),
                };
                let problem = |asking: &Asking| problem(asking.source, Some(asking.entry.field), consequence.clone());
                entries.iter().map(problem).collect()
            }
            Self::Rule(source) => {
                let consequence = match is_denied {
                    true => format!("names of several labels below \"{host}\" are answered 404"),
                    false => format!("these rules left out for names of several labels below \"{host}\""),
                };
                vec![problem(source, source.rules_for(host).next().map(|rule| rule.field), consequence)]
            }
        }
    }
}

/// Returns the problem of a wildcard with TLS beyond the limit of its namespace.
pub fn without_key_pair(host: &Host, chain: &Chain, settings: &Settings, nobody: impl Fn() -> ObjectRef) -> Problem {
    let key = &chain.provider.key;
    let provides = |origin: &&ObjectRef| origin.namespace == key.namespace && origin.name == key.name;
    Problem {
        object: chain.origins.iter().find(provides).cloned().unwrap_or_else(nobody),
        field: "spec.tls".to_owned(),
        reason: Reason::TooManyWildcards,
        message: format!(
            "\"{host}\" takes {} KiB of configuration, more than the other wildcard hosts with TLS of the namespace leave of the \
             limit tenants.maxConfigurationPerNamespace; older Ingresses come first",
            of_key_pair(chain, settings).size >> 10,
        ),
        consequence: format!("no TLS for \"{host}\""),
    }
}
