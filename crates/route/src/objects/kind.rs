//! The table of kinds: the API group, version, and collection of each kind, and the key under which the translation
//! reads its objects.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use super::{ObjectId, ObjectKey};

/// A kind of watched objects: a row of the table. Copies and comparisons are cheap.
#[derive(Clone, Copy)]
pub struct Kind(&'static KindInfo);

/// A row of the table of kinds.
#[derive(Debug)]
pub struct KindInfo {
    /// The `kind` field: `Ingress`.
    pub name: &'static str,
    /// The API group; empty is the core group.
    pub group: &'static str,
    /// The version of the group.
    pub version: &'static str,
    /// Other versions of the group with the same fields. Manifests may have them.
    pub other_versions: &'static [&'static str],
    /// The name of the collection: `ingresses`.
    pub plural: &'static str,
    /// Whether the objects are namespaced.
    pub namespaced: bool,
    /// Whether a cluster may lack the kind, because a CustomResourceDefinition declares it, or may forbid it. Readiness
    /// does not wait for it then.
    pub optional: bool,
    /// Whether only the translation of Gateway API reads the kind.
    pub of_gateway_api: bool,
    /// The key under which the translation reads the objects.
    pub grouping: Grouping,
    /// Whether a deletion is delayed briefly, in case the object is created again: requests fail without it.
    pub deletion_waits: bool,
    /// Whether an object loses its precedence while its deletion waits, because its replacement may have another name.
    pub deletion_demotes: bool,
    /// Whether annotations of other ingress controllers are kept. They matter for kinds that declare routes or
    /// backends.
    pub foreign_annotations: bool,
    /// Whether policies of Envoy Gateway can select the objects by their labels, which are then kept.
    pub selected_by_labels: bool,
    /// Whether Lockgate writes the status of the objects.
    pub has_status: bool,
    /// Whether other objects reference the objects by name, so that sharing the names saves memory.
    pub named_by_others: bool,
}

/// The key under which the translation reads the objects of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grouping {
    /// The key of each object.
    Alone,
    /// The key of the object's Service, for all objects of that Service together.
    ByService,
    /// The name of the object's namespace, as the key of an object without a namespace, for all objects in it together.
    /// Objects without a namespace are read together.
    ByNamespace,
}

/// The defaults of the table.
const COMMON: KindInfo = KindInfo {
    name: "",
    group: "",
    version: "v1",
    other_versions: &[],
    plural: "",
    namespaced: true,
    optional: false,
    of_gateway_api: false,
    grouping: Grouping::Alone,
    deletion_waits: false,
    deletion_demotes: false,
    foreign_annotations: false,
    selected_by_labels: false,
    has_status: false,
    named_by_others: true,
};

/// The common properties of the kinds of Gateway API.
const GATEWAY_API: KindInfo = KindInfo {
    group: super::gateway::GROUP,
    other_versions: &["v1beta1"],
    optional: true,
    of_gateway_api: true,
    deletion_waits: true,
    has_status: true,
    ..COMMON
};

/// The common properties of the policies of Envoy Gateway.
const ENVOY_GATEWAY_POLICY: KindInfo = KindInfo {
    group: super::ENVOY_GATEWAY,
    version: "v1alpha1",
    optional: true,
    of_gateway_api: true,
    deletion_waits: true,
    named_by_others: false,
    ..COMMON
};

/// The common properties of the kinds of Contour.
const CONTOUR_KIND: KindInfo =
    KindInfo { group: super::http_proxy::CONTOUR, optional: true, deletion_waits: true, ..COMMON };

impl Kind {
    /// networking.k8s.io/v1
    pub const INGRESS: Self = Self(&KindInfo {
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
    pub const INGRESS_CLASS: Self = Self(&KindInfo {
        name: "IngressClass",
        group: "networking.k8s.io",
        plural: "ingressclasses",
        namespaced: false,
        deletion_waits: true,
        ..COMMON
    });
    /// v1
    pub const SERVICE: Self = Self(&KindInfo {
        name: "Service",
        plural: "services",
        deletion_waits: true,
        foreign_annotations: true,
        ..COMMON
    });
    /// discovery.k8s.io/v1
    pub const ENDPOINT_SLICE: Self = Self(&KindInfo {
        name: "EndpointSlice",
        group: "discovery.k8s.io",
        plural: "endpointslices",
        grouping: Grouping::ByService,
        deletion_waits: true,
        named_by_others: false,
        ..COMMON
    });
    /// v1. Deletions are not delayed, because the last good key pair of a deleted Secret is retained anyway.
    pub const SECRET: Self = Self(&KindInfo { name: "Secret", plural: "secrets", ..COMMON });
    /// v1
    pub const NAMESPACE: Self =
        Self(&KindInfo { name: "Namespace", plural: "namespaces", namespaced: false, ..COMMON });
    /// v1. Only certificate authorities are read, for Gateway API.
    pub const CONFIG_MAP: Self = Self(&KindInfo {
        name: "ConfigMap",
        plural: "configmaps",
        optional: true,
        of_gateway_api: true,
        deletion_waits: true,
        ..COMMON
    });

    /// v1: the ConfigMaps in which the leader stores claims. Manifests have no claims.
    pub const HOST_CLAIMS: Self =
        Self(&KindInfo { name: "HostClaims", plural: "configmaps", optional: true, named_by_others: false, ..COMMON });

    /// gateway.networking.k8s.io/v1
    pub const GATEWAY_CLASS: Self =
        Self(&KindInfo { name: "GatewayClass", plural: "gatewayclasses", namespaced: false, ..GATEWAY_API });
    /// gateway.networking.k8s.io/v1
    pub const GATEWAY: Self =
        Self(&KindInfo { name: "Gateway", plural: "gateways", selected_by_labels: true, ..GATEWAY_API });
    /// gateway.networking.k8s.io/v1
    pub const LISTENER_SET: Self = Self(&KindInfo {
        name: "ListenerSet",
        other_versions: &[],
        plural: "listenersets",
        selected_by_labels: true,
        ..GATEWAY_API
    });
    /// gateway.networking.k8s.io/v1
    pub const HTTP_ROUTE: Self = Self(&KindInfo {
        name: "HTTPRoute",
        plural: "httproutes",
        foreign_annotations: true,
        selected_by_labels: true,
        named_by_others: false,
        ..GATEWAY_API
    });
    /// gateway.networking.k8s.io/v1
    pub const GRPC_ROUTE: Self = Self(&KindInfo {
        name: "GRPCRoute",
        plural: "grpcroutes",
        foreign_annotations: true,
        selected_by_labels: true,
        named_by_others: false,
        ..GATEWAY_API
    });
    /// gateway.networking.k8s.io/v1
    pub const TCP_ROUTE: Self = Self(&KindInfo {
        name: "TCPRoute",
        other_versions: &["v1alpha2"],
        plural: "tcproutes",
        selected_by_labels: true,
        named_by_others: false,
        ..GATEWAY_API
    });
    /// gateway.networking.k8s.io/v1
    pub const UDP_ROUTE: Self = Self(&KindInfo {
        name: "UDPRoute",
        other_versions: &["v1alpha2"],
        plural: "udproutes",
        selected_by_labels: true,
        named_by_others: false,
        ..GATEWAY_API
    });
    /// gateway.networking.k8s.io/v1
    pub const TLS_ROUTE: Self = Self(&KindInfo {
        name: "TLSRoute",
        other_versions: &["v1alpha2", "v1alpha3"],
        plural: "tlsroutes",
        selected_by_labels: true,
        named_by_others: false,
        ..GATEWAY_API
    });
    /// gateway.networking.k8s.io/v1beta1, which clusters without version 1 have too.
    pub const REFERENCE_GRANT: Self = Self(&KindInfo {
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
    pub const BACKEND_TLS_POLICY: Self = Self(&KindInfo {
        name: "BackendTLSPolicy",
        other_versions: &["v1alpha3"],
        plural: "backendtlspolicies",
        named_by_others: false,
        ..GATEWAY_API
    });

    /// gateway.networking.x-k8s.io/v1alpha1
    pub const X_BACKEND_TRAFFIC_POLICY: Self = Self(&KindInfo {
        name: "XBackendTrafficPolicy",
        group: super::gateway::EXPERIMENTAL_GROUP,
        version: "v1alpha1",
        other_versions: &[],
        plural: "xbackendtrafficpolicies",
        named_by_others: false,
        ..GATEWAY_API
    });

    /// lockgate.dev/v1alpha1
    pub const HTTP_POLICY: Self = Self(&KindInfo {
        name: "HTTPPolicy",
        group: super::gateway::LOCKGATE,
        version: "v1alpha1",
        plural: "httppolicies",
        optional: true,
        deletion_waits: true,
        has_status: true,
        named_by_others: false,
        ..COMMON
    });

    /// lockgate.dev/v1alpha1
    pub const ENVOY_FLEET: Self = Self(&KindInfo {
        name: "EnvoyFleet",
        group: super::gateway::LOCKGATE,
        version: "v1alpha1",
        other_versions: &[],
        plural: "envoyfleets",
        has_status: false,
        ..GATEWAY_API
    });

    /// lockgate.dev/v1alpha1
    pub const HOST_GRANT: Self = Self(&KindInfo {
        name: "HostGrant",
        group: super::gateway::LOCKGATE,
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
    pub const BACKEND_POLICY: Self = Self(&KindInfo {
        name: "BackendPolicy",
        group: super::gateway::LOCKGATE,
        version: "v1alpha1",
        plural: "backendpolicies",
        optional: true,
        deletion_waits: true,
        has_status: true,
        named_by_others: false,
        ..COMMON
    });

    /// projectcontour.io/v1
    pub const HTTP_PROXY: Self = Self(&KindInfo {
        name: "HTTPProxy",
        plural: "httpproxies",
        deletion_demotes: true,
        foreign_annotations: true,
        has_status: true,
        ..CONTOUR_KIND
    });
    /// projectcontour.io/v1
    pub const TLS_CERTIFICATE_DELEGATION: Self = Self(&KindInfo {
        name: "TLSCertificateDelegation",
        plural: "tlscertificatedelegations",
        grouping: Grouping::ByNamespace,
        named_by_others: false,
        ..CONTOUR_KIND
    });

    /// projectcontour.io/v1alpha1
    pub const EXTENSION_SERVICE: Self = Self(&KindInfo {
        name: "ExtensionService",
        version: "v1alpha1",
        plural: "extensionservices",
        has_status: true,
        ..CONTOUR_KIND
    });

    /// gateway.envoyproxy.io/v1alpha1. Its policies are not applied; see [`ForeignPolicy`](super::ForeignPolicy).
    pub const SECURITY_POLICY: Self =
        Self(&KindInfo { name: "SecurityPolicy", plural: "securitypolicies", ..ENVOY_GATEWAY_POLICY });
    /// gateway.envoyproxy.io/v1alpha1
    pub const CLIENT_TRAFFIC_POLICY: Self =
        Self(&KindInfo { name: "ClientTrafficPolicy", plural: "clienttrafficpolicies", ..ENVOY_GATEWAY_POLICY });
    /// gateway.envoyproxy.io/v1alpha1
    pub const BACKEND_TRAFFIC_POLICY: Self =
        Self(&KindInfo { name: "BackendTrafficPolicy", plural: "backendtrafficpolicies", ..ENVOY_GATEWAY_POLICY });

    /// apiextensions.k8s.io/v1. Only the definitions of Gateway API are read, and of these only the metadata.
    pub const CUSTOM_RESOURCE_DEFINITION: Self = Self(&KindInfo {
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

    /// Creates a kind that is not in [`Kind::ALL`].
    pub const fn new(info: &'static KindInfo) -> Self {
        Self(info)
    }

    /// Returns the row of the table.
    pub const fn info(self) -> &'static KindInfo {
        self.0
    }

    /// Returns the identity of the object of this kind with this key.
    pub fn id(self, key: ObjectKey) -> ObjectId {
        ObjectId { kind: self, key }
    }

    /// Returns the name of the kind in the API.
    pub fn as_str(self) -> &'static str {
        self.0.name
    }

    /// Returns the `apiVersion` of the objects: `networking.k8s.io/v1`.
    pub fn api_version(self) -> String {
        match self.0.group {
            "" => self.0.version.to_owned(),
            group => format!("{group}/{}", self.0.version),
        }
    }

    /// Returns the collection as in RBAC and kubectl: `ingresses.networking.k8s.io`.
    pub fn resource(self) -> String {
        match self.0.group {
            "" => self.0.plural.to_owned(),
            group => format!("{}.{group}", self.0.plural),
        }
    }

    /// Returns the kind of a collection in the form of [`Kind::resource`].
    pub fn of_resource(resource: &str) -> Option<Self> {
        let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
        Self::ALL.into_iter().find(|Self(info)| (info.plural, info.group) == (plural, group))
    }

    /// Returns the path of the collection at the API server, for one namespace or for all.
    pub fn path(self, namespace: Option<&str>) -> String {
        let KindInfo { group, version, plural, .. } = self.0;
        let root = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        match namespace {
            Some(namespace) => format!("{root}/namespaces/{namespace}/{plural}"),
            None => format!("{root}/{plural}"),
        }
    }

    /// Returns whether a manifest with this `apiVersion` and `kind` is an object of this kind.
    pub fn is(self, api_version: &str, kind: &str) -> bool {
        let KindInfo { name, group, version, other_versions, .. } = self.0;
        let (of, at) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        *name == kind && *group == of && (*version == at || other_versions.contains(&at))
    }

    fn identity(self) -> (&'static str, &'static str) {
        (self.0.name, self.0.group)
    }
}

impl PartialEq for Kind {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0) || self.identity() == other.identity()
    }
}

impl Eq for Kind {}

impl PartialOrd for Kind {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Kind {
    fn cmp(&self, other: &Self) -> Ordering {
        // Both references are nearly always to the same row.
        if std::ptr::eq(self.0, other.0) {
            return Ordering::Equal;
        }
        self.identity().cmp(&other.identity())
    }
}

impl Hash for Kind {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity().hash(state);
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}
