//! The table of the kinds that the sources read: the requests to the API server, and the decoding. [`Kind`] contains
//! the properties of the kind itself. A new kind needs a row here and a module with its type.

use k8s_openapi::api::{core::v1 as core, discovery::v1 as discovery, networking::v1 as networking};
use lockgate_route::objects::gateway::{
    BackendTlsPolicySpec, EnvoyFleetSpec, GatewayClassSpec, GatewayClassStatus, GatewaySpec, GatewayStatus,
    GrpcRouteSpec, HttpPolicySpec, HttpRouteSpec, ListenerSetSpec, ListenerSetStatus, PolicyStatus, ReferenceGrantSpec,
    RouteStatus, TcpRouteSpec, TlsRouteSpec, UdpRouteSpec, XBackendTrafficPolicySpec,
};
use lockgate_route::objects::http_proxy::{
    ExtensionServiceSpec, ExtensionServiceStatus, HttpProxySpec, HttpProxyStatus, TlsCertificateDelegationSpec,
};
use lockgate_route::objects::{BackendPolicySpec, HostGrantSpec, HostGrantStatus, Kind, Object};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;

use super::claims::ClaimsConfigMap;
use super::cluster::custom;
use super::cluster::form::{Wire, WireFormat};
use super::cluster::watch::{self, Target, WatchStream};
use super::decode::{self, Decode, DecodeFault, key};
use super::gateway::{Custom, ForeignPolicySpec, Metadata};

/// Types of Secrets that never contain a key pair for a server, and may be large (Helm's releases). They are excluded
/// from a single watch. Two watches, one for each wanted type, could reorder the deletion of a Secret and its creation
/// with another type. Field selectors need no other RBAC rules.
const OTHER_SECRETS: &str = "type!=helm.sh/release.v1,type!=kubernetes.io/service-account-token,\
    type!=kubernetes.io/dockercfg,type!=kubernetes.io/dockerconfigjson,type!=kubernetes.io/basic-auth,\
    type!=kubernetes.io/ssh-auth,type!=bootstrap.kubernetes.io/token";

/// A kind that the sources read.
#[derive(Clone, Copy)]
pub struct KindRow {
    /// The kind.
    pub kind: Kind,
    /// Lists and watches the objects.
    pub watch: fn(Target) -> WatchStream,
    /// The field selector of lists and watches.
    pub fields: Option<&'static str>,
    /// Decodes an object of a manifest. Returns `None` if the translation never reads it.
    pub from_value: fn(Value) -> Result<Option<Object>, DecodeFault>,
}

impl KindRow {
    /// Creates a row for complete objects in protobuf.
    const fn whole<K: Wire>() -> Self {
        let watch = |target| watch::watch(target, WireFormat::whole::<K>());
        Self { kind: K::KIND, watch, fields: None, from_value: decode::typed::<K> }
    }

    /// Creates a row for the metadata of Namespaces.
    const fn namespaces() -> Self {
        let watch = |target| watch::watch(target, WireFormat::namespaces());
        Self { kind: Kind::NAMESPACE, watch, fields: None, from_value: decode::typed::<core::Namespace> }
    }

    /// Creates a row for objects in JSON, such as those of a CustomResourceDefinition, which the API server provides in JSON only.
    pub const fn custom<K: Decode + DeserializeOwned + 'static>() -> Self {
        Self { kind: K::KIND, watch: custom::watch::<K>, fields: None, from_value: decode::typed::<K> }
    }
}

/// Every kind that the sources read.
pub const ROWS: [KindRow; Kind::ALL.len()] = [
    KindRow::whole::<networking::Ingress>(),
    KindRow::whole::<networking::IngressClass>(),
    KindRow::whole::<core::Service>(),
    KindRow::whole::<discovery::EndpointSlice>(),
    KindRow { fields: Some(OTHER_SECRETS), ..KindRow::whole::<core::Secret>() },
    KindRow::namespaces(),
    KindRow::whole::<core::ConfigMap>(),
    KindRow { from_value: |_| Ok(None), ..KindRow::custom::<ClaimsConfigMap>() },
    KindRow::custom::<Custom<GatewayClassSpec, GatewayClassStatus>>(),
    KindRow::custom::<Custom<GatewaySpec, GatewayStatus>>(),
    KindRow::custom::<Custom<ListenerSetSpec, ListenerSetStatus>>(),
    KindRow::custom::<Custom<HttpRouteSpec, RouteStatus>>(),
    KindRow::custom::<Custom<GrpcRouteSpec, RouteStatus>>(),
    KindRow::custom::<Custom<TcpRouteSpec, RouteStatus>>(),
    KindRow::custom::<Custom<UdpRouteSpec, RouteStatus>>(),
    KindRow::custom::<Custom<TlsRouteSpec, RouteStatus>>(),
    KindRow::custom::<Custom<ReferenceGrantSpec, IgnoredAny>>(),
    KindRow::custom::<Custom<BackendTlsPolicySpec, PolicyStatus>>(),
    KindRow::custom::<Custom<XBackendTrafficPolicySpec, PolicyStatus>>(),
    KindRow::custom::<Custom<HttpPolicySpec, PolicyStatus>>(),
    KindRow::custom::<Custom<EnvoyFleetSpec, IgnoredAny>>(),
    KindRow::custom::<Custom<HostGrantSpec, HostGrantStatus>>(),
    KindRow::custom::<Custom<BackendPolicySpec, PolicyStatus>>(),
    KindRow::custom::<Custom<HttpProxySpec, HttpProxyStatus>>(),
    KindRow::custom::<Custom<TlsCertificateDelegationSpec, IgnoredAny>>(),
    KindRow::custom::<Custom<ExtensionServiceSpec, ExtensionServiceStatus>>(),
    KindRow::custom::<Custom<ForeignPolicySpec<0>, IgnoredAny>>(),
    KindRow::custom::<Custom<ForeignPolicySpec<1>, IgnoredAny>>(),
    KindRow::custom::<Custom<ForeignPolicySpec<2>, IgnoredAny>>(),
    KindRow::custom::<Metadata>(),
];

/// Decodes the object of a manifest. Returns `None` for a kind or version that is not in `rows`.
///
/// The error states that it is not a Kubernetes object, or that the API server would reject its form.
pub fn from_value(value: Value, rows: &[KindRow]) -> Result<Option<Object>, DecodeFault> {
    let fault =
        |path: &str, message: &str| Err(DecodeFault { path: path.into(), message: message.into(), object: None });
    if !value.is_object() {
        return fault("", "not a Kubernetes object: expected fields such as \"apiVersion\" and \"kind\"");
    }
    let text = |field: &str| value.get(field).and_then(Value::as_str).filter(|text| !text.is_empty());
    let (Some(api_version), Some(kind)) = (text("apiVersion"), text("kind")) else {
        let missing = if text("apiVersion").is_none() { "apiVersion" } else { "kind" };
        return fault(missing, "missing; a Kubernetes object has \"apiVersion\" and \"kind\"");
    };
    let removed = [Kind::INGRESS, Kind::INGRESS_CLASS].into_iter().find(|removed| removed.as_str() == kind);
    if let Some(kind) = removed.filter(|_| matches!(api_version, "networking.k8s.io/v1beta1" | "extensions/v1beta1")) {
        let metadata = value.get("metadata");
        let text = |field: &str| metadata.and_then(|metadata| metadata.get(field)).and_then(Value::as_str);
        let object = text("name").map(|name| (kind, key(kind, text("namespace"), name)));
        let message = format!("\"{api_version}\" is no longer served; write \"networking.k8s.io/v1\"");
        return Err(DecodeFault { path: "apiVersion".into(), message, object });
    }
    let row = rows.iter().find(|row| row.kind.is(api_version, kind));
    row.map_or(Ok(None), |row| (row.from_value)(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_row_for_every_kind() {
        assert_eq!(ROWS.map(|row| row.kind), Kind::ALL);
    }
}
