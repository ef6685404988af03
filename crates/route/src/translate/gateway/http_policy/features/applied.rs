//! The features of HTTPPolicies on a route: which of them apply beside the features of the route itself, and together.

use std::sync::Arc;

use super::{Feature, Features, Shared, Unenforceable, WAITS};
use crate::model::{Action, ClusterFilter, ForwardFilter, HostRewrite, PolicyRewrite, Route, RoutePolicy, TimeLimits};

/// The body of a 403 of a route whose policy cannot be enforced.
const CLOSED: &str = "a policy of this route cannot be enforced\n";

/// The bodies of a 403 of a route whose policies are valid, each by itself.
const EXCLUDED: &str = "the policies of this route cannot be combined\n";
const TOO_MANY_WAITS: &str = "the policies of this route wait for more than two servers\n";

impl Features {
    /// Returns `route` with these features. The error is the route if one of them cannot be enforced: all its requests are answered 403.
    pub fn apply(&self, route: &Route) -> Result<Route, Route> {
        match self.resolve().map(|policy| without_excess_delay(self.behind(route, policy), route)) {
            Ok(policy) if waiting(&policy, route).count() > WAITS => Err(self.close(route, TOO_MANY_WAITS)),
            Ok(policy) if self.excluded().is_some() || has_other_path(&policy, route) => {
                Err(self.close(route, EXCLUDED))
            }
            // Envoy would count the requests of the sessions of each backend separately.
            Ok(policy) if policy.local_rate_limit.is_some() => Ok(route.undivided().with_policy(Arc::new(policy))),
            Ok(policy) => Ok(route.with_policy(Arc::new(policy))),
            Err(Unenforceable) => Err(self.close(route, CLOSED)),
        }
    }

    /// Returns why policies that are valid by themselves cannot be enforced together on `route`: a message and the consequence.
    pub fn excess(&self, route: &Route) -> Option<(String, &'static str)> {
        if let Some((_, message)) = self.excluded() {
            return Some((message.to_owned(), "requests are answered 403"));
        }
        if self.grpc_json.is_some() && has_other_path(&self.behind(route, self.resolve().ok()?), route) {
            let message = "\"grpcJson\" sets the path of requests, so neither path nor host can be rewritten by it";
            return Some((message.to_owned(), "requests are answered 403"));
        }
        let may_wait = [self.jwt.is_some(), self.oidc.is_some(), self.authorization.is_some(), route.asks()];
        if may_wait.into_iter().filter(|waits| *waits).count() < WAITS {
            return None;
        }
        let policy = self.behind(route, self.resolve().ok()?);
        let servers: Vec<_> = waiting(&policy, route).collect();
        if servers.len() > WAITS {
            let message = format!("a request can wait for two servers, not for those of {}", servers.join(", "));
            return Some((message, "requests are answered 403"));
        }
        has_excess_delay(&policy, route).then(|| {
            let servers = servers.join(" and ");
            (format!("a request that waits for {servers} cannot be delayed before its body is held"), "no delay")
        })
    }

    /// Returns a feature that cannot be enforced together with another one, and why.
    pub fn excluded(&self) -> Option<(&'static str, &'static str)> {
        let (processes, converts) = (matches!(self.processing, Some(Ok(_))), self.grpc_json.is_some());
        // All wait behind all limits, and Envoy would skip the second one.
        let excluded = [
            (
                processes && self.wasm.is_some(),
                ("wasm", "requests cannot pass a module and a server of externalProcessing"),
            ),
            (
                processes && self.max_response_body.is_some(),
                ("maxResponseBody", "the length of a response that passes a server of externalProcessing is not known"),
            ),
            (processes && converts, ("grpcJson", "requests cannot be converted behind a server of externalProcessing")),
            (self.wasm.is_some() && converts, ("grpcJson", "requests cannot be converted behind a module")),
            (
                self.max_response_body.is_some() && converts,
                (
                    "grpcJson",
                    "responses that are converted have the limit of the settings, not that of maxResponseBody",
                ),
            ),
        ];
        excluded.into_iter().find(|(is_excluded, _)| *is_excluded).map(|(_, feature)| feature)
    }

    /// Returns the policy without the features that the route itself sets, unless they replace those of the route.
    fn behind(&self, route: &Route, mut policy: RoutePolicy) -> RoutePolicy {
        let Action::Forward(forward) = &route.action else {
            // Its check would refuse requests.
            policy.rewrite = None;
            policy.decided.retain(|(name, _)| *name != "urlRewrite");
            return policy;
        };
        let has = |is: fn(&ForwardFilter) -> bool| forward.filters.iter().any(is);
        let mut replaced = Vec::new();
        if yields(&self.cors) && has(|filter| matches!(filter, ForwardFilter::Cors(_))) {
            policy.cors = None;
            replaced.push("cors");
        }
        if yields(&self.retries) && forward.own.retry {
            policy.retries = None;
            replaced.push("retries");
        }
        if let Some(limits) = policy.timeouts.as_mut().filter(|_| yields(&self.timeouts)) {
            limits.request = limits.request.filter(|_| !forward.own.timeout);
            limits.idle = limits.idle.filter(|_| !has(|filter| matches!(filter, ForwardFilter::IdleTimeout(_))));
            if *limits == TimeLimits::default() {
                policy.timeouts = None;
                replaced.push("timeouts");
            }
        }
        if let Some(rewrite) = policy.rewrite.as_mut().filter(|_| yields(&self.rewrite)) {
            let is_of_host = |filter: &ClusterFilter| matches!(filter, ClusterFilter::Host(_));
            let of_backends = forward.clusters.iter().any(|cluster| cluster.filters.iter().any(is_of_host));
            let has_host = of_backends
                || has(|filter| match filter {
                    ForwardFilter::Rewrite(own) => own.host.is_some(),
                    other => matches!(other, ForwardFilter::HostFromHeader(_)),
                });
            let has_path = has(|filter| matches!(filter, ForwardFilter::Rewrite(own) if own.path.is_some()));
            rewrite.host = rewrite.host.take().filter(|_| !has_host);
            rewrite.path = rewrite.path.take().filter(|_| !has_path);
            if *rewrite == PolicyRewrite::default() {
                policy.rewrite = None;
                replaced.push("urlRewrite");
            }
        }
        policy.decided.retain(|(name, _)| !replaced.contains(name));
        policy
    }

    /// Returns `route` without its action: all its requests are answered 403 with this body.
    fn close(&self, route: &Route, body: &str) -> Route {
        let action = Action::Respond { status: 403, body: Some(body.into()) };
        // The route keeps the policies as origins.
        let policy = RoutePolicy { origins: self.origins.clone(), ..RoutePolicy::default() };
        Route { action, ..route.with_policy(Arc::new(policy)) }
    }
}

/// Returns the policy without a delay in front of a held body if requests wait for as many servers as they can.
fn without_excess_delay(mut policy: RoutePolicy, route: &Route) -> RoutePolicy {
    let is_excess = has_excess_delay(&policy, route);
    if let Some(faults) = policy.faults.as_mut().filter(|_| is_excess) {
        faults.delay = None;
    }
    policy
}

fn has_excess_delay(policy: &RoutePolicy, route: &Route) -> bool {
    policy.delays_held_bodies() && waiting(policy, route).count() >= WAITS
}

/// Returns what lets the requests of `route` wait for a server.
fn waiting(policy: &RoutePolicy, route: &Route) -> impl Iterator<Item = &'static str> {
    policy.waiting().chain(route.asks().then_some("the filter ExternalAuth"))
}

/// Returns whether a change of the URL would see the path of a method of gRPC instead of that of the request.
fn has_other_path(policy: &RoutePolicy, route: &Route) -> bool {
    let Action::Forward(forward) = &route.action else { return false };
    let of_route = |filter: &ForwardFilter| matches!(filter, ForwardFilter::Rewrite(own) if own.path.is_some());
    let of_policy =
        |rewrite: &PolicyRewrite| rewrite.path.is_some() || matches!(rewrite.host, Some(HostRewrite::Path(_)));
    policy.grpc_json.is_some()
        && (forward.filters.iter().any(of_route) || policy.rewrite.as_ref().is_some_and(of_policy))
}

/// Returns whether a feature has no effect on a route that sets it.
fn yields<T>(feature: &Feature<Shared<T>>) -> bool {
    matches!(feature, Some(Ok(Shared { replaces: false, .. })))
}
