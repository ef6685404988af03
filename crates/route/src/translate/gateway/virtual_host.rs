//! The virtual host of a host name on one listener, from all routes that are attached to it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use super::client_certificates::ClientCertificate;
use super::filter_memory::FilterMemory;
use super::http_policies::Scope;
use super::http_route::Candidate;
use super::order::Order;
use super::parser::Attached;
use crate::model::{Action, Filters, PathMatch, Redirect, Route, Scheme, VirtualHost};
use crate::objects::Precedence;
use crate::settings::Regexes;
use crate::translate::merge::Merged;
use crate::translate::problem::{Problem, Reason};

/// A route and its object.
struct Competitor<'a> {
    precedence: &'a Precedence,
    candidate: &'a Candidate,
}

/// Returns the virtual host with the features of `policies`, and the problems of routes that exceed a budget. The
/// budgets limit the regular expressions of the host, and the policies and filters of a namespace.
///
/// `routes` are in the order of precedence. If matches are equal, the first route is served. `origin` is the origin of
/// a virtual host without routes; `port` is the port of the listener, and `certificate` the client certificate of its
/// Gateway.
pub fn virtual_host(
    routes: &[&Attached],
    certificate: &ClientCertificate,
    origin: &ObjectRef,
    port: u16,
    limits: &Regexes,
    policies: &Scope,
) -> (VirtualHost, Vec<Arc<Problem>>) {
    let first = routes.iter().find(|route| !route.candidates(certificate).is_empty()).map(|route| namespace(route));
    let refused = beyond_budget(routes, certificate, first, limits);
    let mut merged = Merged::default();
    for route in routes {
        let precedence = &route.precedence;
        let within = |candidate: &&Candidate| !refused.contains_key(&(precedence, place(candidate)));
        for candidate in route.candidates(certificate).iter().filter(within) {
            // Equal matches are not a fault: the older route takes precedence.
            let _ = merged.offer(candidate.matches(), Competitor { precedence, candidate });
        }
    }
    let mut problems: Vec<Arc<Problem>> = refused.into_values().map(Arc::new).collect();
    problems.extend(routes.iter().flat_map(|route| beyond_memory(route, certificate, policies)).map(Arc::new));
    problems.extend(routes.iter().flat_map(|route| limited_sessions(route, certificate, policies)).map(Arc::new));
    let order = Order::new(first, merged.winners().map(|one| (one.candidate.matches(), one.precedence)));
    let ordered =
        merged.in_order(|matches, one: &Competitor<'_>| order.rank(matches, one.precedence, place(one.candidate)));
    let both = |one: &Competitor<'_>| {
        let Competitor { precedence, candidate } = one;
        let features = policies.features(precedence, candidate.name.as_ref());
        let is_refused = policies.refused(precedence).is_some();
        let with_policy = |route: &Arc<Route>| match &features {
            Some(features) if is_refused => Arc::new(features.close(&without_filters(route))),
            Some(features) => Arc::new(features.apply(route)),
            None if is_refused && FilterMemory::of(route).counted() > 0 => Arc::new(without_filters(route)),
            None => route.clone(),
        };
        candidate.routes().map(with_policy).collect::<Vec<_>>()
    };
    let mut routes: Vec<Arc<Route>> = ordered.into_iter().flat_map(both).map(|route| on_port(route, port)).collect();
    if routes.is_empty() {
        return (not_found(origin), problems);
    }
    routes.shrink_to_fit();
    (VirtualHost { routes, one_label: 0 }, problems)
}

/// Returns the matches that exceed the budget of the host for regular expressions, with their problems. The namespace `first`
/// uses the budget first, so that other namespaces cannot exhaust it.
fn beyond_budget<'a>(
    routes: &[&'a Attached],
    certificate: &ClientCertificate,
    first: Option<&Arc<str>>,
    limits: &Regexes,
) -> BTreeMap<(&'a Precedence, (u32, u32)), Problem> {
    let mut refused = BTreeMap::new();
    let (mut count, mut size, mut steps) = (0u32, 0u32, 0u32);
    let (own, others): (Vec<&Attached>, Vec<&Attached>) =
        routes.iter().copied().partition(|route| Some(namespace(route)) == first);
    for route in own.into_iter().chain(others) {
        for candidate in route.candidates(certificate).iter().filter(|candidate| candidate.cost.size > 0) {
            let (cost, times) = (candidate.cost, candidate.route.copies());
            let more = |sum: u32, one: u32| sum.saturating_add(one.saturating_mul(times));
            let after = (more(count, 1), more(size, cost.size), more(steps, cost.steps));
            let is_within = after.0 <= limits.max_per_host
                && after.1 <= limits.max_size_per_host
                && after.2 <= limits.max_steps_per_host;
            match is_within {
                true => (count, size, steps) = after,
                false => drop(refused.insert((&route.precedence, place(candidate)), too_expensive(route, candidate))),
            }
        }
    }
    refused
}

/// Returns the problems of a route whose policies and filters exceed the memory of its namespace: one for each rule with a policy or
/// with large filters.
fn beyond_memory(route: &Attached, certificate: &ClientCertificate, policies: &Scope) -> Vec<Problem> {
    let Some(memory) = policies.refused(&route.precedence) else { return Vec::new() };
    let mut rules = BTreeMap::new();
    for candidate in route.candidates(certificate) {
        rules.entry(candidate.rule).or_insert(candidate);
    }
    let problem = |(rule, candidate): (u32, &Candidate)| {
        let has_policy = policies.features(&route.precedence, candidate.name.as_ref()).is_some();
        let filters = FilterMemory::of(&candidate.route);
        let (field, reason, status) = match has_policy {
            true => (format!("spec.rules[{rule}]"), Reason::PolicyTooExpensive, 403),
            false if filters.counted() > 0 => {
                (format!("spec.rules[{rule}].{}", filters.field()), Reason::FilterTooExpensive, 500)
            }
            false => return None,
        };
        let message = format!(
            "the policies and filters of this route can take {} MiB of memory in each Envoy, more than older routes of the \
             namespace leave of the limit gateway.policies.maxMemoryPerNamespace",
            memory.div_ceil(1 << 20)
        );
        let consequence = format!("requests to this rule are answered {status}");
        Some(Problem { object: route.origin.clone(), field, reason, message, consequence })
    };
    rules.into_iter().filter_map(problem).collect()
}

/// Returns the problems of rules whose sessions stay at a backend, and whose requests are limited.
fn limited_sessions(route: &Attached, certificate: &ClientCertificate, policies: &Scope) -> Vec<Problem> {
    let is_limited = |candidate: &&Candidate| {
        let features = || policies.features(&route.precedence, candidate.name.as_ref());
        candidate.route.divided().is_some() && features().is_some_and(|features| features.limits_rate())
    };
    let rules: BTreeSet<u32> = route.candidates(certificate).iter().filter(is_limited).map(|one| one.rule).collect();
    let problem = |rule| Problem {
        object: route.origin.clone(),
        field: format!("spec.rules[{rule}].sessionPersistence"),
        reason: Reason::SessionPersistenceNotValid,
        message: "a localRateLimit applies to the rule, and Envoy would count the sessions of each backend separately"
            .to_owned(),
        consequence: "sessions stay at an endpoint, but not at a backend".to_owned(),
    };
    rules.into_iter().map(problem).collect()
}

/// The body of a 500 of a route whose filters take too much memory.
const WITHOUT_FILTERS: &str = "the filters of this route take too much memory\n";

/// Returns the route without its filters and its action. Its requests are answered 500, because a filter must not be skipped.
fn without_filters(route: &Route) -> Route {
    let action = Action::Respond { status: 500, body: Some(WITHOUT_FILTERS.into()) };
    Route { filters: Filters::default(), action, ..route.clone() }
}

fn namespace(route: &Attached) -> &Arc<str> {
    &route.precedence.key.namespace
}

/// Returns the place of a match in its object.
fn place(candidate: &Candidate) -> (u32, u32) {
    (candidate.rule, candidate.position)
}

/// Returns the virtual host of a host without routes.
pub fn not_found(origin: &ObjectRef) -> VirtualHost {
    VirtualHost::new([Route::new(PathMatch::root(), Action::respond(404), origin.clone())])
}

/// Returns the route on a listener with this port. A redirect that names neither scheme nor port uses the port of the
/// listener. Source: Gateway API v1, `HTTPRequestRedirectFilter.port`.
fn on_port(route: Arc<Route>, port: u16) -> Arc<Route> {
    let Action::Redirect(redirect @ Redirect { scheme: None, port: None, .. }) = &route.action else { return route };
    let is_default = [Scheme::Http, Scheme::Https].iter().any(|scheme| scheme.default_port() == port);
    if is_default {
        return route;
    }
    let action = Action::Redirect(Redirect { port: Some(port), ..redirect.clone() });
    Arc::new(Route { action, ..Route::clone(&route) })
}

fn too_expensive(route: &Attached, candidate: &Candidate) -> Problem {
    Problem {
        object: route.origin.clone(),
        field: format!("spec.rules[{}].matches[{}]", candidate.rule, candidate.position),
        reason: Reason::RegexTooExpensive,
        message: "the regular expressions of a host exceed its limit".to_owned(),
        consequence: "match left out".to_owned(),
    }
}
