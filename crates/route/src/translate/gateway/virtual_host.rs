//! The virtual host of a host name on one listener, from all routes that are attached to it.

use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use super::http_route::Candidate;
use super::matches;
use super::parser::Attached;
use crate::model::{Action, PathMatch, Redirect, Route, Scheme, VirtualHost};
use crate::objects::Precedence;
use crate::settings::Regexes;
use crate::translate::merge::Merged;
use crate::translate::problem::{Problem, Reason};

/// A route and its object.
struct Competitor<'a> {
    precedence: &'a Precedence,
    candidate: &'a Candidate,
}

/// Returns the virtual host, and the problems of routes that exceed the budget of the host for regular expressions.
///
/// `routes` are in the order of precedence. Of equal matches, the first one is served. `gateway` is the origin of a virtual
/// host without routes; `port` is the port of the listener.
pub fn virtual_host(
    routes: &[&Attached],
    gateway: &ObjectRef,
    port: u16,
    limits: &Regexes,
) -> (VirtualHost, Vec<Arc<Problem>>) {
    let (mut merged, mut problems) = (Merged::default(), Vec::new());
    let (mut count, mut size, mut steps) = (0u32, 0u32, 0u32);
    for route in routes {
        for candidate in route.candidates() {
            if candidate.cost.size > 0 {
                let cost = candidate.cost;
                let after = (count + 1, size.saturating_add(cost.size), steps.saturating_add(cost.steps));
                if after.0 > limits.max_per_host
                    || after.1 > limits.max_size_per_host
                    || after.2 > limits.max_steps_per_host
                {
                    problems.push(Arc::new(too_expensive(route, candidate)));
                    continue;
                }
                (count, size, steps) = after;
            }
            // Equal matches are no fault: the older route takes precedence.
            let _ = merged.offer(candidate.matches(), Competitor { precedence: &route.precedence, candidate });
        }
    }
    let place = |one: &Competitor<'_>| (one.candidate.rule, one.candidate.position);
    let ordered = merged.in_order(|matches, one: &Competitor<'_>| matches::rank(matches, one.precedence, place(one)));
    let both = |one: &Competitor<'_>| [Some(one.candidate.route.clone()), one.candidate.rest.clone()];
    let mut routes: Vec<Arc<Route>> =
        ordered.into_iter().flat_map(both).flatten().map(|route| on_port(route, port)).collect();
    if routes.is_empty() {
        return (not_found(gateway), problems);
    }
    routes.shrink_to_fit();
    (VirtualHost { routes, one_label: 0 }, problems)
}

/// Returns the virtual host of a host without routes.
pub fn not_found(gateway: &ObjectRef) -> VirtualHost {
    VirtualHost::new([Route::new(PathMatch::root(), Action::respond(404), gateway.clone())])
}

/// Returns the route on a listener with this port. A redirect that names neither scheme nor port leads to the port of the
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
