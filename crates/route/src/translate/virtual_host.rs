//! Merges the rules of many Ingresses into the virtual hosts that they share: conflicts, namespaces, order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use lockgate_xds::provenance::ObjectRef;

use crate::model::{Action, Host, PathMatch, Route, VirtualHost};
use crate::settings::Regexes;

use super::gateway::size;
use super::merge::Merged;
use super::plain_text::{Side, push_on_side};
use super::problem::{Problem, Reason};
use super::source::{PathRule, Source, Target};
use super::{path, regexes};
use crate::envoy::route::Sizes;

/// The rules of all Ingresses for one host, with conflicts resolved.
#[derive(Debug, Default)]
pub struct HostRules<'a> {
    /// The winning rule of each path.
    paths: Merged<'a, Rule<'a>>,
    /// The Ingresses with a rule for the host. The Ingresses of the first namespace come first.
    ingresses: Vec<&'a ObjectRef>,
    /// The served paths by namespace, each with its place in the order. Determined when a host first copies only a part of them.
    by_namespace: OnceLock<BTreeMap<&'a str, Vec<(usize, &'a PathRule)>>>,
}

/// A served rule.
#[derive(Debug)]
pub struct Rule<'a> {
    path: &'a PathRule,
    /// Whether its namespace is not the first of the host.
    foreign: bool,
}

/// The rules of a host, and the rules that apply if it has none.
#[derive(Debug, Default)]
pub struct Around<'r, 'a> {
    /// The rules of the host.
    pub own: HostRules<'a>,
    /// The rules of the wildcard above it. Required only if no rule names the host.
    pub parent: Option<&'r HostRules<'a>>,
    /// The rules without a host. Required for wildcards with rules, and if no rule names the host or the wildcard above it.
    pub nameless: Option<&'r HostRules<'a>>,
    /// The namespaces whose rules are left out of `parent` and `nameless`. Requests that no other rule matches are answered 503.
    pub left_out: BTreeSet<Arc<str>>,
    /// The default backend of hosts that no rule names.
    pub catch_all: Option<&'r Target>,
}

impl<'a> HostRules<'a> {
    /// Merges the rules of `ingresses` for `host`. The first of several equal paths wins, and the objects of the other
    /// paths get a problem. All `ingresses` have a rule for the host. The Ingresses of its first namespace come first,
    /// and each namespace is in the order of precedence. Regular expressions beyond `limits` are omitted.
    pub fn merge(host: &Host, ingresses: &[&'a Source], limits: &Regexes, problems: &mut Vec<Problem>) -> Self {
        let mut merged = Self::default();
        let mut regexes = Vec::new();
        let first = ingresses.first().map(|source| &source.origin.namespace);
        // The prefixes of the first namespace, without a trailing slash.
        let mut prefixes = BTreeMap::<&str, &PathRule>::new();
        for &source in ingresses {
            let foreign = Some(&source.origin.namespace) != first;
            merged.ingresses.push(&source.origin);
            for rule in source.rules_for(host).flat_map(|rule| &rule.paths) {
                let winner = if foreign { taken(rule.path(), &prefixes) } else { None };
                if let Some(winner) = winner {
                    problems.push(conflict(source, host, rule, winner));
                    continue;
                }
                if let Err(winner) = merged.paths.offer(rule.matches(), Rule { path: rule, foreign }) {
                    // `/foo` and `/foo/` of one Ingress with the same backend are not a conflict.
                    if !winner.path.is_same(rule) {
                        problems.push(conflict(source, host, rule, winner.path));
                    }
                    continue;
                }
                match rule.path() {
                    PathMatch::Regex(_) => regexes.push((&source.origin, rule)),
                    PathMatch::SeparatedPrefix(text) | PathMatch::Prefix(text) if !foreign => {
                        prefixes.entry(text.trim_end_matches('/')).or_insert(rule);
                    }
                    PathMatch::SeparatedPrefix(_) | PathMatch::Prefix(_) | PathMatch::Exact(_) => {}
                }
            }
        }
        if let Some(first) = merged.ingresses.first() {
            regexes::within_budget(host, &first.namespace, regexes, &mut merged.paths, limits, problems);
        }
        merged
    }

    /// Returns whether a rule names the host.
    pub fn named(&self) -> bool {
        !self.ingresses.is_empty()
    }

    /// Returns the size of a copy of the rules of each namespace, in bytes.
    pub fn sizes(&self, measure: &Sizes) -> BTreeMap<Arc<str>, u64> {
        let mut sizes = BTreeMap::<Arc<str>, u64>::new();
        for Rule { path, .. } in self.paths.winners() {
            let of_namespace = sizes.entry(path.route.origin.namespace.clone()).or_default();
            *of_namespace = of_namespace.saturating_add(size::of_route(&path.route, path.cost, measure));
        }
        sizes
    }

    /// Returns the routes in their final order, without those of the namespaces `left_out`. The cost does not depend on these, because
    /// thousands of hosts can leave out the same thousands of rules.
    fn routes(&self, side: Side, left_out: &BTreeSet<Arc<str>>) -> Vec<Arc<Route>> {
        let on_side = |rules: &mut dyn Iterator<Item = &PathRule>| {
            let mut routes = Vec::with_capacity(rules.size_hint().0);
            rules.for_each(|rule| push_on_side(&rule.route, rule.plain_text, side, &mut routes));
            routes
        };
        if left_out.is_empty() {
            return on_side(&mut self.in_order());
        }
        let by_namespace = self.by_namespace.get_or_init(|| {
            let mut by_namespace = BTreeMap::<_, Vec<_>>::new();
            for (place, rule) in self.in_order().enumerate() {
                by_namespace.entry(&*rule.route.origin.namespace).or_default().push((place, rule));
            }
            by_namespace
        });
        let copied = by_namespace.iter().filter(|(namespace, _)| !left_out.contains(**namespace));
        let mut copied: Vec<_> = copied.flat_map(|(_, rules)| rules).collect();
        copied.sort_by_key(|(place, _)| *place);
        on_side(&mut copied.into_iter().map(|(_, rule)| *rule))
    }

    /// Returns the served paths in their final order.
    fn in_order(&self) -> impl Iterator<Item = &'a PathRule> {
        // Foreign paths follow the paths of the first namespace, if it has any.
        let behind = self.paths.winners().any(|rule| !rule.foreign);
        let rules = self.paths.in_order(|matches, rule| path::rank(&matches.path, behind && rule.foreign));
        rules.into_iter().map(|rule| rule.path)
    }
}

/// Returns the rule of the first namespace from which a foreign path would take requests, if any: a prefix with the
/// same text. A foreign regular expression is never reached behind `/`.
fn taken<'a>(path: &PathMatch, prefixes: &BTreeMap<&str, &'a PathRule>) -> Option<&'a PathRule> {
    let text = match path {
        PathMatch::Exact(text) | PathMatch::SeparatedPrefix(text) | PathMatch::Prefix(text) => {
            text.trim_end_matches('/')
        }
        PathMatch::Regex(_) => "",
    };
    prefixes.get(text).copied()
}

impl Around<'_, '_> {
    /// Builds the virtual host of `host`. If no rule names it, the rules of the wildcard above it apply. If there are
    /// none, the rules without a host and the default backend apply. `origin` is the origin of a virtual host without
    /// routes.
    pub fn virtual_host(&self, host: &Host, side: Side, origin: &ObjectRef) -> VirtualHost {
        let Self { own, parent, nameless, left_out, catch_all } = self;
        let (nothing, wildcard) = (BTreeSet::new(), matches!(host, Host::Wildcard(_)));
        let named = if own.named() { Some((own, &nothing)) } else { parent.map(|parent| (parent, left_out)) };
        let named = named.filter(|(rules, _)| rules.named());
        let mut routes = named.map(|(rules, left_out)| rules.routes(side, left_out)).unwrap_or_default();
        let reached = |routes: &[Arc<Route>]| routes.last().is_none_or(|last| !last.matches.is_everything());
        let everything = |action| {
            Arc::new(Route::new(PathMatch::root(), action, own.ingresses.first().copied().unwrap_or(origin).clone()))
        };
        if named.is_some() && !own.named() && !left_out.is_empty() && reached(&routes) {
            routes.push(everything(CLOSED));
        }
        let mut one_label = if wildcard { routes.len() } else { 0 };
        // Envoy's domain `*.example.com` also matches names with several labels. No rule names these.
        let (unnamed, all_one_label) = match (named.is_some(), *host == Host::Any, side) {
            (false, ..) => (true, wildcard && side == Side::Tls),
            (true, true, _) => (true, false),
            (true, false, side) => (wildcard && matches!(side, Side::PlainText { .. }), false),
        };
        if unnamed {
            // These routes are for names without a certificate.
            let side = if side == Side::Tls { side } else { Side::PlainText { behind_tls: false } };
            let rules = nameless.as_ref().filter(|_| *host != Host::Any || named.is_none());
            let mut rest = rules.map(|rules| rules.routes(side, left_out)).unwrap_or_default();
            let before = if named.is_some() && *host == Host::Any { &routes } else { &rest };
            if !left_out.is_empty() && reached(&rest) {
                rest.push(everything(CLOSED));
            } else if let Some(target) = catch_all.filter(|_| reached(before)) {
                let route = Route::new(PathMatch::root(), target.action.clone(), target.origin.clone());
                push_on_side(&Arc::new(route), target.plain_text, side, &mut rest);
            }
            // A rule names all names that the wildcard matches, so a request without a matching path is answered 404.
            if named.is_some() && wildcard && !rest.is_empty() && reached(&routes) {
                routes.push(everything(NOTHING));
                one_label += 1;
            }
            one_label += if all_one_label { rest.len() } else { 0 };
            routes.extend(rest);
        }
        if routes.iter().all(|route| route.action == NOTHING) {
            let rules = named.map(|(rules, _)| rules).or(*nameless);
            let origin = rules.and_then(|rules| rules.ingresses.first().copied()).unwrap_or(origin).clone();
            return VirtualHost::new([Route::new(PathMatch::root(), NOTHING, origin)]);
        }
        routes.shrink_to_fit();
        VirtualHost { routes, one_label }
    }
}

/// The response if nothing is configured.
const NOTHING: Action = Action::respond(404);

/// The response of configuration that does not fit into the limit of its namespace.
const CLOSED: Action = Action::respond(503);

/// Returns the virtual host of a host that does not fit into the limit of its namespace.
pub fn closed(origin: &ObjectRef) -> VirtualHost {
    VirtualHost::new([Route::new(PathMatch::root(), CLOSED, origin.clone())])
}

fn conflict(loser: &Source, host: &Host, rule: &PathRule, winner: &PathRule) -> Problem {
    let (kind, text) = match rule.path() {
        PathMatch::Exact(text) => ("exact path", text),
        PathMatch::Regex(text) => ("regular expression", text),
        PathMatch::SeparatedPrefix(text) => ("prefix", text),
        PathMatch::Prefix(text) if **text == *"/" => ("prefix", text),
        PathMatch::Prefix(text) => ("string prefix", text),
    };
    let whose = match winner.route.origin == loser.origin {
        true => "this Ingress".to_owned(),
        false => winner.route.origin.to_string(),
    };
    Problem {
        object: loser.origin.clone(),
        field: rule.field.to_string(),
        reason: Reason::Conflicted,
        message: format!("{kind} {text:?} of host \"{host}\" is taken by {} of {whose}", winner.field),
        consequence: "path left out".to_owned(),
    }
}
