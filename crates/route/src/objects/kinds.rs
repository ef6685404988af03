//! The table of kinds, with a row for each kind that is read.

use super::groups::{COMMON, CONTOUR_KIND, ENVOY_GATEWAY_POLICY, EXPERIMENTAL_GROUP, GATEWAY_API, LOCKGATE};
use super::kind::{Grouping, Kind, KindInfo};

impl Kind {
    /// networking.k8s.io/v1
    pub const INGRESS: Self = Self::new(&KindInfo {
        name: "Ingress",
        group: "networking.k8s.io",
        plural: "ingresses",
        deletion_waits: true,
        deletion_demotes: true,
        foreign_annotations: true,
        has_status: true,
        ..COMMON
    });
    /// networking.k8s.io/v1
    pub const INGRESS_CLASS: Self = Self::new(&KindInfo {
        name: "IngressClass",
        group: "networking.k8s.io",
        plural: "ingressclasses",
        namespaced: false,
        deletion_waits: true,
        ..COMMON
    });
    /// v1
    pub const SERVICE: Self = Self::new(&KindInfo {
        name: "Service",
        plural: "services",
        deletion_waits: true,
        foreign_annotations: true,
        ..COMMON
    });
    /// discovery.k8s.io/v1
    pub const ENDPOINT_SLICE: Self = Self::new(&KindInfo {
        name: "EndpointSlice",
        group: "discovery.k8s.io",
        plural: "endpointslices",
        grouping: Grouping::ByService,
        deletion_waits: true,
        named_by_others: false,
        ..COMMON
    });
    /// v1. Deletions are not delayed, because the last good key pair of a deleted Secret is retained anyway.
    pub const SECRET: Self = Self::new(&KindInfo { name: "Secret", plural: "secrets", ..COMMON });
    /// v1
    pub const NAMESPACE: Self =
        Self::new(&KindInfo { name: "Namespace", plural: "namespaces", namespaced: false, ..COMMON });
    /// v1. Only certificate authorities are read, for Gateway API.
    pub const CONFIG_MAP: Self = Self::new(&KindInfo {
        name: "ConfigMap",
        plural: "configmaps",
        optional: true,
        of_gateway_api: true,
        deletion_waits: true,
        ..COMMON
    });

    /// v1: the ConfigMaps in which the leader stores claims. Manifests have no claims.
    pub const HOST_CLAIMS: Self = Self::new(&KindInfo {
        name: "HostClaims",
        plural: "configmaps",
        optional: true,
        named_by_others: false,
        ..COMMON
    });

    /// gateway.networking.k8s.io/v1
    pub const GATEWAY_CLASS: Self =
        Self::new(&KindInfo { name: "GatewayClass", plural: "gatewayclasses", namespaced: false, ..GATEWAY_API });
    /// gateway.networking.k8s.io/v1
    pub const GATEWAY: Self =
        Self::new(&KindInfo { name: "Gateway", plural: "gateways", selected_by_labels: true, ..GATEWAY_API });
    /// gateway.networking.k8s.io/v1
    pub const LISTENER_SET: Self = Self::new(&KindInfo {
        name: "ListenerSet",
        other_versions: &[],
        plural: "listenersets",
        selected_by_labels: true,
        ..GATEWAY_API
    });
    /// gateway.networking.k8s.io/v1
    pub const HTTP_ROUTE: Self = Self::new(&KindInfo {
        name: "HTTPRoute",
        plural: "httproutes",
        foreign_annotations: true,
        selected_by_labels: true,
        named_by_others: false,
        ..GATEWAY_API
    });
    /// gateway.networking.k8s.io/v1
    pub const GRPC_ROUTE: Self = Self::new(&KindInfo {
        name: "GRPCRoute",
        plural: "grpcroutes",
        foreign_annotations: true,
        selected_by_labels: true,
        named_by_others: false,
        ..GATEWAY_API
    });
    /// gateway.networking.k8s.io/v1
    pub const TCP_ROUTE: Self = Self::new(&KindInfo {
        name: "TCPRoute",
        other_versions: &["v1alpha2"],
        plural: "tcproutes",
        selected_by_labels: true,
        named_by_others: false,
        ..GATEWAY_API
    });
    /// gateway.networking.k8s.io/v1
    pub const UDP_ROUTE: Self = Self::new(&KindInfo {
        name: "UDPRoute",
        other_versions: &["v1alpha2"],
        plural: "udproutes",
        selected_by_labels: true,
        named_by_others: false,
        ..GATEWAY_API
    });
    /// gateway.networking.k8s.io/v1
    pub const TLS_ROUTE: Self = Self::new(&KindInfo {
        name: "TLSRoute",
        other_versions: &["v1alpha2", "v1alpha3"],
        plural: "tlsroutes",
        selected_by_labels: true,
        named_by_others: false,
        ..GATEWAY_API
    });
    /// gateway.networking.k8s.io/v1beta1, which clusters without version 1 have too.
    pub const REFERENCE_GRANT: Self = Self::new(&KindInfo {
        name: "ReferenceGrant",
        version: "v1beta1",
        other_versions: &["v1"],
        plural: "referencegrants",
        grouping: Grouping::ByNamespace,
        has_status: false,
        named_by_others: false,
        ..GATEWAY_API
    });
    /// gateway.networking.k8s.io/v1
    pub const BACKEND_TLS_POLICY: Self = Self::new(&KindInfo {
        name: "BackendTLSPolicy",
        other_versions: &["v1alpha3"],
        plural: "backendtlspolicies",
        named_by_others: false,
        ..GATEWAY_API
    });

    /// gateway.networking.x-k8s.io/v1alpha1
    pub const X_BACKEND_TRAFFIC_POLICY: Self = Self::new(&KindInfo {
        name: "XBackendTrafficPolicy",
        group: EXPERIMENTAL_GROUP,
        version: "v1alpha1",
        other_versions: &[],
        plural: "xbackendtrafficpolicies",
        named_by_others: false,
        ..GATEWAY_API
    });

    /// lockgate.dev/v1alpha1
    pub const HTTP_POLICY: Self = Self::new(&KindInfo {
        name: "HTTPPolicy",
        group: LOCKGATE,
        version: "v1alpha1",
        plural: "httppolicies",
        optional: true,
        deletion_waits: true,
        has_status: true,
        named_by_others: false,
        ..COMMON
    });

    /// lockgate.dev/v1alpha1
    pub const ENVOY_FLEET: Self = Self::new(&KindInfo {
        name: "EnvoyFleet",
        group: LOCKGATE,
        version: "v1alpha1",
        other_versions: &[],
        plural: "envoyfleets",
        has_status: false,
        ..GATEWAY_API
    });

    /// lockgate.dev/v1alpha1
    pub const HOST_GRANT: Self = Self::new(&KindInfo {
        name: "HostGrant",
        group: LOCKGATE,
        version: "v1alpha1",
        plural: "hostgrants",
        namespaced: false,
        optional: true,
        deletion_waits: true,
        has_status: true,
        named_by_others: false,
        ..COMMON
    });

    /// lockgate.dev/v1alpha1
    pub const BACKEND_POLICY: Self = Self::new(&KindInfo {
        name: "BackendPolicy",
        group: LOCKGATE,
        version: "v1alpha1",
        plural: "backendpolicies",
        optional: true,
        deletion_waits: true,
        has_status: true,
        named_by_others: false,
        ..COMMON
    });

    /// projectcontour.io/v1
    pub const HTTP_PROXY: Self = Self::new(&KindInfo {
        name: "HTTPProxy",
        plural: "httpproxies",
        deletion_demotes: true,
        foreign_annotations: true,
        has_status: true,
        ..CONTOUR_KIND
    });
    /// projectcontour.io/v1
    pub const TLS_CERTIFICATE_DELEGATION: Self = Self::new(&KindInfo {
        name: "TLSCertificateDelegation",
        plural: "tlscertificatedelegations",
        grouping: Grouping::ByNamespace,
        named_by_others: false,
        ..CONTOUR_KIND
    });

    /// projectcontour.io/v1alpha1
    pub const EXTENSION_SERVICE: Self = Self::new(&KindInfo {
        name: "ExtensionService",
        version: "v1alpha1",
        plural: "extensionservices",
        has_status: true,
        ..CONTOUR_KIND
    });

    /// gateway.envoyproxy.io/v1alpha1. Its policies are not applied; see [`ForeignPolicy`](super::ForeignPolicy).
    pub const SECURITY_POLICY: Self =
        Self::new(&KindInfo { name: "SecurityPolicy", plural: "securitypolicies", ..ENVOY_GATEWAY_POLICY });
    /// gateway.envoyproxy.io/v1alpha1
    pub const CLIENT_TRAFFIC_POLICY: Self =
        Self::new(&KindInfo { name: "ClientTrafficPolicy", plural: "clienttrafficpolicies", ..ENVOY_GATEWAY_POLICY });
    /// gateway.envoyproxy.io/v1alpha1
    pub const BACKEND_TRAFFIC_POLICY: Self =
        Self::new(&KindInfo { name: "BackendTrafficPolicy", plural: "backendtrafficpolicies", ..ENVOY_GATEWAY_POLICY });

    /// apiextensions.k8s.io/v1. Only the definitions of Gateway API are read, and of these only the metadata.
    pub const CUSTOM_RESOURCE_DEFINITION: Self = Self::new(&KindInfo {
        name: "CustomResourceDefinition",
        group: "apiextensions.k8s.io",
        plural: "customresourcedefinitions",
        namespaced: false,
        optional: true,
        of_gateway_api: true,
        grouping: Grouping::ByNamespace,
        named_by_others: false,
        ..COMMON
    });

    /// Every kind.
    pub const ALL: [Self; 30] = [
        Self::INGRESS,
        Self::INGRESS_CLASS,
        Self::SERVICE,
        Self::ENDPOINT_SLICE,
        Self::SECRET,
        Self::NAMESPACE,
        Self::CONFIG_MAP,
        Self::HOST_CLAIMS,
        Self::GATEWAY_CLASS,
        Self::GATEWAY,
        Self::LISTENER_SET,
        Self::HTTP_ROUTE,
        Self::GRPC_ROUTE,
        Self::TCP_ROUTE,
        Self::UDP_ROUTE,
        Self::TLS_ROUTE,
        Self::REFERENCE_GRANT,
        Self::BACKEND_TLS_POLICY,
        Self::X_BACKEND_TRAFFIC_POLICY,
        Self::HTTP_POLICY,
        Self::ENVOY_FLEET,
        Self::HOST_GRANT,
        Self::BACKEND_POLICY,
        Self::HTTP_PROXY,
        Self::TLS_CERTIFICATE_DELEGATION,
        Self::EXTENSION_SERVICE,
        Self::SECURITY_POLICY,
        Self::CLIENT_TRAFFIC_POLICY,
        Self::BACKEND_TRAFFIC_POLICY,
        Self::CUSTOM_RESOURCE_DEFINITION,
    ];

    /// Returns the kind of a collection in the form of [`Kind::resource`].
    pub fn of_resource(resource: &str) -> Option<Self> {
        let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
        Self::ALL.into_iter().find(|kind| (kind.info().plural, kind.info().group) == (plural, group))
    }
}
