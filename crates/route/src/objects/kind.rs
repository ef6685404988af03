//! A kind of objects: its API group, version, and collection, and the key under which the translation reads its objects.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

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

impl Kind {
    /// Creates a kind that is not in [`Kind::ALL`].
    pub const fn new(info: &'static KindInfo) -> Self {
        Self(info)
    }

    /// Returns the row of the table.
    pub const fn info(self) -> &'static KindInfo {
        self.0
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
