//! A single source: the hosts, units, and TLS entries that one object declares, before they are combined with other
//! objects.
//!
//! Every dialect parses its objects into sources. Conflicts, ownership, and certificates are decided on sources, so they
//! are the same for all dialects. An object declares hosts on the listeners that all objects share, or attaches itself to listeners of
//! Gateways.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use crate::model::{ClientValidation, ClusterId, Destination, Host, KeyPair, SecretId, TlsVersion};
use crate::objects::{Precedence, Revision};

pub use super::backend::WantedPort;
use super::gateway::attached::Attached;
use super::graph::Input;
pub use super::plain_text::PlainText;
use super::problem::{Message, Problem};
use super::unit::{Field, RequestTarget, Unit};
use super::verdict::Verdict;

/// An object that declares routes, parsed.
#[derive(Debug, PartialEq)]
pub struct Source {
    /// Its rank in every conflict.
    pub precedence: Precedence,
    /// A reference to it.
    pub origin: ObjectRef,
    /// The hash of its content.
    pub revision: Revision,
    /// Whether it requests a route, valid or not.
    pub asks: bool,
    /// Whether it names a host that its namespace must not define.
    pub has_refused_hosts: bool,
    /// Its part on the listeners that all objects share.
    pub shared: Shared,
    /// Its part on listeners of Gateways.
    pub attached: Attached,
    /// The inputs and clusters that it depends on.
    pub dependencies: Dependencies,
    /// The problems of the object itself.
    pub problems: Box<[Arc<Problem>]>,
    /// The conditions of its status.
    pub verdicts: Box<[Verdict]>,
}

/// The part of an object on the listeners that all objects share.
#[derive(Debug, PartialEq)]
pub struct Shared {
    /// Whether it has no rules, so that its default backend applies to every host.
    pub rule_less: bool,
    /// Its rules with a valid host, in their order; a host may occur twice.
    pub rules: Box<[Rule]>,
    /// Its TLS entries.
    pub entries: Box<[TlsEntry]>,
    /// The lowest and the highest TLS version of its hosts.
    pub tls_versions: (TlsVersion, TlsVersion),
    /// Where the bytes of the TLS connections of its hosts go. `None`: Envoy reads requests from the connections.
    pub stream: Option<Box<Stream>>,
    /// The verification of the clients of its hosts. `None`: no certificate is requested.
    pub clients: Option<Arc<HostClientValidation>>,
    /// Whether clients without a known server name reach its hosts too.
    pub is_without_server_name: bool,
    /// The namespaces that may add paths to its hosts, sorted.
    pub delegates: Arc<[Arc<str>]>,
    /// The target of requests that match no rule.
    pub default_backend: Option<Box<RequestTarget>>,
    /// Whether the default backend is also the backend of a rule.
    pub default_backend_in_rules: bool,
    /// The size of the clusters that the object has for itself alone, in bytes. It counts toward the limit of the namespace.
    pub size_of_clusters: u64,
    /// The indexes of the entries that can apply to hosts that they do not list: the first entry of each key pair, and the
    /// first entry without hosts and key pair. At most [`MAX_BESIDE`].
    pub(super) beside: Box<[u32]>,
    /// The places of each host, sorted by host.
    pub(super) hosts: Box<[(Host, Places)]>,
}

impl Source {
    /// Returns a source without content.
    pub fn new(precedence: Precedence, origin: ObjectRef, revision: Revision) -> Self {
        Self {
            precedence,
            origin,
            revision,
            asks: false,
            has_refused_hosts: false,
            shared: Shared::new(Vec::new(), Vec::new()),
            attached: Attached::default(),
            dependencies: Dependencies::default(),
            problems: Box::default(),
            verdicts: Box::default(),
        }
    }

    /// Returns every host that it declares, with repetitions. A default backend stands for all hosts.
    pub fn all_hosts(&self) -> impl Iterator<Item = &Host> {
        let by_default = self.shared.default_backend.as_ref().map(|_| &Host::Any);
        let attached = self.attached.attachments.iter().flat_map(|attachment| &attachment.hosts);
        self.shared.hosts().chain(by_default).chain(attached)
    }
}

impl Shared {
    /// Returns the part with only these rules and TLS entries.
    pub fn new(rules: Vec<Rule>, entries: Vec<TlsEntry>) -> Self {
        Self {
            rule_less: rules.is_empty(),
            tls_versions: (TlsVersion::V1_2, TlsVersion::V1_3),
            stream: None,
            clients: None,
            is_without_server_name: false,
            beside: beside(&entries),
            hosts: places(&rules, &entries),
            rules: rules.into(),
            entries: entries.into(),
            delegates: Arc::default(),
            default_backend: None,
            default_backend_in_rules: false,
            size_of_clusters: 0,
        }
    }

    /// Returns whether the object itself sets features of its routes, sends a context, has clusters for itself alone, or runs programs. These
    /// count toward the limit of its namespace.
    pub fn has_features(&self) -> bool {
        let counts = |unit: &Unit| unit.own.is_some() || unit.route.runs_program() || unit.route.context_size() > 0;
        self.size_of_clusters > 0 || self.rules.iter().flat_map(|rule| &rule.units).any(counts)
    }

    /// Returns its hosts, sorted.
    pub fn hosts(&self) -> impl Iterator<Item = &Host> {
        self.hosts.iter().map(|(host, _)| host)
    }

    /// Returns the rules for `host`.
    pub fn rules_for(&self, host: &Host) -> impl Iterator<Item = &Rule> {
        let places = self.places(host).into_iter().flat_map(|places| &places.rules);
        places.filter_map(|at| self.rules.get(*at as usize))
    }

    /// Returns whether a rule names `host`.
    pub fn rules_on(&self, host: &Host) -> bool {
        self.places(host).is_some_and(|places| !places.rules.is_empty())
    }

    /// Returns the places of `host`, if it occurs.
    pub fn places(&self, host: &Host) -> Option<&Places> {
        let at = self.hosts.binary_search_by(|(other, _)| other.cmp(host)).ok()?;
        self.hosts.get(at).map(|(_, places)| places)
    }
}

/// Where the bytes of TLS connections go. Only an object that defines all of its hosts can have one.
#[derive(Debug, Clone, PartialEq)]
pub struct Stream {
    /// Whether Envoy decrypts the bytes, with the certificate of the host.
    pub is_decrypted: bool,
    /// The destination.
    pub to: Destination,
}

/// The verification of the clients of hosts. Only an object that defines all of its hosts can have one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostClientValidation {
    /// The verification. `None`: clients cannot be verified, so no TLS connection may be accepted.
    pub validation: Option<ClientValidation>,
    /// The size of the authorities and the revocation lists in the memory of an Envoy, in bytes.
    pub size: u64,
}

/// The maximum number of TLS entries of a source that apply to hosts that they do not list. Each host of the source reads all of
/// them.
pub const MAX_BESIDE: usize = 100;

/// Returns the number of TLS entries that could apply to hosts that they do not list, but are beyond [`MAX_BESIDE`].
pub fn count_beyond(entries: &[TlsEntry]) -> usize {
    applying(entries).len().saturating_sub(MAX_BESIDE)
}

/// Returns the indexes of the TLS entries that apply to hosts that they do not list.
fn beside(entries: &[TlsEntry]) -> Box<[u32]> {
    let mut beside = applying(entries);
    beside.truncate(MAX_BESIDE);
    beside.sort_unstable();
    beside.into()
}

/// Returns the indexes of the entries that can apply to hosts that they do not list. Entries without hosts come first. Of the
/// entries without hosts and key pair, only the first applies: each host has a problem for it, and the others change nothing.
fn applying(entries: &[TlsEntry]) -> Vec<u32> {
    let mut pairs = BTreeSet::new();
    let mut is_blind_before = false;
    let mut applies = |entry: &TlsEntry| match &entry.material {
        EntryKeyPair::Pair(secret, _) => pairs.insert(secret.clone()),
        _ => entry.is_blind() && !std::mem::replace(&mut is_blind_before, true),
    };
    let of = |hostless: bool| (0..).zip(entries).filter(move |(_, entry)| entry.hostless == hostless);
    of(true).chain(of(false)).filter(|(_, entry)| applies(entry)).map(|(at, _)| at).collect()
}

/// The places of a host in a source.
#[derive(Debug, Default, PartialEq)]
pub struct Places {
    /// The indexes of its rules in [`Shared::rules`].
    pub rules: Box<[u32]>,
    /// The indexes of its TLS entries in [`Shared::entries`].
    pub entries: Box<[u32]>,
}

/// Returns the places of each host.
fn places(rules: &[Rule], entries: &[TlsEntry]) -> Box<[(Host, Places)]> {
    let mut hosts = BTreeMap::<&Host, (Vec<u32>, Vec<u32>)>::new();
    for (at, rule) in (0..).zip(rules) {
        hosts.entry(&rule.host).or_default().0.push(at);
    }
    for (at, entry) in (0..).zip(entries) {
        for host in &entry.hosts {
            hosts.entry(host).or_default().1.push(at);
        }
    }
    let places = |(rules, entries): (Vec<_>, Vec<_>)| Places { rules: rules.into(), entries: entries.into() };
    hosts.into_iter().map(|(host, at)| (host.clone(), places(at))).collect()
}

/// The dependencies of a source, each list sorted.
#[derive(Debug, Default, PartialEq)]
pub struct Dependencies {
    /// The other objects that a source depends on, even if they do not exist.
    pub inputs: Box<[Input]>,
    /// Clusters, whether they can be built or not.
    pub clusters: Box<[ClusterId]>,
}

/// Returns the name of the rules for `host`, which policies can target. `None`: only policies of the complete object apply.
pub fn section_of(host: &Host) -> Option<Arc<str>> {
    match host {
        Host::Exact(name) => Some(name.clone()),
        Host::Wildcard(_) => Some(host.to_string().into()),
        Host::Any => None,
    }
}

/// The routes for one host.
#[derive(Debug, PartialEq)]
pub struct Rule {
    /// The field of the rule.
    pub field: Field,
    /// The host.
    pub host: Host,
    /// The units that can be served.
    pub units: Box<[Unit]>,
}

/// TLS for some hosts of a source: an element of `spec.tls` of an Ingress.
#[derive(Debug, PartialEq)]
pub struct TlsEntry {
    /// The field of the entry.
    pub field: Field,
    /// The valid hosts that it lists.
    pub hosts: Vec<Host>,
    /// Whether it lists no hosts, so that the names of its certificate apply.
    pub hostless: bool,
    /// Whether its certificate is presented for the hosts that it lists whatever names it has.
    pub ignores_names: bool,
    /// The key pair of its Secret.
    pub material: EntryKeyPair,
}

/// The key pair of an entry's Secret.
#[derive(Debug, PartialEq)]
pub enum EntryKeyPair {
    /// A usable key pair.
    Pair(SecretId, Arc<KeyPair>),
    /// The default certificate, because no Secret is named.
    Default,
    /// No usable key pair, with the reason.
    Unusable(Message),
    /// A Secret of another namespace, which the problem of the annotation reports.
    Foreign,
}
