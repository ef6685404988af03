//! The objects of Gateway API, with the fields that the translation and the status writers read.
//!
//! Values that the API restricts, such as types of filters, are text. An unknown value is therefore a fault of one
//! part, not of the whole object. Defaults are applied where a field is read, because manifests lack the defaults of
//! the API server. Source: Gateway API v1.6, `apis/v1`.

mod authentication;
mod authorization;
mod cors;
mod definition;
mod envoy_fleet;
mod error_responses;
mod external_processing;
mod faults;
mod forwarding;
mod global_rate_limit;
mod grpc_route;
mod http_policy;
mod listener;
mod listener_set;
mod oidc;
mod policy;
mod policy_parts;
mod reference;
mod route;
mod selector;
mod status;
mod stream_routes;
mod tls;
mod traffic_policy;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use authentication::{
    ApiKeySourceSpec, ApiKeysSpec, BasicAuthenticationSpec, CsrfSpec, JwksSpec, JwtProviderSpec, JwtSpec, PolicySecret,
    RemoteJwksSpec,
};
pub use authorization::{AuthorizationBody, AuthorizationHttpSpec, ExternalAuthorizationSpec};
pub use cors::CorsSpec;
pub use definition::{BUNDLE, CHANNEL, Definition, Installed, SUPPORTED};
pub use envoy_fleet::{
    EnvoyFleet, EnvoyFleetSpec, FleetAutoscaling, FleetDisruptionBudget, FleetQuantities, FleetResources, FleetService,
    FleetToleration, PodCount, Quantity, REPLICAS,
};
pub use error_responses::{ErrorResponseSpec, StatusesSpec};
pub use external_processing::{BodyMode, ExternalProcessingSpec, HeaderMode, ProcessedSpec};
pub use faults::{AbortSpec, DelaySpec, FaultsSpec};
pub use forwarding::{
    GrpcJsonSpec, HostnameFromSpec, HostnameOfPathSpec, MaxResponseBodySpec, MirrorFraction, MirrorSpec,
    PathRewriteSpec, RegexRewriteSpec, RequestBufferingSpec, RetriesSpec, TimeoutsSpec, UnknownLength, UrlRewriteSpec,
    WasmSpec,
};
pub use global_rate_limit::{DescriptorEntrySpec, DescriptorEntryType, DescriptorSpec, GlobalRateLimitSpec};
pub use grpc_route::{GrpcMatch, GrpcMethod, GrpcRoute, GrpcRouteSpec, GrpcRule};
pub use http_policy::{
    ClientAddressesSpec, CompressionAlgorithmSpec, CompressionSpec, HeaderChangesSpec, HeaderSpec, HttpFeaturesSpec,
    HttpPolicy, HttpPolicySpec, HttpPolicyTarget, LocalRateLimitSpec, RateUnit,
};
pub use listener::{AllowedNamespaces, AllowedRoutes, GatewayListener, ListenerTls};
pub use listener_set::{ListenerSet, ListenerSetSpec, ListenerSetStatus};
pub use oidc::{OidcProviderSpec, OidcSpec};
pub use policy::{BackendTlsPolicy, BackendTlsPolicySpec, BackendValidation, PolicyTarget, SubjectAltName};
pub use policy_parts::{Lenient, PolicyBackend};
pub use reference::{
    BackendRef, GrantFrom, GrantTo, ObjectReference, ParentRef, ReferenceGrant, ReferenceGrantSpec, SecretRef,
};
pub use route::{
    CorsFilter, ExternalAuthFilter, ForwardBody, Fraction, GrpcAuthConfig, HeaderFilter, HttpAuthConfig,
    HttpBackendRef, HttpFilter, HttpHeader, HttpMatch, HttpPathMatch, HttpRoute, HttpRouteRetry, HttpRouteRule,
    HttpRouteSpec, HttpRouteTimeouts, MirrorFilter, NamedMatch, PathModifier, RedirectFilter, RewriteFilter,
    SessionPersistence,
};
pub use selector::{LabelCondition, LabelSelector};
pub use status::{
    AncestorStatus, Condition, Feature, GatewayAddress, GatewayClassStatus, GatewayStatus, ListenerStatus,
    ParentStatus, PolicyStatus, RouteKind, RouteStatus,
};
pub use stream_routes::{StreamRule, TcpRoute, TcpRouteSpec, TlsRoute, TlsRouteSpec, UdpRoute, UdpRouteSpec};
pub use tls::{BackendTls, FrontendTls, FrontendValidation, GatewayTls, PortTls, TlsConfig};
pub use traffic_policy::{
    BudgetDetails, RequestRate, RetryConstraint, XBackendTrafficPolicy, XBackendTrafficPolicySpec,
};

pub use super::groups::{EXPERIMENTAL_GROUP, GROUP, LOCKGATE};

use super::meta::Meta;

/// A GatewayClass.
#[derive(Debug, Clone, PartialEq)]
pub struct GatewayClass {
    /// The metadata.
    pub meta: Meta,
    /// The spec.
    pub spec: GatewayClassSpec,
    /// The status. The translation does not read it.
    pub status: GatewayClassStatus,
    /// `metadata.resourceVersion`.
    pub version: Arc<str>,
}

/// The spec of a GatewayClass.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayClassSpec {
    /// The controller of its Gateways.
    pub controller_name: String,
    /// Parameters for all of its Gateways.
    #[serde(default)]
    pub parameters_ref: Option<ParametersRef>,
}

/// A reference to an object with parameters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ParametersRef {
    /// The API group.
    pub group: String,
    /// The kind.
    pub kind: String,
    /// The name.
    pub name: String,
    /// The namespace; never set by a Gateway.
    pub namespace: Option<String>,
}

/// A Gateway.
#[derive(Debug, Clone, PartialEq)]
pub struct Gateway {
    /// The metadata.
    pub meta: Meta,
    /// The spec.
    pub spec: GatewaySpec,
    /// The status. The translation does not read it.
    pub status: GatewayStatus,
    /// `metadata.resourceVersion`.
    pub version: Arc<str>,
}

/// The spec of a Gateway.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewaySpec {
    /// The name of its GatewayClass.
    pub gateway_class_name: String,
    /// The listeners, each with a unique name.
    pub listeners: Vec<GatewayListener>,
    /// The requested addresses.
    pub addresses: Vec<GatewayAddress>,
    /// Properties of the objects that are created for it.
    pub infrastructure: Option<Infrastructure>,
    /// The ListenerSets that may add listeners.
    pub allowed_listeners: Option<AllowedListeners>,
    /// The TLS configuration of all listeners and backends.
    pub tls: Option<GatewayTls>,
}

/// The ListenerSets that may add listeners to a Gateway.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AllowedListeners {
    /// The namespaces of the ListenerSets; `None` allows none.
    pub namespaces: Option<AllowedNamespaces>,
}

/// Properties of the objects that are created for a Gateway.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Infrastructure {
    /// Labels for the objects.
    pub labels: BTreeMap<String, String>,
    /// Annotations for the objects.
    pub annotations: BTreeMap<String, String>,
    /// Parameters of the Gateway, in its namespace.
    pub parameters_ref: Option<ParametersRef>,
}
