//! Filters: the changes of requests and responses by a route, in addition to its action.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use super::{
    Authorization, ClusterId, CookieRewrites, HeaderChange, HeaderName, HeaderValue, RedirectStatus, RoutePolicy,
    Session, SettingsAuthorization,
};

/// Filters in the order in which they apply. If two filters set the same property, the later one applies.
///
/// An empty list is a null pointer. A clone shares the filters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filters<T>(Option<Arc<Vec<T>>>);

impl<T> Default for Filters<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> From<Vec<T>> for Filters<T> {
    fn from(filters: Vec<T>) -> Self {
        Self((!filters.is_empty()).then(|| Arc::new(filters)))
    }
}

impl<T> Deref for Filters<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.0.as_ref().map_or(&[], |filters| filters)
    }
}

/// A filter that every action can have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RouteFilter {
    /// Changes the headers of responses.
    ResponseHeaders(Vec<HeaderChange>),
    /// Limits, access restrictions, and compression.
    Policy(Arc<RoutePolicy>),
}

/// A filter of a route that forwards requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ForwardFilter {
    /// Changes the headers of requests.
    RequestHeaders(Vec<HeaderChange>),
    /// Changes the URL of requests.
    Rewrite(Rewrite),
    /// Replaces the host of requests by the value of a header, if there is one.
    HostFromHeader(HeaderName),
    /// Sends copies of requests to another cluster.
    Mirror(Mirror),
    /// Answers preflight requests, and permits scripts of other origins to read responses. Envoy supports this only for
    /// requests that are forwarded.
    Cors(Box<Cors>),
    /// Changes the cookies that backends set.
    Cookies(Box<CookieRewrites>),
    /// Translates gRPC-Web of browsers into gRPC.
    GrpcWeb,
    /// Follows redirects of the backends.
    InternalRedirects(Box<InternalRedirects>),
    /// Limits the time without any data of a request or its response; `None` is no limit.
    IdleTimeout(Option<Duration>),
    /// Sends the requests of a session to one endpoint.
    Session(Box<Session>),
    /// Asks a server whether it permits a request, in addition to the server of a policy.
    Authorization(Arc<Authorization>),
    /// Changes the questions to the authorization server of the settings.
    SettingsAuthorization(SettingsAuthorization),
}

/// A filter for the requests to one of several weighted clusters. It applies after the filters of the route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClusterFilter {
    /// Changes the headers of requests.
    RequestHeaders(Vec<HeaderChange>),
    /// Changes the headers of responses.
    ResponseHeaders(Vec<HeaderChange>),
    /// Replaces the host of requests, instead of the rewrite of the route.
    Host(HeaderValue),
}

/// A change of the URL of a request, or of the location of a redirect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rewrite {
    /// The host, without a port; `None` keeps it.
    pub host: Option<HeaderValue>,
    /// The path; `None` keeps it.
    pub path: Option<PathRewrite>,
}

/// A change of the URL of requests by a policy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicyRewrite {
    /// The host; `None` keeps it.
    pub host: Option<HostRewrite>,
    /// The path; `None` keeps it.
    pub path: Option<PathRewrite>,
}

/// A change of the host of requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostRewrite {
    /// The host is this name, without a port.
    Name(HeaderValue),
    /// The host is the value of a header, if there is one.
    Header(HeaderName),
    /// The host is made of the path, which the pattern matches completely.
    Path(Arc<RegexRewrite>),
}

/// A change of the path. The query stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathRewrite {
    /// Replaces the prefix that the route matched. Where the route matches whole paths, replaces the path.
    Prefix(HeaderValue),
    /// Replaces the path.
    Full(HeaderValue),
    /// Replaces the matches of a pattern.
    Regex(Arc<RegexRewrite>),
}

/// A replacement of the matches of a pattern in a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegexRewrite {
    /// RE2.
    pub pattern: Arc<str>,
    /// The replacement, in which `\1` is a group of the pattern.
    pub substitution: Arc<str>,
}

impl RegexRewrite {
    /// Returns the pattern for any path. The groups are empty for a path that the pattern does not match; Envoy would use the path as the
    /// host.
    pub fn for_any_path(&self) -> String {
        format!("{}|^.*$", self.pattern)
    }
}

/// The redirects of backends that Envoy follows itself, to routes of the same object on the same host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InternalRedirects {
    /// The most redirects of a request.
    pub most: u32,
    /// The statuses that are followed.
    pub statuses: Vec<RedirectStatus>,
    /// Whether the scheme may change.
    pub schemes: SchemeChange,
}

/// Whether Envoy follows a redirect to another scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemeChange {
    /// Never.
    Never,
    /// Only from https to http.
    ToPlainText,
    /// Always.
    Always,
}

/// Copies of requests for another cluster, whose responses are dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mirror {
    /// The name of the cluster in [`Model::clusters`](super::Model::clusters).
    pub cluster: ClusterId,
    /// The share of the requests that are copied.
    pub share: Share,
}

/// A share from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Share {
    millionths: u32,
}

impl Share {
    /// All requests.
    pub const ALL: Self = Self { millionths: Self::WHOLE };
    const WHOLE: u32 = 1_000_000;

    /// Returns `numerator` of `denominator`, rounded down to millionths; `None` if that is not a share.
    pub fn new(numerator: u32, denominator: u32) -> Option<Self> {
        let millionths = (u64::from(numerator) * u64::from(Self::WHOLE)).checked_div(denominator.into())?;
        (numerator <= denominator).then_some(Self { millionths: millionths as u32 })
    }

    /// Returns the number of millionths.
    pub fn millionths(self) -> u32 {
        self.millionths
    }
}

/// The permissions of scripts of other origins on a route. Source: the Fetch standard, "CORS protocol".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cors {
    /// The origins that are allowed.
    pub allow_origins: Vec<OriginMatch>,
    /// The value of `access-control-allow-methods`; `None` omits it.
    pub allow_methods: Option<HeaderValue>,
    /// The value of `access-control-allow-headers`; `None` omits it.
    pub allow_headers: Option<HeaderValue>,
    /// The headers of a response that scripts may read.
    pub expose_headers: Vec<HeaderName>,
    /// How long browsers may cache the answer to a preflight request; `None` leaves it to them.
    pub max_age: Option<Duration>,
    /// Whether requests may have credentials.
    pub allow_credentials: bool,
    /// Whether scripts of public networks may send requests to private addresses. Source: the draft "Private Network Access".
    pub allow_private_network: bool,
}

/// A condition on the origin of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OriginMatch {
    /// Any origin.
    Any,
    /// An origin, such as `https://example.com`.
    Exact(Arc<str>),
    /// RE2, matched against the whole origin.
    Regex(Arc<str>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_list_of_filters_allocates_no_memory() {
        assert_eq!(Filters::<RouteFilter>::from(Vec::new()), Filters::default());
        assert!(Filters::<ForwardFilter>::default().is_empty());
    }

    #[test]
    fn a_share_is_at_most_one() {
        let millionths = |numerator, denominator| Share::new(numerator, denominator).map(Share::millionths);
        assert_eq!(millionths(1, 3), Some(333_333));
        assert_eq!(Share::new(u32::MAX, u32::MAX), Some(Share::ALL));
        assert_eq!((millionths(2, 1), millionths(0, 0), millionths(0, 1)), (None, None, Some(0)));
    }
}
