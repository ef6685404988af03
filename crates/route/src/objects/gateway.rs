//! The objects of Gateway API, with the fields that the translation and the status writers read.
//!
//! Values that the API restricts, such as types of filters, are text. An unknown value is therefore a fault of one
//! part, not of the whole object. Defaults are applied where a field is read, because manifests lack the defaults of
//! the API server. Source: Gateway API v1.6, `apis/v1`.

mod authentication;
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
mod listener_set;
mod oidc;
mod policy;
mod reference;
mod route;
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
    AuthorizationBody, AuthorizationHttpSpec, ClientAddressesSpec, CompressionAlgorithmSpec, CompressionSpec,
    ExternalAuthorizationSpec, HeaderChangesSpec, HeaderSpec, HttpFeaturesSpec, HttpPolicy, HttpPolicySpec,
    HttpPolicyTarget, Lenient, LocalRateLimitSpec, PolicyBackend, RateUnit,
};
pub use listener_set::{ListenerSet, ListenerSetSpec, ListenerSetStatus};
pub use oidc::{OidcProviderSpec, OidcSpec};
pub use policy::{BackendTlsPolicy, BackendTlsPolicySpec, BackendValidation, PolicyTarget, SubjectAltName};
pub use reference::{
    BackendRef, GrantFrom, GrantTo, ObjectReference, ParentRef, ReferenceGrant, ReferenceGrantSpec, SecretRef,
};
pub use route::{
    CorsFilter, ExternalAuthFilter, ForwardBody, Fraction, GrpcAuthConfig, HeaderFilter, HttpAuthConfig,
    HttpBackendRef, HttpFilter, HttpHeader, HttpMatch, HttpPathMatch, HttpRoute, HttpRouteRetry, HttpRouteRule,
    HttpRouteSpec, HttpRouteTimeouts, MirrorFilter, NamedMatch, PathModifier, RedirectFilter, RewriteFilter,
    SessionPersistence,
};
pub use status::{
    AncestorStatus, Condition, Feature, GatewayClassStatus, GatewayStatus, ListenerStatus, ParentStatus, PolicyStatus,
    RouteKind, RouteStatus,
};
pub use stream_routes::{StreamRule, TcpRoute, TcpRouteSpec, TlsRoute, TlsRouteSpec, UdpRoute, UdpRouteSpec};
pub use tls::{BackendTls, FrontendTls, FrontendValidation, GatewayTls, PortTls, TlsConfig};
pub use traffic_policy::{
    BudgetDetails, RequestRate, RetryConstraint, XBackendTrafficPolicy, XBackendTrafficPolicySpec,
};

use super::Meta;

/// The API group of Gateway API.
pub const GROUP: &str = "gateway.networking.k8s.io";

/// The API group of the experimental kinds of Gateway API.
pub const EXPERIMENTAL_GROUP: &str = "gateway.networking.x-k8s.io";

/// The API group of Lockgate.
pub const LOCKGATE: &str = "lockgate.dev";

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

/// A listener of a Gateway or a ListenerSet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewayListener {
    /// The name, unique in its object.
    pub name: Arc<str>,
    /// The host names that it accepts, exact or with a leading `*.`; `None` and the empty text accept all.
    pub hostname: Option<String>,
    /// The port that clients connect to.
    pub port: u16,
    /// `HTTP`, `HTTPS`, `TLS`, `TCP`, or `UDP`.
    pub protocol: String,
    /// The TLS configuration.
    pub tls: Option<ListenerTls>,
    /// The routes that may attach.
    pub allowed_routes: Option<AllowedRoutes>,
}

/// The TLS configuration of a listener.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListenerTls {
    /// `Terminate`, which is the default, or `Passthrough`.
    pub mode: Option<String>,
    /// The key pairs.
    pub certificate_refs: Vec<SecretRef>,
    /// Options of implementations.
    pub options: BTreeMap<String, String>,
}

/// The routes that may attach to a listener.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AllowedRoutes {
    /// The namespaces of the routes; `None` is the namespace of the Gateway.
    pub namespaces: Option<AllowedNamespaces>,
    /// The kinds of the routes. Empty: all kinds that the protocol of the listener supports.
    pub kinds: Vec<RouteKind>,
}

/// The ListenerSets that may add listeners to a Gateway.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AllowedListeners {
    /// The namespaces of the ListenerSets; `None` allows none.
    pub namespaces: Option<AllowedNamespaces>,
}

/// A set of namespaces.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AllowedNamespaces {
    /// `All`, `Same`, `Selector`, or `None`.
    pub from: Option<String>,
    /// The labels of the namespaces, if `from` is `Selector`.
    pub selector: Option<LabelSelector>,
}

/// A selector of labels.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    /// Labels that are required.
    pub match_labels: BTreeMap<String, String>,
    /// Additional conditions. All of them must hold.
    pub match_expressions: Vec<LabelCondition>,
}

/// A condition on a label.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct LabelCondition {
    /// The name of the label.
    pub key: String,
    /// `In`, `NotIn`, `Exists`, or `DoesNotExist`.
    pub operator: String,
    /// The values of `In` and `NotIn`.
    pub values: Vec<String>,
}

/// An address of a Gateway, requested or assigned.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GatewayAddress {
    /// `IPAddress`, which is the default, `Hostname`, or a name with a domain.
    pub r#type: Option<String>,
    /// The address. Empty: any address of the type.
    pub value: String,
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

impl LabelSelector {
    /// Returns whether `labels` meet all conditions. An unknown operator never holds.
    pub fn selects(&self, labels: &BTreeMap<Arc<str>, Arc<str>>) -> bool {
        let value = |key: &str| labels.get(key).map(|value| &**value);
        let meets = |condition: &LabelCondition| {
            let listed = |value: &str| condition.values.iter().any(|one| one == value);
            match condition.operator.as_str() {
                "In" => value(&condition.key).is_some_and(listed),
                "NotIn" => !value(&condition.key).is_some_and(listed),
                "Exists" => value(&condition.key).is_some(),
                "DoesNotExist" => value(&condition.key).is_none(),
                _ => false,
            }
        };
        self.match_labels.iter().all(|(key, wanted)| value(key) == Some(wanted))
            && self.match_expressions.iter().all(meets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_requires_all_its_conditions() {
        let labels = [("team", "shop"), ("tier", "front")].map(|(key, value)| (key.into(), value.into())).into();
        let condition = |key: &str, operator: &str, values: &[&str]| LabelCondition {
            key: key.into(),
            operator: operator.into(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        };
        let selects = |conditions: &[LabelCondition]| {
            LabelSelector { match_expressions: conditions.to_vec(), ..LabelSelector::default() }.selects(&labels)
        };
        assert!(selects(&[]), "an empty selector selects everything");
        assert!(selects(&[condition("team", "In", &["cart", "shop"]), condition("tier", "Exists", &[])]));
        assert!(selects(&[condition("team", "NotIn", &["cart"]), condition("other", "NotIn", &["cart"])]));
        assert!(!selects(&[condition("team", "In", &["shop"]), condition("tier", "DoesNotExist", &[])]));
        assert!(!selects(&[condition("team", "Like", &["shop"])]));
        let by_label = |value: &str| LabelSelector {
            match_labels: [("team".to_owned(), value.to_owned())].into(),
            ..LabelSelector::default()
        };
        assert!(by_label("shop").selects(&labels) && !by_label("cart").selects(&labels));
    }
}
