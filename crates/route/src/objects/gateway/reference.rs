//! References between objects of Gateway API, and the grants for references across namespaces.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::objects::meta::Meta;

/// A reference of a route to its parent.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ParentRef {
    /// The API group. `None`: the group of Gateway API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The kind; `None` is `Gateway`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The namespace. `None`: the namespace of the route.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
    /// The listener; `None` is every listener.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub section_name: Option<String>,
    /// The port of the listeners; `None` is every port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}

/// A reference to a Secret, or to another object with a key pair.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SecretRef {
    /// The API group; `None` is the core group.
    pub group: Option<String>,
    /// The kind; `None` is `Secret`.
    pub kind: Option<String>,
    /// The namespace; `None` is the namespace of the referring object.
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
}

/// A reference to an object of any kind, such as a ConfigMap with certificate authorities.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ObjectReference {
    /// The API group; empty is the core group.
    pub group: String,
    /// The kind.
    pub kind: String,
    /// The namespace. `None`: the namespace of the referring object. Not all references can have a namespace.
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
}

/// A reference to a backend.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BackendRef {
    /// The API group; `None` is the core group.
    pub group: Option<String>,
    /// The kind; `None` is `Service`.
    pub kind: Option<String>,
    /// The namespace; `None` is the namespace of the referring object.
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
    /// The port of the Service.
    pub port: Option<i32>,
    /// The share of the requests relative to the other weights; `None` is 1.
    pub weight: Option<u32>,
}

/// A permission to reference objects of one namespace from other namespaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReferenceGrant {
    /// The metadata. The namespace is the namespace of the referenced objects.
    pub meta: Meta,
    /// The spec.
    pub spec: ReferenceGrantSpec,
}

/// The spec of a ReferenceGrant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReferenceGrantSpec {
    /// The referring objects.
    pub from: Vec<GrantFrom>,
    /// The objects that may be referenced.
    pub to: Vec<GrantTo>,
}

/// Referring objects.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GrantFrom {
    /// The API group.
    pub group: String,
    /// The kind.
    pub kind: String,
    /// The namespace.
    pub namespace: Arc<str>,
}

/// Objects that may be referenced.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GrantTo {
    /// The API group.
    pub group: String,
    /// The kind.
    pub kind: String,
    /// The name; `None` and the empty text are every object.
    pub name: Option<String>,
}
