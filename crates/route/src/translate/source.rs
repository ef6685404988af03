//! A single source: the hosts, routes, and TLS entries that one object declares, before they are combined with other
//! objects.
//!
//! Every dialect parses its objects into sources. Conflicts, ownership, and certificates are decided on sources, so they
//! are the same for all dialects.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use crate::model::{Action, ClusterId, Host, KeyPair, Match, PathMatch, Route, SecretId, TlsVersion};
use crate::objects::{Precedence, Revision};
use crate::re2::Cost;

pub use super::backend::WantedPort;
use super::graph::Input;
pub use super::plain_text::PlainText;
use super::problem::Problem;
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
    /// Whether it has no rules, so that its default backend applies to every host.
    pub rule_less: bool,
    /// Its rules with a valid host, in their order; a host may occur twice.
    pub rules: Box<[Rule]>,
    /// Its TLS entries.
    pub entries: Box<[Entry]>,
    /// The lowest and the highest TLS version of its hosts.
    pub tls_versions: (TlsVersion, TlsVersion),
    /// The namespaces that may add paths to its hosts, sorted.
    pub delegates: Arc<[Arc<str>]>,
    /// Whether it requests a route, valid or not.
    pub asks: bool,
    /// Whether it names a host that its namespace must not define.
    pub has_refused_hosts: bool,
    /// The target of requests that match no rule.
    pub default_backend: Option<Box<Target>>,
    /// Whether the default backend is also the backend of a rule.
    pub default_backend_in_rules: bool,
    /// The inputs and clusters that it depends on.
    pub dependencies: Dependencies,
    /// The problems of the object itself.
    pub problems: Box<[Arc<Problem>]>,
    /// The conditions of its status.
    pub verdicts: Box<[Verdict]>,
    /// The indexes of the entries that can apply to hosts that they do not list: the first entry of each key pair, and the
    /// first entry without hosts and key pair. At most [`MAX_BESIDE`].
    pub(super) beside: Box<[u32]>,
    /// The places of each host, sorted by host.
    pub(super) hosts: Box<[(Host, Places)]>,
}

impl Source {
    /// Returns a source with only these rules and TLS entries.
    pub fn new(
        precedence: Precedence,
        origin: ObjectRef,
        revision: Revision,
        rules: Vec<Rule>,
        entries: Vec<Entry>,
    ) -> Self {
        Self {
            precedence,
            origin,
            revision,
            rule_less: rules.is_empty(),
            tls_versions: (TlsVersion::V1_2, TlsVersion::V1_3),
            delegates: Arc::default(),
            asks: rules.iter().any(|rule| !rule.paths.is_empty()),
            has_refused_hosts: false,
            default_backend: None,
            default_backend_in_rules: false,
            dependencies: Dependencies::default(),
            problems: Box::default(),
            verdicts: Box::default(),
            beside: beside(&entries),
            hosts: places(&rules, &entries),
            rules: rules.into(),
            entries: entries.into(),
        }
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

/// The maximum number of TLS entries of a source that apply to hosts that they do not list. Each host of the source reads all of
/// them.
pub const MAX_BESIDE: usize = 100;

/// Returns the number of TLS entries that could apply to hosts that they do not list, but are beyond [`MAX_BESIDE`].
pub fn count_beyond(entries: &[Entry]) -> usize {
    applying(entries).len().saturating_sub(MAX_BESIDE)
}

/// Returns the indexes of the TLS entries that apply to hosts that they do not list.
fn beside(entries: &[Entry]) -> Box<[u32]> {
    let mut beside = applying(entries);
    beside.truncate(MAX_BESIDE);
    beside.sort_unstable();
    beside.into()
}

/// Returns the indexes of the entries that can apply to hosts that they do not list. Entries without hosts come first. Of the
/// entries without hosts and key pair, only the first applies: each host has a problem for it, and the others change nothing.
fn applying(entries: &[Entry]) -> Vec<u32> {
    let mut pairs = BTreeSet::new();
    let mut is_blind_before = false;
    let mut applies = |entry: &Entry| match &entry.material {
        Material::Pair(secret, _) => pairs.insert(secret.clone()),
        _ => entry.is_blind() && !std::mem::replace(&mut is_blind_before, true),
    };
    let of = |hostless: bool| (0..).zip(entries).filter(move |(_, entry)| entry.hostless == hostless);
    of(true).chain(of(false)).filter(|(_, entry)| applies(entry)).map(|(at, _)| at).collect()
}

/// The places of a host in a source.
#[derive(Debug, Default, PartialEq)]
pub struct Places {
    /// The indexes of its rules in [`Source::rules`].
    pub rules: Box<[u32]>,
    /// The indexes of its TLS entries in [`Source::entries`].
    pub entries: Box<[u32]>,
}

/// Returns the places of each host.
fn places(rules: &[Rule], entries: &[Entry]) -> Box<[(Host, Places)]> {
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

/// A field of an object, for problems. Small, because every route has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// The path of the field. Each `#` stands for the next element of `indices`.
    pub template: &'static str,
    /// The indices.
    pub indices: [u32; 2],
}

/// `spec.rules[0].http.paths[2]`
impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = self.template.split('#');
        f.write_str(parts.next().unwrap_or_default())?;
        for (index, part) in self.indices.iter().zip(parts) {
            write!(f, "{index}{part}")?;
        }
        Ok(())
    }
}

/// The routes for one host.
#[derive(Debug, PartialEq)]
pub struct Rule {
    /// The field of the rule.
    pub field: Field,
    /// The host.
    pub host: Host,
    /// The routes that can be served.
    pub paths: Box<[PathRule]>,
}

/// A route of a rule.
#[derive(Debug, PartialEq)]
pub struct PathRule {
    /// The field of the route.
    pub field: Field,
    /// The cost of its regular expression; zero without one.
    pub cost: Cost,
    /// Its route behind TLS, which all hosts and revisions of the model share.
    pub route: Arc<Route>,
    /// The treatment of its requests in plain text.
    pub plain_text: PlainText,
}

impl PathRule {
    /// A route of `path` to `target`.
    pub fn new(field: Field, path: PathMatch, cost: Cost, target: Target) -> Self {
        let Target { action, plain_text, origin } = target;
        Self { field, cost, route: Arc::new(Route::new(path, action, origin)), plain_text }
    }

    /// Returns the requests that it matches.
    pub fn matches(&self) -> &Match {
        &self.route.matches
    }

    /// Returns the path that it matches.
    pub fn path(&self) -> &PathMatch {
        &self.route.matches.path
    }

    /// Returns whether both have the same match and the same effect.
    pub fn is_same(&self, other: &Self) -> bool {
        self.route == other.route && self.plain_text == other.plain_text
    }
}

/// The target of requests, on both ports.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// The action on requests behind TLS.
    pub action: Action,
    /// The treatment of requests in plain text.
    pub plain_text: PlainText,
    /// The object that declares it.
    pub origin: ObjectRef,
}

/// TLS for some hosts of a source: an element of `spec.tls` of an Ingress.
#[derive(Debug, PartialEq)]
pub struct Entry {
    /// The field of the entry.
    pub field: Field,
    /// The valid hosts that it lists.
    pub hosts: Vec<Host>,
    /// Whether it lists no hosts, so that the names of its certificate apply.
    pub hostless: bool,
    /// The key pair of its Secret.
    pub material: Material,
}

/// The key pair of an entry's Secret.
#[derive(Debug, PartialEq)]
pub enum Material {
    /// A usable key pair.
    Pair(SecretId, Arc<KeyPair>),
    /// The default certificate, because no Secret is named.
    Default,
    /// No usable key pair, with the reason.
    Unusable(String),
    /// A Secret of another namespace, which the problem of the annotation reports.
    Foreign,
}
