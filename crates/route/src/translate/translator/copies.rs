//! The size of hosts that copy the content of others.
//!
//! - A wildcard with TLS, and a host whose connections are forwarded, has a filter chain, with a copy of its key pair. A certificate for 1,000 wildcards is copied 1,000 times.
//! - A host that verifies clients has a filter chain with a copy of the authorities, unless others have the same chain.
//! - A host that only a TLS entry names has a copy of the rules of the wildcard above it, or of the rules without a host.
//! - A wildcard has a copy of the rules without a host, for the names of several labels below it.
//! - Both have a copy of the default backend. Only its policies count, because they can be large.
//!
//! The product of two objects would otherwise use up the memory of all Envoys. The charges depend on the objects alone, not on the
//! limit, so that the result does not depend on the history.

use std::collections::BTreeMap;
use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use super::sites::Site;
use crate::envoy::stream::size_of_chain;
use crate::model::{Host, ListenerId, TlsVersion};
use crate::settings::Settings;
use crate::translate::charges::{Charge, Charges, Size};
use crate::translate::problem::{Problem, Reason};
use crate::translate::source::{HostClientValidation, Source, Stream};
use crate::translate::tls::{Asking, TlsProperties};
use crate::translate::unit::Field;

/// The size of the filter chain of a wildcard without its key pair, in bytes.
const WILDCARD: u64 = 4 << 10;

/// The size of the filter chain of a host whose connections are forwarded, without its key pair and its destination, in bytes. The size
/// of the destination is a multiple of it.
const STREAM: u64 = 4 << 10;

/// The size of a copied route of a wildcard, as a multiple of that of other routes: it has a regular expression for the names of
/// several labels.
const OF_WILDCARD: u64 = 3;

/// A part of a host that is a copy.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum CopiedPart {
    /// The filter chain of a wildcard, or of a host whose connections are forwarded.
    KeyPair,
    /// The authorities and the revocation lists that verify clients.
    Clients,
    /// The rules of this namespace.
    Rules(Arc<str>),
    /// The default backend of hosts that no rule names.
    DefaultBackend,
}

/// The charges of a host for its copies.
pub type ByPart = BTreeMap<CopiedPart, Charge>;

/// The charges for copies of the namespaces that name hosts.
pub type Copies = Charges<Host, CopiedPart>;

/// Returns the charge of the filter chain of a wildcard. With HTTP/3, Envoy has another one for QUIC.
pub fn of_key_pair(chain: &TlsProperties, settings: &Settings) -> Charge {
    let is_over_quic = settings.http.http3.enabled && chain.maximum >= TlsVersion::V1_3;
    let open = (WILDCARD + chain.pair_size) * if is_over_quic { 2 } else { 1 };
    Charge { rank: chain.provider.clone(), size: Size { open, closed: 0 } }
}

/// Returns the charge of the filter chain of a host whose connections are forwarded. `chain` has its key pair.
pub fn of_stream(by: &Source, stream: &Stream, chain: Option<&TlsProperties>, listener: &ListenerId) -> Charge {
    let size = size_of_chain(listener, &stream.to);
    let pair = chain.filter(|_| stream.is_decrypted).map_or(0, |chain| chain.pair_size);
    let open = STREAM.saturating_add(size.next_multiple_of(STREAM)).saturating_add(pair);
    Charge { rank: by.precedence.clone(), size: Size { open, closed: 0 } }
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
    pub fn entries(mut entries: Vec<Asking<'a>>, chain: &TlsProperties) -> Option<Self> {
        let provider = entries.iter().position(|asking| asking.source.precedence == chain.provider);
        entries.swap(0, provider.unwrap_or(0));
        (!entries.is_empty()).then_some(Self::Entries(entries))
    }

    /// Returns the charges for a copy of the rules of `site`.
    pub fn charges(&self, site: &Site) -> ByPart {
        let charge =
            |(namespace, size): (&Arc<str>, &u64)| Some((CopiedPart::Rules(namespace.clone()), self.charge(*size)?));
        site.sizes.iter().filter_map(charge).collect()
    }

    /// Returns the charge for a copy of this size, in bytes.
    pub fn charge(&self, size: u64) -> Option<Charge> {
        let (payer, times) = match self {
            Self::Entries(entries) => (entries.first()?.source, 1),
            Self::Rule(source) => (*source, OF_WILDCARD),
        };
        let size = Size { open: size.saturating_mul(times), closed: 0 };
        Some(Charge { rank: payer.precedence.clone(), size })
    }

    /// Returns the problems of `host` if `what`, of this size, is not copied. `is_all`: nothing is copied.
    pub fn surplus(&self, host: &Host, what: &str, size: u64, is_all: bool) -> Vec<Problem> {
        let message = format!(
            "a copy of {what} for \"{host}\" takes {} KiB of configuration, more than older Ingresses leave \
             of the limit tenants.maxConfigurationPerNamespace",
            size.div_ceil(1 << 10),
        );
        let problem = |source: &Source, field: Option<&Field>, consequence: String| Problem {
            object: source.origin.clone(),
            field: field.map(|field| field.to_string()).unwrap_or_default(),
            reason: Reason::TooManyCopies,
            message: message.clone().into(),
            consequence,
        };
        match self {
            Self::Entries(entries) => {
                let consequence = match is_all {
                    true => format!("requests to \"{host}\" over TLS are answered 503"),
                    false => format!("requests to \"{host}\" over TLS that only these rules match are answered 503"),
                };
                let problem = |asking: &Asking| problem(asking.source, Some(&asking.entry.field), consequence.clone());
                entries.iter().map(problem).collect()
            }
            Self::Rule(source) => {
                let which = if is_all { "" } else { " that only these rules match" };
                let consequence =
                    format!("requests to names of several labels below \"{host}\"{which} are answered 503");
                vec![problem(source, source.shared.rules_for(host).next().map(|rule| &rule.field), consequence)]
            }
        }
    }
}

/// Returns the problem of a wildcard with TLS beyond the limit of its namespace.
pub fn too_many_wildcards(
    host: &Host,
    chain: &TlsProperties,
    settings: &Settings,
    nobody: impl Fn() -> ObjectRef,
) -> Problem {
    let key = &chain.provider.key;
    let provides = |origin: &&ObjectRef| origin.namespace == key.namespace && origin.name == key.name;
    Problem {
        object: chain.origins.iter().find(provides).cloned().unwrap_or_else(nobody),
        field: "spec.tls".to_owned(),
        reason: Reason::TooManyWildcards,
        message: format!(
            "\"{host}\" takes {} KiB of configuration, more than the other wildcard hosts with TLS of the namespace leave of the \
             limit tenants.maxConfigurationPerNamespace; older Ingresses come first",
            of_key_pair(chain, settings).size.open >> 10,
        ).into(),
        consequence: format!("TLS connections for \"{host}\" are closed, and its rules are answered 503"),
    }
}

/// Returns the problem of a host whose connections are forwarded, beyond the limit of its namespace.
pub fn too_many_streams(
    host: &Host,
    by: &Source,
    stream: &Stream,
    chain: Option<&TlsProperties>,
    listener: &ListenerId,
) -> Problem {
    Problem {
        object: by.origin.clone(),
        field: "spec.tcpproxy".to_owned(),
        reason: Reason::TooManyCopies,
        message: format!(
            "\"{host}\" takes {} KiB of configuration, more than older objects leave of the limit \
             tenants.maxConfigurationPerNamespace",
            of_stream(by, stream, chain, listener).size.open >> 10,
        )
        .into(),
        consequence: format!("TLS connections for \"{host}\" are closed"),
    }
}

/// Returns the problem of a host whose authorities do not fit into the limit of the namespace of `object`.
pub fn too_many_authorities(host: &Host, clients: &HostClientValidation, object: ObjectRef) -> Problem {
    Problem {
        object,
        field: "spec.virtualhost.tls.clientValidation".to_owned(),
        reason: Reason::TooManyCopies,
        message: format!(
            "the certificate authorities and revocation lists for \"{host}\" take {} KiB, more than older objects leave of the limit \
             tenants.maxConfigurationPerNamespace",
            clients.size >> 10,
        )
        .into(),
        consequence: format!("TLS connections for \"{host}\" are closed"),
    }
}
