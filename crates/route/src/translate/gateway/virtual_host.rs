//! The virtual host of a host name on one listener, from all routes that are attached to it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use super::client_certificates::ClientCertificate;
use super::http_policies::Scope;
use super::http_route::Candidate;
use super::order::Order;
use super::parser::Attached;
use crate::model::{Action, Host, PathMatch, Redirect, Route, Scheme, VirtualHost};
use crate::objects::Precedence;
use crate::settings::Regexes;
use crate::translate::merge::Merged;
use crate::translate::problem::{Problem, Reason};

/// A route and its object.
struct Competitor<'a> {
    precedence: &'a Precedence,
    candidate: &'a Candidate,
}

/// Returns the virtual host of `host` with the features of `policies`, and the problems of routes that exceed the budget of the host for
/// regular expressions.
///
/// `routes` are in the order of precedence. If matches are equal, the first route is served. `origin` is the origin of
/// a virtual host without routes; `port` is the port of the listener, and `certificate` the client certificate of its
/// Gateway.
pub fn virtual_host(
    host: &Host,
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
    problems.extend(routes.iter().flat_map(|route| limited_sessions(host, route, certificate, policies)).map(Arc::new));
    problems.extend(routes.iter().filter_map(|route| closed_beside(host, route, policies)).map(Arc::new));
    let order = Order::new(first, merged.winners().map(|one| (one.candidate.matches(), one.precedence)));
    let ordered =
        merged.in_order(|matches, one: &Competitor<'_>| order.rank(matches, one.precedence, place(one.candidate)));
    let both = |one: &Competitor<'_>| {
        let Competitor { precedence, candidate } = one;
        if policies.is_closed(precedence, host) {
            return vec![Arc::new(candidate.closed())];
        }
        let features = policies.features(precedence, candidate.name.as_ref());
        let with_policy = |route: &Arc<Route>| match &features {
            Some(features) => Arc::new(features.apply(route)),
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

/// Returns the problems of rules whose sessions stay at a backend, and whose requests are limited.
fn limited_sessions(host: &Host, route: &Attached, certificate: &ClientCertificate, policies: &Scope) -> Vec<Problem> {
    if policies.is_closed(&route.precedence, host) {
        return Vec::new();
    }
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

/// Returns the problem of a route that is closed on a host, because another route of its namespace is left out there.
fn closed_beside(host: &Host, route: &Attached, policies: &Scope) -> Option<Problem> {
    policies.is_closed_beside(&route.precedence, host).then(|| Problem {
        object: route.origin.clone(),
        field: "spec.hostnames".to_owned(),
        reason: Reason::RouteTooExpensive,
        message: format!(
            "another route of the namespace for \"{host}\" does not fit into tenants.maxConfigurationPerNamespace, and is left out"
        ),
        consequence: format!("requests to \"{host}\" are answered 503"),
    })
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
