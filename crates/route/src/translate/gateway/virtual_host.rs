//! The virtual host of a host name on one listener, from all routes that are attached to it.

use std::collections::BTreeSet;
use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use super::client_certificates::ClientCertificate;
use super::foreign_policies::Closed;
use crate::model::{Action, Host, PathMatch, Redirect, Route, Scheme, VirtualHostRoutes};
use crate::settings::Regexes;
use crate::translate::dialect::Dialect;
use crate::translate::plain_text::VirtualHostPort;
use crate::translate::problem::{Problem, Reason};
use crate::translate::rules::Rules;
use crate::translate::scope::Scope;
use crate::translate::source::Source;
use crate::translate::unit::Unit;

/// Returns the virtual host of `host` with the features of `policies`, and the problems of routes that exceed the budget of the host for
/// regular expressions.
///
/// `closed` is the policy of another product that closes the listener. `sources` are in the order of precedence. `origin` is the origin of a virtual host without routes; `port` is the port of the listener,
/// and `certificate` the client certificate of its Gateway.
#[allow(clippy::too_many_arguments, reason = "each one is a property of the host or of its listener")]
pub fn virtual_host(
    host: &Host,
    sources: &[&Source],
    certificate: &ClientCertificate,
    origin: &ObjectRef,
    port: u16,
    dialects: &'static [Dialect],
    limits: &Regexes,
    policies: &Scope,
    closed: Option<&Closed>,
) -> (VirtualHostRoutes, Vec<Arc<Problem>>) {
    let mut problems = Vec::new();
    let rules = Rules::merge(
        host,
        sources,
        |source| source.attached.units(certificate).iter(),
        dialects,
        limits,
        &mut problems,
    );
    problems.extend(sources.iter().flat_map(|source| limited_sessions(host, source, certificate, policies)));
    problems.extend(sources.iter().filter_map(|source| closed_beside(host, source, policies)));
    let unenforceable = rules.winners().filter(|_| closed.is_none());
    problems.extend(unenforceable.filter_map(|one| policies.problem(one.precedence, one.unit, host)));
    let problems = problems.into_iter().map(Arc::new).collect();
    let mut routes = Vec::new();
    for one in rules.in_order() {
        match closed {
            Some(closed) if !policies.is_closed(one.precedence, host) => {
                routes.push(Arc::new(one.unit.denied(closed.body.clone())));
            }
            _ => policies.push(one.precedence, one.unit, host, VirtualHostPort::Tls, &mut routes),
        }
    }
    let mut routes: Vec<Arc<Route>> = routes.into_iter().map(|route| on_port(route, port)).collect();
    if routes.is_empty() {
        return (not_found(origin), problems);
    }
    routes.shrink_to_fit();
    (VirtualHostRoutes { routes, one_label: 0 }, problems)
}

/// Returns the problems of rules whose sessions stay at a backend, and whose requests are limited.
fn limited_sessions(host: &Host, route: &Source, certificate: &ClientCertificate, policies: &Scope) -> Vec<Problem> {
    if policies.is_closed(&route.precedence, host) {
        return Vec::new();
    }
    let is_limited = |unit: &&Unit| {
        let features = || policies.features_of(&route.precedence, unit);
        unit.route.divided().is_some() && features().is_some_and(|features| features.limits_rate())
    };
    let limited = route.attached.units(certificate).iter().filter(is_limited);
    let rules: BTreeSet<u32> = limited.filter_map(|unit| unit.field.place().first().copied()).collect();
    let problem = |rule| Problem {
        object: route.origin.clone(),
        field: format!("spec.rules[{rule}].sessionPersistence"),
        reason: Reason::SessionPersistenceNotValid,
        message: "a localRateLimit applies to the rule, and Envoy would count the sessions of each backend separately"
            .into(),
        consequence: "sessions stay at an endpoint, but not at a backend".to_owned(),
    };
    rules.into_iter().map(problem).collect()
}

/// Returns the problem of a route that is closed on a host, because another route of its namespace is left out there.
fn closed_beside(host: &Host, route: &Source, policies: &Scope) -> Option<Problem> {
    policies.is_closed_beside(&route.precedence, host).then(|| Problem {
        object: route.origin.clone(),
        field: "spec.hostnames".to_owned(),
        reason: Reason::RouteTooExpensive,
        message: format!(
            "another route of the namespace for \"{host}\" does not fit into tenants.maxConfigurationPerNamespace, and is left out"
        ).into(),
        consequence: format!("requests to \"{host}\" are answered 503"),
    })
}

/// Returns the virtual host of a host without routes.
pub fn not_found(origin: &ObjectRef) -> VirtualHostRoutes {
    VirtualHostRoutes::new([Route::new(PathMatch::root(), Action::respond(404), origin.clone())])
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
