//! The parser of the rules of a single HTTPRoute or GRPCRoute.

use std::sync::Arc;

use super::attached::RouteContent;
use super::backends::{Backends, backends};
use super::filters::{Filtered, filters};
use super::matches::{self, MatchFault};
use super::parser::{self, Fields, Parser};
use super::{grpc_route, session, timeouts};
use crate::model::{Action, Filters, Forward, ForwardFilter, Match, Route, Share};
use crate::objects::gateway::{GrpcRoute, HttpMatch, HttpRoute, HttpRouteRule};
use crate::objects::{Kind, Revision};
use crate::translate::dialect::Resolver;
use crate::translate::plain_text::PlainText;
use crate::translate::source::{Dependencies, Source};
use crate::translate::unit::{Field, Unit};

/// Parses an HTTPRoute.
pub fn parse(route: &HttpRoute, resolver: Resolver) -> Result<Source, Dependencies> {
    let HttpRoute { meta, spec, status: _, version: _ } = route;
    let revision = Revision::new(meta, spec);
    let none = [HttpRouteRule::default()];
    let rules = spec.rules.as_deref().unwrap_or(&none);
    let (kind, parents, hostnames) = (Kind::HTTP_ROUTE, &spec.parent_refs, &spec.hostnames);
    let fields = Fields { kind, meta, parents, hostnames, revision };
    parser::parse(fields, resolver, |parser| content(rules, parser))
}

/// Parses a GRPCRoute.
pub fn parse_grpc(route: &GrpcRoute, resolver: Resolver) -> Result<Source, Dependencies> {
    let GrpcRoute { meta, spec, status: _, version: _ } = route;
    let revision = Revision::new(meta, spec);
    let rules: Vec<HttpRouteRule> = match spec.rules.is_empty() {
        true => vec![HttpRouteRule::default()],
        false => spec.rules.iter().map(grpc_route::rule).collect(),
    };
    let (kind, parents, hostnames) = (Kind::GRPC_ROUTE, &spec.parent_refs, &spec.hostnames);
    let fields = Fields { kind, meta, parents, hostnames, revision };
    parser::parse(fields, resolver, |parser| content(&rules, parser))
}

fn content(rules: &[HttpRouteRule], parser: &mut Parser) -> RouteContent {
    let mut units = Vec::new();
    for (index, rule) in rules.iter().enumerate() {
        parser.rule(index, rule, &mut units);
    }
    RouteContent::Http(units.into())
}

impl Parser<'_, '_> {
    fn rule(&mut self, index: usize, rule: &HttpRouteRule, units: &mut Vec<Unit>) {
        let field = format!("spec.rules[{index}]");
        let filtered = filters(&field, &rule.filters, self);
        let action = self.action(&field, index, rule, &filtered);
        // The backends are parsed in any case, so that their problems are reported.
        let action = match self.denied(rule.name.as_deref()) {
            Some(body) => (Action::Respond { status: 403, body: Some(body) }, None),
            None => action,
        };
        let name: Option<Arc<str>> = rule.name.as_deref().map(Into::into);
        let everything = [HttpMatch::default()];
        let matches = if rule.matches.is_empty() { &everything[..] } else { &rule.matches };
        for (position, one) in matches.iter().enumerate() {
            let field = format!("{field}.matches[{position}]");
            let (matches, cost) = match matches::parse(one, &mut self.resolver.patterns) {
                Ok(parsed) => parsed,
                Err(MatchFault { field: below, reason, message }) => {
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
            let matches_everything = rest.as_ref().unwrap_or(&route).matches.is_everything();
            let field = match matches_everything {
                true => Field::new("spec.rules[#]", &[index]),
                false => Field::new("spec.rules[#].matches[#]", &[index, position]),
            };
            units.push(Unit { field, rule: name.clone(), cost, route, rest, plain_text: PlainText::Serve, own: None });
        }
    }

    /// Returns the action of a rule, and the share of the requests with a valid backend, with the status of the others. `None`: all
    /// requests have a valid backend.
    fn action(
        &mut self,
        field: &str,
        index: usize,
        rule: &HttpRouteRule,
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
        let (timeout, retry, own) = timeouts::parse(field, rule, self);
        let session = match rule.session_persistence {
            Some(_) => session::parse(field, index, rule, clusters.len(), self)
                .map(|session| ForwardFilter::Session(Box::new(session))),
            // Whether the others are valid must not decide.
            None if rule.backend_refs.len() > 1 => None,
            None => session::of_policies(self.resolver.context, &clusters),
        };
        let filters: Filters<ForwardFilter> =
            filtered.forward.iter().cloned().chain(session).collect::<Vec<_>>().into();
        let forward = Forward { clusters, timeout, retry, websocket: true, filters, own };
        (Action::Forward(Arc::new(forward)), share.map(|share| (share, status)))
    }
}
