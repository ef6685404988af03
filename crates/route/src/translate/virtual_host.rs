//! Rules of many Ingresses to the virtual hosts that they share: merging, conflicts, order.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use lockgate_xds::provenance::ObjectRef;

use crate::model::{Action, Host, PathMatch, Route, VirtualHost};
use crate::settings::Regexes;

use super::annotations::PlainText;
use super::ingress::{Parsed, PathRule, Target};
use super::problem::{Problem, Reason};
use super::{path, regexes};

/// The rules of all Ingresses for one host, conflicts decided.
#[derive(Debug, Default)]
pub struct HostRules<'a> {
    /// The rule that each path comes from, and whether it is foreign: of another namespace than the first.
    paths: BTreeMap<&'a PathMatch, (&'a PathRule, bool)>,
    /// The Ingresses with a rule for the host, those of the first namespace first.
    ingresses: Vec<&'a ObjectRef>,
}

/// The rules of a host, and those that apply where it has none.
#[derive(Debug)]
pub struct Around<'a> {
    /// The rules of the host.
    pub own: HostRules<'a>,
    /// The rules of the wildcard above it. Needed only if no rule names the host.
    pub parent: Option<HostRules<'a>>,
    /// The rules without a host. Needed for wildcards, and if no rule names the host.
    pub nameless: Option<HostRules<'a>>,
    /// The default backend of hosts that no rule names.
    pub catch_all: Option<&'a Target>,
}

/// Which of the two ports a virtual host is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The plain-text port.
    PlainText {
        /// Whether the host is served behind TLS, too.
        behind_tls: bool,
    },
    /// The port with TLS.
    Tls,
}

impl<'a> HostRules<'a> {
    /// Merges the rules of `ingresses` for `host`. Of equal paths the first one holds, and the object of another gets a
    /// problem. `ingresses` have a rule for the host; those of its first namespace come first, each namespace in the order of
    /// precedence. Regular expressions beyond `limits` are left out.
    pub fn merge(host: &Host, ingresses: &[&'a Parsed], limits: &Regexes, problems: &mut Vec<Problem>) -> Self {
        let mut merged = Self::default();
        let mut regexes = Vec::new();
        let first = ingresses.first().map(|parsed| &parsed.origin.namespace);
        // The prefixes of the first namespace, without a slash at the end.
        let mut prefixes = BTreeMap::<&str, &PathRule>::new();
        for &parsed in ingresses {
            let foreign = Some(&parsed.origin.namespace) != first;
            merged.ingresses.push(&parsed.origin);
            for rule in parsed.rules_for(host).flat_map(|rule| &rule.paths) {
                let winner = if foreign { taken(&rule.path, &prefixes) } else { None };
                if let Some(winner) = winner {
                    problems.push(conflict(parsed, host, rule, winner));
                    continue;
                }
                match merged.paths.entry(&rule.path) {
                    Entry::Vacant(entry) => {
                        if matches!(rule.path, PathMatch::Regex(_)) {
                            regexes.push((&parsed.origin, rule));
                        }
                        entry.insert((rule, foreign));
                    }
                    Entry::Occupied(entry) => {
                        // `/foo` and `/foo/` of one Ingress, to one backend, are no conflict.
                        if entry.get().0.target != rule.target {
                            problems.push(conflict(parsed, host, rule, entry.get().0));
                        }
                        continue;
                    }
                }
                if let (false, PathMatch::SeparatedPrefix(text) | PathMatch::Prefix(text)) = (foreign, &rule.path) {
                    prefixes.entry(text.trim_end_matches('/')).or_insert(rule);
                }
            }
        }
        if let Some(first) = merged.ingresses.first() {
            regexes::within_budget(host, &first.namespace, regexes, &mut merged.paths, limits, problems);
        }
        merged
    }

    /// Whether a rule names the host.
    pub fn named(&self) -> bool {
        !self.ingresses.is_empty()
    }

    /// The routes, in the order in which they are tried.
    fn routes(&self, side: Side, one_label_host: bool) -> Vec<Route> {
        let mut paths: Vec<_> = self.paths.iter().collect();
        // Foreign paths come behind those of the first namespace, if it has any.
        let behind = self.paths.values().any(|(_, foreign)| !foreign);
        paths.sort_by(|(a, (_, a_foreign)), (b, (_, b_foreign))| {
            path::rank(a, behind && *a_foreign).cmp(&path::rank(b, behind && *b_foreign))
        });
        let routes = paths.into_iter();
        routes.map(|(path, (rule, _))| route((*path).clone(), one_label_host, &rule.target, side)).collect()
    }
}

/// The rule of the first namespace that a foreign path would take requests from, if there is one: a prefix with the same
/// text. Behind `/`, no foreign regular expression is ever reached.
fn taken<'a>(path: &PathMatch, prefixes: &BTreeMap<&str, &'a PathRule>) -> Option<&'a PathRule> {
    let text = match path {
        PathMatch::Exact(text) | PathMatch::SeparatedPrefix(text) | PathMatch::Prefix(text) => {
            text.trim_end_matches('/')
        }
        PathMatch::Regex(_) => "",
    };
    prefixes.get(text).copied()
}

impl Around<'_> {
    /// The virtual host of `host`. If no rule names it, the rules of the wildcard above it apply, else those without a host
    /// and the default backend. `origin` is the origin of a virtual host without routes.
    pub fn virtual_host(&self, host: &Host, side: Side, origin: &ObjectRef) -> VirtualHost {
        let Self { own, parent, nameless, catch_all } = self;
        let all = || PathMatch::Prefix("/".to_owned());
        let named = [Some(own), parent.as_ref()].into_iter().flatten().find(|rules| rules.named());
        let wildcard = matches!(host, Host::Wildcard(_));
        let mut routes = named.map(|rules| rules.routes(side, wildcard)).unwrap_or_default();
        // Envoy's domain `*.example.com` also takes names of several labels. No rule names these.
        let (unnamed, one_label) = match (named.is_some(), *host == Host::Any, side) {
            (false, ..) => (true, wildcard && side == Side::Tls),
            (true, true, _) => (true, false),
            (true, false, side) => (wildcard && matches!(side, Side::PlainText { .. }), false),
        };
        if unnamed {
            // These routes are for names that have no certificate.
            let side = if side == Side::Tls { side } else { Side::PlainText { behind_tls: false } };
            let rules = nameless.as_ref().filter(|_| *host != Host::Any || named.is_none());
            let mut rest = rules.map(|rules| rules.routes(side, one_label)).unwrap_or_default();
            let reached = |routes: &[Route]| routes.last().is_none_or(|last| last.path != all());
            let before = if named.is_some() && *host == Host::Any { &routes } else { &rest };
            if let Some(target) = catch_all.filter(|_| reached(before)) {
                rest.push(route(all(), one_label, target, side));
            }
            // The names that the wildcard stands for are named, so what no path takes is answered 404.
            if named.is_some() && wildcard && !rest.is_empty() && reached(&routes) {
                let origin = own.ingresses.first().copied().unwrap_or(origin).clone();
                routes.push(Route { path: all(), one_label_host: true, action: NOTHING, origin });
            }
            routes.extend(rest);
        }
        if routes.iter().all(|route| route.action == NOTHING) {
            let rules = named.or(nameless.as_ref());
            let origin = rules.and_then(|rules| rules.ingresses.first().copied()).unwrap_or(origin).clone();
            routes = vec![Route { path: all(), one_label_host: false, action: NOTHING, origin }];
        }
        routes.shrink_to_fit();
        VirtualHost { routes }
    }
}

/// The answer where nothing is configured.
const NOTHING: Action = Action::Respond { status: 404 };

/// The route of `path` to `target`.
fn route(path: PathMatch, one_label_host: bool, target: &Target, side: Side) -> Route {
    let action = action(&path, target, side);
    Route { path, one_label_host, action, origin: target.origin.clone() }
}

/// What happens to a request for `target` on one of the ports.
fn action(path: &PathMatch, target: &Target, side: Side) -> Action {
    let Side::PlainText { behind_tls } = side else { return target.action.clone() };
    match target.plain_text {
        PlainText::Redirect(status) => Action::RedirectToHttps { status, port: None },
        PlainText::RedirectBehindTls(status) if behind_tls && !is_challenge(path) => {
            Action::RedirectToHttps { status, port: None }
        }
        PlainText::Serve | PlainText::RedirectBehindTls(_) => target.action.clone(),
        // Kept in its place: the path must not fall to a shorter one, perhaps somebody else's, in clear text.
        PlainText::Closed => NOTHING,
    }
}

/// Whether a path is one by which an ACME authority checks a host before it issues a certificate. Source: RFC 8555 section 8.3.
fn is_challenge(path: &PathMatch) -> bool {
    const CHALLENGES: &str = "/.well-known/acme-challenge";
    match path {
        PathMatch::Exact(text) | PathMatch::SeparatedPrefix(text) | PathMatch::Prefix(text) => {
            text.strip_prefix(CHALLENGES).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        }
        PathMatch::Regex(_) => false,
    }
}

fn conflict(loser: &Parsed, host: &Host, rule: &PathRule, winner: &PathRule) -> Problem {
    let (kind, text) = match &rule.path {
        PathMatch::Exact(text) => ("exact path", text),
        PathMatch::Regex(text) => ("regular expression", text),
        PathMatch::SeparatedPrefix(text) => ("prefix", text),
        PathMatch::Prefix(text) if text == "/" => ("prefix", text),
        PathMatch::Prefix(text) => ("string prefix", text),
    };
    let whose = match winner.target.origin == loser.origin {
        true => "this Ingress".to_owned(),
        false => winner.target.origin.to_string(),
    };
    Problem {
        object: loser.origin.clone(),
        field: rule.field(),
        reason: Reason::Conflicted,
        message: format!("{kind} {text:?} of host \"{host}\" is taken by {} of {whose}", winner.field()),
        consequence: "path left out".to_owned(),
    }
}
