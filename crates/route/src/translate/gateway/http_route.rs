//! The parser of the rules of a single HTTPRoute or GRPCRoute.

use std::sync::Arc;

use super::attach::Parent;
use super::backend::{Backends, backends};
use super::filters::{Filtered, filters};
use super::parser::{self, Attached, Content, Fields, Parser, Units};
use super::{grpc_route, matches, session, timeouts};
use crate::model::{Action, Filters, Forward, ForwardFilter, Match, Route, Share};
use crate::objects::gateway::{GrpcRoute, HttpMatch, HttpRoute, HttpRule};
use crate::objects::{Kind, ObjectId, Revision};
use crate::re2::Cost;
use crate::translate::dialect::Resolver;
use crate::translate::source::Dependencies;

/// A route that competes with others for the requests of a host.
#[derive(Debug, PartialEq)]
pub struct Candidate {
    /// The index of the rule.
    pub rule: u32,
    /// The name of the rule.
    pub name: Option<Arc<str>>,
    /// The index of the match within its rule.
    pub position: u32,
    /// The cost of its regular expressions.
    pub cost: Cost,
    /// The route.
    pub route: Arc<Route>,
    /// The route for the remaining requests, if some of the backends are not valid.
    pub rest: Option<Arc<Route>>,
}

impl Candidate {
    /// Returns the match of the requests that it competes for.
    pub fn matches(&self) -> &Match {
        &self.rest.as_ref().unwrap_or(&self.route).matches
    }

    /// Returns the route that answers all its requests 503.
    pub fn closed(&self) -> Route {
        Route::new(self.matches().clone(), Action::respond(503), self.route.origin.clone())
    }

    /// Returns its routes, in the order in which they are tried.
    pub fn routes(&self) -> impl Iterator<Item = &Arc<Route>> {
        [&self.route].into_iter().chain(&self.rest)
    }
}

/// Parses an HTTPRoute. Returns only the inputs if this controller serves no parent, because it may serve a parent
/// later.
pub fn parse<'g>(
    route: &HttpRoute,
    units: Units<'g, impl Fn(&ObjectId) -> Option<Parent<'g>>>,
    resolver: Resolver,
) -> Result<Attached, Dependencies> {
    let HttpRoute { meta, spec, status: _, version: _ } = route;
    let revision = Revision::new(meta, spec);
    let none = [HttpRule::default()];
    let rules = spec.rules.as_deref().unwrap_or(&none);
    let (kind, parents, hostnames) = (Kind::HTTP_ROUTE, &spec.parent_refs, &spec.hostnames);
    let fields = Fields { kind, meta, parents, hostnames, revision };
    parser::parse(fields, units, resolver, |parser| content(rules, parser))
}

/// Parses a GRPCRoute like [`parse`].
pub fn parse_grpc<'g>(
    route: &GrpcRoute,
    units: Units<'g, impl Fn(&ObjectId) -> Option<Parent<'g>>>,
    resolver: Resolver,
) -> Result<Attached, Dependencies> {
    let GrpcRoute { meta, spec, status: _, version: _ } = route;
    let revision = Revision::new(meta, spec);
    let rules: Vec<HttpRule> = match spec.rules.is_empty() {
        true => vec![HttpRule::default()],
        false => spec.rules.iter().map(grpc_route::rule).collect(),
    };
    let (kind, parents, hostnames) = (Kind::GRPC_ROUTE, &spec.parent_refs, &spec.hostnames);
    let fields = Fields { kind, meta, parents, hostnames, revision };
    parser::parse(fields, units, resolver, |parser| content(&rules, parser))
}

fn content(rules: &[HttpRule], parser: &mut Parser) -> Content {
    let mut candidates = Vec::new();
    for (index, rule) in rules.iter().enumerate() {
        parser.rule(index, rule, &mut candidates);
    }
    Content::Http(candidates.into())
}

impl Parser<'_, '_> {
    fn rule(&mut self, index: usize, rule: &HttpRule, candidates: &mut Vec<Candidate>) {
        let field = format!("spec.rules[{index}]");
        let filtered = filters(&field, &rule.filters, self);
        let action = self.action(&field, index, rule, &filtered);
        let name: Option<Arc<str>> = rule.name.as_deref().map(Into::into);
        let everything = [HttpMatch::default()];
        let matches = if rule.matches.is_empty() { &everything[..] } else { &rule.matches };
        for (position, one) in matches.iter().enumerate() {
            let field = format!("{field}.matches[{position}]");
            let (matches, cost) = match matches::parse(one, &mut self.resolver.patterns) {
                Ok(parsed) => parsed,
                Err((below, reason, message)) => {
                    self.left_out(format!("{field}{below}"), reason, message, "match left out");
                    continue;
                }
            };
            let route = |matches: Match, action: Action| {
                let filters = filtered.responses.clone();
                Arc::new(Route { matches, filters, action, origin: self.origin.clone() })
            };
            let (route, rest) = match &action {
                (action, None) => (route(matches, action.clone()), None),
                (action, Some((share, status))) => {
                    let some = route(matches.clone().with_share(*share), action.clone());
                    (some, Some(route(matches, Action::respond(*status))))
                }
            };
            let (rule, position) = (number(index), number(position));
            candidates.push(Candidate { rule, name: name.clone(), position, cost, route, rest });
        }
    }

    /// Returns the action of a rule, and the share of the requests with a valid backend, with the status of the others. `None`: all
    /// requests have a valid backend.
    fn action(
        &mut self,
        field: &str,
        index: usize,
        rule: &HttpRule,
        filtered: &Filtered,
    ) -> (Action, Option<(Share, u16)>) {
        if filtered.is_unsupported {
            return (Action::respond(500), None);
        }
        if let Some(redirect) = &filtered.redirect {
            return (Action::Redirect(redirect.clone()), None);
        }
        let Backends { clusters, share, status } = backends(field, &rule.backend_refs, self);
        if clusters.is_empty() {
            return (Action::respond(status), None);
        }
        let (timeout, retry) = timeouts::parse(field, rule, self);
        let session = session::parse(field, index, rule, clusters.len(), self);
        let session = session.map(|session| ForwardFilter::Session(Box::new(session)));
        let filters: Filters<ForwardFilter> =
            filtered.forward.iter().cloned().chain(session).collect::<Vec<_>>().into();
        let forward = Forward { clusters, timeout, retry, websocket: true, filters };
        (Action::Forward(Arc::new(forward)), share.map(|share| (share, status)))
    }
}

fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
