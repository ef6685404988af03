//! Routes: matches, filters, and actions.

use std::sync::Arc;
use std::time::Duration;

use lockgate_xds::provenance::ObjectRef;

use super::{
    ClusterFilter, ClusterId, Filters, ForwardFilter, Match, Rewrite, RouteFilter, RoutePolicy, SecretId, Session,
    SessionCookie, SettingsAuthorization,
};

/// The routes of one host, in the order in which they are tried.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VirtualHostRoutes {
    /// The routes in their final order. The first match wins. Hosts and revisions share equal routes.
    pub routes: Vec<Arc<Route>>,
    /// The number of leading routes that only match if `:authority` is one label before the suffix of a wildcard host. The
    /// other routes of such a host also match names of several labels. Has no effect on other hosts.
    pub one_label: usize,
}

impl VirtualHostRoutes {
    /// Returns the virtual host with `routes`. No route depends on the number of labels.
    pub fn new(routes: impl IntoIterator<Item = Route>) -> Self {
        Self { routes: routes.into_iter().map(Arc::new).collect(), one_label: 0 }
    }

    /// Returns the routes of `before` and of `now` without their common first and last routes, because most routes of a
    /// host stay the same.
    pub fn differing<'a>(before: Option<&'a Self>, now: Option<&'a Self>) -> (&'a [Arc<Route>], &'a [Arc<Route>]) {
        let routes = |host: Option<&'a Self>| host.map(|host| host.routes.as_slice()).unwrap_or_default();
        let common = CommonEnds::of(routes(before), routes(now));
        (common.between(routes(before)), common.between(routes(now)))
    }

    /// Returns the routes for names of several labels before the suffix of a wildcard host.
    pub fn for_several_labels(&self) -> &[Arc<Route>] {
        self.routes.get(self.one_label..).unwrap_or_default()
    }
}

/// The numbers of routes that two lists have in common, at their start and at their end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommonEnds {
    /// At the start.
    pub start: usize,
    /// At the end, without the routes that are counted at the start.
    pub end: usize,
}

impl CommonEnds {
    /// Compares two lists. Shared routes are equal without a comparison.
    pub fn of(one: &[Arc<Route>], other: &[Arc<Route>]) -> Self {
        let start = one.iter().zip(other).take_while(|(one, other)| one == other).count();
        let rest = one[start..].iter().rev().zip(other[start..].iter().rev());
        Self { start, end: rest.take_while(|(one, other)| one == other).count() }
    }

    /// Returns the routes of one of the lists that are not in common.
    pub fn between(self, routes: &[Arc<Route>]) -> &[Arc<Route>] {
        &routes[self.start..routes.len() - self.end]
    }
}

/// One route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The requests that it matches.
    pub matches: Match,
    /// The changes of requests and responses that apply to every action.
    pub filters: Filters<RouteFilter>,
    /// The action on a matched request.
    pub action: Action,
    /// The object and the field that declare it.
    pub origin: ObjectRef,
}

impl Route {
    /// Returns a route without filters.
    pub fn new(matches: impl Into<Match>, action: Action, origin: ObjectRef) -> Self {
        Self { matches: matches.into(), filters: Filters::default(), action, origin }
    }

    /// Returns the policy that applies.
    pub fn policy(&self) -> Option<&Arc<RoutePolicy>> {
        self.filters.iter().rev().find_map(|filter| match filter {
            RouteFilter::Policy(policy) => Some(policy),
            RouteFilter::ResponseHeaders(_) => None,
        })
    }

    /// Returns the clusters of the action and the policy, with repetitions.
    pub fn clusters(&self) -> impl Iterator<Item = &ClusterId> {
        self.action.clusters().chain(self.policy().into_iter().flat_map(|policy| policy.clusters()))
    }

    /// Returns the secrets that its requests depend on.
    pub fn secrets(&self) -> impl Iterator<Item = &SecretId> {
        self.policy().into_iter().flat_map(|policy| policy.secrets())
    }

    /// Returns the cookie and the action if sessions stay at one of several clusters. Envoy then has a route for each cluster, and one
    /// for new sessions.
    pub fn divided(&self) -> Option<(&SessionCookie, &Forward)> {
        let Action::Forward(forward) = &self.action else { return None };
        let Some(Session::Cookie(cookie)) = Session::of(&forward.filters) else { return None };
        (cookie.keeps_cluster && forward.clusters.len() > 1).then_some((cookie, forward))
    }

    /// Returns the route with sessions that stay at an endpoint, but not at a cluster.
    #[must_use]
    pub fn undivided(&self) -> Self {
        let Some((cookie, forward)) = self.divided() else { return self.clone() };
        let cookie = SessionCookie { keeps_cluster: false, ..cookie.clone() };
        let session = ForwardFilter::Session(Box::new(Session::Cookie(cookie)));
        let others = forward.filters.iter().filter(|filter| !matches!(filter, ForwardFilter::Session(_))).cloned();
        let filters = others.chain([session]).collect::<Vec<_>>().into();
        Self { action: Action::Forward(Arc::new(Forward { filters, ..Forward::clone(forward) })), ..self.clone() }
    }

    /// Returns the number of Envoy's routes with the match, the filters, and the policy of this one.
    pub fn copies(&self) -> u32 {
        self.divided().map_or(1, |(_, forward)| u32::try_from(forward.clusters.len() + 1).unwrap_or(u32::MAX))
    }

    /// Returns the route without its policy.
    #[must_use]
    pub fn without_policy(&self) -> Self {
        let others = self.filters.iter().filter(|filter| !matches!(filter, RouteFilter::Policy(_))).cloned();
        Self { filters: others.collect::<Vec<_>>().into(), ..self.clone() }
    }

    /// Returns the time limit of the complete response that applies to forwarded requests: that of the policy, or of `forward`.
    pub fn timeout(&self, forward: &Forward) -> Option<Duration> {
        self.policy().and_then(|policy| policy.timeouts?.request).unwrap_or(forward.timeout)
    }

    /// Returns the limit of the time without any data that applies to forwarded requests. The outer `None`: that of the settings.
    pub fn idle_timeout(&self, forward: &Forward) -> Option<Option<Duration>> {
        let of_route = forward.filters.iter().rev().find_map(|filter| match filter {
            ForwardFilter::IdleTimeout(limit) => Some(*limit),
            _ => None,
        });
        self.policy().and_then(|policy| policy.timeouts?.idle).or(of_route)
    }

    /// Returns the retry policy that applies to forwarded requests: that of the policy, or of `forward`.
    pub fn retry<'a>(&'a self, forward: &'a Forward) -> Option<&'a Retry> {
        let of_policy = self.policy().and_then(|policy| policy.retries.as_deref());
        of_policy.or(forward.retry.as_deref())
    }

    /// Returns whether a filter of the route asks a server about each request.
    pub fn asks(&self) -> bool {
        let is_asking = |filter: &ForwardFilter| matches!(filter, ForwardFilter::Authorization(_));
        matches!(&self.action, Action::Forward(forward) if forward.filters.iter().any(is_asking))
    }

    /// Returns whether each worker of Envoy has an interpreter for the route.
    pub fn runs_program(&self) -> bool {
        let runs = |filter: &ForwardFilter| matches!(filter, ForwardFilter::Cookies(_));
        matches!(&self.action, Action::Forward(forward) if forward.filters.iter().any(runs))
    }

    /// Returns the size of the context for the authorization server of the settings, in bytes.
    pub fn context_size(&self) -> u64 {
        let size = |filter: &ForwardFilter| match filter {
            ForwardFilter::SettingsAuthorization(SettingsAuthorization::Context(context)) => {
                context.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum()
            }
            _ => 0,
        };
        match &self.action {
            Action::Forward(forward) => forward.filters.iter().map(size).sum(),
            Action::Redirect(_) | Action::Respond { .. } => 0,
        }
    }

    /// Returns the route with a policy.
    #[must_use]
    pub fn with_policy(&self, policy: Arc<RoutePolicy>) -> Self {
        let filters = self.filters.iter().cloned().chain([RouteFilter::Policy(policy)]);
        Self { filters: filters.collect::<Vec<_>>().into(), ..self.clone() }
    }
}

/// The action of a route on a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Sent to a cluster, chosen by weight.
    Forward(Arc<Forward>),
    /// Answered with a redirect.
    Redirect(Redirect),
    /// Answered by Envoy itself.
    Respond {
        /// HTTP status.
        status: u16,
        /// The body, at most 4096 bytes; `None` is the default text of the status.
        body: Option<Arc<str>>,
    },
}

impl Action {
    /// Returns an action that forwards to one cluster with default values.
    pub fn forward(cluster: ClusterId) -> Self {
        Self::Forward(Arc::new(Forward { clusters: vec![WeightedCluster::new(cluster, 1)], ..Forward::default() }))
    }

    /// Returns the answer of Envoy with `status` and its default text: 404 where nothing is configured, 503 for a route
    /// whose backend cannot be built.
    pub const fn respond(status: u16) -> Self {
        Self::Respond { status, body: None }
    }

    /// Returns the clusters that requests are sent to, with repetitions.
    pub fn clusters(&self) -> impl Iterator<Item = &ClusterId> {
        let forward = match self {
            Self::Forward(forward) => Some(forward),
            Self::Redirect(_) | Self::Respond { .. } => None,
        };
        forward.into_iter().flat_map(|forward| {
            let others = forward.filters.iter().filter_map(|filter| match filter {
                ForwardFilter::Mirror(mirror) => Some(&mirror.cluster),
                ForwardFilter::Authorization(authorization) => Some(&authorization.cluster),
                _ => None,
            });
            forward.clusters.iter().map(|weighted| &weighted.cluster).chain(others)
        })
    }
}

/// The forwarding of requests to clusters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Forward {
    /// The clusters, at least one. The sum of the weights is arbitrary.
    pub clusters: Vec<WeightedCluster>,
    /// The time limit of the complete response. `None` sets no limit. [`Route::timeout`] also considers policies.
    pub timeout: Option<Duration>,
    /// The retry policy. [`Route::retry`] also considers policies.
    pub retry: Option<Box<Retry>>,
    /// The parts that the object of the route itself sets. The other parts come from the settings, and policies replace them.
    pub own: OwnParts,
    /// Whether `Upgrade: websocket` is passed on.
    pub websocket: bool,
    /// The filters of requests.
    pub filters: Filters<ForwardFilter>,
}

/// The parts of a [`Forward`] that the object of the route itself sets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OwnParts {
    /// The time limit of the complete response.
    pub timeout: bool,
    /// The retries, or that there are none.
    pub retry: bool,
}

/// A cluster and its share of the requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WeightedCluster {
    /// The identity of the cluster in [`Model::clusters`](super::Model::clusters).
    pub cluster: ClusterId,
    /// The share relative to the other weights. At least one weight of a route is positive.
    pub weight: u32,
    /// The filters of the requests to this cluster and of their responses.
    pub filters: Filters<ClusterFilter>,
}

impl WeightedCluster {
    /// Returns a cluster without filters.
    pub fn new(cluster: ClusterId, weight: u32) -> Self {
        Self { cluster, weight, filters: Filters::default() }
    }
}

/// A retry policy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Retry {
    /// Envoy's retry conditions, e.g. `5xx,connect-failure`.
    pub on: String,
    /// The largest number of retries.
    pub retries: u32,
    /// The time limit of each attempt. `None`: the timeout of the route.
    pub per_try_timeout: Option<Duration>,
    /// Additional statuses that cause a retry.
    pub status_codes: Vec<u16>,
    /// The base of the exponential back-off, at least 1 ms; `None` is Envoy's default.
    pub backoff: Option<Duration>,
}

/// A redirect to the URL of the request with some parts changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    /// The status.
    pub status: RedirectStatus,
    /// The scheme; `None` keeps it.
    pub scheme: Option<Scheme>,
    /// The port. `None` is the default port of `scheme`, or keeps the port of the request if the scheme is kept.
    pub port: Option<u16>,
    /// Changes of host and path; absent in most redirects.
    pub rewrite: Option<Arc<Rewrite>>,
}

impl Redirect {
    /// Returns the redirect to the same URL on `https`.
    pub fn to_https(status: RedirectStatus) -> Self {
        Self { status, scheme: Some(Scheme::Https), port: None, rewrite: None }
    }
}

/// The scheme of a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scheme {
    /// Clear text.
    Http,
    /// TLS.
    Https,
}

impl Scheme {
    /// Returns the port that URLs omit.
    pub fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// The statuses of redirects that Envoy supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the variants have the names of the statuses")]
pub enum RedirectStatus {
    MovedPermanently = 301,
    Found = 302,
    SeeOther = 303,
    TemporaryRedirect = 307,
    PermanentRedirect = 308,
}

impl RedirectStatus {
    /// All statuses.
    pub const ALL: [Self; 5] =
        [Self::MovedPermanently, Self::Found, Self::SeeOther, Self::TemporaryRedirect, Self::PermanentRedirect];

    /// Returns the status with this code.
    pub fn from_code(code: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.code() == code)
    }

    /// Returns the code.
    pub fn code(self) -> u16 {
        self as u16
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic)]

    use super::*;
    use crate::model::{Conditions, PathMatch};

    /// The features that most routes do not have. A new feature gets a row, and its content stays behind a pointer.
    #[test]
    fn each_group_of_rare_features_takes_one_pointer_in_a_route_without_them() {
        let features = [
            (
                "method, headers, query parameters, share",
                size_of::<Match>() - size_of::<PathMatch>(),
                size_of::<Conditions>(),
            ),
            ("response headers, policies", size_of::<Filters<RouteFilter>>(), size_of::<RouteFilter>()),
            (
                "request headers, rewrite, mirror, CORS, idle timeout, sessions",
                size_of::<Filters<ForwardFilter>>(),
                size_of::<ForwardFilter>(),
            ),
            ("headers of one cluster", size_of::<Filters<ClusterFilter>>(), size_of::<ClusterFilter>()),
            ("retries", size_of::<Option<Box<Retry>>>(), size_of::<Retry>()),
            ("rewrite of a redirect", size_of::<Option<Arc<Rewrite>>>(), size_of::<Rewrite>()),
        ];
        for (feature, in_each_route, content) in features {
            assert_eq!(in_each_route, size_of::<usize>(), "{feature}");
            assert!(content > size_of::<usize>(), "{feature}: {content} bytes");
        }
    }

    /// A route that matches a path and forwards to one cluster. It consists of the route and the forward, each with two
    /// reference counts, and of the list of clusters.
    #[test]
    fn a_plain_route_takes_248_bytes_without_its_texts() {
        let counts = 2 * size_of::<usize>();
        let sizes = [size_of::<Route>(), size_of::<Forward>(), size_of::<WeightedCluster>()];
        assert_eq!(sizes, [120, 64, 32]);
        assert_eq!(sizes.iter().sum::<usize>() + 2 * counts, 248);
        let Action::Forward(forward) = Action::forward(crate::testing::model::cluster_id("shop/cart/80")) else {
            panic!("a forward")
        };
        assert_eq!((forward.clusters.len(), forward.clusters.capacity()), (1, 1), "no spare capacity");
        assert_eq!(size_of::<Option<Arc<Route>>>(), size_of::<usize>());
    }

    #[test]
    fn the_clusters_of_an_action_include_mirrors() {
        use crate::model::{Mirror, Share};
        let name = |name: &str| crate::testing::model::cluster_id(&format!("shop/{name}/80"));
        let mirror = ForwardFilter::Mirror(Mirror { cluster: name("b"), share: Share::ALL });
        let clusters = vec![WeightedCluster::new(name("a"), 1)];
        let forward = Forward { clusters, filters: vec![mirror].into(), ..Forward::default() };
        assert!(Action::Forward(forward.into()).clusters().eq(&[name("a"), name("b")]));
        assert_eq!(Action::respond(404).clusters().count(), 0);
    }
}
