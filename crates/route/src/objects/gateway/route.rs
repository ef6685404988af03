//! HTTPRoutes.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::reference::{BackendRef, ParentRef};
use super::status::RouteStatus;
use crate::objects::meta::Meta;

/// An HTTPRoute.
#[derive(Debug, Clone, PartialEq)]
pub struct HttpRoute {
    /// The metadata.
    pub meta: Meta,
    /// The spec.
    pub spec: HttpRouteSpec,
    /// The status. The translation does not read it.
    pub status: RouteStatus,
    /// `metadata.resourceVersion`.
    pub version: Arc<str>,
}

/// The spec of an HTTPRoute.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpRouteSpec {
    /// The parents.
    pub parent_refs: Vec<ParentRef>,
    /// The host names, exact or with a leading `*.`. Empty: the host names of the listeners.
    pub hostnames: Vec<String>,
    /// The rules. `None`: one rule that matches every path and has no backend.
    pub rules: Option<Vec<HttpRouteRule>>,
}

/// A rule of an HTTPRoute.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpRouteRule {
    /// The name.
    pub name: Option<String>,
    /// The matches. A request must meet one of them. Empty: every request.
    pub matches: Vec<HttpMatch>,
    /// The filters.
    pub filters: Vec<HttpFilter>,
    /// The backends.
    pub backend_refs: Vec<HttpBackendRef>,
    /// The time limits.
    pub timeouts: Option<HttpRouteTimeouts>,
    /// When a request is tried again.
    pub retry: Option<HttpRouteRetry>,
    /// Session persistence.
    pub session_persistence: Option<SessionPersistence>,
}

/// Session persistence: the requests of a session reach the same endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SessionPersistence {
    /// The name of the cookie or the header; `None` is a generated name.
    pub session_name: Option<String>,
    /// `Cookie`, which is the default, or `Header`.
    pub r#type: Option<String>,
    /// The limit of a session.
    pub absolute_timeout: Option<String>,
    /// The limit of a session without requests, in versions of Gateway API that have it.
    pub idle_timeout: Option<String>,
    /// The properties of the cookie.
    pub cookie_config: Option<CookieConfig>,
}

/// The properties of the cookie of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CookieConfig {
    /// `Session`, which is the default, or `Permanent`.
    pub lifetime_type: Option<String>,
}

/// A match of requests. All conditions must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpMatch {
    /// The condition on the path; `None` is the prefix `/`.
    pub path: Option<HttpPathMatch>,
    /// The conditions on headers.
    pub headers: Vec<NamedMatch>,
    /// The conditions on query parameters.
    pub query_params: Vec<NamedMatch>,
    /// The method.
    pub method: Option<String>,
}

/// A condition on the path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HttpPathMatch {
    /// `Exact`, `PathPrefix`, which is the default, or `RegularExpression`.
    pub r#type: Option<String>,
    /// The path; `None` is `/`.
    pub value: Option<String>,
}

/// A condition on a header or a query parameter.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NamedMatch {
    /// `Exact`, which is the default, or `RegularExpression`.
    pub r#type: Option<String>,
    /// The name.
    pub name: String,
    /// The value.
    pub value: String,
}

/// A filter of a rule or a backend.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpFilter {
    /// The type, which is the name of the field with its configuration.
    pub r#type: String,
    /// Changes headers of requests.
    pub request_header_modifier: Option<HeaderFilter>,
    /// Changes headers of responses.
    pub response_header_modifier: Option<HeaderFilter>,
    /// Copies requests.
    pub request_mirror: Option<MirrorFilter>,
    /// Answers with a redirect.
    pub request_redirect: Option<RedirectFilter>,
    /// Changes the URL of requests.
    pub url_rewrite: Option<RewriteFilter>,
    /// Answers preflight requests of browsers.
    pub cors: Option<CorsFilter>,
    /// Asks a server whether it permits a request.
    pub external_auth: Option<ExternalAuthFilter>,
}

/// A change of headers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HeaderFilter {
    /// Headers that are set.
    pub set: Vec<HttpHeader>,
    /// Headers that are added.
    pub add: Vec<HttpHeader>,
    /// Headers that are removed.
    pub remove: Vec<String>,
}

/// A header.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HttpHeader {
    /// The name.
    pub name: String,
    /// The value.
    pub value: String,
}

/// A copy of requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MirrorFilter {
    /// The backend that receives the copies.
    pub backend_ref: BackendRef,
    /// The share of the requests in percent; `None` is 100.
    pub percent: Option<u32>,
    /// The share as a fraction.
    pub fraction: Option<Fraction>,
}

/// A fraction.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Fraction {
    /// The numerator.
    pub numerator: u32,
    /// The denominator; `None` is 100.
    pub denominator: Option<u32>,
}

/// A redirect.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RedirectFilter {
    /// The scheme. `None`: the scheme of the request.
    pub scheme: Option<String>,
    /// The host. `None`: the host of the request.
    pub hostname: Option<String>,
    /// The change of the path.
    pub path: Option<PathModifier>,
    /// The port. `None`: the default port of `scheme`, or the port of the listener without a scheme.
    pub port: Option<u16>,
    /// The status; `None` is 302.
    pub status_code: Option<u16>,
}

/// A change of the URL.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RewriteFilter {
    /// The host.
    pub hostname: Option<String>,
    /// The change of the path.
    pub path: Option<PathModifier>,
}

/// A change of the path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PathModifier {
    /// `ReplaceFullPath` or `ReplacePrefixMatch`.
    pub r#type: String,
    /// The new path.
    pub replace_full_path: Option<String>,
    /// The new prefix.
    pub replace_prefix_match: Option<String>,
}

/// The CORS filter.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CorsFilter {
    /// The allowed origins. The host may be `*`, or begin with `*`.
    pub allow_origins: Vec<String>,
    /// Whether requests may have credentials.
    pub allow_credentials: Option<bool>,
    /// The allowed methods; `*` is every method.
    pub allow_methods: Vec<String>,
    /// The allowed headers; `*` is every header.
    pub allow_headers: Vec<String>,
    /// The headers of a response that scripts may read.
    pub expose_headers: Vec<String>,
    /// How long browsers may cache the answer, in seconds; `None` is 5.
    pub max_age: Option<u32>,
}

/// A backend of a rule.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HttpBackendRef {
    /// The backend.
    #[serde(flatten)]
    pub backend: BackendRef,
    /// The filters of requests to it.
    pub filters: Vec<HttpFilter>,
}

/// A server that permits or denies requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExternalAuthFilter {
    /// `GRPC` or `HTTP`.
    pub protocol: String,
    /// The server.
    pub backend_ref: BackendRef,
    /// Settings for `GRPC`.
    pub grpc: Option<GrpcAuthConfig>,
    /// Settings for `HTTP`.
    pub http: Option<HttpAuthConfig>,
    /// The part of the request body that the server receives.
    pub forward_body: Option<ForwardBody>,
}

/// Settings for authorization servers over gRPC.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GrpcAuthConfig {
    /// The headers that the server receives. Empty: all.
    pub allowed_headers: Vec<String>,
}

/// Settings for authorization servers over HTTP.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpAuthConfig {
    /// The prefix of the path of requests to the server.
    pub path: Option<String>,
    /// The headers that the server receives in addition to the standard headers.
    pub allowed_headers: Vec<String>,
    /// The headers of a permitting answer that the backend receives. Empty: all.
    pub allowed_response_headers: Vec<String>,
}

/// The part of a request body that an authorization server receives.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ForwardBody {
    /// The size in bytes, at most 65,535. The server receives the beginning of a longer body, and no body if the size is 0.
    pub max_size: i64,
}

/// The time limits of a rule, as durations of Gateway API.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpRouteTimeouts {
    /// The limit of the whole request; 0 is no limit.
    pub request: Option<String>,
    /// The limit of each attempt.
    pub backend_request: Option<String>,
}

/// When a request is tried again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HttpRouteRetry {
    /// The statuses that cause a retry.
    pub codes: Vec<u16>,
    /// The maximum number of retries.
    pub attempts: Option<u32>,
    /// The minimum delay before a retry.
    pub backoff: Option<String>,
}
