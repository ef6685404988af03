//! HTTPProxies and TLSCertificateDelegations, the kinds of Contour.
//!
//! The types contain the fields that are served. The names of all other fields of a block are kept in its [`Rest`], so that no field is
//! ignored.

mod backend;
mod client_validation;
mod conditions;
mod cookies;
mod delegation;
mod extension_service;
mod headers;
mod policies;
mod rest;
mod route;
mod status;
mod tcp_proxy;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::meta::Meta;

pub use super::groups::CONTOUR;
pub use backend::{
    HealthCheckPolicy, LoadBalancerPolicy, RequestHashPolicy, SlowStartPolicy, StatusRange, UpstreamValidation,
};
pub use client_validation::{ClientVerification, ForwardClientCertificate};
pub use conditions::{MatchCondition, ValueCondition};
pub use cookies::{CookieRewritePolicy, CookieValue};
pub use delegation::{CertificateDelegation, TlsCertificateDelegation, TlsCertificateDelegationSpec};
pub use extension_service::{
    CircuitBreakerPolicy, ExtensionService, ExtensionServiceSpec, ExtensionServiceStatus, ExtensionTarget,
};
pub use headers::{HeaderSetting, HeadersPolicy};
pub use policies::{
    AuthorizationPolicy, AuthorizationServer, AuthorizationServerBody, DescriptorEntry, ExtensionServiceReference,
    GenericKey, GlobalRateLimitPolicy, HeaderNames, HeaderValueMatch, HttpAuthorizationSettings, IpFilterPolicy,
    JwtProvider, JwtVerificationPolicy, LocalKeys, LocalRateLimitPolicy, NoFields, RateLimitDescriptor,
    RateLimitPolicy, RemoteKeys, RequestHeaderEntry,
};
pub use rest::Rest;
pub use route::{
    DirectResponsePolicy, InternalRedirectPolicy, PathRewritePolicy, ProxyRoute, ProxyService, RedirectPolicy,
    ReplacePrefix, RetryPolicy, TimeoutPolicy,
};
pub use status::{DetailedCondition, HttpProxyStatus, LoadBalancer, SubCondition};
pub use tcp_proxy::{TcpHealthCheckPolicy, TcpInclude, TcpProxy};

/// An HTTPProxy.
#[derive(Debug, Clone, PartialEq)]
pub struct HttpProxy {
    /// The metadata.
    pub meta: Meta,
    /// The spec.
    pub spec: HttpProxySpec,
    /// The status. The translation does not read it.
    pub status: HttpProxyStatus,
    /// `metadata.resourceVersion`.
    pub version: Arc<str>,
}

/// The spec of an HTTPProxy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct HttpProxySpec {
    /// The host. An object with a host is a root, and other objects are served only if a root includes them.
    pub virtualhost: Option<VirtualHost>,
    /// The routes.
    pub routes: Vec<ProxyRoute>,
    /// The included objects.
    pub includes: Vec<Include>,
    /// The destination of TLS connections.
    pub tcpproxy: Option<Box<TcpProxy>>,
    /// The class.
    pub ingress_class_name: Option<String>,
    /// The other fields.
    #[serde(flatten)]
    #[cfg_attr(feature = "testing", schemars(skip))]
    pub rest: Rest,
}

/// The host of a root.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualHost {
    /// The name, exact or with a leading `*.`.
    pub fqdn: String,
    /// TLS.
    pub tls: Option<Tls>,
    /// The permissions of scripts of other origins.
    pub cors_policy: Option<CorsPolicy>,
    /// The server that permits or denies requests.
    pub authorization: Option<AuthorizationServer>,
    /// The issuers of the tokens that routes need.
    pub jwt_providers: Vec<JwtProvider>,
    /// The limits of the request rate of all routes together.
    pub rate_limit_policy: Option<RateLimitPolicy>,
    /// The clients that may send requests.
    pub ip_allow_policy: Vec<IpFilterPolicy>,
    /// The clients that may not send requests.
    pub ip_deny_policy: Vec<IpFilterPolicy>,
    /// The other fields.
    #[serde(flatten)]
    #[cfg_attr(feature = "testing", schemars(skip))]
    pub rest: Rest,
}

/// TLS of a root.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct Tls {
    /// The Secret: `name` or `namespace/name`. Empty if absent.
    pub secret_name: String,
    /// The lowest TLS version. Empty if absent.
    pub minimum_protocol_version: String,
    /// The highest TLS version. Empty if absent.
    pub maximum_protocol_version: String,
    /// Whether Envoy forwards TLS without terminating it.
    pub passthrough: bool,
    /// The verification of client certificates.
    pub client_validation: Option<Box<ClientVerification>>,
    /// Whether clients that send no server name, or an unknown one, reach the host with the fallback certificate.
    pub enable_fallback_certificate: bool,
    /// The other fields.
    #[serde(flatten)]
    #[cfg_attr(feature = "testing", schemars(skip))]
    pub rest: Rest,
}

/// The permissions of scripts of other origins.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct CorsPolicy {
    /// Whether requests may have credentials.
    pub allow_credentials: bool,
    /// Whether scripts of public networks may send requests to private addresses.
    pub allow_private_network: bool,
    /// The origins: `*`, `scheme://host:port`, or a regular expression.
    pub allow_origin: Vec<String>,
    /// The methods.
    pub allow_methods: Vec<String>,
    /// The headers of requests.
    pub allow_headers: Vec<String>,
    /// The headers of responses.
    pub expose_headers: Vec<String>,
    /// How long browsers may cache the answer to a preflight request. Empty if absent.
    pub max_age: String,
    /// The other fields.
    #[serde(flatten)]
    #[cfg_attr(feature = "testing", schemars(skip))]
    pub rest: Rest,
}

/// An included object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct Include {
    /// The name.
    pub name: String,
    /// The namespace. Empty: the namespace of the includer.
    pub namespace: String,
    /// The conditions that all routes of the included object have in addition to their own.
    pub conditions: Vec<MatchCondition>,
    /// The other fields.
    #[serde(flatten)]
    #[cfg_attr(feature = "testing", schemars(skip))]
    pub rest: Rest,
}
