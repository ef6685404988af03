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
use super::cluster::form::{Form, Wire};
use super::cluster::watch::{self, Target, Watch};
use super::decode::{self, Decode, DecodeFault};
use super::gateway::{Custom, ForeignPolicySpec, Metadata};

/// Types of Secrets that never contain a key pair for a server, and may be large (Helm's releases). They are excluded
/// from a single watch. Two watches, one for each wanted type, could reorder the deletion of a Secret and its creation
/// with another type. Field selectors need no other RBAC rules.
const OTHER_SECRETS: &str = "type!=helm.sh/release.v1,type!=kubernetes.io/service-account-token,\
    type!=kubernetes.io/dockercfg,type!=kubernetes.io/dockerconfigjson,type!=kubernetes.io/basic-auth,\
    type!=kubernetes.io/ssh-auth,type!=bootstrap.kubernetes.io/token";

/// A kind that the sources read.
#[derive(Clone, Copy)]
pub struct Row {
    /// The kind.
    pub kind: Kind,
    /// Lists and watches the objects.
    pub watch: fn(Target) -> Watch,
    /// The field selector of lists and watches.
    pub fields: Option<&'static str>,
    /// Decodes an object of a manifest. Returns `None` if the translation never reads it.
    pub from_value: fn(Value) -> Result<Option<Object>, DecodeFault>,
}

impl Row {
    /// Creates a row for complete objects in protobuf.
    const fn whole<K: Wire>() -> Self {
        let watch = |target| watch::watch(target, Form::whole::<K>());
        Self { kind: K::KIND, watch, fields: None, from_value: decode::typed::<K> }
    }

    /// Creates a row for the metadata of Namespaces.
    const fn namespaces() -> Self {
        let watch = |target| watch::watch(target, Form::namespaces());
        Self { kind: Kind::NAMESPACE, watch, fields: None, from_value: decode::typed::<core::Namespace> }
    }

    /// Creates a row for objects in JSON, such as those of a CustomResourceDefinition, which the API server provides in JSON only.
    pub const fn custom<K: Decode + DeserializeOwned + 'static>() -> Self {
        Self { kind: K::KIND, watch: custom::watch::<K>, fields: None, from_value: decode::typed::<K> }
    }
}

/// Every kind that the sources read.
pub const ROWS: [Row; Kind::ALL.len()] = [
    Row::whole::<networking::Ingress>(),
    Row::whole::<networking::IngressClass>(),
    Row::whole::<core::Service>(),
    Row::whole::<discovery::EndpointSlice>(),
    Row { fields: Some(OTHER_SECRETS), ..Row::whole::<core::Secret>() },
    Row::namespaces(),
    Row::whole::<core::ConfigMap>(),
    Row { from_value: |_| Ok(None), ..Row::custom::<ClaimsConfigMap>() },
    Row::custom::<Custom<GatewayClassSpec, GatewayClassStatus>>(),
    Row::custom::<Custom<GatewaySpec, GatewayStatus>>(),
    Row::custom::<Custom<ListenerSetSpec, ListenerSetStatus>>(),
    Row::custom::<Custom<HttpRouteSpec, RouteStatus>>(),
    Row::custom::<Custom<GrpcRouteSpec, RouteStatus>>(),
    Row::custom::<Custom<TcpRouteSpec, RouteStatus>>(),
    Row::custom::<Custom<UdpRouteSpec, RouteStatus>>(),
    Row::custom::<Custom<TlsRouteSpec, RouteStatus>>(),
    Row::custom::<Custom<ReferenceGrantSpec, IgnoredAny>>(),
    Row::custom::<Custom<BackendTlsPolicySpec, PolicyStatus>>(),
    Row::custom::<Custom<XBackendTrafficPolicySpec, PolicyStatus>>(),
    Row::custom::<Custom<HttpPolicySpec, PolicyStatus>>(),
    Row::custom::<Custom<EnvoyFleetSpec, IgnoredAny>>(),
    Row::custom::<Custom<HostGrantSpec, HostGrantStatus>>(),
    Row::custom::<Custom<BackendPolicySpec, PolicyStatus>>(),
    Row::custom::<Custom<HttpProxySpec, HttpProxyStatus>>(),
    Row::custom::<Custom<TlsCertificateDelegationSpec, IgnoredAny>>(),
    Row::custom::<Custom<ExtensionServiceSpec, ExtensionServiceStatus>>(),
    Row::custom::<Custom<ForeignPolicySpec<0>, IgnoredAny>>(),
    Row::custom::<Custom<ForeignPolicySpec<1>, IgnoredAny>>(),
    Row::custom::<Custom<ForeignPolicySpec<2>, IgnoredAny>>(),
    Row::custom::<Metadata>(),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_row_for_every_kind() {
        assert_eq!(ROWS.map(|row| row.kind), Kind::ALL);
    }
}
