//! Rules of many Ingresses to the virtual hosts that they share: merging, conflicts, default backends, order.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::model::{Action, Host, PathMatch, Route, VirtualHost};
use crate::provenance::ObjectRef;

use super::annotations::PlainText;
use super::host;
use super::ingress::{Parsed, Target};
use super::path;
use super::problem::{Problem, Reason};

/// All rules, by host, conflicts decided.
#[derive(Debug)]
pub struct Rules<'a> {
    /// The hosts that rules name.
    pub hosts: BTreeMap<Host, HostRules<'a>>,
    /// The default backend of each host that an Ingress with one names in a rule or for TLS.
    fallbacks: BTreeMap<Host, &'a Target>,
    /// The default backend of all other hosts.
    catch_all: Option<&'a Target>,
}

/// The rules of one host.
#[derive(Debug, Default)]
pub struct HostRules<'a> {
    /// What each path leads to, and the field that says so.
    paths: BTreeMap<&'a PathMatch, (&'a Target, &'a str)>,
    /// The Ingresses that name the host in a rule, in the order of precedence.
    pub ingresses: Vec<&'a ObjectRef>,
    /// Whether any of them is served in plain text.
    open: bool,
}

/// Which of the two ports a virtual host is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The plain-text port.
    PlainText,
    /// The port with TLS.
    Tls,
}

impl<'a> Rules<'a> {
    /// Merges `ingresses`, which are in the order of precedence: of equal paths the first holds, and the owner of
    /// another is told.
    pub fn merge(ingresses: &'a [Parsed<'a>], problems: &mut Vec<Problem>) -> Self {
        let mut hosts: BTreeMap<Host, HostRules<'a>> = BTreeMap::new();
        for parsed in ingresses {
            for (host, paths) in &parsed.rules {
                let rules = hosts.entry(host.clone()).or_default();
                if rules.ingresses.last() != Some(&&parsed.origin) {
                    rules.ingresses.push(&parsed.origin);
                }
                rules.open |= parsed.annotations.plain_text != PlainText::Closed;
                for rule in paths {
                    match rules.paths.entry(&rule.path) {
                        Entry::Vacant(entry) => {
                            entry.insert((&rule.target, &rule.field));
                        }
                        Entry::Occupied(entry) => {
                            let (winner, field) = *entry.get();
                            // `/foo` and `/foo/` of one Ingress, to one backend, are no conflict.
                            if *winner != rule.target {
                                problems.push(conflict(parsed, host, &rule.path, &rule.field, winner, field));
                            }
                        }
                    }
                }
            }
        }
        let (fallbacks, catch_all) = default_backends(ingresses, problems);
        Self { hosts, fallbacks, catch_all }
    }

    /// Whether requests for hosts that no rule names lead anywhere.
    pub fn has_catch_all(&self) -> bool {
        self.catch_all.is_some() || self.hosts.contains_key(&Host::Any)
    }

    /// The virtual host of `host`. If no rule names it, the rules of the wildcard above it hold, else those without a
    /// host. `origin` answers for a virtual host in which nothing is configured.
    pub fn virtual_host(&self, host: &Host, side: Side, origin: &ObjectRef) -> VirtualHost {
        let parent = host::parent(host);
        let named = self.hosts.get(host);
        let inherited = || parent.as_ref().and_then(|host| self.hosts.get(host)).or_else(|| self.hosts.get(&Host::Any));
        let rules = named.or_else(inherited);
        let one_label_host = named.is_some() && matches!(host, Host::Wildcard(_));
        let route = |path: PathMatch, one_label_host: bool, target: &Target| Route {
            path,
            one_label_host,
            action: action(target, side),
            origin: target.origin.clone(),
        };
        let mut routes: Vec<Route> = rules
            .iter()
            .flat_map(|rules| &rules.paths)
            .map(|(path, (target, _))| route((*path).clone(), one_label_host, target))
            .collect();
        routes.sort_by(|a, b| path::order(&a.path, &b.path));
        let root = PathMatch::Prefix("/".to_owned());
        let reached = one_label_host || routes.last().is_none_or(|last| last.path != root);
        if let Some(fallback) = self.fallback(host, parent.as_ref(), side).filter(|_| reached) {
            routes.push(route(root.clone(), false, fallback));
        }
        let nothing = Action::Respond { status: 404 };
        if routes.iter().all(|route| route.action == nothing) {
            let origin = rules.and_then(|rules| rules.ingresses.first().copied()).unwrap_or(origin).clone();
            routes = vec![Route { path: root, one_label_host: false, action: nothing, origin }];
        }
        VirtualHost { routes }
    }

    /// Where requests for `host` go that no rule takes.
    fn fallback(&self, host: &Host, parent: Option<&Host>, side: Side) -> Option<&'a Target> {
        let named = self.hosts.get(host);
        let own = self.fallbacks.get(host).copied();
        let inherited = || parent.and_then(|host| self.fallbacks.get(host)).copied().filter(|_| named.is_none());
        // A host that is closed in plain text is not opened by somebody else's default backend.
        let closed = side == Side::PlainText && named.is_some_and(|rules| !rules.open);
        own.or_else(inherited).or(self.catch_all.filter(|_| !closed))
    }
}

/// What happens to a request for `target` on one of the ports.
fn action(target: &Target, side: Side) -> Action {
    match (side, target.plain_text) {
        (Side::Tls, _) | (Side::PlainText, PlainText::Serve) => target.action.clone(),
        (Side::PlainText, PlainText::Redirect) => Action::RedirectToHttps { status: 301, port: None },
        // Kept in its place: the path must not fall to a shorter one, perhaps somebody else's, in clear text.
        (Side::PlainText, PlainText::Closed) => Action::Respond { status: 404 },
    }
}

/// The default backend of each host that an Ingress with one names, and that of all other hosts: of an Ingress
/// without rules if there is one, else of the oldest.
fn default_backends<'a>(
    ingresses: &'a [Parsed<'a>],
    problems: &mut Vec<Problem>,
) -> (BTreeMap<Host, &'a Target>, Option<&'a Target>) {
    let with = || ingresses.iter().filter_map(|parsed| Some((parsed, parsed.default_backend.as_ref()?)));
    let rule_less = |parsed: &Parsed| parsed.ingress.spec.rules.as_ref().is_none_or(Vec::is_empty);
    let catch_all = with().find(|(parsed, _)| rule_less(parsed)).or_else(|| with().next()).map(|(_, target)| target);
    let mut fallbacks: BTreeMap<Host, &Target> = BTreeMap::new();
    for (parsed, target) in with() {
        let mut hosts: Vec<Host> = parsed.rules.iter().map(|(host, _)| host.clone()).collect();
        hosts.extend(tls_hosts(parsed));
        if rule_less(parsed) {
            hosts.push(Host::Any);
        }
        hosts.sort();
        hosts.dedup();
        for host in hosts {
            let winner = match &host {
                Host::Any => catch_all,
                _ => Some(*fallbacks.entry(host.clone()).or_insert(target)),
            };
            if let Some(winner) = winner.filter(|winner| winner.origin != target.origin) {
                problems.push(Problem {
                    object: parsed.origin.clone(),
                    field: "spec.defaultBackend".to_owned(),
                    reason: Reason::Conflicted,
                    message: format!("the default backend of host \"{host}\" is that of {}", winner.origin),
                    consequence: format!("not used for \"{host}\""),
                });
            }
        }
    }
    (fallbacks, catch_all)
}

/// The valid hosts of the TLS entries.
fn tls_hosts<'a>(parsed: &'a Parsed) -> impl Iterator<Item = Host> + 'a {
    let texts = parsed.ingress.spec.tls.iter().flatten().flat_map(|entry| entry.hosts.iter().flatten());
    texts.filter_map(|text| host::parse(text).ok()).filter(|host| *host != Host::Any)
}

fn conflict(loser: &Parsed, host: &Host, path: &PathMatch, field: &str, winner: &Target, winners: &str) -> Problem {
    let (kind, text) = match path {
        PathMatch::Exact(text) => ("exact path", text),
        PathMatch::Regex(text) => ("regular expression", text),
        PathMatch::SeparatedPrefix(text) => ("prefix", text),
        PathMatch::Prefix(text) if text == "/" => ("prefix", text),
        PathMatch::Prefix(text) => ("string prefix", text),
    };
    let whose = match winner.origin == loser.origin {
        true => "this Ingress".to_owned(),
        false => winner.origin.to_string(),
    };
    Problem {
        object: loser.origin.clone(),
        field: field.to_owned(),
        reason: Reason::Conflicted,
        message: format!("{kind} {text:?} of host \"{host}\" is taken by {winners} of {whose}"),
        consequence: "path left out".to_owned(),
    }
}
