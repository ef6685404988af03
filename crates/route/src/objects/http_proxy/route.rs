//! The routes of HTTPProxies.

use serde::{Deserialize, Serialize};

use super::backend::{HealthCheckPolicy, LoadBalancerPolicy, SlowStartPolicy, UpstreamValidation};
use super::conditions::MatchCondition;
use super::cookies::CookieRewritePolicy;
use super::headers::HeadersPolicy;
use super::policies::{AuthorizationPolicy, IpFilterPolicy, JwtVerificationPolicy, RateLimitPolicy};
use super::rest::Rest;

/// A route of an HTTPProxy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct ProxyRoute {
    /// The conditions on requests. All must hold.
    pub conditions: Vec<MatchCondition>,
    /// The Services that receive the requests.
    pub services: Vec<ProxyService>,
    /// Whether `Upgrade: websocket` is passed on.
    pub enable_websockets: bool,
    /// Whether requests in plain text are served although the host has TLS.
    pub permit_insecure: bool,
    /// The time limits.
    pub timeout_policy: Option<TimeoutPolicy>,
    /// When a request is tried again.
    pub retry_policy: Option<RetryPolicy>,
    /// The change of the path.
    pub path_rewrite_policy: Option<PathRewritePolicy>,
    /// The changes of the headers of requests.
    pub request_headers_policy: Option<HeadersPolicy>,
    /// The changes of the headers of responses.
    pub response_headers_policy: Option<HeadersPolicy>,
    /// The redirect that answers the requests.
    pub request_redirect_policy: Option<RedirectPolicy>,
    /// The answer of Envoy itself.
    pub direct_response_policy: Option<DirectResponsePolicy>,
    /// Whether and how requests are authorized.
    pub auth_policy: Option<AuthorizationPolicy>,
    /// Which token requests need.
    pub jwt_verification_policy: Option<JwtVerificationPolicy>,
    /// The limits of the request rate.
    pub rate_limit_policy: Option<RateLimitPolicy>,
    /// The clients that may send requests.
    pub ip_allow_policy: Vec<IpFilterPolicy>,
    /// The clients that may not send requests.
    pub ip_deny_policy: Vec<IpFilterPolicy>,
    /// The selection of an endpoint.
    pub load_balancer_policy: Option<LoadBalancerPolicy>,
    /// The changes of the cookies that the Services set.
    pub cookie_rewrite_policies: Vec<CookieRewritePolicy>,
    /// The active health check of the endpoints.
    pub health_check_policy: Option<HealthCheckPolicy>,
    /// The redirects of the Services that Envoy follows.
    pub internal_redirect_policy: Option<InternalRedirectPolicy>,
    /// The other fields.
    #[serde(flatten)]
    #[cfg_attr(feature = "testing", schemars(skip))]
    pub rest: Rest,
}

/// A Service of the namespace of the HTTPProxy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct ProxyService {
    /// The name.
    pub name: String,
    /// The port.
    pub port: i64,
    /// The share of the requests relative to the other weights.
    pub weight: Option<i64>,
    /// `tls`, `h2`, or `h2c`.
    pub protocol: Option<String>,
    /// Whether the Service receives copies of the requests, and its responses are dropped.
    pub mirror: bool,
    /// The changes of the headers of requests.
    pub request_headers_policy: Option<HeadersPolicy>,
    /// The changes of the headers of responses.
    pub response_headers_policy: Option<HeadersPolicy>,
    /// The changes of the cookies that it sets. They take precedence over those of the route.
    pub cookie_rewrite_policies: Vec<CookieRewritePolicy>,
    /// The verification of its certificates.
    pub validation: Option<UpstreamValidation>,
    /// The time in which a new endpoint receives fewer requests.
    pub slow_start_policy: Option<SlowStartPolicy>,
    /// The port of the Service that receives health checks; `port` if absent.
    pub health_port: Option<i64>,
    /// The other fields.
    #[serde(flatten)]
    #[cfg_attr(feature = "testing", schemars(skip))]
    pub rest: Rest,
}

/// Time limits. Empty texts are absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct TimeoutPolicy {
    /// The time limit of the complete response.
    pub response: String,
    /// The time without any data of a request or its response.
    pub idle: String,
    /// The time after which an idle connection to an endpoint is closed.
    pub idle_connection: String,
    /// The other fields.
    #[serde(flatten)]
    #[cfg_attr(feature = "testing", schemars(skip))]
    pub rest: Rest,
}

/// When a request is tried again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct RetryPolicy {
    /// The number of retries; -1 is none, and 0 is 1.
    pub count: Option<i64>,
    /// The time limit of each attempt. Empty if absent.
    pub per_try_timeout: String,
    /// The conditions of Envoy.
    pub retry_on: Vec<String>,
    /// Additional statuses that cause a retry.
    pub retriable_status_codes: Vec<i64>,
    /// The other fields.
    #[serde(flatten)]
    #[cfg_attr(feature = "testing", schemars(skip))]
    pub rest: Rest,
}

/// The change of the path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct PathRewritePolicy {
    /// The replacements of the matched prefix.
    pub replace_prefix: Vec<ReplacePrefix>,
    /// The other fields.
    #[serde(flatten)]
    #[cfg_attr(feature = "testing", schemars(skip))]
    pub rest: Rest,
}

/// A replacement of the matched prefix.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct ReplacePrefix {
    /// The matched prefix to which the replacement applies. Empty: every prefix without a replacement of its own.
    pub prefix: String,
    /// The new prefix.
    pub replacement: String,
    /// The other fields.
    #[serde(flatten)]
    #[cfg_attr(feature = "testing", schemars(skip))]
    pub rest: Rest,
}

/// A redirect. An absent part is that of the request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct RedirectPolicy {
    /// `http` or `https`.
    pub scheme: Option<String>,
    /// The host.
    pub hostname: Option<String>,
    /// The port.
    pub port: Option<i64>,
    /// The status; 302 if absent.
    pub status_code: Option<i64>,
    /// The complete path.
    pub path: Option<String>,
    /// The text that replaces the matched prefix.
    pub prefix: Option<String>,
    /// The other fields.
    #[serde(flatten)]
    #[cfg_attr(feature = "testing", schemars(skip))]
    pub rest: Rest,
}

/// An answer of Envoy itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct DirectResponsePolicy {
    /// The status.
    pub status_code: i64,
    /// The body. Empty if absent.
    pub body: String,
    /// The other fields.
    #[serde(flatten)]
    #[cfg_attr(feature = "testing", schemars(skip))]
    pub rest: Rest,
}

/// The redirects of the Services that Envoy follows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct InternalRedirectPolicy {
    /// The most redirects of a request. 0 and absent are 1.
    pub max_internal_redirects: i64,
    /// The statuses of redirects that are followed. Empty: 302.
    pub redirect_response_codes: Vec<i64>,
    /// Whether the scheme may change: `Always`, `Never`, or `SafeOnly`, from https to http. Empty: `Never`.
    pub allow_cross_scheme_redirect: String,
    /// Whether a redirect to a route is followed once.
    pub deny_repeated_route_redirect: bool,
    /// The other fields.
    #[serde(flatten)]
    #[cfg_attr(feature = "testing", schemars(skip))]
    pub rest: Rest,
}
