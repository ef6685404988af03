//! The table of kinds: API group, version, and collection of each kind, and how the translation looks for its objects.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use super::{ObjectId, ObjectKey};

/// A kind of watched objects: a row of the table. Cheap to copy and to compare.
#[derive(Clone, Copy)]
pub struct Kind(&'static KindInfo);

/// A row of the table of kinds.
#[derive(Debug)]
pub struct KindInfo {
    /// `kind` of its objects: `Ingress`.
    pub name: &'static str,
    /// The API group; empty is the core group.
    pub group: &'static str,
    /// The version of the group.
    pub version: &'static str,
    /// The name of the collection: `ingresses`.
    pub plural: &'static str,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
    /// Whether a cluster may lack the kind, because it comes with a CustomResourceDefinition. Readiness does not wait for it.
    pub optional: bool,
    /// The key under which the translation looks for its objects.
    pub grouping: Grouping,
    /// Whether a deletion counts only after a moment, in case the object is created again: requests fail without it.
    pub deletion_waits: bool,
    /// Whether annotations of other ingress controllers are kept: they matter where requests are routed by.
    pub foreign_annotations: bool,
    /// Whether Lockgate writes the status of its objects.
    pub has_status: bool,
    /// Whether other objects refer to its objects by name, so that names are worth sharing in memory.
    pub named_by_others: bool,
}

/// The key under which the translation looks for the objects of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grouping {
    /// Each by its own key.
    Alone,
    /// All objects of one Service together, by the key of the Service.
    ByService,
}

/// The defaults of most kinds.
const COMMON: KindInfo = KindInfo {
    name: "",
    group: "",
    version: "v1",
    plural: "",
    namespaced: true,
    optional: false,
    grouping: Grouping::Alone,
    deletion_waits: false,
    foreign_annotations: false,
    has_status: false,
    named_by_others: true,
};

impl Kind {
    /// networking.k8s.io/v1
    pub const INGRESS: Self = Self(&KindInfo {
        name: "Ingress",
        group: "networking.k8s.io",
        plural: "ingresses",
        deletion_waits: true,
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
    /// v1. The last good key pair of a deleted Secret is kept anyway.
    pub const SECRET: Self = Self(&KindInfo { name: "Secret", plural: "secrets", ..COMMON });
    /// v1
    pub const NAMESPACE: Self =
        Self(&KindInfo { name: "Namespace", plural: "namespaces", namespaced: false, ..COMMON });

    /// Every kind.
    pub const ALL: [Self; 6] =
        [Self::INGRESS, Self::INGRESS_CLASS, Self::SERVICE, Self::ENDPOINT_SLICE, Self::SECRET, Self::NAMESPACE];

    /// A kind that is not in [`Kind::ALL`].
    pub const fn new(info: &'static KindInfo) -> Self {
        Self(info)
    }

    /// The row of the table.
    pub const fn info(self) -> &'static KindInfo {
        self.0
    }

    /// The object of this kind with this key.
    pub fn id(self, key: ObjectKey) -> ObjectId {
        ObjectId { kind: self, key }
    }

    /// The kind as the API writes it.
    pub fn as_str(self) -> &'static str {
        self.0.name
    }

    /// `apiVersion` of its objects: `networking.k8s.io/v1`.
    pub fn api_version(self) -> String {
        match self.0.group {
            "" => self.0.version.to_owned(),
            group => format!("{group}/{}", self.0.version),
        }
    }

    /// The collection as RBAC and kubectl write it: `ingresses.networking.k8s.io`.
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

    /// The path of the collection at the API server, of one namespace or of all.
    pub fn path(self, namespace: Option<&str>) -> String {
        let KindInfo { group, version, plural, .. } = self.0;
        let root = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        match namespace {
            Some(namespace) => format!("{root}/namespaces/{namespace}/{plural}"),
            None => format!("{root}/{plural}"),
        }
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
        // Nearly always both are the same row.
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
