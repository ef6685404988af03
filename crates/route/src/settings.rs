//! The settings of the translation and of the Envoy resources, as data.

mod access_log;
mod downstream;
mod gateway;
mod hosts;
mod http_proxies;
mod listeners;
mod names;
mod regexes;
mod retries;
mod routes;
mod services;
mod statistics;
mod tenants;
mod tls;
mod tracing;
mod upstream;
mod wasm;

use std::collections::BTreeMap;

pub use access_log::{AccessLog, AccessLogFormat, AccessLogLevel, JSON_FIELDS, JsonField, STDERR, STDOUT};
pub use downstream::{
    Compression, CompressionAlgorithm, EscapedSlashes, HeaderPolicies, HeaderPolicy, Http, Http3Settings, HttpVersion,
    ServerHeader, Timeouts, Underscores,
};
pub use gateway::{Fleets, GatewaySettings, RestrictingPolicies};
pub use hosts::Hosts;
pub use http_proxies::HttpProxies;
pub use listeners::{ConnectionBalancer, Listeners, ProxyProtocolMode, SocketOptions, StatsTlsSettings};
pub use names::{is_label, is_subdomain};
pub use regexes::Regexes;
pub use retries::{RETRY_CONDITIONS, Retries};
pub use routes::{RouteDiscoveryMode, RouteSettings};
pub use services::{
    AuthorizationCheck, AuthorizationHttp, AuthorizationProtocol, EntryHeader, ExternalAuthorization, HeaderCondition,
    RateLimit, RateLimitEntry, RequestBody, ServiceAddress,
};
pub use statistics::StatisticsSettings;
pub use tenants::Tenants;
pub use tls::{Hsts, TlsParameters, TlsSettings};
pub use tracing::{Sampling, TagValue, Tracing};
pub use upstream::{DnsLookupFamily, Upstream};
pub use wasm::{Module, Wasm};

/// The settings of the translation and of the Envoy resources.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Settings {
    /// The selection of Ingresses.
    pub ingress: IngressSettings,
    /// The selection of Gateways, and the limits of their policies and fleets.
    pub gateway: GatewaySettings,
    /// Whether several namespaces may share a host.
    pub namespace_ownership: NamespaceOwnership,
    /// The namespaces that may define hosts.
    pub hosts: Hosts,
    /// Restrictions of HTTPProxies.
    pub http_proxies: HttpProxies,
    /// `namespace/name` of the Service in front of the Envoys.
    pub envoy_service: Option<(String, String)>,
    /// Services of type ExternalName.
    pub external_names: ExternalNames,
    /// Envoy's listeners.
    pub listeners: Listeners,
    /// HTTP for clients.
    pub http: Http,
    /// Compression of responses.
    pub compression: Compression,
    /// Headers set and removed on all routes.
    pub headers: HeaderPolicies,
    /// How Envoys receive their routes.
    pub routes: RouteSettings,
    /// Statistics of single objects.
    pub statistics: StatisticsSettings,
    /// Limits of regular expressions.
    pub regexes: Regexes,
    /// Time limits.
    pub timeouts: Timeouts,
    /// Retries of requests to backends.
    pub retries: Retries,
    /// TLS for clients.
    pub tls: TlsSettings,
    /// Envoy's access log.
    pub access_log: AccessLog,
    /// Tracing.
    pub tracing: Tracing,
    /// External authorization of requests.
    pub external_authorization: ExternalAuthorization,
    /// Global rate limiting.
    pub rate_limit: RateLimit,
    /// WebAssembly modules of policies.
    pub wasm: Wasm,
    /// Connections to backends.
    pub upstream: Upstream,
    /// The maxima for the objects of tenants.
    pub tenants: Tenants,
    /// Envoy's runtime flags by key, with JSON values. Flags that other settings determine are not included.
    pub runtime: BTreeMap<String, serde_json::Value>,
}

/// The selection of Ingresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IngressSettings {
    /// The value of `spec.controller` in the IngressClasses that Lockgate serves.
    pub controller: String,
    /// Names of ingress classes that are served even without an IngressClass object.
    pub class_names: Vec<String>,
    /// Whether an Ingress without a class is served even if no served IngressClass is the default.
    pub classless: bool,
    /// The handling of paths with an annotation of another controller that restricts access.
    pub restricting_annotations: RestrictingAnnotations,
    /// Annotations of other controllers that are neither enforced nor reported.
    pub ignored_annotations: Vec<String>,
}

/// The handling of paths with an annotation of another ingress controller that restricts access.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RestrictingAnnotations {
    /// Answered 403.
    #[default]
    Deny,
    /// Served without the restriction.
    Ignore,
}

impl Default for IngressSettings {
    fn default() -> Self {
        Self {
            controller: "lockgate.dev/ingress-controller".to_owned(),
            class_names: Vec::new(),
            classless: false,
            restricting_annotations: RestrictingAnnotations::default(),
            ignored_annotations: Vec::new(),
        }
    }
}

/// Whether several namespaces may share a host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NamespaceOwnership {
    /// The namespace with the claim or the oldest rule for a host owns it, including the names below a wildcard. Rules of other
    /// namespaces are ignored unless an Ingress of the owner delegates the host to them.
    #[default]
    Strict,
    /// Every namespace may add paths to every host.
    InterNamespaceAllowed,
}

/// Services of type ExternalName.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExternalNames {
    /// Whether they are allowed as backends (GHSA-5ph6-qq5x-7jwc).
    pub allow: bool,
    /// Whether they may point into the Kubernetes cluster (`*.cluster.local`, `*.svc`).
    pub cluster_local: bool,
}
