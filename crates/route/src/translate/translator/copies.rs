//! The memory of hosts in Envoy that copy the content of others, and its limits.
//!
//! - A wildcard with TLS has a filter chain, with a copy of its key pair. A certificate for 1,000 wildcards is copied 1,000 times.
//! - A host that only a TLS entry names has a copy of the rules of the wildcard above it, or of the rules without a host.
//! - A wildcard has a copy of the rules without a host, for the names of several labels below it.
//!
//! The product of two objects would otherwise use up the memory of all Envoys. Charges depend on the objects alone, not on the
//! limits, so that the result does not depend on the history.

use std::collections::BTreeSet;
use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use super::Translator;
use super::quota::{Charge, Quota};
use crate::model::{Host, TlsVersion};
use crate::settings::Settings;
use crate::translate::problem::{Problem, Reason};
use crate::translate::source::Source;
use crate::translate::tls::{Asking, Chain};

/// The memory of the filter chain of a wildcard in an Envoy without its key pair, in bytes, measured with Envoy 1.40.
const WILDCARD: u64 = 64 << 10;

/// The charges for copies.
#[derive(Debug, Default)]
pub struct Copies {
    /// Wildcards with TLS, by the namespace that provides the certificate.
    pub key_pairs: Quota<Host, Arc<str>>,
    /// Hosts with the rules of another host, by the namespace that names the host and the namespace of the rules. Neither can
    /// take the memory of others: the first by more hosts, the second by more rules.
    pub rules: Quota<Host, [Arc<str>; 2]>,
}

impl Copies {
    /// Applies the limits. Returns the hosts that have come within or beyond them.
    pub fn apply(&mut self, settings: &Settings) -> BTreeSet<Host> {
        let mut moved = self.key_pairs.apply(settings.tls.max_wildcard_memory_per_namespace);
        moved.extend(self.rules.apply(settings.routes.max_copy_memory_per_namespace));
        moved
    }
}

/// Returns the charge of the filter chain of a wildcard. With HTTP/3, Envoy has another one for QUIC.
pub fn of_key_pair(chain: &Chain, settings: &Settings) -> Charge<Arc<str>> {
    let is_over_quic = settings.http.http3.enabled && chain.maximum >= TlsVersion::V1_3;
    let memory = (WILDCARD + chain.pair_memory) * if is_over_quic { 2 } else { 1 };
    Charge { group: chain.provider.key.namespace.clone(), rank: chain.provider.clone(), memory }
}

/// The object that makes a host copy the rules of another host.
#[derive(Debug)]
pub enum Copier<'a> {
    /// A TLS entry for a host that no rule names.
    Entry(Asking<'a>),
    /// The first Ingress with a rule for a wildcard.
    Rule(&'a Source),
}

impl<'a> Copier<'a> {
    fn source(&self) -> &'a Source {
        match self {
            Self::Entry(Asking { source, .. }) | Self::Rule(source) => source,
        }
    }

    /// Returns the problem of `host` beyond the limit, which copies the rules of `other`.
    pub fn surplus(&self, host: &Host, other: &Host) -> Problem {
        let rules = match other {
            Host::Any => "the rules without a host".to_owned(),
            other => format!("the rules of \"{other}\""),
        };
        let (field, consequence) = match self {
            Self::Entry(asking) => (Some(asking.entry.field), format!("TLS entry not used for \"{host}\"")),
            Self::Rule(source) => {
                let field = source.rules_for(host).next().map(|rule| rule.field);
                (field, format!("names of several labels below \"{host}\" are answered 404"))
            }
        };
        Problem {
            object: self.source().origin.clone(),
            field: field.map(|field| field.to_string()).unwrap_or_default(),
            reason: Reason::TooManyCopies,
            message: format!(
                "\"{host}\" needs a copy of {rules}, for which the other hosts of the namespace leave no memory in the limit \
                 routes.maxCopyMemoryPerNamespace; older Ingresses come first"
            ),
            consequence,
        }
    }
}

impl Translator {
    /// Returns the charge of a host for a copy of the rules of `other`, which are the rules of `first` and others.
    pub(super) fn of_rules(&self, copier: &Copier, other: &Host, first: &Source) -> Option<Charge<[Arc<str>; 2]>> {
        let memory = self.sites.get(other).map_or(0, |site| site.memory);
        let group = [&copier.source().origin, &first.origin].map(|origin| origin.namespace.clone());
        (memory > 0).then(|| Charge { group, rank: copier.source().precedence.clone(), memory })
    }
}

/// Returns the problem of a wildcard with TLS beyond the limit of its namespace.
pub fn without_key_pair(host: &Host, chain: &Chain, nobody: impl Fn() -> ObjectRef) -> Problem {
    let key = &chain.provider.key;
    let provides = |origin: &&ObjectRef| origin.namespace == key.namespace && origin.name == key.name;
    Problem {
        object: chain.origins.iter().find(provides).cloned().unwrap_or_else(nobody),
        field: "spec.tls".to_owned(),
        reason: Reason::TooManyWildcards,
        message: format!(
            "the other wildcard hosts with TLS of the namespace leave no memory for \"{host}\" in the limit \
             tls.maxWildcardMemoryPerNamespace; older Ingresses come first"
        ),
        consequence: format!("no TLS for \"{host}\""),
    }
}
