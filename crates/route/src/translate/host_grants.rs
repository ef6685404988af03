//! HostGrants: the namespaces that may define a host. The rule is the same for every kind of object.
//!
//! Of the entries that cover a host, the most specific one decides: the host itself, then `*.` directly above it, then the longest `**.`.
//! If several HostGrants have this entry, the namespaces of all of them may define the host. A host that no entry covers may be defined by
//! every namespace, unless the settings require a HostGrant. A wildcard with granted names below it needs an entry
//! that covers the wildcard. Otherwise, any namespace could receive the requests for these names.
//!
//! A source is parsed without the hosts that its namespace must not define. The later stages do not know them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::model::Host;
use crate::objects::gateway::{LabelCondition, LabelSelector};
use crate::objects::{HostGrant, Kind, Namespace, ObjectKey, Objects, Revision};
use crate::settings::Settings;

use super::fault::FieldFault;
use super::host;
use super::problem::{Cause, Message, Problem, Reason, bounded};
use super::verdict::{self, Status, Verdict};

/// All HostGrants, indexed by the hosts of their entries.
#[derive(Debug, Default, PartialEq)]
pub struct HostGrants {
    /// Whether a host that no entry covers may be defined by nobody.
    is_required: bool,
    grants: Vec<Granted>,
    /// The HostGrants with an entry for this name, as indexes in `grants`.
    names: Entries,
    /// The HostGrants with an entry `*.` for this suffix.
    one_label: Entries,
    /// The HostGrants with an entry `**.` for this suffix. The suffix of `**` is empty.
    suffixes: Entries,
    /// The suffixes of all entries, each with the first HostGrant: a wildcard for one of them has granted names below it.
    above: BTreeMap<Arc<str>, usize>,
}

type Entries = BTreeMap<Arc<str>, Vec<usize>>;

/// A HostGrant, parsed.
#[derive(Debug, PartialEq)]
pub struct Granted {
    /// The key.
    pub key: ObjectKey,
    /// The hash of its content.
    pub revision: Revision,
    /// The problems of its hosts and its selector. The other parts have an effect.
    pub problems: Box<[Arc<Problem>]>,
    /// The conditions of its status.
    pub verdicts: Arc<[Verdict]>,
    names: BTreeSet<Arc<str>>,
    selector: Option<LabelSelector>,
}

/// A valid entry of a HostGrant.
enum Entry {
    Name(Arc<str>),
    OneLabel(Arc<str>),
    Suffix(Arc<str>),
}

impl HostGrants {
    /// Parses all HostGrants.
    pub fn new(objects: &Objects, settings: &Settings) -> Self {
        let mut all = Self { is_required: settings.hosts.require_grant, ..Self::default() };
        for grant in objects.all::<HostGrant>() {
            all.add(grant);
        }
        all
    }

    fn add(&mut self, grant: &HostGrant) {
        let HostGrant { meta, spec, status: _, version: _ } = grant;
        let (origin, at) = (meta.object_ref(Kind::HOST_GRANT), self.grants.len());
        let mut problems = Vec::new();
        let mut problem = |field: String, message: String, consequence: &str| {
            let (object, reason) = (origin.clone(), Reason::HostGrantNotValid);
            problems.push(Problem {
                object,
                field,
                reason,
                message: message.into(),
                consequence: consequence.to_owned(),
            });
        };
        for (i, text) in spec.hosts.iter().enumerate() {
            let (entries, name) = match parse(text) {
                Ok(Entry::Name(name)) => (&mut self.names, name),
                Ok(Entry::OneLabel(suffix)) => (&mut self.one_label, suffix),
                Ok(Entry::Suffix(suffix)) => (&mut self.suffixes, suffix),
                Err(fault) => {
                    problem(format!("spec.hosts[{i}]"), format!("host {text:?} {fault}"), "covers no host");
                    continue;
                }
            };
            for suffix in suffixes(&name) {
                self.above.entry(suffix.into()).or_insert(at);
            }
            let grants = entries.entry(name).or_default();
            if grants.last() != Some(&at) {
                grants.push(at);
            }
        }
        let selector = spec.namespaces.selector.as_ref().filter(|selector| {
            let faults: Vec<_> = (0..).zip(&selector.match_expressions).filter_map(fault).collect();
            let is_valid = faults.is_empty();
            for FieldFault { field, message } in faults {
                problem(field, message, "the selector selects no namespace");
            }
            is_valid
        });
        let verdicts: Vec<Verdict> = match problems.is_empty() {
            true => vec![Verdict::new(origin, "Accepted", Status::True, "Accepted")],
            false => problems.iter().map(|problem| problem.verdict("Accepted")).collect(),
        };
        self.grants.push(Granted {
            key: meta.key.clone(),
            revision: Revision::new(meta, spec),
            problems: bounded(problems),
            verdicts: verdict::bounded(&verdicts),
            names: spec.namespaces.names.iter().map(|name| name.as_str().into()).collect(),
            selector: selector.cloned(),
        });
    }

    /// Returns the HostGrants, by name.
    pub fn all(&self) -> impl Iterator<Item = &Granted> {
        self.grants.iter()
    }

    /// Returns the HostGrant with this key.
    pub fn get(&self, key: &ObjectKey) -> Option<&Granted> {
        self.grants.binary_search_by(|grant| grant.key.cmp(key)).ok().and_then(|at| self.grants.get(at))
    }

    /// Returns whether the labels of namespaces have an effect.
    pub fn read_labels(&self) -> bool {
        self.grants.iter().any(|grant| grant.selector.is_some())
    }

    /// Returns whether a HostGrant has an entry for this name itself.
    pub fn is_named(&self, host: &Host) -> bool {
        matches!(host, Host::Exact(name) if self.names.contains_key(name))
    }

    /// Returns the names with an entry in only one of both.
    pub fn differing_names(&self, other: &Self) -> BTreeSet<Host> {
        let beyond = |one: &Self, other: &Self| -> Vec<Host> {
            one.names.keys().filter(|name| !other.names.contains_key(*name)).cloned().map(Host::Exact).collect()
        };
        beyond(self, other).into_iter().chain(beyond(other, self)).collect()
    }

    /// Returns whether the objects of `namespace` may define `host`.
    pub fn permit(&self, host: &Host, namespace: &Arc<str>, objects: &Objects) -> bool {
        match self.deciding(host) {
            Some(grants) => self.contain(grants, namespace, objects),
            None => !self.is_required && self.granted_below(host).is_none(),
        }
    }

    /// Returns an error with the reason if the objects of `namespace` must not define `host`.
    pub fn check(&self, host: &Host, namespace: &Arc<str>, objects: &Objects) -> Result<(), Message> {
        if self.permit(host, namespace, objects) {
            return Ok(());
        }
        let name = |at: usize| self.grants.get(at).map(|grant| &*grant.key.name).unwrap_or_default();
        let text = match (self.deciding(host), self.granted_below(host), host) {
            (Some(grants), ..) => {
                let first = grants.first().copied().map(name).unwrap_or_default();
                let others = match grants.len() {
                    1 => String::new(),
                    count => format!(" and {} more", count - 1),
                };
                format!("host \"{host}\" is granted to other namespaces by HostGrant \"{first}\"{others}")
            }
            (None, Some(grant), _) => {
                let grant = name(grant);
                format!("no HostGrant covers host \"{host}\", which has hosts of HostGrant \"{grant}\" below it")
            }
            (None, None, Host::Any) => {
                "no HostGrant has the host \"**\" for requests without a named host, and \"hosts.requireGrant\" is true"
                    .to_owned()
            }
            (None, None, host) => {
                format!("no HostGrant covers host \"{host}\", and \"hosts.requireGrant\" is true")
            }
        };
        let is_granted = self.deciding(host).is_some();
        Err(Message::from(text).because(Cause::HostNotGranted { host: host.clone(), is_granted }))
    }

    /// Returns the HostGrants with the most specific entry that covers `host`.
    fn deciding(&self, host: &Host) -> Option<&[usize]> {
        let (own, rest) = match host {
            Host::Exact(name) => {
                let rest = name.split_once('.').map(|(_, suffix)| suffix);
                (self.names.get(name).or_else(|| self.one_label.get(rest?)), rest)
            }
            Host::Wildcard(suffix) => (self.one_label.get(suffix), Some(&**suffix)),
            Host::Any => (None, None),
        };
        let above = || rest.into_iter().flat_map(|rest| [rest].into_iter().chain(suffixes(rest)));
        let of_suffix = || above().chain([""]).find_map(|suffix| self.suffixes.get(suffix));
        own.or_else(of_suffix).map(Vec::as_slice)
    }

    /// Returns the first HostGrant with names below a wildcard.
    fn granted_below(&self, host: &Host) -> Option<usize> {
        match host {
            Host::Wildcard(suffix) => self.above.get(suffix).copied(),
            Host::Exact(_) | Host::Any => None,
        }
    }

    fn contain(&self, grants: &[usize], namespace: &Arc<str>, objects: &Objects) -> bool {
        let labels = || {
            let key = ObjectKey { namespace: "".into(), name: namespace.clone() };
            objects.get::<Namespace>(&key).map(|namespace| &namespace.labels)
        };
        grants.iter().filter_map(|at| self.grants.get(*at)).any(|grant| {
            let selects = |selector: &LabelSelector| labels().is_some_and(|labels| selector.selects(labels));
            grant.names.contains(namespace) || grant.selector.as_ref().is_some_and(selects)
        })
    }
}

/// Parses an entry. The error describes the fault, for a message that quotes `text`.
fn parse(text: &str) -> Result<Entry, &'static str> {
    if text == "**" {
        return Ok(Entry::Suffix("".into()));
    }
    if let Some(suffix) = text.strip_prefix("**.") {
        return match host::parse(suffix)? {
            Host::Exact(suffix) => Ok(Entry::Suffix(suffix)),
            Host::Wildcard(_) | Host::Any => Err("is not a DNS name after \"**.\""),
        };
    }
    match host::parse(text)? {
        Host::Exact(name) => Ok(Entry::Name(name)),
        Host::Wildcard(suffix) => Ok(Entry::OneLabel(suffix)),
        Host::Any => Err("is empty"),
    }
}

/// Returns the names above `name`: `example.com` and `com` for `shop.example.com`.
fn suffixes(name: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(name.split_once('.'), |(_, rest)| rest.split_once('.')).map(|(_, rest)| rest)
}

/// Returns the fault of a condition of a selector, if it is not valid. Source: Kubernetes v1, `LabelSelectorRequirement`.
fn fault((at, condition): (usize, &LabelCondition)) -> Option<FieldFault> {
    let LabelCondition { key, operator, values } = condition;
    let field = |name: &str| format!("spec.namespaces.selector.matchExpressions[{at}].{name}");
    match operator.as_str() {
        _ if key.is_empty() => Some(FieldFault::new(field("key"), "key is empty")),
        "In" | "NotIn" if values.is_empty() => {
            Some(FieldFault::new(field("values"), format!("operator {operator:?} needs values")))
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            Some(FieldFault::new(field("values"), format!("operator {operator:?} has no values")))
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => None,
        _ => Some(FieldFault::new(field("operator"), format!("operator {operator:?} is not known"))),
    }
}

#[cfg(test)]
mod tests;
