//! Rules of many Ingresses to the virtual hosts that they share: merging, conflicts, default backends, order.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::model::{Action, Host, PathMatch, Route, VirtualHost};
use crate::provenance::ObjectRef;
use crate::settings::Regexes;

use super::annotations::PlainText;
use super::ingress::{Parsed, PathRule, Target};
use super::problem::{Problem, Reason};
use super::{path, regexes};

/// What all Ingresses together say of one host, conflicts decided.
#[derive(Debug, Default)]
pub struct HostRules<'a> {
    /// What each path leads to, and the rule that says so.
    paths: BTreeMap<&'a PathMatch, &'a PathRule>,
    /// The Ingresses that name the host in a rule, in the order of precedence.
    ingresses: Vec<&'a ObjectRef>,
    /// Whether any of them is served in plain text. An Ingress that is being deleted counts only if all of them are.
    open: bool,
    /// Where requests go that no path takes, if an Ingress with a default backend names the host in a rule or for TLS.
    fallback: Option<&'a Target>,
}

/// What is said of a host, and of those above it.
#[derive(Debug)]
pub struct Around<'a> {
    /// Of the host.
    pub own: HostRules<'a>,
    /// Of the wildcard above it, and of every host. Needed only if no rule names the host itself.
    pub above: Option<(HostRules<'a>, HostRules<'a>)>,
    /// The default backend of all hosts.
    pub catch_all: Option<&'a Target>,
}

/// Which of the two ports a virtual host is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The plain-text port.
    PlainText,
    /// The port with TLS.
    Tls,
}

impl<'a> HostRules<'a> {
    /// What `ingresses`, all that name `host` and in the order of precedence, say of it: of equal paths the first holds,
    /// and the owner of another is told. Regular expressions beyond `limits` are left out.
    pub fn merge(host: &Host, ingresses: &[&'a Parsed], limits: &Regexes, problems: &mut Vec<Problem>) -> Self {
        let mut merged = Self::default();
        let mut terminating = true;
        let mut regexes = Vec::new();
        for parsed in ingresses {
            let Some(places) = parsed.places(host) else { continue };
            let rules: Vec<_> = places.rules.iter().filter_map(|at| parsed.rules.get(*at as usize)).collect();
            if !rules.is_empty() {
                merged.ingresses.push(&parsed.origin);
                terminating &= parsed.precedence.terminating;
                if terminating == parsed.precedence.terminating {
                    merged.open |= parsed.annotations.plain_text != PlainText::Closed;
                }
            }
            for rule in rules.iter().flat_map(|(_, paths)| paths) {
                match merged.paths.entry(&rule.path) {
                    Entry::Vacant(entry) => {
                        if matches!(rule.path, PathMatch::Regex(_)) {
                            regexes.push((&parsed.origin, rule));
                        }
                        entry.insert(rule);
                    }
                    Entry::Occupied(entry) => {
                        // `/foo` and `/foo/` of one Ingress, to one backend, are no conflict.
                        if entry.get().target != rule.target {
                            problems.push(conflict(parsed, host, rule, entry.get()));
                        }
                    }
                }
            }
            // That of every host is the catch-all.
            let Some(target) = parsed.default_backend.as_deref().filter(|_| *host != Host::Any) else { continue };
            let winner = *merged.fallback.get_or_insert(target);
            problems.extend(second_default(parsed, target, host, winner));
        }
        if let Some(oldest) = merged.ingresses.first() {
            regexes::within_budget(host, &oldest.namespace, regexes, &mut merged.paths, limits, problems);
        }
        merged
    }

    /// Whether a rule names the host.
    pub fn named(&self) -> bool {
        !self.ingresses.is_empty()
    }
}

impl<'a> Around<'a> {
    /// The virtual host of `host`. If no rule names it, the rules of the wildcard above it hold, else those without a
    /// host. `origin` answers for a virtual host in which nothing is configured.
    pub fn virtual_host(&self, host: &Host, side: Side, origin: &ObjectRef) -> VirtualHost {
        let Self { own, above, .. } = self;
        let named = own.named();
        let inherited = above.iter().flat_map(|(parent, any)| [parent, any]);
        let rules = [own].into_iter().chain(inherited).find(|rules| rules.named());
        let one_label_host = named && matches!(host, Host::Wildcard(_));
        let route = |path: PathMatch, one_label_host: bool, target: &Target| Route {
            path,
            one_label_host,
            action: action(target, side),
            origin: target.origin.clone(),
        };
        let mut routes: Vec<Route> = rules
            .iter()
            .flat_map(|rules| &rules.paths)
            .map(|(path, rule)| route((*path).clone(), one_label_host, &rule.target))
            .collect();
        routes.sort_by(|a, b| path::order(&a.path, &b.path));
        let root = PathMatch::Prefix("/".to_owned());
        let reached = one_label_host || routes.last().is_none_or(|last| last.path != root);
        if let Some(fallback) = self.fallback(side).filter(|_| reached) {
            routes.push(route(root.clone(), false, fallback));
        }
        let nothing = Action::Respond { status: 404 };
        if routes.iter().all(|route| route.action == nothing) {
            let origin = rules.and_then(|rules| rules.ingresses.first().copied()).unwrap_or(origin).clone();
            routes = vec![Route { path: root, one_label_host: false, action: nothing, origin }];
        }
        routes.shrink_to_fit();
        VirtualHost { routes }
    }

    /// Where requests for the host go that no rule takes.
    fn fallback(&self, side: Side) -> Option<&'a Target> {
        let Self { own, above, catch_all } = self;
        let inherited = above.as_ref().and_then(|(parent, _)| parent.fallback).filter(|_| !own.named());
        // A host that is closed in plain text is not opened by somebody else's default backend.
        let closed = side == Side::PlainText && own.named() && !own.open;
        own.fallback.or(inherited).or(catch_all.filter(|_| !closed))
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

/// The default backend of all hosts that have none of their own, of those `ingresses` that have one, in the order of
/// precedence: of an Ingress without rules if there is one, else of the first. Ingresses that are being deleted come
/// last. And what is wrong with the others that mean every host.
pub fn catch_all<'a>(ingresses: impl Iterator<Item = &'a Parsed> + Clone) -> (Option<&'a Target>, Vec<Problem>) {
    let with = ingresses.filter_map(|parsed| Some((parsed, parsed.default_backend.as_deref()?)));
    // Of equals, the first is the least.
    let least = with.clone().min_by_key(|(parsed, _)| (parsed.precedence.terminating, !parsed.rule_less));
    let Some((_, winner)) = least else { return (None, Vec::new()) };
    let mean_any = with.filter(|(parsed, _)| parsed.rule_less || parsed.places(&Host::Any).is_some());
    let problems = mean_any.filter_map(|(parsed, target)| second_default(parsed, target, &Host::Any, winner));
    (Some(winner), problems.collect())
}

/// That the default backend of another Ingress takes precedence for `host`.
fn second_default(parsed: &Parsed, target: &Target, host: &Host, winner: &Target) -> Option<Problem> {
    (winner.origin != target.origin).then(|| Problem {
        object: parsed.origin.clone(),
        field: "spec.defaultBackend".to_owned(),
        reason: Reason::Conflicted,
        message: format!("the default backend of host \"{host}\" is that of {}", winner.origin),
        consequence: format!("not used for \"{host}\""),
    })
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
