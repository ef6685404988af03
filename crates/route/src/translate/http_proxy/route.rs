//! A route of an HTTPProxy: its match and its action.

use std::sync::Arc;

use super::balancing;
use super::conditions::{InheritedConditions, MatchConditions};
use super::headers::{self, ChangedMessages, NewHost};
use super::policies::{self, PrefixRewrites};
use super::situation;
use super::tree::{Declaring, Tree};
use super::upstream;
use crate::model::{
    Action, Filters, Forward, ForwardFilter, Match, OwnParts, PathMatch, PathRewrite, Rewrite, Route, RouteFilter,
};
use crate::objects::http_proxy::{ProxyRoute, ProxyService};
use crate::translate::gateway::session;
use crate::translate::unit::Field;

/// The action of a route. With a rewritten prefix, the paths with and without a slash at its end have actions of their own.
struct Answer {
    action: Action,
    pair: Option<(PathMatch, Action)>,
}

impl From<Action> for Answer {
    fn from(action: Action) -> Self {
        Self { action, pair: None }
    }
}

impl Tree<'_> {
    /// Adds a route of an object below a chain of includes.
    pub fn route(&mut self, object: &Declaring, index: usize, route: &ProxyRoute, reached: &InheritedConditions) {
        let field = format!("spec.routes[{index}]");
        let block = MatchConditions::parse(&route.conditions, false, &mut self.resolver.patterns);
        let matched = block.and_then(|block| reached.matches(&block, &mut self.resolver.patterns));
        let (matches, cost) = match matched {
            Ok(matched) => matched,
            Err(fault) => {
                return self.report_condition(object, &field, situation::Block::Route, fault, "route left out");
            }
        };
        let rest: (_, &[&str]) = (&route.rest, &[]);
        let is_closed = self.report.add_rest(&object.origin, &field, rest, situation::Block::Route, "answered 503");
        let access = self.access(object, &field, route);
        let is_closed = is_closed || access.is_closed;
        let features = access.features;
        let responses = route.response_headers_policy.as_ref().map(|policy| {
            let field = format!("{field}.responseHeadersPolicy");
            headers::parse(self, object, &field, policy, ChangedMessages::Responses)
        });
        let changes = responses.map(|(changes, _)| changes).filter(|changes| !changes.is_empty());
        let filters: Filters<RouteFilter> =
            changes.map(RouteFilter::ResponseHeaders).into_iter().collect::<Vec<_>>().into();
        let permits_insecure = self.permits_insecure(object, &field, route);
        let Answer { action, pair } = self.action(object, &field, route, &matches.path);
        let built = |tree: &Self, matches: Match, action: Action| Route {
            matches,
            filters: filters.clone(),
            action: tree.answer(object, is_closed, action),
            origin: object.origin.clone(),
        };
        let field = Field::new("spec.routes[#]", &[index]);
        let pair = pair.map(|(path, action)| {
            let pair = Match::new(path, matches.conditions().cloned().unwrap_or_default());
            self.unit(field.clone(), cost, built(self, pair, action), permits_insecure, features.clone())
        });
        let unit = self.unit(field, cost, built(self, matches, action), permits_insecure, features);
        self.push(unit, true, pair);
    }

    /// Returns whether a route is served in plain text although its host has TLS.
    fn permits_insecure(&mut self, object: &Declaring, field: &str, route: &ProxyRoute) -> bool {
        let is_allowed = self.resolver.context.settings.http_proxies.permit_insecure;
        if route.permit_insecure && !is_allowed && self.host.redirect.is_some() {
            let message = "the setting \"httpProxy.permitInsecure\" is off";
            let (field, situation) = (format!("{field}.permitInsecure"), situation::Block::Route.ignored());
            self.report.add(&object.origin, field, &situation, message, "plain HTTP is redirected to HTTPS");
        }
        route.permit_insecure && is_allowed
    }

    /// Returns the action of a route. A route without a valid action answers 503, so that its requests do not reach another route.
    fn action(&mut self, object: &Declaring, field: &str, route: &ProxyRoute, path: &PathMatch) -> Answer {
        let closed = "answered 503";
        let (redirect, direct) = (&route.request_redirect_policy, &route.direct_response_policy);
        let actions =
            usize::from(!route.services.is_empty()) + usize::from(redirect.is_some()) + usize::from(direct.is_some());
        if actions != 1 {
            let message =
                "exactly one of \"services\", \"requestRedirectPolicy\", and \"directResponsePolicy\" must be set";
            self.report.add(&object.origin, field, &situation::ROUTE_ACTION_COUNT, message, closed);
            return Action::respond(503).into();
        }
        if let Some(policy) = redirect {
            let field = format!("{field}.requestRedirectPolicy");
            let is_closed =
                self.report.add_rest(&object.origin, &field, (&policy.rest, &[]), situation::Block::Route, closed);
            return match policies::redirect(policy, path) {
                _ if is_closed => Action::respond(503).into(),
                Ok(redirect) => Action::Redirect(redirect).into(),
                Err(message) => {
                    self.report.add(&object.origin, field, &situation::REDIRECT_NOT_VALID, message, closed);
                    Action::respond(503).into()
                }
            };
        }
        if let Some(policy) = direct {
            let field = format!("{field}.directResponsePolicy");
            return match policies::direct_response(policy) {
                Ok(action) => action.into(),
                Err(message) => {
                    self.report.add(&object.origin, field, &situation::DIRECT_RESPONSE_NOT_VALID, message, closed);
                    Action::respond(503).into()
                }
            };
        }
        self.forward(object, field, route, path)
    }

    fn forward(&mut self, object: &Declaring, field: &str, route: &ProxyRoute, path: &PathMatch) -> Answer {
        let (timeout, idle, own_timeout) = policies::timeouts(self, object, field, route.timeout_policy.as_ref());
        let retry = policies::retry(self, object, field, route.retry_policy.as_ref());
        let own = OwnParts { timeout: own_timeout, retry: route.retry_policy.is_some() };
        let mut filters = Vec::new();
        let (mut host, mut from_header) = (None, None);
        if let Some(policy) = &route.request_headers_policy {
            let field = format!("{field}.requestHeadersPolicy");
            let (changes, rewritten) = headers::parse(self, object, &field, policy, ChangedMessages::Requests);
            (host, from_header) = match rewritten {
                Some(NewHost::Name(name)) => (Some(name), None),
                Some(NewHost::FromHeader(header)) => (None, Some(header)),
                None => (None, None),
            };
            filters.extend((!changes.is_empty()).then_some(ForwardFilter::RequestHeaders(changes)));
        }
        filters.extend(from_header.map(ForwardFilter::HostFromHeader));
        let wanted = upstream::wanted(self, object, field, route, host.clone());
        let services = self.services(object, field, &route.services, &wanted);
        filters.extend(services.mirror.map(ForwardFilter::Mirror));
        filters.extend(services.cookies.map(Box::new).map(ForwardFilter::Cookies));
        filters.extend(receives_grpc(&route.services).then_some(ForwardFilter::GrpcWeb));
        filters.extend(idle.map(ForwardFilter::IdleTimeout));
        filters.extend(self.internal_redirects(object, field, route).map(ForwardFilter::InternalRedirects));
        filters.extend(self.settings_authorization(object, field, route).map(ForwardFilter::SettingsAuthorization));
        let serving = route.services.iter().filter(|service| !service.mirror).count();
        if serving == 1 && !balancing::keeps_sessions(route.load_balancer_policy.as_ref()) {
            filters.extend(session::of_policies(self.resolver.context, &services.clusters));
        }
        let rewritten = match policies::rewritten(self, object, field, route.path_rewrite_policy.as_ref(), path) {
            Ok(rewritten) => rewritten,
            Err(()) => return Action::respond(503).into(),
        };
        if services.clusters.is_empty() {
            // The paths are the same as with its Services: other routes do not take them over.
            let pair = rewritten.and_then(|rewritten| rewritten.pair).map(|(path, _)| (path, services.closed.clone()));
            return Answer { action: services.closed, pair };
        }
        let forward = |path: Option<PathRewrite>| {
            let rewrite = Rewrite { host: host.clone(), path };
            let rewrite = (rewrite != Rewrite::default()).then_some(ForwardFilter::Rewrite(rewrite));
            let filters: Vec<ForwardFilter> = filters.iter().cloned().chain(rewrite).collect();
            Action::Forward(Arc::new(Forward {
                clusters: services.clusters.clone(),
                timeout,
                retry: retry.clone(),
                websocket: route.enable_websockets,
                filters: filters.into(),
                own,
            }))
        };
        match rewritten {
            None => forward(None).into(),
            Some(PrefixRewrites { own, pair }) => {
                Answer { action: forward(Some(own)), pair: pair.map(|(path, rewrite)| (path, forward(Some(rewrite)))) }
            }
        }
    }
}

/// Returns whether all Services of a route may be gRPC servers: they receive HTTP/2.
fn receives_grpc(services: &[ProxyService]) -> bool {
    let mut serving = services.iter().filter(|service| !service.mirror).peekable();
    serving.peek().is_some() && serving.all(|service| matches!(service.protocol.as_deref(), Some("h2" | "h2c")))
}
